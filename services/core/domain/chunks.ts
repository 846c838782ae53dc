/** Parts of at most so many, in order; none is empty. */
export function chunks<Item>(items: readonly Item[], most: number): (readonly [Item, ...Item[]])[] {
  const parts: (readonly [Item, ...Item[]])[] = [];
  for (let start = 0; start < items.length; start += most) {
    const [first, ...others] = items.slice(start, start + most);
    if (first !== undefined) parts.push([first, ...others]);
  }
  return parts;
}

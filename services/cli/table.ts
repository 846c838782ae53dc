/** Rows under headings, columns aligned; a cell's line breaks and other control characters are shown as spaces. */
export function table(headings: readonly string[], rows: readonly (readonly Cell[])[]): string {
  const texts = [headings, ...rows.map((row) => row.map(cellText))];
  const widths = headings.map((_, column) => Math.max(...texts.map((row) => (row[column] ?? '').length)));
  return texts
    .map(
      (row) =>
        `${row
          .map((text, column) => text.padEnd(widths[column] ?? 0))
          .join('  ')
          .trimEnd()}\n`,
    )
    .join('');
}

/** One line for each name that has a value. */
export function facts(values: Readonly<Record<string, Cell>>): string {
  const given = Object.entries(values).filter(([, value]) => value !== null && value !== '');
  const width = Math.max(...given.map(([name]) => name.length));
  return given.map(([name, value]) => `${name.padEnd(width)}  ${cellText(value)}\n`).join('');
}

export type Cell = string | number | boolean | null;

function cellText(value: Cell): string {
  return value === null ? '-' : String(value).replaceAll(/\p{Cc}+/gu, ' ');
}

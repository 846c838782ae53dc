import type { Clock } from '../ports/clock.ts';

/**
 * Starts the work on each item at its turn, the turns spread evenly over the time: many small reads at one moment would make
 * whatever is due at that moment late. Resolves when all have ended; rejects if one does.
 */
export async function spreadOver<Item>(
  clock: Clock,
  overMs: number,
  items: readonly Item[],
  work: (item: Item) => Promise<void>,
): Promise<void> {
  const stepMs = overMs / Math.max(1, items.length);
  await Promise.all(
    items.map(async (item, index) => {
      if (index > 0) await clock.sleep(index * stepMs);
      await work(item);
    }),
  );
}

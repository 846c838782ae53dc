import type { Clock } from '../ports/clock.ts';

/** As many start together, so that the stores can ask for what is empty in one request. */
const TOGETHER = 8;

/**
 * Starts the work on the items a few at a time, the turns spread evenly over the time: many reads at one moment would make
 * whatever is due at that moment late. Resolves when all have ended; rejects if one does.
 */
export async function spreadOver<Item>(
  clock: Clock,
  overMs: number,
  items: readonly Item[],
  work: (item: Item) => Promise<void>,
): Promise<void> {
  const stepMs = (overMs * TOGETHER) / Math.max(1, items.length);
  const turns = Array.from({ length: Math.ceil(items.length / TOGETHER) }, async (_, turn) => {
    if (turn > 0) await clock.sleep(turn * stepMs);
    await Promise.all(items.slice(turn * TOGETHER, (turn + 1) * TOGETHER).map(work));
  });
  await Promise.all(turns);
}

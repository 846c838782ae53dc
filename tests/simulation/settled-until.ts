import type { FakeClock } from '../support/fake-clock.ts';

/** Time between two looks at whether the run is over. */
const SLICE_MS = 250;

/** Lets the time pass; ends early once it is over. */
export async function settledUntil(clock: FakeClock, ms: number, isOver: () => boolean): Promise<void> {
  for (let left = ms; left > 0 && !isOver(); left -= SLICE_MS) await clock.advance(Math.min(left, SLICE_MS));
}

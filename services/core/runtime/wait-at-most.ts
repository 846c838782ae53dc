import type { Clock } from '../ports/clock.ts';

/** Waits for the work to end, but no longer than that; it then goes on by itself. Rejects if the work does, in time. */
export async function waitAtMost(clock: Clock, ms: number, work: Promise<unknown>): Promise<void> {
  const waited = new AbortController();
  try {
    await Promise.race([work, clock.sleep(ms, waited.signal)]);
  } finally {
    waited.abort();
  }
}

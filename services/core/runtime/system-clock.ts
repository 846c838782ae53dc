import { SLEEP_MAX_MS } from '../domain/limits.ts';
import { monotonicMs } from '../domain/time.ts';
import type { Clock } from '../ports/clock.ts';

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => monotonicMs(performance.now()),
  moment: () => ({ wallMs: Date.now(), monotonic: monotonicMs(performance.now()) }),
  sleep: (ms, signal) =>
    new Promise((resolve) => {
      if (signal?.aborted === true) {
        resolve();
        return;
      }
      const done = (): void => {
        clearTimeout(timer);
        signal?.removeEventListener('abort', done);
        resolve();
      };
      const timer = setTimeout(done, bounded(ms));
      signal?.addEventListener('abort', done, { once: true });
    }),
  after: (ms, callback) => {
    const timer = setTimeout(callback, bounded(ms));
    return () => {
      clearTimeout(timer);
    };
  },
};

/** Node fires timers beyond 2^31-1 ms at once, so nobody may ask for more than SLEEP_MAX_MS. */
function bounded(ms: number): number {
  if (!(ms <= SLEEP_MAX_MS)) throw new RangeError(`a sleep of ${ms} ms is beyond SLEEP_MAX_MS`);
  return Math.max(0, ms);
}

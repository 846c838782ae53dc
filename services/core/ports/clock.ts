import type { EpochMs, MonotonicMs, Moment } from '../domain/time.ts';

/** Time as a port: the system's in production, a fake one fired by hand in tests. */
export interface Clock {
  now(): EpochMs;
  monotonic(): MonotonicMs;
  moment(): Moment;
  /** Resolves after the milliseconds have passed, or at once when the signal aborts. Longer than SLEEP_MAX_MS is a bug. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
  /** Runs the callback once after the milliseconds (at most SLEEP_MAX_MS); the returned function calls it off. */
  after(ms: number, callback: () => void): () => void;
}

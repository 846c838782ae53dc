import { SECOND_MS } from './limits.ts';
import { msBetween, type MonotonicMs } from './time.ts';

/**
 * A rate with a burst. It begins with one token and not with a burst: a process that is restarted again and again would
 * otherwise give one each time. The rate and the burst may change between calls.
 */
export class TokenBucket {
  #tokens = 1;
  #at: MonotonicMs;

  constructor(now: MonotonicMs) {
    this.#at = now;
  }

  /** At most `most` whole tokens. */
  take(most: number, now: MonotonicMs, { perS, burst }: { readonly perS: number; readonly burst: number }): number {
    const earned = (msBetween(this.#at, now) / SECOND_MS) * perS;
    this.#at = now;
    this.#tokens = Math.min(burst, this.#tokens + Math.max(0, earned));
    const taken = Math.min(most, Math.floor(this.#tokens));
    this.#tokens -= taken;
    return taken;
  }

  giveBack(count: number): void {
    this.#tokens += count;
  }
}

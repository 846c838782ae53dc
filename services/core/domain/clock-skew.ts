import { CLOCK_SKEW_STOP_MS, CLOCK_SKEW_WARN_MS } from './limits.ts';
import { type EpochMs, type Moment, msBetween } from './time.ts';

/** How far our wall clock is from a server's. */
export interface Skew {
  readonly source: string;
  /** Ours minus theirs, as if the answer had taken half of the round trip. */
  readonly aheadMs: number;
  /** It may be off by this much either way: half of the round trip. */
  readonly uncertaintyMs: number;
}

export interface ClockSample {
  readonly source: string;
  readonly serverAt: EpochMs;
  readonly sentAt: Moment;
  readonly receivedAt: Moment;
}

/**
 * off: one server or more differs by CLOCK_SKEW_WARN_MS. wrong: half of the servers or more differ by CLOCK_SKEW_STOP_MS, so
 * that it is most likely our clock; one server of several with a wrong clock must not stop everybody.
 */
export type ClockVerdict = 'good' | 'off' | 'wrong';

export function skewOf({ source, serverAt, sentAt, receivedAt }: ClockSample): Skew {
  const halfTripMs = msBetween(sentAt.monotonic, receivedAt.monotonic) / 2;
  return { source, aheadMs: receivedAt.wallMs - (serverAt + halfTripMs), uncertaintyMs: halfTripMs };
}

/** How far the wall clock was moved against the monotonic one in between: set anew, or the machine was suspended. */
export function steppedMs(from: Moment, to: Moment): number {
  return to.wallMs - from.wallMs - msBetween(from.monotonic, to.monotonic);
}

export function judgeClock(skews: readonly Skew[]): ClockVerdict {
  const certain = skews.map(({ aheadMs, uncertaintyMs }) => Math.abs(aheadMs) - uncertaintyMs);
  const against = certain.filter((ms) => ms >= CLOCK_SKEW_STOP_MS).length;
  if (against > 0 && against * 2 >= skews.length) return 'wrong';
  return certain.some((ms) => ms >= CLOCK_SKEW_WARN_MS) ? 'off' : 'good';
}

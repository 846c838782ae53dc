/** Wall-clock instants are epoch milliseconds throughout; durations are milliseconds unless the name says seconds. */
export type EpochMs = number;

declare const monotonicBrand: unique symbol;
/** A reading of the monotonic clock. Opaque, so that it can never be mixed up with wall time: compare readings with msBetween. */
export interface MonotonicMs {
  readonly [monotonicBrand]: never;
}

export function monotonicMs(reading: number): MonotonicMs {
  return reading as unknown as MonotonicMs;
}

/** Milliseconds from one monotonic reading to a later one. */
export function msBetween(earlier: MonotonicMs, later: MonotonicMs): number {
  return (later as unknown as number) - (earlier as unknown as number);
}

/** A point in time on both clocks: a stall shows on the monotonic clock, a suspended machine only on the wall clock. */
export interface Moment {
  readonly wallMs: EpochMs;
  readonly monotonic: MonotonicMs;
}

/** Time passed between two moments, by the larger of the two clocks (design section 6, rule 3). */
export function elapsedMs(from: Moment, to: Moment): number {
  return Math.max(to.wallMs - from.wallMs, msBetween(from.monotonic, to.monotonic));
}

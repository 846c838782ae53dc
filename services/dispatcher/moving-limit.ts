import { MOVING_ROWS_FIRST, MOVING_ROWS_MAX, MOVING_ROWS_MIN, MOVING_TIME_AIM_MS } from '../core/domain/limits.ts';
import { msBetween, type MonotonicMs } from '../core/domain/time.ts';

/** Doubled about every three times that all rows under way have arrived. */
const RAISED_PER_ROW = 0.25;
const LOWERED_TO = 0.7;

/**
 * How many jobs may be under way at once: as many as the store takes within MOVING_TIME_AIM_MS. More do not arrive sooner, they
 * only wait inside of it, and the jobs of every other queue behind them. Raised a little by each that arrives in time
 * while others wait for its place, lowered at once by one that does not.
 */
export class MovingLimit {
  #rows = MOVING_ROWS_FIRST;
  #loweredAt: MonotonicMs | null = null;

  get rows(): number {
    return Math.floor(this.#rows);
  }

  /** @param isFull as many were under way as there may be. */
  arrived(setOutAt: MonotonicMs, now: MonotonicMs, isFull: boolean): void {
    if (msBetween(setOutAt, now) <= MOVING_TIME_AIM_MS) {
      if (isFull) this.#rows = Math.min(MOVING_ROWS_MAX, this.#rows + RAISED_PER_ROW);
      return;
    }
    // One that set out before tells nothing of the limit that has been lowered since.
    if (this.#loweredAt !== null && msBetween(this.#loweredAt, setOutAt) < 0) return;
    this.#rows = Math.max(MOVING_ROWS_MIN, this.#rows * LOWERED_TO);
    this.#loweredAt = now;
  }
}

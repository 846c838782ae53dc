import { bucketEnd, bucketOf } from '../core/domain/bucket.ts';
import { chunks } from '../core/domain/chunks.ts';
import {
  LOOK_MS_PER_ROW,
  LOOK_ROWS,
  MINUTE_MS,
  SECOND_LOOK_AFTER_MS,
  SPARE_DEADLINE_AHEAD_MS,
} from '../core/domain/limits.ts';
import type { EpochMs } from '../core/domain/time.ts';
import type { Clock } from '../core/ports/clock.ts';
import type { TimerRange } from '../core/ports/timer-store.ts';
import type { Timers } from '../core/timers/timers.ts';
import type { Found, Settles } from './settle.ts';

/** Minutes looked at in one pass, so that one shard's long outage does not hold up the others' duties. */
const MINUTES_PER_PASS_MAX = 60;

export interface SecondLookParts {
  /** Rows of the closed minute that still want a look, page by page. */
  readonly read: (range: TimerRange) => AsyncIterable<readonly Found[]>;
  /** The minute may be looked at only when its first reader is past this time. */
  readonly readerPosition: () => Promise<EpochMs>;
  readonly settler: Settles;
  readonly timers: Timers;
  readonly clock: Clock;
  readonly shard: number;
  readonly from: EpochMs;
  /** Whether the look is still ours to go on with. */
  readonly holds: () => boolean;
}

/**
 * The second look at one timer table of one shard: every minute is read once more, whole, when it ended SECOND_LOOK_AFTER_MS
 * ago and its first reader is past it. It finds rows that landed late, and jobs whose mover died half-way.
 */
export class SecondLook {
  readonly #parts: SecondLookParts;
  #next: EpochMs;

  constructor(parts: SecondLookParts) {
    this.#parts = parts;
    this.#next = bucketOf(parts.from);
  }

  /** Looks at the minutes that are ripe. Throws StoreError. */
  async runOnce(): Promise<void> {
    if (!this.#isRipe()) return;
    const readerAt = await this.#parts.readerPosition();
    for (let minutes = 0; minutes < MINUTES_PER_PASS_MAX; minutes += 1) {
      if (!this.#isRipe() || readerAt < bucketEnd(this.#next)) break;
      if (!(await this.#look(this.#next))) break;
      this.#next += MINUTE_MS;
    }
  }

  /** Every row before it is settled, or has a later deadline row. */
  position(): EpochMs {
    return this.#next;
  }

  /** How long the oldest unlooked minute has been ripe, in ms; 0 when none is. */
  lagMs(now: EpochMs): number {
    return Math.max(0, now - bucketEnd(this.#next) - SECOND_LOOK_AFTER_MS);
  }

  #isRipe(): boolean {
    return bucketEnd(this.#next) + SECOND_LOOK_AFTER_MS <= this.#parts.clock.now();
  }

  /** False: it was broken off, for whoever owns the shard next. */
  async #look(bucket: EpochMs): Promise<boolean> {
    const { read, shard, holds } = this.#parts;
    for await (const page of read({ shard, bucket, from: bucket, to: bucketEnd(bucket) - 1 })) {
      for (const rows of chunks(page, LOOK_ROWS)) {
        if (!holds()) return false;
        await this.#settle(rows);
        await this.#leaveRoom(rows.length);
      }
    }
    return true;
  }

  async #settle(rows: readonly Found[]): Promise<void> {
    const { settler, timers, clock, shard } = this.#parts;
    const results = await settler.settle(rows);
    // What cannot be settled now gets a later timer, so that the look never waits for one cohort.
    const unsettled = rows.filter((_, index) => results[index] !== 'settled');
    if (unsettled.length === 0) return;
    const at = clock.now() + SPARE_DEADLINE_AHEAD_MS;
    await timers.armDeadlines(unsettled.map(({ jobId, publishedAt }) => ({ jobId, shard, at, publishedAt })));
  }

  /** The rows of a busy minute are looked at over the next one, or what is due meanwhile would wait; the later it is, the faster. */
  async #leaveRoom(rows: number): Promise<void> {
    const { clock } = this.#parts;
    const unhurried = 1 - this.lagMs(clock.now()) / MINUTE_MS;
    if (unhurried > 0) await clock.sleep(rows * LOOK_MS_PER_ROW * unhurried);
  }
}

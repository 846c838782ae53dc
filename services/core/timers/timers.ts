import { bucketEnd, bucketOf } from '../domain/bucket.ts';
import {
  DEADLINE_CLEARANCE_MS,
  DUE_MINUTE_PASSED_MS,
  OPERATION_DEADLINE_MS,
  REWRITE_AHEAD_MS,
  ROUND_SLOW_MS,
  SPARE_DEADLINE_AHEAD_MS,
  TRAILING_READ_EVERY_MS,
  UNAVAILABLE_WAIT_MS,
} from '../domain/limits.ts';
import type { DeadlineEntry, DueEntry } from '../domain/operation.ts';
import { elapsedMs, msBetween, type EpochMs, type Moment } from '../domain/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { DueHints } from '../ports/due-hints.ts';
import { StoreError } from '../ports/store-error.ts';
import type { TimerStore } from '../ports/timer-store.ts';
import type { WaitingTallies, Waits } from '../queues/waiting-tallies.ts';

/** Timers that are acknowledged: the rows as written (their times are the jobs'), and when their times were chosen. */
export interface Armed<Entry> {
  readonly entries: readonly Entry[];
  readonly chosenAt: Moment;
}

export interface ArmOptions {
  /** Whoever can go elsewhere, or has others to go on with, does not wait for a partition that cannot be written. */
  readonly givesUpAtOnce?: boolean;
}

const WRITE_PAUSE_MS = 100;
const CLOCK_PAUSE_MS = 100;

/**
 * The only writer of timers, holding rules 1 to 3 of the life cycle (design section 6): a timer never dies before its
 * job does, although it may land behind its reader and its writer may stall at any await.
 */
export class Timers {
  readonly #store: TimerStore;
  readonly #hints: DueHints;
  readonly #clock: Clock;
  readonly #isClockRight: () => boolean;
  readonly #tallies: Pick<WaitingTallies, 'arrived' | 'left'> | undefined;

  constructor(parts: {
    store: TimerStore;
    hints: DueHints;
    clock: Clock;
    /** False while this machine's clock is wrong: a timer chosen by it may lie where nobody looks any more. */
    isClockRight?: () => boolean;
    /** Where jobs that wait for their time are counted. */
    tallies?: Pick<WaitingTallies, 'arrived' | 'left'>;
  }) {
    this.#store = parts.store;
    this.#hints = parts.hints;
    this.#clock = parts.clock;
    this.#isClockRight = parts.isClockRight ?? (() => true);
    this.#tallies = parts.tallies;
  }

  /**
   * Rule 1, timer first: writes due rows at max(wanted, now), which the caller makes the jobs' run_at. Rule 2 after the
   * acknowledgement. Throws StoreError; rows that did land are harmless then.
   */
  async armDue(wanted: readonly DueEntry[], options: ArmOptions = {}): Promise<Armed<DueEntry>> {
    await this.untilClockIsRight();
    const chosenAt = this.#clock.moment();
    const entries = wanted.map((entry) => ({ ...entry, runAt: Math.max(entry.runAt, chosenAt.wallMs) }));
    await this.#retried(() => this.#store.writeDue(entries), options);
    let exposed: readonly DueEntry[] = entries;
    for (;;) {
      await this.untilClockIsRight();
      const now = this.#clock.now();
      exposed = exposed
        .filter((entry) => now - bucketEnd(bucketOf(entry.runAt)) > DUE_MINUTE_PASSED_MS)
        .map((entry) => ({ ...entry, runAt: now + REWRITE_AHEAD_MS }));
      if (exposed.length === 0) return { entries, chosenAt };
      const again = exposed;
      await this.#retried(() => this.#store.writeDue(again), options);
    }
  }

  /** As armDue, for deadline rows. */
  async armDeadlines(wanted: readonly DeadlineEntry[], options: ArmOptions = {}): Promise<Armed<DeadlineEntry>> {
    await this.untilClockIsRight();
    const chosenAt = this.#clock.moment();
    const entries = wanted.map((entry) => ({ ...entry, at: Math.max(entry.at, chosenAt.wallMs) }));
    await this.#retried(() => this.#store.writeDeadlines(entries), options);
    let exposed: readonly DeadlineEntry[] = entries;
    for (;;) {
      await this.untilClockIsRight();
      const now = this.#clock.now();
      exposed = exposed
        .filter((entry) => entry.at - now < DEADLINE_CLEARANCE_MS)
        .map((entry) => ({ ...entry, at: now + REWRITE_AHEAD_MS }));
      if (exposed.length === 0) return { entries, chosenAt };
      const again = exposed;
      await this.#retried(() => this.#store.writeDeadlines(again), options);
    }
  }

  /**
   * Rule 3, after the round and before answering or publishing: when the timer was chosen long ago its reader may have
   * passed it before the state landed, so the jobs get one more deadline row. Throws StoreError.
   */
  async afterRound(
    chosenAt: Moment,
    jobs: readonly { readonly jobId: string; readonly shard: number }[],
  ): Promise<void> {
    // A clock that was set back meanwhile tells nothing of how long it took.
    if (this.#isClockRight() && elapsedMs(chosenAt, this.#clock.moment()) <= ROUND_SLOW_MS) return;
    await this.#spareDeadlines(jobs);
  }

  /** Rule 3 for the dispatcher, whose timer is the due row itself. Throws StoreError. */
  async afterDispatch(rows: readonly DueEntry[]): Promise<void> {
    await this.untilClockIsRight();
    const now = this.#clock.now();
    await this.#spareDeadlines(rows.filter((row) => now - bucketEnd(bucketOf(row.runAt)) > DUE_MINUTE_PASSED_MS));
  }

  /**
   * The jobs of these rows stand. Tells the dispatchers of rows that their next whole read could find late, which is what is
   * lost where a hint is, and counts the others. Never throws.
   */
  hint(rows: readonly DueEntry[]): void {
    this.#tallies?.arrived(rows);
    const now = this.#clock.now();
    // Those that lie further ahead are found by the next whole read, though their place was read already.
    const soon = rows.filter((row) => !row.direct && row.runAt < now + TRAILING_READ_EVERY_MS);
    if (soon.length > 0) this.#hints.send(soon);
  }

  /** A job that stood under this row does so no more, before its time. Never throws. */
  left(row: Waits): void {
    this.#tallies?.left(row);
  }

  async #spareDeadlines(jobs: readonly { readonly jobId: string; readonly shard: number }[]): Promise<void> {
    if (jobs.length === 0) return;
    await this.untilClockIsRight();
    const at: EpochMs = this.#clock.now() + SPARE_DEADLINE_AHEAD_MS;
    await this.armDeadlines(jobs.map(({ jobId, shard }) => ({ jobId, shard, at, publishedAt: null })));
  }

  /**
   * For times that are chosen before a timer is armed with them. A clock that was only stopped, with its machine, is compared
   * again at once; another one may take long to be mended. Throws StoreError when it takes too long.
   */
  async untilClockIsRight(): Promise<void> {
    const startedAt = this.#clock.monotonic();
    while (!this.#isClockRight()) {
      if (msBetween(startedAt, this.#clock.monotonic()) > OPERATION_DEADLINE_MS) {
        throw new StoreError('unavailable', 'no timer is written while the clock of this machine is wrong');
      }
      await this.#clock.sleep(CLOCK_PAUSE_MS);
    }
  }

  /** Plain rows are idempotent, so an unclear or refused write is simply written again, for a bounded time. */
  async #retried(write: () => Promise<void>, options: ArmOptions = {}): Promise<void> {
    const startedAt = this.#clock.moment();
    for (;;) {
      try {
        await write();
        return;
      } catch (error) {
        if (!(error instanceof StoreError)) throw error;
        if (elapsedMs(startedAt, this.#clock.moment()) >= patienceMs(error, options)) throw error;
        await this.#clock.sleep(WRITE_PAUSE_MS);
      }
    }
  }
}

/** How long a write that failed so is tried again. */
function patienceMs({ kind }: StoreError, { givesUpAtOnce = false }: ArmOptions): number {
  switch (kind) {
    case 'invalid':
      return 0;
    case 'overloaded':
      return OPERATION_DEADLINE_MS;
    case 'unknown':
      return givesUpAtOnce ? 0 : OPERATION_DEADLINE_MS;
    case 'unavailable':
      return givesUpAtOnce ? 0 : UNAVAILABLE_WAIT_MS;
  }
}

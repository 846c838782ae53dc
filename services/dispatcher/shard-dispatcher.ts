import { cohortOf, isScheduleId } from '../core/domain/ids.ts';
import type { JobRow } from '../core/domain/job.ts';
import { CURSOR_SAVE_EVERY_MS, READ_AHEAD_MS, SECOND_MS, SHARD_ROWS_IN_MEMORY_MAX } from '../core/domain/limits.ts';
import type { DueEntry } from '../core/domain/operation.ts';
import type { EpochMs } from '../core/domain/time.ts';
import { CancelReason, type WaitingCanceller } from '../core/moves/cancel-waiting.ts';
import type { ReadyPublisher } from '../core/moves/ready-publisher.ts';
import type { Clock } from '../core/ports/clock.ts';
import type { JobReader } from '../core/ports/job-store.ts';
import type { Log, Telemetry } from '../core/ports/telemetry.ts';
import type { CursorStore, TimerStore } from '../core/ports/timer-store.ts';
import type { Rounds } from '../core/rounds/rounds.ts';
import { ShardScanner, type Held } from '../core/scan/shard-scanner.ts';
import type { Timers } from '../core/timers/timers.ts';
import { planDue, type DuePlan } from './due-planner.ts';
import type { ScheduleFirer } from './schedule-firer.ts';

export interface ShardDispatcherParts {
  readonly timerStore: TimerStore;
  readonly cursors: CursorStore;
  readonly rounds: Rounds;
  readonly reader: JobReader;
  readonly timers: Timers;
  readonly publisher: ReadyPublisher;
  readonly canceller: WaitingCanceller;
  readonly firer: Pick<ScheduleFirer, 'fire'>;
  readonly clock: Clock;
  readonly telemetry: Telemetry;
  readonly log: Log;
  /** Whether our lease on the shard certainly stands: asked before each act. */
  readonly holds: (shard: number) => boolean;
}

/** Rows of one shard between heap and acknowledgement at a time. */
const IN_FLIGHT_MAX = 5_000;
/** Rows whose subject is full are not enqueued: they are looked at again so much later, and the cursor waits. */
const FULL_PAUSE_MS = 2 * SECOND_MS;
/** A row that keeps changing under our rounds is looked at again a second later. */
const ROUNDS_PER_LOOK_MAX = 3;

/**
 * Moves one shard's due jobs on: due row -> round (scheduled -> enqueued) -> ready stream. A row is settled, and the
 * cursor may pass it, only when its message is acknowledged or the job has another timer.
 */
export class ShardDispatcher {
  readonly shard: number;
  readonly #parts: ShardDispatcherParts;
  readonly #scanner: ShardScanner<DueEntry>;
  readonly #firstSeen = new WeakMap<DueEntry, EpochMs>();
  /** Rows from here on, up to our start, may have been enqueued but not published by a former owner. */
  readonly #inheritedFrom: EpochMs;
  readonly #startedAt: EpochMs;
  /** Rows whose job we enqueued, or may have: found enqueued, they still have to be published. */
  readonly #unanswered = new WeakSet<DueEntry>();
  /** Rows whose job we enqueued for certain and could not publish for lack of room: by attempt. */
  readonly #unpublished = new WeakMap<DueEntry, number>();
  #inFlight = 0;
  #reading = false;
  #savedAt: EpochMs;
  #saved: EpochMs;

  constructor(
    parts: ShardDispatcherParts,
    start: { readonly shard: number; readonly from: EpochMs; readonly savedCursor: EpochMs },
  ) {
    this.#parts = parts;
    this.shard = start.shard;
    this.#startedAt = parts.clock.now();
    this.#inheritedFrom = start.savedCursor;
    this.#saved = start.savedCursor;
    this.#savedAt = this.#startedAt;
    this.#scanner = new ShardScanner({
      source: { read: (range) => parts.timerStore.readDue(range), at: (row) => row.runAt, key: keyOf },
      shard: start.shard,
      from: start.from,
      readAheadMs: READ_AHEAD_MS,
      capacity: SHARD_ROWS_IN_MEMORY_MAX,
    });
  }

  /** One tick: reads on, fires what is due, saves the cursor now and then. Throws StoreError. */
  async tick(): Promise<void> {
    if (this.#reading || !this.#parts.holds(this.shard)) return;
    this.#reading = true;
    try {
      await this.#scanner.read(this.#parts.clock.now(), () => {
        this.fire();
      });
    } finally {
      this.#reading = false;
    }
    this.#measure();
    if (this.#parts.clock.now() - this.#savedAt >= CURSOR_SAVE_EVERY_MS) await this.saveCursor();
  }

  hint(row: DueEntry): void {
    this.#scanner.add(row, this.#parts.clock.now());
  }

  /** Null also while nothing may be fired: a tick takes it up again. */
  nextFireAt(): EpochMs | null {
    const mayFire = this.#inFlight < IN_FLIGHT_MAX && this.#parts.publisher.room() > 0 && this.#parts.holds(this.shard);
    return mayFire ? this.#scanner.nextFireAt() : null;
  }

  /** Sends on everything that is due; does not wait for it. */
  fire(): void {
    const { clock, holds, publisher } = this.#parts;
    if (!holds(this.shard)) return;
    const most = Math.min(IN_FLIGHT_MAX - this.#inFlight, publisher.room());
    const due = this.#open(this.#scanner.takeDue(clock.now(), most));
    if (due.length === 0) return;
    this.#inFlight += due.length;
    const jobs = due.filter((held) => !isScheduleId(held.row.jobId));
    if (jobs.length < due.length) this.#wakeSchedules(due.filter((held) => isScheduleId(held.row.jobId)));
    const fresh = jobs.filter((held) => !held.late);
    const late = jobs.filter((held) => held.late);
    for (const held of fresh) {
      const unpublished = this.#unpublished.get(held.row);
      // The creator of a direct row publishes the job itself; only the second look needs the row.
      if (held.row.direct) this.#finish(held);
      else if (unpublished !== undefined) void this.#carryOut(held, { kind: 'publish', attempt: unpublished });
      else void this.#carryOut(held, { kind: 'enqueue', attempt: held.row.attempt });
    }
    if (late.length > 0) void this.#fireLate(late);
  }

  /** Puts back what its subject has no room for. A job that waits in `scheduled` costs nothing while it does. */
  #open(due: readonly Held<DueEntry>[]): readonly Held<DueEntry>[] {
    const { clock, publisher } = this.#parts;
    return due.filter((held) => {
      const { jobId, direct } = held.row;
      const isOpen = direct || isScheduleId(jobId) || !publisher.isFull(held.row);
      if (!isOpen) this.#scanner.putBack(held, clock.now() + FULL_PAUSE_MS);
      return isOpen;
    });
  }

  /** Wake-up rows of schedules, by cohort: the firer decides all their slots. */
  #wakeSchedules(rows: readonly Held<DueEntry>[]): void {
    for (const held of Map.groupBy(rows, ({ row }) => cohortOf(row.jobId)).values()) void this.#fireCohort(held);
  }

  async #fireCohort(cohort: readonly Held<DueEntry>[]): Promise<void> {
    const { firer, holds } = this.#parts;
    const fired = await firer.fire([...new Set(cohort.map(({ row }) => row.jobId))], () => holds(this.shard));
    for (const held of cohort) {
      const result = fired.get(held.row.jobId) ?? 'absent';
      if (result === 'settled') this.#finish(held);
      else if (result === 'absent') void this.#carryOut(held, this.#plan(held, null));
      else this.#lookAgain(held, result.again);
    }
  }

  /** Whether something is between heap and acknowledgement. */
  isBusy(): boolean {
    return this.#inFlight > 0;
  }

  async saveCursor(): Promise<void> {
    const { clock, cursors } = this.#parts;
    const now = clock.now();
    const position = this.#scanner.position();
    this.#savedAt = now;
    if (position <= this.#saved) return;
    await cursors.save('dispatch', this.shard, position);
    this.#saved = position;
  }

  /**
   * Rows first read when long due have mostly been handled by somebody: a read tells, at a fraction of a round. Where they
   * cannot be read together, each cohort's round tells.
   */
  async #fireLate(late: readonly Held<DueEntry>[]): Promise<void> {
    const rows = late.filter((held) => !held.row.direct);
    for (const held of late) if (held.row.direct) this.#finish(held);
    let jobs: ReadonlyMap<string, JobRow>;
    try {
      jobs = await this.#parts.reader.read(rows.map((held) => held.row.jobId));
    } catch (error) {
      this.#parts.log.warn('overdue jobs could not be read together', { shard: this.shard, error: String(error) });
      for (const held of rows) void this.#carryOut(held, { kind: 'enqueue', attempt: held.row.attempt });
      return;
    }
    for (const held of rows) void this.#carryOut(held, this.#plan(held, jobs.get(held.row.jobId) ?? null));
  }

  async #carryOut(held: Held<DueEntry>, first: DuePlan): Promise<void> {
    const { clock, log } = this.#parts;
    try {
      let plan = first;
      for (let looks = 0; looks < ROUNDS_PER_LOOK_MAX; looks += 1) {
        switch (plan.kind) {
          case 'settle':
            this.#finish(held);
            return;
          case 'look_again':
            this.#lookAgain(held, plan.at);
            return;
          case 'expire':
            plan = await this.#expire(held, plan.job);
            break;
          case 'publish':
            await this.#publish(held, plan.attempt);
            return;
          case 'enqueue':
            plan = await this.#enqueue(held, plan.attempt);
            break;
        }
      }
      this.#lookAgain(held, clock.now() + SECOND_MS);
    } catch (error) {
      log.warn('a due job could not be moved on; trying again', { job_id: held.row.jobId, error: String(error) });
      this.#lookAgain(held, clock.now() + SECOND_MS);
    }
  }

  /** One operation of a round; returns what is to be done next. */
  async #enqueue(held: Held<DueEntry>, attempt: number): Promise<DuePlan> {
    const { rounds, clock, telemetry } = this.#parts;
    const { row } = held;
    const enqueuedAt = clock.now();
    const outcome = await rounds.submit({
      edge: 'enqueue',
      jobId: row.jobId,
      queue: row.queue,
      runAtMost: row.runAt,
      attempt,
      enqueuedAt,
    });
    switch (outcome.kind) {
      case 'applied':
        this.#unanswered.add(row);
        telemetry.observe('punctual_dispatch_lag_seconds', (enqueuedAt - row.runAt) / SECOND_MS, { queue: row.queue });
        return { kind: 'publish', attempt };
      case 'lost':
        return this.#plan(held, outcome.row);
      case 'unknown':
        this.#unanswered.add(row);
        return { kind: 'look_again', at: clock.now() + SECOND_MS };
      case 'not_written':
        return { kind: 'look_again', at: clock.now() + SECOND_MS };
    }
  }

  async #expire(held: Held<DueEntry>, job: JobRow): Promise<DuePlan> {
    const outcome = await this.#parts.canceller.cancel(job, CancelReason.expired);
    if (outcome === null || outcome.kind === 'cancelled') return { kind: 'settle' };
    if (outcome.kind === 'lost') return this.#plan(held, outcome.row);
    return { kind: 'look_again', at: this.#parts.clock.now() + SECOND_MS };
  }

  #plan(held: Held<DueEntry>, job: JobRow | null): DuePlan {
    const { row } = held;
    const inherited = row.runAt >= this.#inheritedFrom && row.runAt <= this.#startedAt;
    return planDue(row, job, {
      now: this.#parts.clock.now(),
      firstSeenAt: this.#firstSeenAt(row),
      maybeUnpublished: inherited || this.#unanswered.has(row),
    });
  }

  async #publish(held: Held<DueEntry>, attempt: number): Promise<void> {
    const { jobId, runAt, queue, priority } = held.row;
    await this.#parts.timers.afterDispatch([held.row]);
    const published = await this.#parts.publisher.publish({ jobId, attempt: attempt + 1, runAt, queue, priority });
    if (published !== 'no_room') {
      this.#finish(held);
      return;
    }
    this.#unpublished.set(held.row, attempt);
    this.#lookAgain(held, this.#parts.clock.now() + SECOND_MS);
  }

  #finish(held: Held<DueEntry>): void {
    this.#inFlight -= 1;
    this.#scanner.settle(held);
  }

  #lookAgain(held: Held<DueEntry>, at: EpochMs): void {
    this.#firstSeenAt(held.row);
    this.#inFlight -= 1;
    this.#scanner.putBack(held, at);
  }

  #firstSeenAt(row: DueEntry): EpochMs {
    const known = this.#firstSeen.get(row);
    if (known !== undefined) return known;
    const now = this.#parts.clock.now();
    this.#firstSeen.set(row, now);
    return now;
  }

  #measure(): void {
    const now = this.#parts.clock.now();
    const oldest = this.#scanner.oldest() ?? now;
    const ageS = Math.max(0, now - oldest) / SECOND_MS;
    this.#parts.telemetry.gauge('punctual_oldest_due_age_seconds', ageS, { shard: String(this.shard) });
  }
}

function keyOf(row: DueEntry): string {
  return `${row.jobId} ${row.runAt}`;
}

import { cohortOf, isScheduleId } from '../core/domain/ids.ts';
import type { Priority } from '../core/domain/job-status.ts';
import {
  CURSOR_SAVE_EVERY_MS,
  HELD_DROP_EVERY_MS,
  READ_AHEAD_MS,
  SECOND_MS,
  SHARD_ROWS_IN_MEMORY_MAX,
} from '../core/domain/limits.ts';
import type { DueEntry } from '../core/domain/operation.ts';
import type { EpochMs } from '../core/domain/time.ts';
import type { Clock } from '../core/ports/clock.ts';
import type { Log, Telemetry } from '../core/ports/telemetry.ts';
import type { CursorStore, TimerStore } from '../core/ports/timer-store.ts';
import { ShardScanner, type Held } from '../core/scan/shard-scanner.ts';
import { DueJob } from './due-job.ts';
import { planDue } from './due-planner.ts';
import type { Subject } from './queue-allowance.ts';
import type { QueueWork } from './queue-work.ts';
import type { ScheduleFirer } from './schedule-firer.ts';

export interface ShardDispatcherParts {
  readonly timerStore: TimerStore;
  readonly cursors: CursorStore;
  readonly work: QueueWork;
  readonly firer: Pick<ScheduleFirer, 'fire'>;
  readonly clock: Clock;
  readonly telemetry: Telemetry;
  readonly log: Log;
  /** Whether our lease on the shard certainly stands: asked before each act. */
  readonly holds: (shard: number) => boolean;
}

/** No subject has this name: no flood of jobs keeps schedules waiting. */
const SCHEDULES_LANE = '@schedules';

/**
 * Reads one shard's due rows, wakes the schedules among them, and offers the jobs to their queues: what a queue takes has its turn soon, what it does not take
 * becomes a held row. A due row is settled, and the cursor may pass it, only when the job's message is acknowledged, or the
 * job has another timer, a held row among them.
 */
export class ShardDispatcher {
  readonly shard: number;
  readonly #parts: ShardDispatcherParts;
  readonly #scanner: ShardScanner<DueEntry>;
  /** Those that were looked at in vain. */
  readonly #again = new WeakMap<DueEntry, ScannedJob>();
  /** Rows from here on, up to our start, may have been enqueued but not published by a former owner. */
  readonly #inheritedFrom: EpochMs;
  readonly #startedAt: EpochMs;
  #reading = false;
  /** Wake-up rows in the firer's hands. */
  #waking = 0;
  #savedAt: EpochMs;
  #saved: EpochMs;
  #droppedAt: EpochMs;
  #isClosed = false;
  /** One for all of its jobs: there are very many of them. */
  readonly #custody: Custody = {
    holds: () => this.#holds(),
    settle: ({ taken }) => {
      this.#scanner.settle(taken);
    },
    again: (job, at) => {
      job.firstSeenAt ??= this.#parts.clock.now();
      this.#again.set(job.row, job);
      this.#scanner.putBack(job.taken, at);
    },
    passOver: (job) => {
      this.#parts.work.hold([job]);
    },
  };

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
    this.#droppedAt = this.#startedAt;
    this.#scanner = new ShardScanner({
      source: {
        read: (range) => parts.timerStore.readDue(range),
        at: (row) => row.runAt,
        id: ({ jobId }) => jobId,
        lane: (row) => (isScheduleId(row.jobId) ? SCHEDULES_LANE : laneOf(row)),
      },
      shard: start.shard,
      from: start.from,
      readAheadMs: READ_AHEAD_MS,
      capacity: SHARD_ROWS_IN_MEMORY_MAX,
      pool: parts.work.rowPool,
    });
  }

  /** One tick: reads on, fires what is due, saves where it stands now and then. Throws StoreError. */
  async tick(): Promise<void> {
    await this.#read();
    this.#measure();
    const now = this.#parts.clock.now();
    if (now - this.#savedAt >= CURSOR_SAVE_EVERY_MS) await this.savePositions();
    if (now - this.#droppedAt < HELD_DROP_EVERY_MS || this.#hasClosed()) return;
    this.#droppedAt = now;
    await this.#parts.work.held.dropDrained(this.shard, this.#saved);
  }

  /** Several times a second: fires what is due, and reads on when it had to stop for want of room. Throws StoreError. */
  async beat(): Promise<void> {
    this.fire();
    if (this.#scanner.hasRoomAgain()) await this.#read();
  }

  hint(row: DueEntry): void {
    this.#scanner.add(row, this.#parts.clock.now());
  }

  /** Null also while nothing may be fired: the next beat takes it up again. */
  nextFireAt(): EpochMs | null {
    if (!this.#holds()) return null;
    return this.#scanner.nextFireAt(
      (lane, isLate) => this.#roomOf(lane) > 0 && (!isLate || this.#roomForLate(lane) > 0),
    );
  }

  /** Sends on everything that is due; does not wait for what comes of it. Returns how many rows that was. */
  fire(): number {
    const { clock } = this.#parts;
    // Asked ten times a second of each shard: the scanner knows soonest that there is nothing.
    const next = this.#scanner.nextFireAt();
    if (next === null || next > clock.now() || !this.#holds()) return 0;
    let fired = 0;
    for (const lane of this.#scanner.dueLanes(clock.now())) fired += this.#fireLane(lane, clock.now());
    return fired;
  }

  #fireLane(lane: string, now: EpochMs): number {
    const { work } = this.#parts;
    const [most, mostLate] = [this.#roomOf(lane), this.#roomForLate(lane)];
    const taken = this.#scanner.takeDue(now, most, lane, mostLate).map((row) => this.#jobOf(row));
    if (lane === SCHEDULES_LANE) {
      this.#wakeSchedules(taken);
      return taken.length;
    }
    const due = taken.filter((job) => {
      // The creator of a direct row publishes the job itself; only the second look needs the row.
      if (job.row.direct) job.settle();
      else if (job.isEnqueued) work.publish(job);
      else return true;
      return false;
    });
    work.offer(due.filter((job) => !job.taken.late));
    const late = due.filter((job) => job.taken.late);
    // Rows from before we had the shard have mostly been handled by somebody.
    if (late.length > 0) void work.offerLate(lane, late);
    return taken.length;
  }

  /** A flood that waits to be held keeps no other queue's jobs from being taken, nor its own of another priority. */
  #roomOf(lane: string): number {
    return lane === SCHEDULES_LANE ? Infinity : this.#parts.work.room(subjectOf(lane));
  }

  #roomForLate(lane: string): number {
    return lane === SCHEDULES_LANE ? Infinity : this.#parts.work.roomForLate(lane);
  }

  /** The shard is somebody else's now; also where that is this process again, which reads it anew then. */
  close(): void {
    this.#isClosed = true;
    this.#scanner.close();
  }

  /** Whether schedules are being fired. */
  isBusy(): boolean {
    return this.#waking > 0;
  }

  /** Saves the cursor, and where the held rows stand. Throws StoreError. */
  async savePositions(): Promise<void> {
    if (this.#hasClosed()) return;
    const { clock, cursors, work } = this.#parts;
    const position = this.#scanner.position();
    this.#savedAt = clock.now();
    await work.held.savePositions(this.shard, position);
    if (position <= this.#saved || this.#hasClosed()) return;
    await cursors.save('dispatch', this.shard, position);
    this.#saved = position;
  }

  #holds(): boolean {
    return !this.#hasClosed() && this.#parts.holds(this.shard);
  }

  /** Asked again after every await. */
  #hasClosed(): boolean {
    return this.#isClosed;
  }

  async #read(): Promise<void> {
    if (this.#reading || !this.#holds()) return;
    this.#reading = true;
    try {
      await this.#scanner.read(this.#parts.clock.now(), () => {
        this.fire();
      });
    } finally {
      this.#reading = false;
    }
  }

  /** By cohort: the firer decides all their slots. */
  #wakeSchedules(due: readonly ScannedJob[]): void {
    for (const cohort of Map.groupBy(due, ({ row }) => cohortOf(row.jobId)).values()) void this.#fireCohort(cohort);
  }

  async #fireCohort(cohort: readonly ScannedJob[]): Promise<void> {
    const { firer } = this.#parts;
    this.#waking += cohort.length;
    const fired = await firer.fire([...new Set(cohort.map(({ row }) => row.jobId))], () => this.#holds());
    this.#waking -= cohort.length;
    for (const each of cohort) {
      const result = fired.get(each.row.jobId) ?? 'absent';
      if (result === 'settled') each.settle();
      else if (result === 'absent') this.#lookForAbsent(each);
      else each.again(result.again);
    }
  }

  #lookForAbsent(schedule: ScannedJob): void {
    const now = this.#parts.clock.now();
    const firstSeenAt = schedule.firstSeenAt ?? now;
    const plan = planDue(schedule.row, null, { now, firstSeenAt, maybeUnpublished: false });
    if (plan.kind === 'look_again') schedule.again(plan.at);
    else schedule.settle();
  }

  #jobOf(taken: Held<DueEntry>): ScannedJob {
    const known = this.#again.get(taken.row);
    if (known !== undefined) return known;
    const job = new ScannedJob(taken, this.#custody);
    const { runAt } = taken.row;
    job.maybeUnpublished = runAt >= this.#inheritedFrom && runAt <= this.#startedAt;
    return job;
  }

  #measure(): void {
    const now = this.#parts.clock.now();
    const oldest = this.#scanner.oldest() ?? now;
    const ageS = Math.max(0, now - oldest) / SECOND_MS;
    this.#parts.telemetry.gauge('punctual_oldest_due_age_seconds', ageS, { shard: String(this.shard) });
  }
}

function laneOf({ queue, priority }: Subject): string {
  return `${priority} ${queue}`;
}

function subjectOf(lane: string): Subject {
  const [priority = '', queue = ''] = lane.split(' ');
  return { queue, priority: priority as Priority };
}

interface Custody {
  holds(): boolean;
  settle(job: ScannedJob): void;
  again(job: ScannedJob, at: EpochMs): void;
  passOver(job: ScannedJob): void;
}

/** A job whose due row the scanner has in its custody. */
class ScannedJob extends DueJob {
  readonly taken: Held<DueEntry>;
  readonly #custody: Custody;

  constructor(taken: Held<DueEntry>, custody: Custody) {
    super(taken.row);
    this.taken = taken;
    this.#custody = custody;
  }

  override mayAct(): boolean {
    return this.#custody.holds();
  }

  override settle(): void {
    this.#custody.settle(this);
  }

  override again(at: EpochMs): void {
    this.#custody.again(this, at);
  }

  override passOver(): void {
    this.#custody.passOver(this);
  }
}

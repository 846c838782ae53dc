import { bucketEnd, bucketOf } from '../core/domain/bucket.ts';
import { isJobId } from '../core/domain/ids.ts';
import type { JobRow } from '../core/domain/job.ts';
import { isTerminal, JobStatus } from '../core/domain/job-status.ts';
import { DAY_MS, MINUTE_MS, RETENTION_SLACK_MS, REWRITE_AHEAD_MS } from '../core/domain/limits.ts';
import type { DeadlineEntry, DueEntry } from '../core/domain/operation.ts';
import type { EpochMs } from '../core/domain/time.ts';
import type { OverlapQueue } from '../core/moves/overlap-queue.ts';
import type { Clock } from '../core/ports/clock.ts';
import type { JobState, StateReader } from '../core/ports/job-store.ts';
import type { Telemetry } from '../core/ports/telemetry.ts';
import type {
  DroppedRows,
  TimerMinute,
  TimerPlace,
  TimerRange,
  TimerSpan,
  TimerStore,
} from '../core/ports/timer-store.ts';
import type { QueueBook } from '../core/queues/queue-book.ts';
import type { Rounds } from '../core/rounds/rounds.ts';
import type { Timers } from '../core/timers/timers.ts';

export interface RetentionParts {
  readonly reader: StateReader;
  readonly rounds: Rounds;
  readonly timers: Timers;
  readonly overlaps: Pick<OverlapQueue, 'isBlocked'>;
  readonly timerStore: TimerStore;
  readonly book: Pick<QueueBook, 'refresh' | 'retentionOf' | 'shortestRetentionDays'>;
  readonly clock: Clock;
  readonly telemetry: Telemetry;
}

/** What retention asks of a job. */
type Kept = Pick<JobRow, 'jobId' | 'queue' | 'status' | 'runAt' | 'finishedAt' | 'waitsFor'>;
type Over = Kept & { readonly finishedAt: EpochMs };

/** Minutes of one table looked at in one pass: after a long outage the other shards have their turn in between. */
const MINUTES_PER_PASS_MAX = 60;
/** Each may be a round of its own, and leases that lapse want rounds too. */
const REMOVED_AT_ONCE = 64;

/** Removes jobs that have been over for as long as their queue keeps them (design section 8). */
export class Retention {
  readonly #parts: RetentionParts;

  constructor(parts: RetentionParts) {
    this.#parts = parts;
  }

  /** A timer row so old is swept: nearly every job is over for long enough by then. In ms. */
  sweepAgeMs(): number {
    return this.#parts.book.shortestRetentionDays() * DAY_MS + RETENTION_SLACK_MS;
  }

  now(): EpochMs {
    return this.#parts.clock.now();
  }

  isOver(job: Kept): job is Over {
    return (this.#keptUntil(job) ?? Infinity) <= this.now();
  }

  /** By the settings as they are now: a retention that was made longer must not be missed. Throws StoreError. */
  async prepare(): Promise<void> {
    await this.#parts.book.refresh();
  }

  /**
   * With its due row, which was left for lists. An occurrence that never ran stays while what it waited for has not ended: the one after
   * it waits for that. Throws when a store does not answer, or the outcome stayed open: it may be called again.
   * @param sweptMinute whose due rows the caller drops together.
   */
  async remove(shard: number, job: Over, sweptMinute: EpochMs | null = null): Promise<void> {
    if (await this.#isLink(shard, job)) return;
    const bucket = bucketOf(job.runAt);
    if (bucket !== sweptMinute) {
      // First: once the job is gone nobody finds it again.
      const place = { at: job.runAt, jobId: job.jobId };
      await this.#parts.timerStore.dropDue({ shard, bucket }, [{ first: place, last: place }]);
    }
    await this.#removeJob(job);
  }

  /**
   * Removes those of the jobs that may go, and sees to it that each that stays is found again. Returns, by their ids, those that stay.
   * The ids are those of any timer rows. Throws as remove does.
   */
  async sweep({ shard, table, bucket, ids }: Swept): Promise<ReadonlyMap<string, JobState>> {
    const { reader, timers } = this.#parts;
    const jobs = await reader.readStates([...new Set(ids)].filter(isJobId));
    const staying = new Map<string, JobState>();
    const going: (JobState & Over)[] = [];
    for (const [jobId, job] of jobs) {
      if (this.isOver(job)) going.push(job);
      else staying.set(jobId, job);
    }
    // In the order of their ids: jobs of a cohort share a round.
    going.sort((one, other) => (one.jobId < other.jobId ? -1 : 1));
    for (let start = 0; start < going.length; start += REMOVED_AT_ONCE) {
      const slice = going.slice(start, start + REMOVED_AT_ONCE);
      await Promise.all(slice.map((job) => this.remove(shard, job, table === 'due' ? bucket : null)));
    }
    const again = [...staying.values()].flatMap((job): readonly DeadlineEntry[] => {
      const at = this.#lookAgainAt(job);
      return at === null ? [] : [{ jobId: job.jobId, shard, at, publishedAt: null }];
    });
    if (again.length > 0) await timers.armDeadlines(again);
    return staying;
  }

  /** It is looked at again a day later then. */
  async #isLink(shard: number, job: Over): Promise<boolean> {
    const { overlaps, timers } = this.#parts;
    if (job.waitsFor === null || !(await overlaps.isBlocked(job))) return false;
    await timers.armDeadlines([{ jobId: job.jobId, shard, at: this.now() + DAY_MS, publishedAt: null }]);
    return true;
  }

  /**
   * When a row that is swept must be followed by another. One that is over goes at its own time. One that waits for its queue may be
   * known by its held row alone, which nobody sweeps. Any other has a timer ahead that is swept in its turn: one more would be
   * followed by more of its own, and looked at beside it for as long as the job stays.
   */
  #lookAgainAt(job: JobState): EpochMs | null {
    const keptUntil = this.#keptUntil(job);
    if (keptUntil !== null) return keptUntil;
    const maybeHeld = job.status === JobStatus.scheduled && job.waitsFor === null && job.runAt <= this.now();
    return maybeHeld ? this.now() + REWRITE_AHEAD_MS : null;
  }

  /** One that was cancelled before its time is kept from that time on, as its idempotency key is. Null: it is not over. */
  #keptUntil({ queue, status, runAt, finishedAt }: Kept): EpochMs | null {
    if (!isTerminal(status) || finishedAt === null) return null;
    const { finishedDays, deadDays } = this.#parts.book.retentionOf(queue);
    return Math.max(finishedAt, runAt) + (status === JobStatus.dead ? deadDays : finishedDays) * DAY_MS;
  }

  async #removeJob({ jobId, queue, status, finishedAt }: Over): Promise<void> {
    const { rounds, telemetry } = this.#parts;
    const outcome = await rounds.submit({ edge: 'remove', jobId, expect: { status, finishedAt } });
    switch (outcome.kind) {
      case 'applied':
        telemetry.count('punctual_jobs_removed_total', { queue });
        return;
      case 'lost':
        // Gone, or another by now, such as one that was replayed, whose timers are its own.
        return;
      case 'unknown':
      case 'not_written':
        throw new Error(`${jobId} could not be removed: ${outcome.kind}`, { cause: outcome.cause });
    }
  }
}

/** What rows of a timer table name. */
interface Swept {
  readonly shard: number;
  readonly table: 'due' | 'deadlines';
  /** Their minute. */
  readonly bucket: EpochMs;
  readonly ids: Iterable<string>;
}

/** Where the walks over the two timer tables are. */
export interface RetentionPositions {
  readonly due: EpochMs;
  readonly deadlines: EpochMs;
}

/** The last walks over the minutes of one shard. */
export class ShardRetention {
  readonly #retention: Retention;
  readonly #due: TableWalk<DueEntry>;
  readonly #deadlines: TableWalk<DeadlineEntry>;

  constructor(parts: {
    retention: Retention;
    timerStore: TimerStore;
    shard: number;
    from: RetentionPositions;
    /** Only minutes that had their second look are swept. */
    lookedAtTo: () => RetentionPositions;
  }) {
    const { retention, timerStore, shard, from, lookedAtTo } = parts;
    this.#retention = retention;
    this.#due = new TableWalk<DueEntry>({
      table: 'due',
      read: (range) => timerStore.readDue(range),
      placeOf: ({ runAt, jobId }) => ({ at: runAt, jobId }),
      drop: (minute, rows) => timerStore.dropDue(minute, rows),
      lookedAtTo: () => lookedAtTo().due,
      from: from.due,
      ...{ retention, shard },
    });
    this.#deadlines = new TableWalk<DeadlineEntry>({
      table: 'deadlines',
      read: (range) => timerStore.readDeadlines(range),
      placeOf: ({ at, jobId }) => ({ at, jobId }),
      drop: (minute, rows) => timerStore.dropDeadlines(minute, rows),
      lookedAtTo: () => lookedAtTo().deadlines,
      from: from.deadlines,
      ...{ retention, shard },
    });
  }

  /**
   * Sweeps the minutes that are old enough, an hour of them at most. Throws as Retention#sweep does, and goes on there next time.
   * @param mayGoOn asked before each minute.
   */
  async runOnce(mayGoOn: () => boolean): Promise<void> {
    await this.#due.runOnce(mayGoOn);
    await this.#deadlines.runOnce(mayGoOn);
  }

  /** All rows before them are swept. */
  positions(): RetentionPositions {
    return { due: this.#due.position(), deadlines: this.#deadlines.position() };
  }

  /** How long the oldest minute that is not swept has been old enough, in ms; 0 when none is. */
  lagMs(): number {
    const oldest = Math.min(this.#due.position(), this.#deadlines.position());
    return Math.max(0, this.#retention.now() - bucketEnd(oldest) - this.#retention.sweepAgeMs());
  }
}

interface TableWalkParts<Row> {
  readonly retention: Retention;
  readonly table: 'due' | 'deadlines';
  readonly read: (range: TimerRange) => AsyncIterable<readonly Row[]>;
  readonly placeOf: (row: Row) => TimerPlace;
  readonly drop: (minute: TimerMinute, rows: DroppedRows) => Promise<void>;
  readonly lookedAtTo: () => EpochMs;
  readonly shard: number;
  readonly from: EpochMs;
}

/** Rows that are swept go, but for those to be left: whole minutes at once, else what lies between them. */
class TableWalk<Row> {
  readonly #parts: TableWalkParts<Row>;
  #next: EpochMs;

  constructor(parts: TableWalkParts<Row>) {
    this.#parts = parts;
    this.#next = bucketOf(parts.from);
  }

  async runOnce(mayGoOn: () => boolean): Promise<void> {
    for (let minutes = 0; minutes < MINUTES_PER_PASS_MAX && this.#isRipe() && mayGoOn(); minutes += 1) {
      await this.#sweepMinute(this.#next);
      this.#next += MINUTE_MS;
    }
  }

  position(): EpochMs {
    return this.#next;
  }

  #isRipe(): boolean {
    const { retention, lookedAtTo } = this.#parts;
    const end = bucketEnd(this.#next);
    return end + retention.sweepAgeMs() <= retention.now() && end <= lookedAtTo();
  }

  async #sweepMinute(bucket: EpochMs): Promise<void> {
    const { retention, table, read, placeOf, drop, shard } = this.#parts;
    let isWhole = true;
    /** Rows one after the other that may go. */
    let going: { first: TimerPlace; last: TimerPlace } | undefined;
    for await (const page of read({ shard, bucket, from: bucket, to: bucketEnd(bucket) - 1 })) {
      const places = page.map(placeOf);
      const staying = await retention.sweep({ shard, table, bucket, ids: places.map(({ jobId }) => jobId) });
      const between: TimerSpan[] = [];
      for (const place of places) {
        // Lists find a job by the due row of its present time.
        if (table === 'deadlines' || staying.get(place.jobId)?.runAt !== place.at) {
          going = { first: going?.first ?? place, last: place };
          continue;
        }
        if (going !== undefined) between.push(going);
        going = undefined;
        isWhole = false;
      }
      if (between.length > 0) await drop({ shard, bucket }, between);
    }
    if (going !== undefined) await drop({ shard, bucket }, isWhole ? 'all' : [going]);
  }
}

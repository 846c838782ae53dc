import { bucketEnd, bucketOf } from '../core/domain/bucket.ts';
import { isJobId } from '../core/domain/ids.ts';
import type { JobRow } from '../core/domain/job.ts';
import { isTerminal, JobStatus } from '../core/domain/job-status.ts';
import { DAY_MS, MINUTE_MS, RETENTION_SLACK_MS, REWRITE_AHEAD_MS } from '../core/domain/limits.ts';
import type { DeadlineEntry, DueEntry } from '../core/domain/operation.ts';
import type { EpochMs } from '../core/domain/time.ts';
import type { Clock } from '../core/ports/clock.ts';
import type { StateReader } from '../core/ports/job-store.ts';
import type { Telemetry } from '../core/ports/telemetry.ts';
import type { TimerPlace, TimerRange, TimerSpan, TimerStore } from '../core/ports/timer-store.ts';
import type { QueueBook } from '../core/queues/queue-book.ts';
import type { Rounds } from '../core/rounds/rounds.ts';
import type { Timers } from '../core/timers/timers.ts';

export interface RetentionParts {
  readonly reader: StateReader;
  readonly rounds: Rounds;
  readonly timers: Timers;
  readonly timerStore: TimerStore;
  readonly book: Pick<QueueBook, 'retentionOf' | 'shortestRetentionDays'>;
  readonly clock: Clock;
  readonly telemetry: Telemetry;
}

/** What retention asks of a job. */
type Kept = Pick<JobRow, 'jobId' | 'queue' | 'status' | 'runAt' | 'finishedAt'>;

/** Minutes of one table looked at in one pass: after a long outage the other shards have their turn in between. */
const MINUTES_PER_PASS_MAX = 60;

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

  isOver(job: Kept): boolean {
    return (this.#keptUntil(job) ?? Infinity) <= this.now();
  }

  /**
   * Of a job that a deadline row names: its due row, which was left for lists, goes with it. Throws when a store does not answer, or
   * the outcome stayed open: it may be called again.
   */
  async remove(shard: number, job: Kept): Promise<void> {
    if (!(await this.#removeJob(job))) return;
    const place = { at: job.runAt, jobId: job.jobId };
    const rows = { first: place, last: place };
    await this.#parts.timerStore.dropDue({ shard, bucket: bucketOf(job.runAt), rows });
  }

  /**
   * Removes those of the jobs that may go, and gives each that stays a deadline row: at its own time, or, where that is not known yet,
   * one that is swept when it is as old as these are now. Returns those whose row is to be left: lists find a job by its due row.
   * The ids are those of any timer rows. Throws as remove does.
   */
  async sweep({ shard, table, ids }: Swept): Promise<ReadonlySet<string>> {
    const { reader, timers } = this.#parts;
    const jobs = await reader.readStates([...new Set(ids)].filter(isJobId));
    const soon = this.now() + REWRITE_AHEAD_MS;
    const again: DeadlineEntry[] = [];
    await Promise.all(
      Array.from(jobs.values(), async (job) => {
        const { jobId } = job;
        if (!this.isOver(job)) again.push({ jobId, shard, at: this.#keptUntil(job) ?? soon, publishedAt: null });
        else if (table === 'deadlines') await this.remove(shard, job);
        else await this.#removeJob(job);
      }),
    );
    if (again.length > 0) await timers.armDeadlines(again);
    return new Set(table === 'due' ? again.map(({ jobId }) => jobId) : []);
  }

  /** One that was cancelled before its time is kept from that time on, as its idempotency key is. Null: it is not over. */
  #keptUntil({ queue, status, runAt, finishedAt }: Kept): EpochMs | null {
    if (!isTerminal(status) || finishedAt === null) return null;
    const { finishedDays, deadDays } = this.#parts.book.retentionOf(queue);
    return Math.max(finishedAt, runAt) + (status === JobStatus.dead ? deadDays : finishedDays) * DAY_MS;
  }

  /** False: it is there still, and another, such as one that was replayed, whose timers are its own. */
  async #removeJob({ jobId, queue, status, finishedAt }: Kept): Promise<boolean> {
    const { rounds, telemetry } = this.#parts;
    const outcome = await rounds.submit({ edge: 'remove', jobId, expect: { status, finishedAt: finishedAt ?? 0 } });
    switch (outcome.kind) {
      case 'applied':
        telemetry.count('punctual_jobs_removed_total', { queue });
        return true;
      case 'lost':
        return outcome.row === null;
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
      drop: (span) => timerStore.dropDue(span),
      lookedAtTo: () => lookedAtTo().due,
      from: from.due,
      ...{ retention, shard },
    });
    this.#deadlines = new TableWalk<DeadlineEntry>({
      table: 'deadlines',
      read: (range) => timerStore.readDeadlines(range),
      placeOf: ({ at, jobId }) => ({ at, jobId }),
      drop: (span) => timerStore.dropDeadlines(span),
      lookedAtTo: () => lookedAtTo().deadlines,
      from: from.deadlines,
      ...{ retention, shard },
    });
  }

  /** Sweeps the minutes that are old enough, an hour of them at most. Throws as Retention#sweep does, and goes on there next time. */
  async runOnce(): Promise<void> {
    await this.#due.runOnce();
    await this.#deadlines.runOnce();
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
  readonly drop: (span: TimerSpan) => Promise<void>;
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

  async runOnce(): Promise<void> {
    for (let minutes = 0; minutes < MINUTES_PER_PASS_MAX && this.#isRipe(); minutes += 1) {
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
      const left = await retention.sweep({ shard, table, ids: places.map(({ jobId }) => jobId) });
      for (const place of places) {
        if (!left.has(place.jobId)) {
          going = { first: going?.first ?? place, last: place };
          continue;
        }
        if (going !== undefined) await drop({ shard, bucket, rows: going });
        going = undefined;
        isWhole = false;
      }
    }
    if (going !== undefined) await drop({ shard, bucket, rows: isWhole ? 'all' : going });
  }
}

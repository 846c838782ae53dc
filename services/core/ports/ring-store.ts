import type { BulkOperation } from '../domain/bulk.ts';
import type { CheckedJob } from '../domain/fsck.ts';
import type { DeadlineEntry, DueEntry } from '../domain/operation.ts';
import type { ScheduleRow } from '../domain/schedule.ts';
import type { EpochMs } from '../domain/time.ts';

/** One of `of` equal parts of the ring of partitions. All parts together hold every row once. */
export interface RingPart {
  readonly part: number;
  readonly of: number;
  readonly pageRows: number;
}

/** A due row, by its key. */
export interface DuePlace {
  readonly shard: number;
  readonly runAt: EpochMs;
  readonly jobId: string;
}

/** The end of a job, by the key of the row that tells of it. */
export interface EndPlace {
  readonly queue: string;
  readonly at: EpochMs;
  readonly jobId: string;
}

/** Whole tables page by page, and whether single rows stand: what a check of all data reads. All methods throw StoreError. */
export interface RingStore {
  jobs(part: RingPart): AsyncIterable<readonly CheckedJob[]>;
  schedules(part: RingPart): AsyncIterable<readonly ScheduleRow[]>;
  operations(part: RingPart): AsyncIterable<readonly BulkOperation[]>;
  due(part: RingPart): AsyncIterable<readonly DueEntry[]>;
  deadlines(part: RingPart): AsyncIterable<readonly DeadlineEntry[]>;
  /** The ids of those that stand in `due`. */
  standingDue(places: readonly DuePlace[]): Promise<ReadonlySet<string>>;
  /** The ids of those that stand in `job_history`. */
  recordedEnds(places: readonly EndPlace[]): Promise<ReadonlySet<string>>;
  /** The ids of those that stand in `dead_letters`. */
  deadLetters(places: readonly EndPlace[]): Promise<ReadonlySet<string>>;
  /** Of ids of jobs, those that have a row. */
  existingJobs(jobIds: readonly string[]): Promise<ReadonlySet<string>>;
}

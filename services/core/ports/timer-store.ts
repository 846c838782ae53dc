import type { DeadlineEntry, DueEntry } from '../domain/operation.ts';
import type { EpochMs } from '../domain/time.ts';

/** Plain idempotent writes and forward reads of the two timer tables. Writers go through core/timers, never here directly. */
export interface TimerStore {
  /** Resolves when all rows are acknowledged; grouped by partition. Throws StoreError (an orphan row is harmless). */
  writeDue(rows: readonly DueEntry[]): Promise<void>;
  writeDeadlines(rows: readonly DeadlineEntry[]): Promise<void>;
  /** Rows of one (shard, bucket) with from <= run_at <= to, in (run_at, job_id) order, page by page. Throws StoreError. */
  readDue(range: TimerRange): AsyncIterable<readonly DueEntry[]>;
  readDeadlines(range: TimerRange): AsyncIterable<readonly DeadlineEntry[]>;
  /** Takes rows of one minute away for ever; those written later than a day after it stay. Throws StoreError. */
  dropDue(minute: TimerMinute, rows: DroppedRows): Promise<void>;
  dropDeadlines(minute: TimerMinute, rows: DroppedRows): Promise<void>;
}

/** Where a row stands in its minute. */
export interface TimerPlace {
  readonly at: EpochMs;
  readonly jobId: string;
}

export interface TimerMinute {
  readonly shard: number;
  readonly bucket: EpochMs;
}

/** Both inclusive. */
export interface TimerSpan {
  readonly first: TimerPlace;
  readonly last: TimerPlace;
}

export type DroppedRows = 'all' | readonly TimerSpan[];

export interface TimerRange {
  readonly shard: number;
  readonly bucket: EpochMs;
  /** Inclusive. */
  readonly from: EpochMs;
  /** Of the rows at `from` only those behind this id; absent: all of them. */
  readonly afterId?: string;
  /** Inclusive. */
  readonly to: EpochMs;
}

/** Who has read how far in which timer table; of ready_stream: the life of the ready stream that the shard's jobs are published in. */
export type CursorRole =
  'dispatch' | 'second_look' | 'deadlines' | 'ready_stream' | 'due_retention' | 'deadline_retention';

export interface CursorStore {
  /** Null when the shard has none yet. Throws StoreError. */
  load(role: CursorRole, shard: number): Promise<EpochMs | null>;
  /** A register that only moves forward (a plain write whose timestamp is the cursor). Throws StoreError. */
  save(role: CursorRole, shard: number, position: EpochMs): Promise<void>;
}

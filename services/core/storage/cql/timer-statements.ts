import type { DeadlineEntry, DueEntry } from '../../domain/operation.ts';
import { bucketEnd, bucketOf } from '../../domain/bucket.ts';
import { DAY_MS } from '../../domain/limits.ts';
import type { EpochMs } from '../../domain/time.ts';
import type { CursorRole, DroppedRows, TimerMinute, TimerRange } from '../../ports/timer-store.ts';
import { timestamp } from '../row-codec.ts';
import type { Bound } from '../statement.ts';

// `due`, `deadlines`, `cursors`: plain idempotent writes, LOCAL_QUORUM (session.write, session.pages).

const WRITE_DUE = `
  INSERT INTO due (shard, bucket, run_at, job_id, queue, priority, attempt, direct) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`;

const READ_DUE = `
  SELECT shard, run_at, job_id, queue, priority, attempt, direct FROM due
  WHERE shard = ? AND bucket = ? AND (run_at, job_id) > (?, ?) AND (run_at, job_id) <= (?, ?)`;

const WRITE_DEADLINE = `INSERT INTO deadlines (shard, bucket, at, job_id, published_at) VALUES (?, ?, ?, ?, ?)`;

const READ_DEADLINES = `
  SELECT shard, at, job_id, published_at FROM deadlines
  WHERE shard = ? AND bucket = ? AND (at, job_id) > (?, ?) AND (at, job_id) <= (?, ?)`;

/** A row written later than its DELETE is stamped survives it: whoever wrote it so late, it is not one that retention has seen. */
const DROP_MINUTE = 'USING TIMESTAMP ? WHERE shard = ? AND bucket = ?';
const DROP_DUE_MINUTE = `DELETE FROM due ${DROP_MINUTE}`;
const DROP_DUE_ROWS = `${DROP_DUE_MINUTE} AND (run_at, job_id) >= (?, ?) AND (run_at, job_id) <= (?, ?)`;
const DROP_DEADLINE_MINUTE = `DELETE FROM deadlines ${DROP_MINUTE}`;
const DROP_DEADLINE_ROWS = `${DROP_DEADLINE_MINUTE} AND (at, job_id) >= (?, ?) AND (at, job_id) <= (?, ?)`;

/** Where rows are among many shards: one request, and one row of each. */
const FIND_DUE = `
  SELECT shard FROM due WHERE shard IN ? AND bucket = ? AND run_at >= ? AND run_at <= ? PER PARTITION LIMIT 1`;

const FIND_DEADLINES = `
  SELECT shard FROM deadlines WHERE shard IN ? AND bucket = ? AND at >= ? AND at <= ? PER PARTITION LIMIT 1`;

/** The write's timestamp is the position itself, so that of two saves the further one stands, whoever came last. */
const SAVE_CURSOR = `INSERT INTO cursors (role, shard, version, position) VALUES (?, ?, ?, ?) USING TIMESTAMP ?`;

const LOAD_CURSOR = `SELECT position FROM cursors WHERE role = ? AND shard = ? AND version = ?`;

/** An operator who must start a register anew raises this for its role: a lower position never shows under the old key. */
const CURSOR_VERSION = 1;
/** Cassandra's write timestamps are microseconds: milliseconds lose against every other write without a word. */
const MICROS_PER_MS = 1_000;

/**
 * Of a deadline whose job waits for no message. Not null, which would be a tombstone in most rows; and not left out, for a later row at
 * the same instant replaces the whole of the earlier.
 */
export const NEVER_PUBLISHED: EpochMs = 0;

export const TIMER_STATEMENTS: readonly string[] = [
  WRITE_DUE,
  READ_DUE,
  WRITE_DEADLINE,
  READ_DEADLINES,
  FIND_DUE,
  FIND_DEADLINES,
  DROP_DUE_MINUTE,
  DROP_DUE_ROWS,
  DROP_DEADLINE_MINUTE,
  DROP_DEADLINE_ROWS,
  SAVE_CURSOR,
  LOAD_CURSOR,
];

export function writeDue(row: DueEntry): Bound {
  return {
    cql: WRITE_DUE,
    values: [
      row.shard,
      timestamp(bucketOf(row.runAt)),
      timestamp(row.runAt),
      row.jobId,
      row.queue,
      row.priority,
      row.attempt,
      row.direct,
    ],
  };
}

export function readDue(range: TimerRange): Bound {
  return { cql: READ_DUE, values: rangeValues(range) };
}

export function writeDeadline(row: DeadlineEntry): Bound {
  return {
    cql: WRITE_DEADLINE,
    values: [
      row.shard,
      timestamp(bucketOf(row.at)),
      timestamp(row.at),
      row.jobId,
      timestamp(row.publishedAt ?? NEVER_PUBLISHED),
    ],
  };
}

export function readDeadlines(range: TimerRange): Bound {
  return { cql: READ_DEADLINES, values: rangeValues(range) };
}

/** At most one row of each shard. */
export function findDue(shards: readonly number[], range: Span): Bound {
  return { cql: FIND_DUE, values: spanValues(shards, range) };
}

export function findDeadlines(shards: readonly number[], range: Span): Bound {
  return { cql: FIND_DEADLINES, values: spanValues(shards, range) };
}

export function dropDue(minute: TimerMinute, rows: DroppedRows): readonly Bound[] {
  return drops({ minute: DROP_DUE_MINUTE, rows: DROP_DUE_ROWS }, minute, rows);
}

export function dropDeadlines(minute: TimerMinute, rows: DroppedRows): readonly Bound[] {
  return drops({ minute: DROP_DEADLINE_MINUTE, rows: DROP_DEADLINE_ROWS }, minute, rows);
}

function drops(
  cql: { readonly minute: string; readonly rows: string },
  { shard, bucket }: TimerMinute,
  rows: DroppedRows,
): readonly Bound[] {
  const values = [(bucketEnd(bucket) + DAY_MS) * MICROS_PER_MS, shard, timestamp(bucket)];
  if (rows === 'all') return [{ cql: cql.minute, values }];
  return rows.map(({ first, last }) => ({
    cql: cql.rows,
    values: [...values, timestamp(first.at), first.jobId, timestamp(last.at), last.jobId],
  }));
}

export function saveCursor(role: CursorRole, shard: number, position: EpochMs): Bound {
  return { cql: SAVE_CURSOR, values: [role, shard, CURSOR_VERSION, timestamp(position), position * MICROS_PER_MS] };
}

export function loadCursor(role: CursorRole, shard: number): Bound {
  return { cql: LOAD_CURSOR, values: [role, shard, CURSOR_VERSION] };
}

/** No id is empty, and none has a character behind ~. */
function rangeValues({ shard, bucket, from, afterId = '', to }: TimerRange): unknown[] {
  return [shard, timestamp(bucket), timestamp(from), afterId, timestamp(to), '~'];
}

type Span = Pick<TimerRange, 'bucket' | 'from' | 'to'>;

function spanValues(shards: readonly number[], { bucket, from, to }: Span): unknown[] {
  return [shards, timestamp(bucket), timestamp(from), timestamp(to)];
}

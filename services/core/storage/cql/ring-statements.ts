import { types } from 'cassandra-driver';
import { bucketOf, dayOf, historyStripe, hourOf } from '../../domain/bucket.ts';
import type { EpochMs } from '../../domain/time.ts';
import type { DuePlace, EndPlace, RingPart } from '../../ports/ring-store.ts';
import { OPERATION_COLUMNS } from './operation-statements.ts';
import { JOB_COLUMNS, timestamp } from '../row-codec.ts';
import { SCHEDULE_COLUMNS } from '../schedule-codec.ts';
import type { Bound } from '../statement.ts';

// What fsck reads: no service sends these, so they are not among those prepared at a start.

/** The ring is closed: its first token stands for both ends, and no partition has it. */
const TOKEN_MIN = -(2n ** 63n);
const TOKEN_MAX = 2n ** 63n - 1n;

function scanCql(table: string, key: string, columns: readonly string[]): string {
  return `SELECT ${columns.join(', ')} FROM ${table} WHERE token(${key}) > ? AND token(${key}) <= ?`;
}

const CHECKED_JOB_COLUMNS = JOB_COLUMNS.filter((column) => column !== 'payload');

export const SCAN = {
  jobs: scanCql('jobs', 'cohort', CHECKED_JOB_COLUMNS),
  schedules: scanCql('schedules', 'cohort', SCHEDULE_COLUMNS),
  operations: scanCql('operations', 'operation_id', OPERATION_COLUMNS),
  due: scanCql('due', 'shard, bucket', ['shard', 'run_at', 'job_id', 'queue', 'priority', 'attempt', 'direct']),
  deadlines: scanCql('deadlines', 'shard, bucket', ['shard', 'at', 'job_id', 'published_at']),
} as const;

export function scanPart(cql: string, { part, of }: RingPart): Bound {
  return { cql, values: [boundary(part, of), boundary(part + 1, of)] };
}

function boundary(index: number, of: number): unknown {
  const token = index === of ? TOKEN_MAX : TOKEN_MIN + (2n ** 64n * BigInt(index)) / BigInt(of);
  return types.Long.fromString(String(token));
}

/** Rows of one partition by their clustering keys, which are a time and a job. */
interface PlacedRow {
  readonly at: EpochMs;
  readonly jobId: string;
}

function tuples(rows: readonly PlacedRow[]): types.Tuple[] {
  return rows.map(({ at, jobId }) => new types.Tuple(timestamp(at), jobId));
}

const STANDING_DUE = `SELECT job_id FROM due WHERE shard = ? AND bucket = ? AND (run_at, job_id) IN ?`;

export function dueMinuteOf({ shard, runAt }: DuePlace): string {
  return `${shard} ${bucketOf(runAt)}`;
}

/** @param places of one minute. */
export function standingDue(places: readonly [DuePlace, ...DuePlace[]]): Bound {
  const [{ shard, runAt }] = places;
  const rows = places.map((place) => ({ at: place.runAt, jobId: place.jobId }));
  return { cql: STANDING_DUE, values: [shard, timestamp(bucketOf(runAt)), tuples(rows)] };
}

const RECORDED_ENDS = `
  SELECT job_id FROM job_history WHERE queue = ? AND hour = ? AND stripe = ? AND (finished_at, job_id) IN ?`;

export function historyHourOf({ queue, at, jobId }: EndPlace): string {
  return `${queue} ${hourOf(at)} ${historyStripe(jobId)}`;
}

/** @param places of one hour and stripe. */
export function recordedEnds(places: readonly [EndPlace, ...EndPlace[]]): Bound {
  const [{ queue, at, jobId }] = places;
  return { cql: RECORDED_ENDS, values: [queue, timestamp(hourOf(at)), historyStripe(jobId), tuples(places)] };
}

const STANDING_DEAD_LETTERS = `SELECT job_id FROM dead_letters WHERE queue = ? AND day = ? AND (dead_at, job_id) IN ?`;

export function deadLetterDayOf({ queue, at }: EndPlace): string {
  return `${queue} ${dayOf(at)}`;
}

/** @param places of one day. */
export function standingDeadLetters(places: readonly [EndPlace, ...EndPlace[]]): Bound {
  const [{ queue, at }] = places;
  return { cql: STANDING_DEAD_LETTERS, values: [queue, types.LocalDate.fromString(dayOf(at)), tuples(places)] };
}

const EXISTING_JOBS = `SELECT job_id FROM jobs WHERE cohort = ? AND job_id IN ?`;

export function existingJobs(cohort: string, jobIds: readonly string[]): Bound {
  return { cql: EXISTING_JOBS, values: [cohort, jobIds] };
}

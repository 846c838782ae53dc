import type { AttemptEnd, AttemptStart, JobRow, RetryPolicy } from '../domain/job.ts';
import type { JobStatus, Outcome, Priority } from '../domain/job-status.ts';
import type { ConditionColumns } from '../domain/operation.ts';
import type { OnOverlap } from '../domain/schedule.ts';
import type { EpochMs } from '../domain/time.ts';
import type { JobEnd, JobState, JobTerms } from '../ports/job-store.ts';
import type { Row } from './statement.ts';

// JobRow <-> the columns of `jobs`. What is null or empty stays unset in an insert: a bound null writes a tombstone. So do counters
// that begin at 0: every round on a cohort reads all cells of its rows.

type Encode = (job: JobRow) => unknown;

/** One entry a column, in the order of the statements that use it. */
const JOB_ENCODING: Readonly<Record<string, Encode>> = {
  cohort: (job) => job.cohort,
  job_id: (job) => job.jobId,
  owner: (job) => job.owner,
  queue: (job) => job.queue,
  priority: (job) => job.priority,
  payload: (job) => job.payload ?? undefined,
  payload_bytes: (job) => job.payloadBytes,
  target: (job) => job.target ?? undefined,
  labels: (job) => mapOrUnset(new Map(Object.entries(job.labels))),
  idempotency_key: (job) => job.idempotencyKey ?? undefined,
  run_at: (job) => timestamp(job.runAt),
  scheduled_for: (job) => timestamp(job.scheduledFor),
  shard: (job) => job.shard,
  status: (job) => job.status,
  attempt: (job) => job.attempt,
  tries: (job) => job.tries || undefined,
  lapses: (job) => job.lapses || undefined,
  lost_claims: (job) => job.lostClaims || undefined,
  heard: (job) => job.heard || undefined,
  max_attempts: (job) => job.maxAttempts,
  timeout_s: (job) => job.timeoutS,
  lease_s: (job) => job.leaseS,
  retry: (job) => encodeRetry(job.retry),
  lease_until: (job) => timestamp(job.leaseUntil) ?? undefined,
  deadline_at: (job) => timestamp(job.deadlineAt) ?? undefined,
  worker: (job) => job.worker ?? undefined,
  cancel_requested: (job) => job.cancelRequested,
  last_error: (job) => job.lastError ?? undefined,
  result: (job) => job.result ?? undefined,
  progress: (job) => job.progress ?? undefined,
  reason: (job) => job.reason ?? undefined,
  schedule_id: (job) => job.scheduleId ?? undefined,
  on_overlap: (job) => job.onOverlap ?? undefined,
  waits_for: (job) => job.waitsFor ?? undefined,
  slot_until: (job) => timestamp(job.slotUntil) ?? undefined,
  traceparent: (job) => job.traceparent ?? undefined,
  create_token: (job) => job.createToken,
  request_hash: (job) => job.requestHash ?? undefined,
  expires_at: (job) => timestamp(job.expiresAt) ?? undefined,
  created_at: (job) => timestamp(job.createdAt),
  enqueued_at: (job) => timestamp(job.enqueuedAt) ?? undefined,
  finished_at: (job) => timestamp(job.finishedAt) ?? undefined,
  bulk_marks: (job) => (job.bulkMarks.length === 0 ? undefined : job.bulkMarks),
  starts: (job) => mapOrUnset(mapValues(job.starts, encodeStart)),
  ends: (job) => mapOrUnset(mapValues(job.ends, encodeEnd)),
};
const JOB_ENCODERS = Object.values(JOB_ENCODING);

export const JOB_COLUMNS: readonly string[] = Object.keys(JOB_ENCODING);

/** What most jobs lack when they are created: every column bound costs both ends, an unset one too. */
const RARE_AT_FIRST = new Set([
  ...['target', 'labels', 'idempotency_key', 'traceparent', 'request_hash', 'expires_at'],
  ...['lease_until', 'deadline_at', 'worker', 'last_error', 'result', 'progress', 'reason', 'finished_at'],
  ...['tries', 'lapses', 'lost_claims', 'heard'],
  ...['schedule_id', 'on_overlap', 'waits_for', 'slot_until', 'bulk_marks', 'starts', 'ends'],
]);
export const PLAIN_JOB_COLUMNS: readonly string[] = JOB_COLUMNS.filter((column) => !RARE_AT_FIRST.has(column));
const IS_RARE: readonly boolean[] = JOB_COLUMNS.map((column) => RARE_AT_FIRST.has(column));

/** The values of PLAIN_JOB_COLUMNS where the job has no others, else those of JOB_COLUMNS. */
export function encodeJob(job: JobRow): { readonly isPlain: boolean; readonly values: readonly unknown[] } {
  const values = JOB_ENCODERS.map((encode) => encode(job));
  const isPlain = values.every((value, index) => value === undefined || IS_RARE[index] === false);
  return { isPlain, values: isPlain ? values.filter((_, index) => IS_RARE[index] === false) : values };
}

/** The columns of JobTerms. */
export const TERMS_COLUMNS: readonly string[] = [
  ...['job_id', 'queue', 'priority', 'payload', 'payload_bytes', 'labels', 'idempotency_key', 'run_at'],
  ...['scheduled_for', 'shard', 'status', 'attempt', 'max_attempts', 'timeout_s', 'lease_s', 'traceparent'],
  ...['expires_at', 'enqueued_at', 'on_overlap'],
];

/** The columns of JobState. */
export const STATE_COLUMNS: readonly string[] = [
  ...['job_id', 'queue', 'priority', 'status', 'run_at', 'finished_at', 'waits_for'],
];

export function decodeState(row: Row): JobState {
  return {
    jobId: text(row, 'job_id'),
    queue: text(row, 'queue'),
    priority: text(row, 'priority') as Priority,
    status: text(row, 'status') as JobStatus,
    runAt: time(row, 'run_at'),
    finishedAt: timeOrNull(row, 'finished_at'),
    waitsFor: textOrNull(row, 'waits_for'),
  };
}

/** The columns of JobEnd. */
export const END_COLUMNS: readonly string[] = [
  ...['job_id', 'queue', 'priority', 'status', 'attempt', 'run_at', 'scheduled_for', 'finished_at'],
  ...['waits_for', 'starts', 'ends'],
];

export function decodeJobEnd(row: Row): JobEnd {
  return {
    jobId: text(row, 'job_id'),
    queue: text(row, 'queue'),
    priority: text(row, 'priority') as Priority,
    status: text(row, 'status') as JobStatus,
    attempt: number(row, 'attempt'),
    runAt: time(row, 'run_at'),
    scheduledFor: time(row, 'scheduled_for'),
    finishedAt: timeOrNull(row, 'finished_at'),
    waitsFor: textOrNull(row, 'waits_for'),
    starts: mapValues(new Map(entries<number, StoredStart>(row, 'starts')), decodeStart),
    ends: mapValues(new Map(entries<number, StoredEnd>(row, 'ends')), decodeEnd),
  };
}

export function decodeTerms(row: Row): JobTerms {
  return {
    jobId: text(row, 'job_id'),
    queue: text(row, 'queue'),
    priority: text(row, 'priority') as Priority,
    payload: textOrNull(row, 'payload'),
    payloadBytes: number(row, 'payload_bytes'),
    labels: Object.fromEntries(entries<string, string>(row, 'labels')),
    idempotencyKey: textOrNull(row, 'idempotency_key'),
    runAt: time(row, 'run_at'),
    scheduledFor: time(row, 'scheduled_for'),
    shard: number(row, 'shard'),
    status: text(row, 'status') as JobStatus,
    attempt: number(row, 'attempt'),
    maxAttempts: number(row, 'max_attempts'),
    timeoutS: number(row, 'timeout_s'),
    leaseS: number(row, 'lease_s'),
    traceparent: textOrNull(row, 'traceparent'),
    expiresAt: timeOrNull(row, 'expires_at'),
    enqueuedAt: timeOrNull(row, 'enqueued_at'),
    onOverlap: textOrNull(row, 'on_overlap') as OnOverlap | null,
  };
}

export function decodeJob(row: Row): JobRow {
  return {
    ...decodeTerms(row),
    ...decodeJobEnd(row),
    cohort: text(row, 'cohort'),
    owner: text(row, 'owner'),
    target: textOrNull(row, 'target'),
    tries: numberOrNull(row, 'tries') ?? 0,
    lapses: numberOrNull(row, 'lapses') ?? 0,
    lostClaims: numberOrNull(row, 'lost_claims') ?? 0,
    heard: row.get('heard') === true,
    retry: decodeRetry(value(row, 'retry') as StoredRetry),
    leaseUntil: timeOrNull(row, 'lease_until'),
    deadlineAt: timeOrNull(row, 'deadline_at'),
    worker: textOrNull(row, 'worker'),
    cancelRequested: flag(row, 'cancel_requested'),
    lastError: textOrNull(row, 'last_error'),
    result: textOrNull(row, 'result'),
    progress: textOrNull(row, 'progress'),
    reason: textOrNull(row, 'reason'),
    scheduleId: textOrNull(row, 'schedule_id'),
    waitsFor: textOrNull(row, 'waits_for'),
    slotUntil: timeOrNull(row, 'slot_until'),
    createToken: text(row, 'create_token'),
    requestHash: textOrNull(row, 'request_hash'),
    createdAt: time(row, 'created_at'),
    bulkMarks: (row.get('bulk_marks') as readonly string[] | null) ?? [],
  };
}

/** The columns that a lost conditional write brought back; those it did not name stay undefined. */
export function decodeConditionColumns(row: Row): ConditionColumns {
  const names = new Set(row.keys());
  return {
    ...(names.has('status') && { status: text(row, 'status') as JobStatus }),
    ...(names.has('queue') && { queue: text(row, 'queue') }),
    ...(names.has('attempt') && { attempt: number(row, 'attempt') }),
    ...(names.has('run_at') && { runAt: time(row, 'run_at') }),
    ...(names.has('cancel_requested') && { cancelRequested: flag(row, 'cancel_requested') }),
    ...(names.has('lease_until') && { leaseUntil: timeOrNull(row, 'lease_until') }),
    ...(names.has('deadline_at') && { deadlineAt: timeOrNull(row, 'deadline_at') }),
    ...(names.has('enqueued_at') && { enqueuedAt: timeOrNull(row, 'enqueued_at') }),
    ...(names.has('finished_at') && { finishedAt: timeOrNull(row, 'finished_at') }),
  };
}

export interface StoredRetry {
  readonly kind: RetryPolicy['kind'];
  readonly base_s: number;
  readonly factor: number;
  readonly cap_s: number;
  readonly jitter: RetryPolicy['jitter'];
}

interface StoredStart {
  readonly worker: string;
  readonly claim_id: string;
  readonly started_at: Date;
}

interface StoredEnd {
  readonly ended_at: Date;
  readonly outcome: Outcome;
  readonly error: string | null;
}

export function encodeRetry(retry: RetryPolicy): StoredRetry {
  return { kind: retry.kind, base_s: retry.baseS, factor: retry.factor, cap_s: retry.capS, jitter: retry.jitter };
}

export function decodeRetry(stored: StoredRetry): RetryPolicy {
  return {
    kind: stored.kind,
    baseS: stored.base_s,
    factor: stored.factor,
    capS: stored.cap_s,
    jitter: stored.jitter,
  };
}

export function decodeRetryOrNull(row: Row): RetryPolicy | null {
  const stored = row.get('retry') as StoredRetry | null;
  return stored === null ? null : decodeRetry(stored);
}

export function encodeStart(start: AttemptStart): StoredStart {
  return { worker: start.worker, claim_id: start.claimId, started_at: new Date(start.startedAt) };
}

function decodeStart(stored: StoredStart): AttemptStart {
  return { worker: stored.worker, claimId: stored.claim_id, startedAt: stored.started_at.getTime() };
}

export function encodeEnd(end: AttemptEnd): StoredEnd {
  return { ended_at: new Date(end.endedAt), outcome: end.outcome, error: end.error };
}

function decodeEnd(stored: StoredEnd): AttemptEnd {
  return { endedAt: stored.ended_at.getTime(), outcome: stored.outcome, error: stored.error };
}

export function timestamp(at: EpochMs): Date;
export function timestamp(at: EpochMs | null): Date | null;
export function timestamp(at: EpochMs | null): Date | null {
  return at === null ? null : new Date(at);
}

export function text(row: Row, name: string): string {
  return value(row, name) as string;
}

/** Null also of a column that was not read. */
export function textOrNull(row: Row, name: string): string | null {
  return (row.get(name) as string | null | undefined) ?? null;
}

export function number(row: Row, name: string): number {
  return value(row, name) as number;
}

export function numberOrNull(row: Row, name: string): number | null {
  return row.get(name) as number | null;
}

export function flag(row: Row, name: string): boolean {
  return value(row, name) as boolean;
}

export function time(row: Row, name: string): EpochMs {
  return (value(row, name) as Date).getTime();
}

export function timeOrNull(row: Row, name: string): EpochMs | null {
  return (row.get(name) as Date | null)?.getTime() ?? null;
}

export function value(row: Row, name: string): unknown {
  const found: unknown = row.get(name);
  if (found === null || found === undefined) throw new Error(`a stored row has no ${name}`);
  return found;
}

export function entries<Key, Value>(row: Row, name: string): Iterable<[Key, Value]> {
  return (row.get(name) as Map<Key, Value> | null) ?? [];
}

export function mapOrUnset<Key, Value>(map: ReadonlyMap<Key, Value>): ReadonlyMap<Key, Value> | undefined {
  return map.size === 0 ? undefined : map;
}

function mapValues<Key, From, To>(map: ReadonlyMap<Key, From>, convert: (from: From) => To): Map<Key, To> {
  return new Map(Array.from(map, ([key, from]) => [key, convert(from)]));
}

import { formatInstant } from '../../core/contract/instant.ts';
import type { Result } from '../../core/contract/problems.ts';
import { operationIdsOf } from '../../core/domain/bulk.ts';
import type { JobRow, RetryPolicy } from '../../core/domain/job.ts';
import type { EpochMs } from '../../core/domain/time.ts';
import { type Answer, itemProblem, jsonWithRaw } from '../middleware/answer.ts';
import type { ClaimedJob, CreatedJob, DeadJob } from '../use-cases/types.ts';

/** Where a job is. `@` and `:` of an occurrence's id stand in a path as they are. */
export function hrefOf(jobId: string): string {
  return `/jobs/${jobId}`;
}

/** A job with all that its row knows, as JSON text. */
export function jobJson(row: JobRow, keyspace: string): string {
  const { payload, result, progress } = row;
  return jsonWithRaw(jobView(row, keyspace), { payload, result, progress });
}

/** A job as lists show it: without its payload. */
export function listedJobJson(row: JobRow, keyspace: string): string {
  const { result, progress } = row;
  return jsonWithRaw(jobView(row, keyspace), { result, progress });
}

/** What became of one job of a batch. */
export function createdJobView(result: Result<CreatedJob>): object {
  if (!result.ok) return itemProblem(result.problem);
  const { job, replayed } = result.value;
  const { jobId, runAt } = job;
  const status = replayed ? 200 : 201;
  return { status, job_id: jobId, href: hrefOf(jobId), run_at: formatInstant(runAt), replayed };
}

/** The answer to the creation of one job. */
export function createdJobAnswer({ job, replayed }: CreatedJob, keyspace: string): Answer {
  const body = jobJson(job, keyspace);
  return replayed
    ? { status: 200, body, headers: { 'idempotency-replayed': 'true' } }
    : { status: 201, body, headers: { location: hrefOf(job.jobId) } };
}

export function deadLetterView({ letter, job }: DeadJob): object {
  const { jobId, queue, deadAt, attempt, reason, error } = letter;
  return {
    job_id: jobId,
    href: hrefOf(jobId),
    queue,
    dead_at: formatInstant(deadAt),
    attempt,
    reason,
    error,
    labels: job.labels,
    attempts: attemptViews(job),
  };
}

function jobView(row: JobRow, keyspace: string): object {
  return {
    job_id: row.jobId,
    href: hrefOf(row.jobId),
    queue: row.queue,
    priority: row.priority,
    status: row.status,
    reason: row.reason,
    run_at: formatInstant(row.runAt),
    scheduled_for: formatInstant(row.scheduledFor),
    created_at: formatInstant(row.createdAt),
    enqueued_at: instantOrNull(row.enqueuedAt),
    finished_at: instantOrNull(row.finishedAt),
    expires_at: instantOrNull(row.expiresAt),
    attempt: row.attempt,
    tries: row.tries,
    lapses: row.lapses,
    lost_claims: row.lostClaims,
    max_attempts: row.maxAttempts,
    timeout_s: row.timeoutS,
    lease_s: row.leaseS,
    retry: retryView(row.retry),
    labels: row.labels,
    idempotency_key: row.idempotencyKey,
    worker: row.worker,
    lease_until: instantOrNull(row.leaseUntil),
    deadline_at: instantOrNull(row.deadlineAt),
    cancel_requested: row.cancelRequested,
    operation_ids: operationIdsOf(row.bulkMarks),
    last_error: row.lastError,
    attempts: attemptViews(row),
    owner: row.owner,
    target: row.target,
    schedule_id: row.scheduleId,
    traceparent: row.traceparent,
    payload_bytes: row.payloadBytes,
    cohort: row.cohort,
    shard: row.shard,
    cql: `SELECT * FROM ${keyspace}.jobs WHERE cohort = '${row.cohort}' AND job_id = '${row.jobId}';`,
  };
}

/** Starts and ends are kept apart, so that neither edge must read the other's: an attempt may still lack either. */
function attemptViews({ starts, ends }: JobRow): object[] {
  const numbers = [...new Set([...starts.keys(), ...ends.keys()])].sort((one, other) => one - other);
  return numbers.map((attempt) => {
    const start = starts.get(attempt);
    const end = ends.get(attempt);
    return {
      attempt,
      worker: start?.worker ?? null,
      started_at: instantOrNull(start?.startedAt),
      ended_at: instantOrNull(end?.endedAt),
      outcome: end?.outcome ?? null,
      error: end?.error ?? null,
    };
  });
}

export function retryView({ kind, baseS, factor, capS, jitter }: RetryPolicy): object {
  return { kind, base_s: baseS, factor, cap_s: capS, jitter };
}

/** What a worker needs to do the job, as JSON text. */
export function claimedJobJson({ job, attempt, leaseUntil, heartbeatS }: ClaimedJob, more: object = {}): string {
  const view = {
    ...more,
    job_id: job.jobId,
    attempt,
    lease_until: formatInstant(leaseUntil),
    heartbeat_s: heartbeatS,
    queue: job.queue,
    priority: job.priority,
    scheduled_for: formatInstant(job.scheduledFor),
    idempotency_key: job.idempotencyKey ?? job.jobId,
    max_attempts: job.maxAttempts,
    timeout_s: job.timeoutS,
    labels: job.labels,
    traceparent: job.traceparent,
  };
  return jsonWithRaw(view, { payload: job.payload });
}

export function instantOrNull(at: EpochMs | null | undefined): string | null {
  return at === null || at === undefined ? null : formatInstant(at);
}

import type { JobStatus, Outcome, Priority } from '../domain/job-status.ts';
import type { EpochMs } from '../domain/time.ts';
import type { JobEnd } from './job-store.ts';

/** One finished job, as audits read it from job_history((queue, hour, stripe), finished_at, job_id). */
export interface FinishedJob {
  readonly jobId: string;
  readonly queue: string;
  readonly priority: Priority;
  readonly finishedAt: EpochMs;
  readonly status: JobStatus;
  readonly outcome: Outcome;
  readonly attempt: number;
  readonly scheduledFor: EpochMs;
  /** Last start minus due time of that start; null for a job that never started. */
  readonly lagMs: number | null;
  readonly error: string | null;
}

export interface DeadLetter {
  readonly jobId: string;
  readonly queue: string;
  readonly deadAt: EpochMs;
  readonly attempt: number;
  readonly reason: string;
  readonly error: string | null;
}

export interface DeadLetterRange {
  readonly queue: string;
  readonly from: EpochMs;
  readonly to: EpochMs;
}

/** Plain idempotent writes: a repeat lands on the same row. Throws StoreError. */
export interface HistoryStore {
  writeFinished(rows: readonly FinishedJob[]): Promise<void>;
  writeDeadLetters(rows: readonly DeadLetter[]): Promise<void>;
  /** Queues that jobs died in on the UTC day that the time lies in. */
  deadLetterQueues(day: EpochMs): Promise<readonly string[]>;
  /** Of the UTC day that `from` lies in, up to `to` (exclusive), in (dead_at, job_id) order, page by page. */
  readDeadLetters(range: DeadLetterRange): AsyncIterable<readonly DeadLetter[]>;
}

/**
 * What a terminal row says of its own end: the same for whoever writes it, so that a repeat lands on the same row.
 * @param last the end of its last attempt, where the row does not hold it yet.
 */
export function finishedJobOf(row: JobEnd, last = row.ends.get(row.attempt)): FinishedJob | null {
  if (row.finishedAt === null) return null;
  // A job cancelled while it waited was ended by no attempt, though one may have failed before.
  const end = last?.endedAt === row.finishedAt ? last : undefined;
  const start = row.starts.get(row.attempt);
  return {
    jobId: row.jobId,
    queue: row.queue,
    priority: row.priority,
    finishedAt: row.finishedAt,
    status: row.status,
    outcome: end?.outcome ?? 'cancelled',
    attempt: row.attempt,
    scheduledFor: row.scheduledFor,
    lagMs: start === undefined ? null : Math.max(0, start.startedAt - row.runAt),
    error: end?.error ?? null,
  };
}

import type { Result } from '../../core/contract/problems.ts';
import type { JobRow, RetryPolicy } from '../../core/domain/job.ts';
import type { Outcome, Priority } from '../../core/domain/job-status.ts';
import type { EpochMs } from '../../core/domain/time.ts';
import type { ReadyConsumer } from '../../core/ports/ready-queue.ts';

/** What the routes ask for: requests already parsed, validated and with defaults filled in. Use-cases never reject for a refusal. */
export interface UseCases {
  createJob(request: CreateJob): Promise<Result<CreatedJob>>;
  getJob(jobId: string): Promise<Result<JobRow>>;
  findJobByKey(owner: string, key: string): Promise<Result<JobRow>>;
  cancelJob(jobId: string): Promise<Result<JobRow>>;
  /** Results in the order of the items; a batch claims, reads and writes grouped by cohort. */
  claimJobs(items: readonly ClaimItem[], worker: string): Promise<readonly Result<ClaimedJob>[]>;
  heartbeatJobs(items: readonly HeartbeatItem[]): Promise<readonly Result<HeartbeatAnswer>[]>;
  completeJobs(items: readonly Report[]): Promise<readonly Result<ReportAnswer>[]>;
  describeQueue(queue: string): Promise<Result<QueueDescription>>;
}

export interface CreateJob {
  readonly owner: string;
  readonly idempotencyKey: string | null;
  /** SHA-256 hex of the request's content (sorted keys, the numbers' own text, delay_s not the computed time). */
  readonly requestHash: string;
  readonly queue: string;
  readonly priority: Priority;
  /** The JSON text exactly as received, or null. */
  readonly payload: string | null;
  readonly payloadBytes: number;
  readonly when: { readonly at: EpochMs } | { readonly delayMs: number };
  readonly maxAttempts: number;
  readonly timeoutS: number;
  readonly leaseS: number;
  readonly retry: RetryPolicy;
  readonly labels: Readonly<Record<string, string>>;
  readonly expiresAt: EpochMs | null;
  readonly traceparent: string | null;
}

export interface CreatedJob {
  readonly job: JobRow;
  /** The key had been used for this very job before: 200 and Idempotency-Replayed instead of 201. */
  readonly replayed: boolean;
}

export interface ClaimItem {
  readonly jobId: string;
  /** The attempt that the ready message names: the number this claim is to get. */
  readonly attempt: number;
  /** The caller's own token, so that a repeat finds its own claim; null: made here. */
  readonly claimId: string | null;
}

export interface ClaimedJob {
  readonly job: JobRow;
  readonly attempt: number;
  /** A lower bound by our own clock; Cassandra's clock decides. */
  readonly leaseUntil: EpochMs;
  readonly heartbeatS: number;
}

export interface HeartbeatItem {
  readonly jobId: string;
  readonly attempt: number;
  readonly progress: string | null;
}

export interface HeartbeatAnswer {
  readonly leaseUntil: EpochMs;
  readonly deadline: EpochMs;
  readonly cancelRequested: boolean;
}

export type Report = { readonly jobId: string; readonly attempt: number } & (
  | { readonly kind: 'succeeded'; readonly result: string | null }
  | {
      readonly kind: 'failed';
      readonly error: string;
      readonly retryable: boolean;
      readonly retryAfterMs: number | null;
    }
);

export interface ReportAnswer {
  readonly outcome: Outcome;
  /** Where the job stands after the report. */
  readonly status: JobRow['status'];
  readonly replayed: boolean;
}

export interface QueueDescription {
  readonly queue: string;
  readonly ready: readonly ReadyConsumer[];
}

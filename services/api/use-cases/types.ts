import type { Result } from '../../core/contract/problems.ts';
import type { BulkOperation, BulkTask } from '../../core/domain/bulk.ts';
import type { JobRow, RetryPolicy } from '../../core/domain/job.ts';
import type { JobStatus, Outcome, Priority } from '../../core/domain/job-status.ts';
import type { JobDefaults, QueueSettings } from '../../core/domain/queue-settings.ts';
import type { EpochMs } from '../../core/domain/time.ts';
import type { JobTerms } from '../../core/ports/job-store.ts';
import type { DeadLetter } from '../../core/ports/history-store.ts';
import type { ReadyConsumer } from '../../core/ports/ready-queue.ts';
import type { IndexPosition } from '../../core/scan/job-index.ts';
import type { KeyedRoute } from './keyed-calls.ts';
import type { QueueCounts } from './queue-counters.ts';
import type { ScheduleUseCases } from './schedule-types.ts';

/** What the routes ask for: requests already parsed, validated and with defaults filled in. Use-cases never reject for a refusal. */
export interface UseCases extends ScheduleUseCases {
  createJob(request: CreateJob): Promise<Result<CreatedJob>>;
  getJob(jobId: string): Promise<Result<JobRow>>;
  findJobByKey(owner: string, key: string): Promise<Result<JobRow>>;
  cancelJob(jobId: string): Promise<Result<JobRow>>;
  /** Results in the order of the items; a batch claims, reads and writes grouped by cohort. */
  claimJobs(items: readonly ClaimItem[], worker: string): Promise<readonly Result<ClaimedJob>[]>;
  heartbeatJobs(items: readonly HeartbeatItem[]): Promise<readonly Result<HeartbeatAnswer>[]>;
  completeJobs(items: readonly Report[]): Promise<readonly Result<ReportAnswer>[]>;
  /** In order; each item stands for itself. A keyed call is exact when repeated: item i gets the same job. */
  createJobs(batch: CreateJobs): Promise<Result<readonly Result<CreatedJob>[]>>;
  /** As cancelJob on a job that waits; a running one is asked to stop (requested: true, answered with 202). */
  requestCancel(jobId: string): Promise<Result<{ readonly job: JobRow; readonly requested: boolean }>>;
  /** PATCH: only while scheduled. A patch of labels or retry merges with what the job has, so the change is asked for by row. */
  changeJob(jobId: string, changeOf: (job: JobRow) => Result<ChangeJob>): Promise<Result<JobRow>>;
  /** Makes a scheduled job due now. */
  runJobNow(jobId: string): Promise<Result<JobRow>>;
  /** Makes a dead job due now, with as many tries again. */
  replayJob(jobId: string, changes: ReplayJob): Promise<Result<JobRow>>;
  /** Gives running attempts back; the tries are not counted. */
  releaseJobs(items: readonly ReleaseItem[]): Promise<readonly Result<ReportAnswer>[]>;
  /** Takes ready jobs and claims them, waiting for the first one; [] when none came. */
  leaseJobs(request: LeaseRequest): Promise<Result<readonly ClaimedJob[]>>;
  /** By run_at, payload left out; a page may be short or empty and still have a next one. */
  listJobs(request: ListJobs): Promise<Result<JobPage>>;
  listDeadLetters(request: ListDeadLetters): Promise<Result<DeadLetterPage>>;
  describeQueue(queue: string): Promise<Result<QueueDescription>>;
  /** Those that somebody configured, and those that have jobs, by name. */
  listQueues(request: ListQueues): Promise<Result<QueuePage>>;
  changeQueue(request: ChangeQueue): Promise<Result<QueueSettings>>;
  pauseQueue(request: PauseQueue): Promise<Result<QueueSettings>>;
  resumeQueue(queue: string): Promise<Result<QueueSettings>>;
  /** What a job gets in this queue where its request names nothing. */
  jobDefaultsOf(queue: string): JobDefaults;
  startOperation(request: StartOperation): Promise<Result<StartedOperation>>;
  /** What an operation would change now, counted for a few seconds at most. */
  dryRun(task: BulkTask): Promise<Result<DryRun>>;
  getOperation(operationId: string): Promise<Result<BulkOperation>>;
  listOperations(request: ListOperations): Promise<Result<OperationPage>>;
  /** It ends within a second or two, wherever it is. */
  stopOperation(operationId: string, owner: string): Promise<Result<BulkOperation>>;
}

export type When = { readonly at: EpochMs } | { readonly delayMs: number };

export interface CreateJob {
  readonly owner: string;
  readonly idempotencyKey: string | null;
  /**
   * SHA-256 hex of the request's content (sorted keys, the numbers' own text, delay_s not the computed time); null without a
   * key: only keyed requests are ever compared.
   */
  readonly requestHash: string | null;
  readonly queue: string;
  readonly priority: Priority;
  /** The JSON text exactly as received, or null. */
  readonly payload: string | null;
  readonly payloadBytes: number;
  readonly when: When;
  /** Moves run_at later by up to this much, always by the same amount for the same job. */
  readonly jitterMs: number;
  readonly maxAttempts: number;
  readonly timeoutS: number;
  readonly leaseS: number;
  readonly retry: RetryPolicy;
  readonly labels: Readonly<Record<string, string>>;
  readonly expiresAt: EpochMs | null;
  /** The schedule whose work it does beside its slots; null: none. */
  readonly scheduleId: string | null;
  readonly traceparent: string | null;
}

export interface CreatedJob {
  readonly job: JobRow;
  /** The key had been used for this very job before: 200 and Idempotency-Replayed instead of 201. */
  readonly replayed: boolean;
}

export interface CreateJobs {
  readonly owner: string;
  /** Covers the whole call; the items' own keys are null then. */
  readonly idempotencyKey: string | null;
  /** Of the whole call's content; null without a key. */
  readonly requestHash: string | null;
  /** An item that was refused already keeps its place. */
  readonly jobs: readonly Result<CreateJob>[];
}

/** Absent: left as it is. Null removes. */
export interface ChangeJob {
  readonly when?: When;
  readonly payload?: { readonly text: string; readonly bytes: number } | null;
  readonly labels?: Readonly<Record<string, string>>;
  readonly maxAttempts?: number;
  readonly timeoutS?: number;
  readonly retry?: RetryPolicy;
  readonly priority?: Priority;
  readonly expiresAt?: EpochMs | null;
}

/** What a replay may change on the dead job. Absent: left as it is. */
export interface ReplayJob extends Pick<ChangeJob, 'payload'> {
  readonly queue?: string;
}

export interface ReleaseItem {
  readonly jobId: string;
  readonly attempt: number;
}

export interface LeaseRequest {
  readonly queue: string;
  /** In the order in which they are taken. */
  readonly priorities: readonly Priority[];
  readonly max: number;
  readonly waitMs: number;
  readonly worker: string;
  /** The caller's own token: claims of this call are marked with it, so that a repeat finds them. */
  readonly claimId: string | null;
  /** The caller hung up: nothing is claimed any more. */
  readonly signal: AbortSignal;
}

export interface ListJobs {
  readonly queue: string;
  readonly from: EpochMs;
  /** Exclusive. */
  readonly to: EpochMs;
  readonly status: JobStatus | null;
  readonly label: { readonly name: string; readonly value: string } | null;
  readonly pageSize: number;
  /** Where the page before ended; null: the first page. */
  readonly after: IndexPosition | null;
}

export interface JobPage {
  readonly jobs: readonly JobRow[];
  readonly next: IndexPosition | null;
}

export interface ListDeadLetters {
  readonly queue: string;
  readonly from: EpochMs;
  /** Exclusive. */
  readonly to: EpochMs;
  readonly label: ListJobs['label'];
  /** A part of the last error. */
  readonly error: string | null;
  readonly pageSize: number;
  readonly after: IndexPosition | null;
}

/** A dead letter, and the job that it is of. */
export interface DeadJob {
  readonly letter: DeadLetter;
  readonly job: JobRow;
}

export interface DeadLetterPage {
  readonly deadJobs: readonly DeadJob[];
  readonly next: IndexPosition | null;
}

export interface StartOperation extends Pick<BulkTask, 'verb' | 'filter' | 'newTime' | 'replayChanges'> {
  readonly owner: string;
  readonly ratePerS: number;
  /** With the route that it came by and the hash of the content; null: unkeyed. */
  readonly key: { readonly text: string; readonly route: KeyedRoute; readonly requestHash: string } | null;
}

export interface StartedOperation {
  readonly operation: BulkOperation;
  readonly replayed: boolean;
}

export interface DryRun {
  readonly matched: number;
  /** Jobs that match and cannot be changed so. */
  readonly refused: number;
  /** Up to where it counted; null: the whole window. */
  readonly reached: EpochMs | null;
  /** The first of those that match. */
  readonly samples: readonly JobRow[];
}

export interface ListOperations {
  readonly pageSize: number;
  readonly after: OperationPosition | null;
}

export interface OperationPosition {
  readonly at: EpochMs;
  readonly operationId: string;
}

export interface OperationPage {
  readonly operations: readonly BulkOperation[];
  readonly next: OperationPosition | null;
}

export interface ClaimItem {
  readonly jobId: string;
  /** The attempt that the ready message names: the number this claim is to get. */
  readonly attempt: number;
  /** The caller's own token, so that a repeat finds its own claim; null: made here. */
  readonly claimId: string | null;
}

export interface ClaimedJob {
  readonly job: JobTerms;
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

export type Report = { readonly jobId: string; readonly attempt: number } & ReportedEnd;

export type ReportedEnd =
  | { readonly kind: 'succeeded'; readonly result: string | null }
  | { readonly kind: 'snoozed'; readonly delayMs: number }
  /** The worker stopped, as it was asked to. */
  | { readonly kind: 'cancelled' }
  | {
      readonly kind: 'failed';
      readonly error: string;
      readonly retryable: boolean;
      readonly retryAfterMs: number | null;
    };

export interface ReportAnswer {
  readonly outcome: Outcome;
  /** Where the job stands after the report. */
  readonly status: JobRow['status'];
  readonly replayed: boolean;
}

export interface CountedQueue {
  readonly settings: QueueSettings;
  readonly counts: QueueCounts;
}

export interface QueueDescription extends CountedQueue {
  readonly ready: readonly ReadyConsumer[];
}

export interface ListQueues {
  readonly pageSize: number;
  /** The last queue of the page before; null: the first page. */
  readonly after: string | null;
}

export interface QueuePage {
  readonly queues: readonly CountedQueue[];
  readonly next: string | null;
}

export interface ChangeQueue {
  readonly queue: string;
  /** What the caller read (If-Match); null: whatever it is now. */
  readonly revision: number | null;
  /** A patch merges with what the queue has, so the change is asked for by what it has. */
  readonly changeOf: (settings: QueueSettings) => Result<QueueSettings>;
}

export interface PauseQueue {
  readonly queue: string;
  readonly reason: string | null;
  readonly until: EpochMs | null;
}

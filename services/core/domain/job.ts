import type { JobStatus, Outcome, Priority } from './job-status.ts';
import type { BulkMarks } from './operation.ts';
import type { OnOverlap } from './schedule.ts';
import type { EpochMs } from './time.ts';

export interface RetryPolicy {
  readonly kind: 'exponential' | 'fixed';
  readonly baseS: number;
  readonly factor: number;
  readonly capS: number;
  readonly jitter: 'equal' | 'full' | 'none';
}

/** The start of an attempt, written in the claim's round. claimId is the claim's own mark: a repeat finds its own claim. */
export interface AttemptStart {
  readonly worker: string;
  readonly claimId: string;
  readonly startedAt: EpochMs;
}

/** The end of an attempt, written in the round that ends it. */
export interface AttemptEnd {
  readonly endedAt: EpochMs;
  readonly outcome: Outcome;
  readonly error: string | null;
}

/** One row of the table `jobs` (schema/cassandra). Times are epoch milliseconds; null is an absent column. */
export interface JobRow {
  readonly cohort: string;
  readonly jobId: string;
  readonly owner: string;
  readonly queue: string;
  readonly priority: Priority;
  /** The JSON text exactly as received; null when the job has none. */
  readonly payload: string | null;
  readonly payloadBytes: number;
  readonly target: string | null;
  readonly labels: Readonly<Record<string, string>>;
  readonly idempotencyKey: string | null;
  readonly runAt: EpochMs;
  /** The time asked for; stable, while runAt moves with retries and clamping. */
  readonly scheduledFor: EpochMs;
  readonly shard: number;
  readonly status: JobStatus;
  /** The fence: +1 per claim, never back. */
  readonly attempt: number;
  /** Counted ends; a replay sets 0. */
  readonly tries: number;
  /** Consecutive lapses. */
  readonly lapses: number;
  /** Claims that were never heard of again and were not counted. */
  readonly lostClaims: number;
  /** Whether the current attempt's worker has been heard of since its claim. */
  readonly heard: boolean;
  readonly maxAttempts: number;
  readonly timeoutS: number;
  readonly leaseS: number;
  readonly retry: RetryPolicy;
  readonly leaseUntil: EpochMs | null;
  readonly deadlineAt: EpochMs | null;
  readonly worker: string | null;
  readonly cancelRequested: boolean;
  readonly lastError: string | null;
  readonly result: string | null;
  readonly progress: string | null;
  readonly reason: string | null;
  /** Whose occurrence it is, or for whom it was run by hand. */
  readonly scheduleId: string | null;
  /** Of an occurrence: its schedule's, when the slot was decided. */
  readonly onOverlap: OnOverlap | null;
  /** Of an occurrence: the one that must have ended before this one starts. */
  readonly waitsFor: string | null;
  /** Of the row that stands for several slots that were not run: the last of them. */
  readonly slotUntil: EpochMs | null;
  readonly traceparent: string | null;
  readonly createToken: string;
  readonly requestHash: string | null;
  readonly expiresAt: EpochMs | null;
  readonly createdAt: EpochMs;
  readonly enqueuedAt: EpochMs | null;
  readonly finishedAt: EpochMs | null;
  /** Of the last bulk operations that moved it. */
  readonly bulkMarks: BulkMarks;
  readonly starts: ReadonlyMap<number, AttemptStart>;
  readonly ends: ReadonlyMap<number, AttemptEnd>;
}

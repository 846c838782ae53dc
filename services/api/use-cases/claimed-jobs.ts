import { LRUCache } from 'lru-cache';
import type { JobRow } from '../../core/domain/job.ts';
import type { EpochMs } from '../../core/domain/time.ts';

/** What this process knows of an attempt it handed out: enough to serve its heartbeats and report without a read. */
export interface ClaimedAttempt {
  readonly job: Pick<
    JobRow,
    'jobId' | 'queue' | 'priority' | 'runAt' | 'scheduledFor' | 'leaseS' | 'timeoutS' | 'onOverlap'
  >;
  readonly startedAt: EpochMs;
  readonly deadlineAt: EpochMs;
}

const KEPT_MAX = 20_000;

/** A bounded memory, never a truth: what is missing is read from the store. */
export class ClaimedJobs {
  readonly #attempts = new LRUCache<string, ClaimedAttempt>({ max: KEPT_MAX });

  remember(row: ClaimedAttempt['job'], attempt: number, startedAt: EpochMs): ClaimedAttempt {
    const { jobId, queue, priority, runAt, scheduledFor, leaseS, timeoutS, onOverlap } = row;
    const claimed: ClaimedAttempt = {
      job: { jobId, queue, priority, runAt, scheduledFor, leaseS, timeoutS, onOverlap },
      startedAt,
      deadlineAt: startedAt + timeoutS * 1000,
    };
    this.#attempts.set(keyOf(jobId, attempt), claimed);
    return claimed;
  }

  find(jobId: string, attempt: number): ClaimedAttempt | undefined {
    return this.#attempts.get(keyOf(jobId, attempt));
  }

  forget(jobId: string, attempt: number): void {
    this.#attempts.delete(keyOf(jobId, attempt));
  }
}

function keyOf(jobId: string, attempt: number): string {
  return `${jobId} ${attempt}`;
}

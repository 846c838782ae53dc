import type { JobRow } from '../core/domain/job.ts';
import { JobStatus } from '../core/domain/job-status.ts';
import { isExpired } from '../core/domain/life-cycle.ts';
import { ABSENT_JOB_GRACE_MS, SECOND_MS } from '../core/domain/limits.ts';
import type { DueEntry } from '../core/domain/operation.ts';
import type { EpochMs } from '../core/domain/time.ts';

/** What to do about a due row, given the job that a read or a lost round found. */
export type DuePlan =
  | { readonly kind: 'enqueue'; readonly attempt: number }
  /** Enqueued already, but perhaps never published: a second message is harmless, a missing one is late. */
  | { readonly kind: 'publish'; readonly attempt: number }
  | { readonly kind: 'look_again'; readonly at: EpochMs }
  /** Past its expires_at: not started any more. */
  | { readonly kind: 'expire'; readonly job: JobRow }
  | { readonly kind: 'settle' };

export interface DueContext {
  readonly now: EpochMs;
  readonly firstSeenAt: EpochMs;
  /** The row's former handler may have died, or lost its answer, between the round and the publish. */
  readonly maybeUnpublished: boolean;
}

/**
 * Rule 4 (design section 6): a row means "by now", so it matches a job with run_at <= the row's; one that matches nothing
 * is dropped, for the job has another timer. A job that is not there yet may still be being written.
 */
export function planDue(due: DueEntry, job: JobRow | null, context: DueContext): DuePlan {
  if (job === null) {
    const waited = context.now - context.firstSeenAt;
    return waited < ABSENT_JOB_GRACE_MS ? { kind: 'look_again', at: context.now + SECOND_MS } : { kind: 'settle' };
  }
  // A replay took it to another queue, with a due row of its own.
  if (job.queue !== due.queue) return { kind: 'settle' };
  if (isExpired(job, context.now)) return { kind: 'expire', job };
  if (job.status === JobStatus.scheduled) {
    return job.runAt <= due.runAt ? { kind: 'enqueue', attempt: job.attempt } : { kind: 'settle' };
  }
  const unclaimed = job.status === JobStatus.enqueued;
  return unclaimed && context.maybeUnpublished ? { kind: 'publish', attempt: job.attempt } : { kind: 'settle' };
}

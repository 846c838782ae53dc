import type { JobRow } from './job.ts';
import { JobStatus } from './job-status.ts';
import { decideChange, decideDiscard, decideReplay } from './life-cycle.ts';
import { BULK_MARKS_KEPT } from './limits.ts';
import type { BulkMarks, Change, Discard, Replay, ReplayChanges, RequestCancel } from './operation.ts';
import type { EpochMs } from './time.ts';

/** What a bulk operation does to each job that its filter names: the same as the call for one job. */
export const BulkVerb = {
  cancel: 'cancel',
  reschedule: 'reschedule',
  run: 'run',
  replay: 'replay',
  discard: 'discard',
} as const;
export type BulkVerb = (typeof BulkVerb)[keyof typeof BulkVerb];

/** Each comment says who moves it on. */
export const BulkStatus = {
  /** The reaper that owns its shard moves it. */
  running: 'running',
  /** Somebody asked it to stop; the reaper ends it. */
  stopping: 'stopping',
  stopped: 'stopped',
  done: 'done',
} as const;
export type BulkStatus = (typeof BulkStatus)[keyof typeof BulkStatus];

export interface BulkFilter {
  readonly queue: string;
  /** By run_at; of a dead job by the time of its death. */
  readonly from: EpochMs;
  /** Exclusive. */
  readonly to: EpochMs;
  readonly status: JobStatus | null;
  readonly label: { readonly name: string; readonly value: string } | null;
  /** A part of the last error. */
  readonly error: string | null;
}

export type NewTime = { readonly at: EpochMs } | { readonly shiftMs: number };

/** What a replay changes on each of the jobs, as that of one job may. */
export type BulkReplayChanges = Omit<ReplayChanges, 'bulkMarks'>;

/** Everything that decides about one job. */
export interface BulkTask {
  readonly operationId: string;
  readonly verb: BulkVerb;
  readonly filter: BulkFilter;
  /** Of a reschedule. */
  readonly newTime: NewTime | null;
  /** Of a replay; null: the jobs stay as they were. */
  readonly replayChanges: BulkReplayChanges | null;
  readonly createdAt: EpochMs;
}

/** The last row of the index that is settled, all before it included. */
export interface BulkPosition {
  readonly at: EpochMs;
  readonly jobId: string;
}

/** One row of the table `operations`. */
export interface BulkOperation extends BulkTask {
  readonly owner: string;
  readonly ratePerS: number;
  readonly status: BulkStatus;
  /** Null before the first row. */
  readonly position: BulkPosition | null;
  readonly changed: number;
  /** Jobs that could not be changed, and why the last of them could not. */
  readonly failed: number;
  readonly lastError: string | null;
  /** Who runs it: whoever starts to writes a token of its own. */
  readonly runner: string | null;
  /** +1 per write. */
  readonly revision: number;
  readonly updatedAt: EpochMs;
  readonly finishedAt: EpochMs | null;
  /** When the row goes. */
  readonly expiresAt: EpochMs;
}

/** The states in which a verb finds jobs to change; a filter may narrow them. */
export const VERB_STATUSES: Readonly<Record<BulkVerb, readonly JobStatus[]>> = {
  cancel: [JobStatus.scheduled, JobStatus.enqueued, JobStatus.running],
  reschedule: [JobStatus.scheduled],
  run: [JobStatus.scheduled],
  replay: [JobStatus.dead],
  discard: [JobStatus.dead],
};

/** Dead jobs are found by their dead letters, all others by their due rows. */
export function seeksDeadJobs(verb: BulkVerb): boolean {
  return verb === BulkVerb.replay || verb === BulkVerb.discard;
}

export function hasEnded({ status }: BulkOperation): boolean {
  return status === BulkStatus.done || status === BulkStatus.stopped;
}

/** A job as a row of the index names it. */
export interface FoundJob {
  /** The row's time. */
  readonly at: EpochMs;
  readonly job: JobRow;
}

export type BulkDecision =
  /** None of the operation's. */
  | { readonly kind: 'leave' }
  /** Changed by the operation already, for this very row of the index, by a run that ended before it could save that. */
  | { readonly kind: 'done' }
  | { readonly kind: 'refuse'; readonly reason: string }
  | { readonly kind: 'cancel'; readonly bulkMarks: BulkMarks }
  | { readonly kind: 'request_cancel'; readonly operation: RequestCancel }
  | { readonly kind: 'move'; readonly operation: Change | Replay }
  | { readonly kind: 'discard'; readonly operation: Discard };

/**
 * What the operation does about a job, each job once whatever runs again: the mark of the operation on the job, written in the
 * round that changes it, tells that it was done and for which row of the index. A job that has moved on meanwhile, and one
 * that died after the operation began, is none of its.
 */
export function decideBulk(task: BulkTask, found: FoundJob, now: EpochMs): BulkDecision {
  const { job } = found;
  const done = job.bulkMarks.find((mark) => mark.startsWith(`${task.operationId}@`));
  if (done !== undefined) return { kind: done === markOf(task, found) ? 'done' : 'leave' };
  if (!standsAt(task, found) || !matches(task, job)) return { kind: 'leave' };
  const bulkMarks = [...job.bulkMarks, markOf(task, found)].slice(-BULK_MARKS_KEPT);
  switch (task.verb) {
    case BulkVerb.cancel:
      return decideCancelling(job, bulkMarks);
    case BulkVerb.run:
      return job.runAt <= now ? { kind: 'leave' } : moved(decideChange(job, { runAt: now, bulkMarks }));
    case BulkVerb.reschedule:
      return decideRescheduling(job, task.newTime, bulkMarks);
    case BulkVerb.replay:
      return moved(decideReplay(job, now, { ...task.replayChanges, bulkMarks }));
    case BulkVerb.discard: {
      const operation = decideDiscard(job, bulkMarks);
      return operation === null ? { kind: 'leave' } : { kind: 'discard', operation };
    }
  }
}

/** The operations whose marks the job bears, the oldest first. */
export function operationIdsOf(marks: BulkMarks): readonly string[] {
  return marks.map((mark) => mark.slice(0, mark.indexOf('@')));
}

function markOf({ operationId }: BulkTask, { at }: FoundJob): string {
  return `${operationId}@${at}`;
}

/** A job leaves rows of the index behind wherever it stood; it stands at one of them. */
function standsAt({ verb, createdAt }: BulkTask, { at, job }: FoundJob): boolean {
  if (!seeksDeadJobs(verb)) return job.runAt === at;
  return job.status === JobStatus.dead && job.finishedAt === at && at <= createdAt;
}

function matches({ verb, filter }: BulkTask, job: JobRow): boolean {
  const { queue, status, label, error } = filter;
  return (
    job.queue === queue &&
    VERB_STATUSES[verb].includes(job.status) &&
    (status === null || job.status === status) &&
    (label === null || job.labels[label.name] === label.value) &&
    (error === null || job.lastError?.includes(error) === true)
  );
}

function decideCancelling(job: JobRow, bulkMarks: BulkMarks): BulkDecision {
  if (job.status !== JobStatus.running) return { kind: 'cancel', bulkMarks };
  if (job.cancelRequested) return { kind: 'leave' };
  const { jobId, attempt } = job;
  return { kind: 'request_cancel', operation: { edge: 'request_cancel', jobId, attempt, bulkMarks } };
}

function decideRescheduling(job: JobRow, newTime: NewTime | null, bulkMarks: BulkMarks): BulkDecision {
  if (newTime === null) return { kind: 'leave' };
  const runAt = 'at' in newTime ? newTime.at : job.runAt + newTime.shiftMs;
  if (job.expiresAt !== null && runAt >= job.expiresAt) {
    return { kind: 'refuse', reason: 'it would be due after its expires_at' };
  }
  return moved(decideChange(job, { runAt, scheduledFor: runAt, bulkMarks }));
}

function moved(operation: Change | Replay | null): BulkDecision {
  return operation === null ? { kind: 'leave' } : { kind: 'move', operation };
}

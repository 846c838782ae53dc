import { backoffMs } from './backoff.ts';
import type { AttemptEnd, JobRow } from './job.ts';
import { isTerminal, JobStatus, Outcome } from './job-status.ts';
import { ENQUEUED_LOOK_MIN_MS, LOST_CLAIMS_MAX } from './limits.ts';
import type {
  BulkMarks,
  CancelWaiting,
  Change,
  ClockCondition,
  Discard,
  EndAttempt,
  JobChanges,
  Replay,
  ReplayChanges,
} from './operation.ts';
import type { EpochMs } from './time.ts';

/**
 * The life cycle as a table: from, event, to, and the timer that is written before the round. It is what ARCHITECTURE.md
 * shows and what the tests walk; services ask the functions below, stores never decide.
 */
export const TRANSITIONS: readonly Transition[] = [
  { from: null, event: 'create', to: 'scheduled', timer: 'due' },
  { from: null, event: 'create_due_now', to: 'enqueued', timer: 'due' },
  { from: 'scheduled', event: 'due', to: 'enqueued', timer: null },
  { from: 'enqueued', event: 'unqueue', to: 'scheduled', timer: 'due' },
  { from: 'scheduled', event: 'cancel', to: 'cancelled', timer: null },
  { from: 'enqueued', event: 'cancel', to: 'cancelled', timer: null },
  { from: 'enqueued', event: 'claim', to: 'running', timer: 'deadline' },
  { from: 'running', event: 'heartbeat', to: 'running', timer: null },
  { from: 'running', event: 'succeed', to: 'succeeded', timer: null },
  { from: 'running', event: 'request_cancel', to: 'running', timer: null },
  { from: 'running', event: 'confirm_cancel', to: 'cancelled', timer: null },
  { from: 'running', event: 'snooze', to: 'scheduled', timer: 'due' },
  { from: 'running', event: 'snooze', to: 'cancelled', timer: null },
  { from: 'running', event: 'release', to: 'enqueued', timer: 'deadline' },
  { from: 'running', event: 'release', to: 'scheduled', timer: 'due' },
  { from: 'running', event: 'release', to: 'cancelled', timer: null },
  { from: 'running', event: 'fail', to: 'scheduled', timer: 'due' },
  { from: 'running', event: 'fail', to: 'dead', timer: 'dead_letter' },
  { from: 'running', event: 'fail', to: 'cancelled', timer: null },
  { from: 'running', event: 'lapse', to: 'enqueued', timer: 'deadline' },
  { from: 'running', event: 'lapse', to: 'scheduled', timer: 'due' },
  { from: 'running', event: 'lapse', to: 'dead', timer: 'dead_letter' },
  { from: 'running', event: 'lapse', to: 'cancelled', timer: null },
  { from: 'scheduled', event: 'expire', to: 'cancelled', timer: null },
  { from: 'enqueued', event: 'expire', to: 'cancelled', timer: null },
  { from: 'scheduled', event: 'change', to: 'scheduled', timer: 'due' },
  { from: 'dead', event: 'replay', to: 'scheduled', timer: 'due' },
  { from: 'dead', event: 'discard', to: 'cancelled', timer: 'deadline' },
  { from: 'succeeded', event: 'remove', to: null, timer: null },
  { from: 'cancelled', event: 'remove', to: null, timer: null },
  { from: 'dead', event: 'remove', to: null, timer: null },
];

export interface Transition {
  readonly from: JobStatus | null;
  readonly event:
    | 'create'
    | 'create_due_now'
    | 'due'
    | 'unqueue'
    | 'cancel'
    | 'expire'
    | 'claim'
    | 'heartbeat'
    | 'succeed'
    | 'fail'
    | 'lapse'
    | 'snooze'
    | 'release'
    | 'request_cancel'
    | 'confirm_cancel'
    | 'change'
    | 'replay'
    | 'discard'
    | 'remove';
  /** Null: there is no row any more. */
  readonly to: JobStatus | null;
  readonly timer: 'due' | 'deadline' | 'dead_letter' | null;
}

/** How an attempt ends: the round to submit, and what has to be written before it. */
export interface AttemptDecision {
  readonly operation: EndAttempt;
  /** Written first. due: at next.runAt. deadline: look again at `at`, the job being published after the round. */
  readonly timer: { readonly kind: 'due' } | { readonly kind: 'deadline'; readonly at: EpochMs } | null;
  readonly deadLetter: 'attempts' | 'not_retryable' | null;
}

export interface FailReport {
  readonly error: string;
  readonly retryable: boolean;
  /** The worker's own wish for the delay, instead of the backoff; null: the backoff. */
  readonly retryAfterMs: number | null;
}

/** A worker reports failure on the running attempt of the row as read. `fraction` is chance for the jitter. */
export function decideFail(row: JobRow, report: FailReport, now: EpochMs, fraction: number): AttemptDecision {
  const tries = row.tries + 1;
  const end: AttemptEnd = { endedAt: now, outcome: Outcome.failed, error: report.error };
  const common = { tries, lapses: 0, lastError: report.error };
  if (row.cancelRequested) return finish(row, 'before_deadline', end, JobStatus.cancelled, 'cancel_requested', common);
  if (!report.retryable) return finish(row, 'before_deadline', end, JobStatus.dead, 'not_retryable', common);
  if (tries >= row.maxAttempts) return finish(row, 'before_deadline', end, JobStatus.dead, 'attempts', common);
  const delayMs = report.retryAfterMs ?? backoffMs(row.retry, tries, fraction);
  return reschedule(row, 'before_deadline', end, now + delayMs, common);
}

/** A worker puts the attempt off: it is not counted, and the job is due again after the delay. */
export function decideSnooze(row: JobRow, delayMs: number, now: EpochMs): AttemptDecision {
  const end: AttemptEnd = { endedAt: now, outcome: Outcome.snoozed, error: null };
  const counters = uncounted(row);
  if (row.cancelRequested)
    return finish(row, 'before_deadline', end, JobStatus.cancelled, 'cancel_requested', counters);
  return reschedule(row, 'before_deadline', end, now + delayMs, counters);
}

/**
 * A worker gives the attempt back at once: it is not counted, and the next worker may take the job, if its queue is open;
 * else the job waits until the queue takes it again.
 */
export function decideRelease(row: JobRow, now: EpochMs, queueIsOpen: boolean): AttemptDecision {
  const end: AttemptEnd = { endedAt: now, outcome: Outcome.released, error: null };
  const counters = uncounted(row);
  if (row.cancelRequested)
    return finish(row, 'before_deadline', end, JobStatus.cancelled, 'cancel_requested', counters);
  return goBack(row, 'before_deadline', end, { now, queueIsOpen }, counters);
}

/** A worker stopped because it was asked to (or on its own authority): the job ends as cancelled. */
export function decideConfirmCancel(row: JobRow, now: EpochMs): AttemptDecision {
  const end: AttemptEnd = { endedAt: now, outcome: Outcome.cancelled, error: null };
  const reason = row.cancelRequested ? 'cancel_requested' : 'cancelled_by_worker';
  return finish(row, 'before_deadline', end, JobStatus.cancelled, reason, uncounted(row));
}

export type LapseKind = 'lease_passed' | 'deadline_passed';

/**
 * The running attempt outlived its lease or its time limit; Cassandra's clock has the last word inside the round. A worker
 * that was never heard of within its lease may never have got its claim's answer: such an end is not counted,
 * LOST_CLAIMS_MAX times; a time limit is always counted, since short ones pass before the first heartbeat is due. The
 * first lapse goes straight back to the queue, later ones in a row wait a backoff, for a job may be killing its workers.
 */
export function decideLapse(
  row: JobRow,
  kind: LapseKind,
  { now, fraction, queueIsOpen }: { readonly now: EpochMs; readonly fraction: number; readonly queueIsOpen: boolean },
): AttemptDecision {
  const timedOut = kind === 'deadline_passed';
  const lostClaim = !timedOut && !row.heard && row.lostClaims < LOST_CLAIMS_MAX;
  const tries = lostClaim ? row.tries : row.tries + 1;
  const error = timedOut ? `ran past timeout_s ${row.timeoutS}` : `no heartbeat within lease_s ${row.leaseS}`;
  const end: AttemptEnd = { endedAt: now, outcome: timedOut ? Outcome.timedOut : Outcome.leaseExpired, error };
  const lapses = row.lapses + 1;
  const common = { tries, lapses, lastError: error, lostClaims: lostClaim ? row.lostClaims + 1 : row.lostClaims };
  if (row.cancelRequested) return finish(row, kind, end, JobStatus.cancelled, 'cancel_requested', common);
  if (tries >= row.maxAttempts) return finish(row, kind, end, JobStatus.dead, 'attempts', common);
  if (lapses > 1) return reschedule(row, kind, end, now + backoffMs(row.retry, lapses - 1, fraction), common);
  return goBack(row, kind, end, { now, queueIsOpen }, common);
}

/** Cancels a job that waits; null when the row is not waiting (the caller answers from its status). */
export function decideCancel(row: JobRow, now: EpochMs, reason: string, bulkMarks?: BulkMarks): CancelWaiting | null {
  if (row.status !== JobStatus.scheduled && row.status !== JobStatus.enqueued) return null;
  return {
    edge: 'cancel',
    jobId: row.jobId,
    expect: { status: row.status, attempt: row.attempt, runAt: row.runAt },
    finishedAt: now,
    reason,
    ...(bulkMarks !== undefined && { bulkMarks }),
  };
}

/** Changes a job that waits for its time; null when the row does not. */
export function decideChange(row: JobRow, changes: JobChanges): Change | null {
  if (row.status !== JobStatus.scheduled) return null;
  return { edge: 'change', jobId: row.jobId, expect: { attempt: row.attempt, runAt: row.runAt }, changes };
}

/** Makes a dead job due at `runAt`, with as many tries again; null when the row is not dead. */
export function decideReplay(row: JobRow, runAt: EpochMs, changes: ReplayChanges): Replay | null {
  const expect = expectDead(row);
  return expect === null ? null : { edge: 'replay', jobId: row.jobId, expect, runAt, changes };
}

/** Gives a dead job up for good; null when the row is not dead. */
export function decideDiscard(row: JobRow, bulkMarks: BulkMarks): Discard | null {
  const expect = expectDead(row);
  return expect === null ? null : { edge: 'discard', jobId: row.jobId, expect, reason: 'discarded', bulkMarks };
}

function expectDead({ status, attempt, runAt, finishedAt }: JobRow): Replay['expect'] | null {
  return status === JobStatus.dead && finishedAt !== null ? { attempt, runAt, finishedAt } : null;
}

/** Whether a job that waits must not be started any more. */
export function isExpired(row: Pick<JobRow, 'status' | 'expiresAt'>, now: EpochMs): boolean {
  const waits = row.status === JobStatus.scheduled || row.status === JobStatus.enqueued;
  return waits && row.expiresAt !== null && row.expiresAt <= now;
}

/** What the reaper does about a job that one of its rows names (design section 8: one rule for all three tables). */
export type SettleDecision =
  /** Nothing to do: the job has its own later timer, or there is none any more. */
  | { readonly kind: 'done' }
  /** Terminal: its history row is written again, so that a crash after the round loses no audit row. */
  | { readonly kind: 'finished' }
  /** Scheduled and overdue: nobody enqueued it. */
  | { readonly kind: 'enqueue' }
  /** Scheduled, and not to start before the occurrence that it waits for has ended. */
  | { readonly kind: 'predecessor' }
  /** Waits for a claim: published again if its message is gone, and looked at again. */
  | { readonly kind: 'waiting'; readonly publishedAt: EpochMs }
  | { readonly kind: 'look_again'; readonly at: EpochMs }
  /** Waits, and must not be started any more. */
  | { readonly kind: 'expire' }
  | { readonly kind: 'lapse'; readonly lapse: LapseKind };

/** @param publishedAt when the row at hand says the message was last published; null: when the job was enqueued. */
export function decideSettle(row: JobRow | null, publishedAt: EpochMs | null, now: EpochMs): SettleDecision {
  if (row === null) return { kind: 'done' };
  if (isTerminal(row.status)) return { kind: 'finished' };
  if (isExpired(row, now)) return { kind: 'expire' };
  switch (row.status) {
    case JobStatus.scheduled:
      if (row.runAt > now) return { kind: 'done' };
      return row.waitsFor === null ? { kind: 'enqueue' } : { kind: 'predecessor' };
    case JobStatus.enqueued:
      return { kind: 'waiting', publishedAt: Math.max(publishedAt ?? 0, row.enqueuedAt ?? row.createdAt) };
    default: {
      const deadlineAt = row.deadlineAt ?? now;
      const leaseUntil = row.leaseUntil ?? now;
      if (deadlineAt <= now) return { kind: 'lapse', lapse: 'deadline_passed' };
      if (leaseUntil <= now) return { kind: 'lapse', lapse: 'lease_passed' };
      return { kind: 'look_again', at: Math.min(leaseUntil, deadlineAt) };
    }
  }
}

/**
 * Straight back to the ready stream, which is published after the round; a deadline row looks after it. What a queue that is
 * held back gets is due now instead, and its turn is the dispatcher's to give.
 */
function goBack(
  row: JobRow,
  clock: ClockCondition,
  end: AttemptEnd,
  { now, queueIsOpen }: { readonly now: EpochMs; readonly queueIsOpen: boolean },
  counters: Counters,
): AttemptDecision {
  if (!queueIsOpen) return reschedule(row, clock, end, now, counters);
  return {
    operation: endAttempt(row, clock, end, {
      ...counters,
      status: JobStatus.enqueued,
      runAt: row.runAt,
      enqueuedAt: now,
    }),
    timer: { kind: 'deadline', at: now + ENQUEUED_LOOK_MIN_MS },
    deadLetter: null,
  };
}

/** The try does not count, and says nothing of whether workers survive the job. */
function uncounted(row: JobRow): Counters {
  return { tries: row.tries, lapses: 0, lastError: row.lastError };
}

type Counters = Pick<EndAttempt['next'], 'tries' | 'lapses' | 'lastError'> & { readonly lostClaims?: number };

function finish(
  row: JobRow,
  clock: ClockCondition,
  end: AttemptEnd,
  status: typeof JobStatus.cancelled | typeof JobStatus.dead,
  reason: 'cancel_requested' | 'cancelled_by_worker' | 'attempts' | 'not_retryable',
  counters: Counters,
): AttemptDecision {
  return {
    operation: endAttempt(row, clock, end, { ...counters, status, runAt: row.runAt, finishedAt: end.endedAt, reason }),
    timer: null,
    deadLetter: reason === 'attempts' || reason === 'not_retryable' ? reason : null,
  };
}

function reschedule(
  row: JobRow,
  clock: ClockCondition,
  end: AttemptEnd,
  runAt: EpochMs,
  counters: Counters,
): AttemptDecision {
  return {
    operation: endAttempt(row, clock, end, { ...counters, status: JobStatus.scheduled, runAt }),
    timer: { kind: 'due' },
    deadLetter: null,
  };
}

function endAttempt(
  row: JobRow,
  clock: ClockCondition,
  end: AttemptEnd,
  next: Pick<EndAttempt['next'], 'status' | 'runAt'> & Counters & Partial<EndAttempt['next']>,
): EndAttempt {
  return {
    edge: 'end_attempt',
    jobId: row.jobId,
    expect: { attempt: row.attempt, runAt: row.runAt, cancelRequested: row.cancelRequested },
    clock,
    end,
    next: {
      lostClaims: row.lostClaims,
      maxAttempts: row.maxAttempts,
      enqueuedAt: null,
      finishedAt: null,
      reason: null,
      ...next,
    },
  };
}

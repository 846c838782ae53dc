import { shardOf } from './ids.ts';
import { hasEnded, type BulkOperation } from './bulk.ts';
import type { JobRow } from './job.ts';
import { isTerminal, JobStatus, Outcome } from './job-status.ts';
import { ATTEMPTS_KEPT, DAY_MS, REWRITE_AHEAD_MS } from './limits.ts';
import type { DeadlineEntry, DueEntry } from './operation.ts';
import type { RetentionTerms } from './queue-settings.ts';
import { wakeUpAt, wakeUpRow } from './schedule-plan.ts';
import type { ScheduleRow } from './schedule.ts';
import type { EpochMs } from './time.ts';
import type { Timetable } from './timetable.ts';

// What fsck holds the stored rows to: the timer invariant (design section 6), and that history agrees with status.

/** A row of `jobs` as fsck reads it: the whole ring is paged, so the payloads stay where they are. */
export type CheckedJob = Omit<JobRow, 'payload'>;

/** What fsck finds; each comment says what comes of it. */
export const Damage = {
  /** Nobody will look at the job again: it never runs. */
  jobWithoutTimer: 'job_without_timer',
  /** The schedule never fires again. */
  scheduleWithoutWakeUp: 'schedule_without_wake_up',
  /** The bulk operation never goes on. */
  operationWithoutTimer: 'operation_without_timer',
  /** Its shard is one that nobody scans. */
  shardUnread: 'shard_unread',
  /** An audit of the row tells something that its status denies. */
  historyAgainstStatus: 'history_against_status',
  /** An audit by time does not find the end of the job. */
  endNotRecorded: 'end_not_recorded',
  /** A list of dead letters does not find the dead job. */
  deadLetterMissing: 'dead_letter_missing',
  /** The schedule has slots to come, and no next one. */
  scheduleEndedEarly: 'schedule_ended_early',
  /** The schedule names an occurrence that is not there. */
  occurrenceMissing: 'occurrence_missing',
} as const;
export type Damage = (typeof Damage)[keyof typeof Damage];

/** A timer that puts it right: whoever reads it does the rest. */
export type Repair =
  { readonly table: 'due'; readonly entry: DueEntry } | { readonly table: 'deadlines'; readonly entry: DeadlineEntry };

export interface Finding {
  readonly damage: Damage;
  /** The job, schedule or operation. */
  readonly subject: string;
  readonly shard: number;
  readonly detail: string;
  /** Null: no timer helps, a person must look. */
  readonly repair: Repair | null;
}

/** What a timer must be like for somebody to look at its subject in time. */
export interface TimerNeed {
  readonly id: string;
  readonly shard: number;
  /** A row means "by now": one before this time matches nothing when it is read. */
  readonly notBefore: EpochMs;
  /** Where its due row stands if it never moved; null: it has none of its own. */
  readonly dueAt: EpochMs | null;
  /** Whose held rows count as well; null: none do. */
  readonly heldQueue: string | null;
}

/** How far the last readers of a shard's timer tables are: rows before are read by nobody. */
export interface LastReaders {
  readonly due: EpochMs;
  readonly deadlines: EpochMs;
}

export function servesNeed(need: TimerNeed, at: EpochMs, readTo: EpochMs): boolean {
  return at >= need.notBefore && at >= readTo;
}

/** Null: the job is over. */
export function needOfJob(job: CheckedJob): TimerNeed | null {
  const { jobId: id, shard, status, runAt, queue } = job;
  if (isTerminal(status)) return null;
  if (status !== JobStatus.scheduled) return { id, shard, notBefore: 0, dueAt: runAt, heldQueue: null };
  return { id, shard, notBefore: runAt, dueAt: runAt, heldQueue: queue };
}

/** The timer by which the end of a finished job is still going to be recorded (settle writes it again). */
export function needOfRecord({ jobId: id, shard, runAt, status }: CheckedJob): TimerNeed {
  // Only of a cancelled job does settle write the history from a due row: no claim's deadline row may be left of it.
  const dueAt = status === JobStatus.cancelled ? runAt : null;
  return { id, shard, notBefore: 0, dueAt, heldQueue: null };
}

/** Null: there is nothing to wake it for before somebody changes it. */
export function needOfSchedule(row: ScheduleRow): TimerNeed | null {
  const at = wakeUpAt(row);
  return at === null ? null : { id: row.scheduleId, shard: row.shard, notBefore: at, dueAt: at, heldQueue: null };
}

/** Null: the operation is over. */
export function needOfOperation(operation: BulkOperation, shards: number): TimerNeed | null {
  if (hasEnded(operation)) return null;
  const { operationId: id } = operation;
  return { id, shard: shardOf(id, shards), notBefore: 0, dueAt: null, heldQueue: null };
}

/** A job that waits for its time alone goes back to the dispatcher, any other to the reaper, which settles it. */
export function repairOfJob(job: CheckedJob, now: EpochMs): Repair {
  const { jobId, shard, queue, priority, attempt, runAt, status, waitsFor } = job;
  if (status !== JobStatus.scheduled) return lookSoon(jobId, shard, now);
  if (waitsFor !== null) return lookSoon(jobId, shard, Math.max(runAt, now));
  const entry = { jobId, shard, queue, priority, attempt, runAt: Math.max(runAt, now), direct: false };
  return { table: 'due', entry };
}

/** The reaper settles it: the end of a finished job is recorded then, an operation goes on. */
export function lookSoon(id: string, shard: number, now: EpochMs): Repair {
  return { table: 'deadlines', entry: { jobId: id, shard, at: now + REWRITE_AHEAD_MS, publishedAt: null } };
}

export function repairOfSchedule(row: ScheduleRow, now: EpochMs): Repair {
  return { table: 'due', entry: wakeUpRow(row, Math.max(wakeUpAt(row) ?? now, now)) };
}

/** Rows are kept for their queue's retention; near its end nobody can tell whether one is gone or was never written. */
const RECORD_SLACK_MS = DAY_MS;

function isKept(at: EpochMs | null, days: number, now: EpochMs): boolean {
  return at !== null && at > now - (days * DAY_MS - RECORD_SLACK_MS);
}

/** Whether the end of the job must stand in job_history, if no timer will still see to it. */
export function owesRecord(
  { status, finishedAt }: CheckedJob,
  { finishedDays }: RetentionTerms,
  now: EpochMs,
): boolean {
  return isTerminal(status) && isKept(finishedAt, finishedDays, now);
}

/** Whether a dead letter must stand for the job: it is written before the job dies. */
export function owesDeadLetter(
  { status, finishedAt }: CheckedJob,
  { deadDays }: RetentionTerms,
  now: EpochMs,
): boolean {
  return status === JobStatus.dead && isKept(finishedAt, deadDays, now);
}

/** Everything that the row says of itself and that cannot be. Empty: it agrees with itself. */
export function historyFaults(job: CheckedJob): readonly string[] {
  return [...attemptFaults(job), ...endFaults(job), ...stateFaults(job)];
}

/** Every attempt began, and all but the running one have ended. */
function attemptFaults({ attempt, starts, ends, status }: CheckedJob): string[] {
  const faults: string[] = [];
  for (let number = Math.max(1, attempt - ATTEMPTS_KEPT + 1); number <= attempt; number += 1) {
    const isRunning = number === attempt && status === JobStatus.running;
    if (!starts.has(number)) faults.push(`attempt ${number} has no start`);
    if (isRunning && ends.has(number)) faults.push(`attempt ${number} is running and has ended`);
    if (!isRunning && !ends.has(number)) faults.push(`attempt ${number} has no end`);
  }
  for (const number of new Set([...starts.keys(), ...ends.keys()])) {
    if (number > attempt || number < 1) faults.push(`there is an attempt ${number} beyond ${attempt}`);
  }
  return faults;
}

function endFaults({ attempt, ends, status }: CheckedJob): string[] {
  const accepted = [...ends].filter(([, { outcome }]) => outcome === Outcome.succeeded).map(([number]) => number);
  if (accepted.length > 1) return [`attempts ${accepted.join(' and ')} all succeeded`];
  const last = ends.get(attempt)?.outcome;
  if (status === JobStatus.succeeded && last !== Outcome.succeeded) return ['succeeded, and its last attempt did not'];
  if (status !== JobStatus.succeeded && accepted.length > 0)
    return [`attempt ${accepted[0] ?? ''} succeeded, the job did not`];
  if (status === JobStatus.dead && last !== undefined && !DEADLY.has(last))
    return [`dead, and its last attempt ${last}`];
  return [];
}

const DEADLY: ReadonlySet<Outcome> = new Set([Outcome.failed, Outcome.leaseExpired, Outcome.timedOut]);

function stateFaults(job: CheckedJob): string[] {
  const { status, finishedAt, leaseUntil, deadlineAt, worker, enqueuedAt } = job;
  const faults: string[] = [];
  if (isTerminal(status) !== (finishedAt !== null)) {
    faults.push(finishedAt === null ? 'over, without finished_at' : 'not over, and has a finished_at');
  }
  const isRunning = status === JobStatus.running;
  for (const [name, value] of Object.entries({ lease_until: leaseUntil, deadline_at: deadlineAt, worker })) {
    if (isRunning !== (value !== null))
      faults.push(isRunning ? `running, without ${name}` : `not running, and has a ${name}`);
  }
  if (status === JobStatus.enqueued && enqueuedAt === null) faults.push('enqueued, without enqueued_at');
  return faults;
}

/** Whether the schedule says that no slot follows, although its timetable names one. */
export function endedEarly(row: ScheduleRow, timetable: Timetable, now: EpochMs): boolean {
  if (row.nextRunAt !== null) return false;
  if (row.maxRuns !== null && row.runs >= row.maxRuns) return false;
  return timetable.next(Math.max(now, row.lastSlot ?? now)) !== null;
}

/** The occurrences that a schedule names and that must be there still, however they ended. */
export function namedOccurrences(
  { lastSlot, lastJobId }: ScheduleRow,
  { finishedDays, deadDays }: RetentionTerms,
  now: EpochMs,
): readonly string[] {
  return lastJobId !== null && isKept(lastSlot, Math.min(finishedDays, deadDays), now) ? [lastJobId] : [];
}

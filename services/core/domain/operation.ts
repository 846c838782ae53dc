import { ATTEMPTS_KEPT } from './limits.ts';
import type { AttemptEnd, JobRow, RetryPolicy } from './job.ts';
import { JobStatus, type Priority } from './job-status.ts';
import type { EpochMs } from './time.ts';

/**
 * The conditional writes of the table `jobs`: each is one edge of the life cycle (design section 6). Conditions are
 * positive only (`!=` and `= null` succeed on an absent row and make a zombie) and name what the caller knows, so that the
 * hot edges need no read before their round.
 */
export type Operation =
  | Create
  | Enqueue
  | Unqueue
  | Claim
  | Heartbeat
  | Succeed
  | EndAttempt
  | CancelWaiting
  | RequestCancel
  | Change
  | Replay
  | Discard
  | Remove;
export type Edge = Operation['edge'];

export interface Create {
  readonly edge: 'create';
  readonly jobId: string;
  readonly job: JobRow;
}

/** scheduled -> enqueued. A due row means "by now": the job matches with run_at <= the row's. */
export interface Enqueue {
  readonly edge: 'enqueue';
  readonly jobId: string;
  /** Whose ready message is to follow: a replay may have taken the job to another queue since the row was written. */
  readonly queue: string;
  readonly runAtMost: EpochMs;
  readonly attempt: number;
  readonly enqueuedAt: EpochMs;
}

/**
 * enqueued -> scheduled, its time as it was: its queue does not let it start (paused, at its limit, over its rate). The attempt
 * stands, so a message of it that is left is no other.
 */
export interface Unqueue {
  readonly edge: 'unqueue';
  readonly jobId: string;
  readonly attempt: number;
  /** Only this very time that the job was enqueued is taken back; null: any. */
  readonly enqueuedAt: EpochMs | null;
}

/** enqueued -> running as attempt + 1. Cassandra's clock sets lease_until and deadline_at. */
export interface Claim {
  readonly edge: 'claim';
  readonly jobId: string;
  /** The job's attempt before this claim. */
  readonly attempt: number;
  /** Where the claim is only for this very time that the job was enqueued; null: for any. */
  readonly enqueuedAt: EpochMs | null;
  readonly worker: string;
  readonly claimId: string;
  readonly startedAt: EpochMs;
  readonly leaseMs: number;
  readonly timeoutMs: number;
}

/** running -> running: lease_until moves later by Cassandra's clock, never back. */
export interface Heartbeat {
  readonly edge: 'heartbeat';
  readonly jobId: string;
  readonly attempt: number;
  readonly cancelRequested: boolean;
  readonly leaseMs: number;
  readonly progress: string | undefined;
}

/** running -> succeeded; names no cancel_requested, since success wins. */
export interface Succeed {
  readonly edge: 'succeed';
  readonly jobId: string;
  readonly attempt: number;
  readonly end: AttemptEnd;
  readonly result: string | undefined;
}

/** What Cassandra's clock must say, inside the round, for an attempt to end this way. */
export type ClockCondition = 'before_deadline' | 'lease_passed' | 'deadline_passed';

/** running -> whatever decide() computed from the row as read: fail, snooze, release, lapse, time-out, cancelled. */
export interface EndAttempt {
  readonly edge: 'end_attempt';
  readonly jobId: string;
  readonly expect: { readonly attempt: number; readonly runAt: EpochMs; readonly cancelRequested: boolean };
  readonly clock: ClockCondition;
  readonly end: AttemptEnd;
  readonly next: {
    readonly status: JobStatus;
    readonly runAt: EpochMs;
    readonly tries: number;
    readonly lapses: number;
    readonly lostClaims: number;
    readonly maxAttempts: number;
    readonly lastError: string | null;
    readonly enqueuedAt: EpochMs | null;
    readonly finishedAt: EpochMs | null;
    readonly reason: string | null;
  };
}

/** scheduled or enqueued -> cancelled. */
export interface CancelWaiting {
  readonly edge: 'cancel';
  readonly jobId: string;
  readonly expect: {
    readonly status: typeof JobStatus.scheduled | typeof JobStatus.enqueued;
    readonly attempt: number;
    readonly runAt: EpochMs;
  };
  readonly finishedAt: EpochMs;
  readonly reason: string;
  readonly bulkMarks?: BulkMarks;
}

/** running -> running: the worker is asked to stop; its next report, lapse or snooze ends the job as cancelled. */
export interface RequestCancel {
  readonly edge: 'request_cancel';
  readonly jobId: string;
  readonly attempt: number;
  readonly bulkMarks?: BulkMarks;
}

/** What a PATCH or a run now may change on a job that waits for its time. Absent: left as it is. */
export interface JobChanges {
  readonly runAt?: EpochMs;
  readonly scheduledFor?: EpochMs;
  readonly payload?: string | null;
  readonly payloadBytes?: number;
  readonly labels?: Readonly<Record<string, string>>;
  readonly maxAttempts?: number;
  readonly timeoutS?: number;
  readonly retry?: RetryPolicy;
  readonly priority?: Priority;
  readonly expiresAt?: EpochMs | null;
  readonly bulkMarks?: BulkMarks;
}

/** scheduled -> scheduled. Its due row is written first when runAt changes. */
export interface Change {
  readonly edge: 'change';
  readonly jobId: string;
  readonly expect: { readonly attempt: number; readonly runAt: EpochMs };
  readonly changes: JobChanges;
}

/** What a replay may change on the dead job. Absent: left as it is. */
export type ReplayChanges = Pick<JobChanges, 'payload' | 'payloadBytes' | 'bulkMarks'> & { readonly queue?: string };

/** The death that the caller saw: one that came later is another. */
export interface ExpectDead {
  readonly attempt: number;
  readonly runAt: EpochMs;
  readonly finishedAt: EpochMs;
}

/** dead -> scheduled, with as many tries again. Its due row, under the queue it goes to, is written first. */
export interface Replay {
  readonly edge: 'replay';
  readonly jobId: string;
  readonly expect: ExpectDead;
  readonly runAt: EpochMs;
  readonly changes: ReplayChanges;
}

/** dead -> cancelled: nobody will replay it. finished_at stays, so that its history stays one row. */
export interface Discard {
  readonly edge: 'discard';
  readonly jobId: string;
  readonly expect: ExpectDead;
  readonly reason: string;
  readonly bulkMarks: BulkMarks;
}

/** Over -> no row: its retention is past. */
export interface Remove {
  readonly edge: 'remove';
  readonly jobId: string;
  /** The end that the caller saw: one after a replay is another. */
  readonly expect: { readonly status: JobStatus; readonly finishedAt: EpochMs };
}

/** The bulk operations that moved the job, one text each, the oldest first. */
export type BulkMarks = readonly string[];

/** The columns that conditions name: what a failed batch returns for each of its rows that exists. */
export type ConditionColumns = Partial<
  Pick<
    JobRow,
    | 'status'
    | 'queue'
    | 'attempt'
    | 'runAt'
    | 'cancelRequested'
    | 'leaseUntil'
    | 'deadlineAt'
    | 'enqueuedAt'
    | 'finishedAt'
  >
>;

/** `clock` = everything but the server's clock agrees, and only the server can judge its clock. */
export type ConditionVerdict = 'holds' | 'fails' | 'clock';

/** Judges an operation's own condition on the columns that a failed batch returned (undefined: the row is absent). */
export function judgeCondition(operation: Operation, row: ConditionColumns | undefined): ConditionVerdict {
  if (operation.edge === 'create') return row === undefined ? 'holds' : 'fails';
  if (row === undefined) return 'fails';
  switch (operation.edge) {
    case 'enqueue':
      return verdict(
        row.status === JobStatus.scheduled &&
          row.queue === operation.queue &&
          row.attempt === operation.attempt &&
          row.runAt !== undefined &&
          row.runAt <= operation.runAtMost,
      );
    case 'unqueue':
    case 'claim':
      return verdict(
        row.status === JobStatus.enqueued &&
          row.attempt === operation.attempt &&
          (operation.enqueuedAt === null || row.enqueuedAt === operation.enqueuedAt),
      );
    case 'heartbeat':
      return clockVerdict(
        row.status === JobStatus.running &&
          row.attempt === operation.attempt &&
          row.cancelRequested === operation.cancelRequested,
      );
    case 'succeed':
      return clockVerdict(row.status === JobStatus.running && row.attempt === operation.attempt);
    case 'end_attempt':
      return clockVerdict(
        row.status === JobStatus.running &&
          row.attempt === operation.expect.attempt &&
          row.runAt === operation.expect.runAt &&
          row.cancelRequested === operation.expect.cancelRequested,
      );
    case 'cancel':
      return verdict(
        row.status === operation.expect.status &&
          row.attempt === operation.expect.attempt &&
          row.runAt === operation.expect.runAt,
      );
    case 'request_cancel':
      return verdict(row.status === JobStatus.running && row.attempt === operation.attempt);
    case 'change':
      return verdict(
        row.status === JobStatus.scheduled &&
          row.attempt === operation.expect.attempt &&
          row.runAt === operation.expect.runAt,
      );
    case 'replay':
    case 'discard':
      return verdict(
        row.status === JobStatus.dead &&
          row.attempt === operation.expect.attempt &&
          row.runAt === operation.expect.runAt &&
          row.finishedAt === operation.expect.finishedAt,
      );
    case 'remove':
      return verdict(row.status === operation.expect.status && row.finishedAt === operation.expect.finishedAt);
  }
}

/** Whether the row bears the operation's own mark: an "applied, then timed out" is settled by it. */
export function bearsMark(operation: Operation, row: JobRow | undefined): boolean {
  if (row === undefined) return false;
  switch (operation.edge) {
    case 'create':
      return row.createToken === operation.job.createToken;
    case 'enqueue':
      return (
        row.enqueuedAt === operation.enqueuedAt &&
        row.attempt === operation.attempt &&
        row.status !== JobStatus.scheduled
      );
    case 'unqueue':
      // Whoever did it: it waits for its dispatcher.
      return row.status === JobStatus.scheduled && row.attempt === operation.attempt;
    case 'claim': {
      const start = row.starts.get(operation.attempt + 1);
      return start !== undefined && start.claimId === operation.claimId;
    }
    case 'heartbeat':
      // It leaves none, and needs none: issued again it applies again, or is judged by the row as it is by then.
      return false;
    case 'succeed':
      return sameEnd(row.ends.get(operation.attempt), operation.end);
    case 'end_attempt':
      return sameEnd(row.ends.get(operation.expect.attempt), operation.end);
    case 'cancel':
      return (
        row.status === JobStatus.cancelled &&
        row.finishedAt === operation.finishedAt &&
        bearsBulkMark(operation.bulkMarks, row)
      );
    case 'request_cancel':
      // Whoever asked: the worker is told once.
      return row.attempt === operation.attempt && row.cancelRequested && bearsBulkMark(operation.bulkMarks, row);
    case 'change':
      return bearsChanges(operation.changes, row);
    case 'replay':
      // The job keeps our run_at until its next attempt ends.
      return (
        row.status !== JobStatus.dead &&
        row.runAt === operation.runAt &&
        bearsBulkMark(operation.changes.bulkMarks, row)
      );
    case 'discard':
      return row.status === JobStatus.cancelled && bearsBulkMark(operation.bulkMarks, row);
    case 'remove':
      // A row that is there was not removed; one that is not tells by its absence.
      return false;
  }
}

/** The entry that falls out of the bounded history when attempt n is written. */
export function forgottenAttempt(attempt: number): number {
  return attempt - ATTEMPTS_KEPT;
}

/** Bytes that the operation adds to a round, near enough to keep a round below its bound. */
export function operationBytes(operation: Operation): number {
  const fixed = 200;
  switch (operation.edge) {
    case 'create':
      return fixed + 600 + operation.job.payloadBytes;
    case 'heartbeat':
      return fixed + (operation.progress?.length ?? 0);
    case 'succeed':
      return fixed + (operation.result?.length ?? 0);
    case 'end_attempt':
      return fixed + 2 * (operation.end.error?.length ?? 0);
    case 'change':
      return fixed + 600 + (operation.changes.payloadBytes ?? 0);
    case 'replay':
      return fixed + 300 + (operation.changes.payloadBytes ?? 0);
    case 'enqueue':
    case 'unqueue':
    case 'claim':
    case 'cancel':
    case 'request_cancel':
    case 'discard':
    case 'remove':
      return fixed;
  }
}

/** Several bulk operations may do the same to a job in the same millisecond. */
function bearsBulkMark(marks: BulkMarks | undefined, row: JobRow): boolean {
  const own = marks?.at(-1);
  return own === undefined || row.bulkMarks.includes(own);
}

/** A row that says all that we asked for is as good as changed by us. */
function bearsChanges(changes: JobChanges, row: JobRow): boolean {
  return (Object.keys(changes) as (keyof JobChanges)[]).every(
    (name) => changes[name] === undefined || sameValue(changes[name], row[name]),
  );
}

/** Of plain values and flat objects, such as labels and a retry policy. */
function sameValue(one: unknown, other: unknown): boolean {
  if (typeof one !== 'object' || typeof other !== 'object' || one === null || other === null) return one === other;
  const names = Object.keys(one);
  return (
    names.length === Object.keys(other).length &&
    names.every((name) => (one as Record<string, unknown>)[name] === (other as Record<string, unknown>)[name])
  );
}

function verdict(holds: boolean): ConditionVerdict {
  return holds ? 'holds' : 'fails';
}

function clockVerdict(restHolds: boolean): ConditionVerdict {
  return restHolds ? 'clock' : 'fails';
}

function sameEnd(found: AttemptEnd | undefined, ours: AttemptEnd): boolean {
  return (
    found !== undefined &&
    found.endedAt === ours.endedAt &&
    found.outcome === ours.outcome &&
    // Stored as UTF-8, which half a surrogate pair does not survive.
    found.error === (ours.error?.toWellFormed() ?? null)
  );
}

/** What a due row and its hint carry besides their key: enough to enqueue and publish without reading the job. */
export interface DueEntry {
  readonly jobId: string;
  readonly shard: number;
  readonly runAt: EpochMs;
  readonly queue: string;
  readonly priority: Priority;
  /** The job's attempt when the row was written; the ready message carries attempt + 1. */
  readonly attempt: number;
  /** The creator publishes the ready message itself (fast path): only the second look needs the row. */
  readonly direct: boolean;
}

/** "Look at this job again at `at`." */
export interface DeadlineEntry {
  readonly jobId: string;
  readonly shard: number;
  readonly at: EpochMs;
  /** When the job's ready message was last published, where it waits for a claim. */
  readonly publishedAt: EpochMs | null;
}

import { types } from 'cassandra-driver';
import {
  forgottenAttempt,
  type CancelWaiting,
  type Change,
  type Claim,
  type ClockCondition,
  type Create,
  type Discard,
  type EndAttempt,
  type Enqueue,
  type ExpectDead,
  type Heartbeat,
  type Operation,
  type Remove,
  type Replay,
  type RequestCancel,
  type Succeed,
  type Unqueue,
} from '../../domain/operation.ts';
import { cohortOf } from '../../domain/ids.ts';
import {
  END_COLUMNS,
  encodeEnd,
  encodeJob,
  encodeRetry,
  encodeStart,
  JOB_COLUMNS,
  mapOrUnset,
  PLAIN_JOB_COLUMNS,
  STATE_COLUMNS,
  TERMS_COLUMNS,
  timestamp,
} from '../row-codec.ts';
import type { Bound } from '../statement.ts';
import { memberReads, readMembers } from './member-reads.ts';

// The table `jobs`: LWT only, LOCAL_QUORUM with LOCAL_SERIAL, never re-sent by the driver (session.conditional). Facts probed
// on Cassandra 5.0.8, alone and in batches: durations add to toTimestamp(now()) only with the cast; a condition may compare a
// column with such a sum, but not a function with a value; unset values leave cells alone, null in a map takes an entry out.

function createCql(columns: readonly string[]): string {
  return `INSERT INTO jobs (${columns.join(', ')}) VALUES (${columns.map(() => '?').join(', ')}) IF NOT EXISTS`;
}

const CREATE = createCql(JOB_COLUMNS);
const CREATE_PLAIN = createCql(PLAIN_JOB_COLUMNS);

const ENQUEUE = `
  UPDATE jobs SET status = 'enqueued', enqueued_at = ?
  WHERE cohort = ? AND job_id = ?
  IF status = 'scheduled' AND queue = ? AND attempt = ? AND run_at <= ?`;

const UNQUEUE = `
  UPDATE jobs SET status = 'scheduled', enqueued_at = null
  WHERE cohort = ? AND job_id = ?
  IF status = 'enqueued' AND attempt = ?`;
/** Where a round is only for the very time that the job was enqueued when it was looked at. */
const OF_THIS_TIME = ' AND enqueued_at = ?';
const UNQUEUE_OF_THIS_TIME = `${UNQUEUE}${OF_THIS_TIME}`;

function claimCql(history: string): string {
  return `
  UPDATE jobs SET status = 'running', attempt = ?, worker = ?, heard = false,
    lease_until = toTimestamp(now()) + (duration)?, deadline_at = toTimestamp(now()) + (duration)?,
    ${history}
  WHERE cohort = ? AND job_id = ?
  IF status = 'enqueued' AND attempt = ?`;
}

const CLAIM = claimCql('starts[?] = ?');
/** Once an attempt is old enough to fall out of the history. */
const CLAIM_AND_FORGET = claimCql('starts[?] = ?, starts[?] = null, ends[?] = null');
const CLAIM_OF_THIS_TIME = `${CLAIM}${OF_THIS_TIME}`;
const CLAIM_OF_THIS_TIME_AND_FORGET = `${CLAIM_AND_FORGET}${OF_THIS_TIME}`;

/**
 * `<=`: two heartbeats of one millisecond both apply, and the lease moves back with neither. Past its time limit an attempt
 * is not kept alive.
 */
const HEARTBEAT = `
  UPDATE jobs SET lease_until = toTimestamp(now()) + (duration)?, heard = true, progress = ?
  WHERE cohort = ? AND job_id = ?
  IF status = 'running' AND attempt = ? AND cancel_requested = ? AND lease_until <= toTimestamp(now()) + (duration)?
    AND deadline_at > toTimestamp(now())`;

const SUCCEED = `
  UPDATE jobs SET status = 'succeeded', finished_at = ?, result = ?, heard = true,
    lease_until = null, deadline_at = null, worker = null, ends[?] = ?
  WHERE cohort = ? AND job_id = ?
  IF status = 'running' AND attempt = ? AND deadline_at > toTimestamp(now())`;

const CLOCK_CONDITIONS: Record<ClockCondition, string> = {
  before_deadline: 'deadline_at > toTimestamp(now())',
  lease_passed: 'lease_until <= toTimestamp(now())',
  deadline_passed: 'deadline_at <= toTimestamp(now())',
};

function endAttemptCql(clock: ClockCondition): string {
  return `
  UPDATE jobs SET status = ?, run_at = ?, tries = ?, lapses = ?, lost_claims = ?, max_attempts = ?, last_error = ?,
    enqueued_at = ?, finished_at = ?, reason = ?,
    lease_until = null, deadline_at = null, worker = null, ends[?] = ?
  WHERE cohort = ? AND job_id = ?
  IF status = 'running' AND attempt = ? AND run_at = ? AND cancel_requested = ? AND ${CLOCK_CONDITIONS[clock]}`;
}

const END_ATTEMPT: Record<ClockCondition, string> = {
  before_deadline: endAttemptCql('before_deadline'),
  lease_passed: endAttemptCql('lease_passed'),
  deadline_passed: endAttemptCql('deadline_passed'),
};

const CANCEL_WAITING = `
  UPDATE jobs SET status = 'cancelled', finished_at = ?, reason = ?, bulk_marks = ?
  WHERE cohort = ? AND job_id = ?
  IF status = ? AND attempt = ? AND run_at = ?`;

const REQUEST_CANCEL = `
  UPDATE jobs SET cancel_requested = true, bulk_marks = ?
  WHERE cohort = ? AND job_id = ?
  IF status = 'running' AND attempt = ?`;

/** What is not to be changed stays unset. */
const CHANGE = `
  UPDATE jobs SET run_at = ?, scheduled_for = ?, payload = ?, payload_bytes = ?, labels = ?, max_attempts = ?,
    timeout_s = ?, retry = ?, priority = ?, expires_at = ?, bulk_marks = ?
  WHERE cohort = ? AND job_id = ?
  IF status = 'scheduled' AND attempt = ? AND run_at = ?`;

const REPLAY = `
  UPDATE jobs SET status = 'scheduled', run_at = ?, tries = 0, lapses = 0, lost_claims = 0, finished_at = null,
    reason = null, payload = ?, payload_bytes = ?, queue = ?, bulk_marks = ?
  WHERE cohort = ? AND job_id = ?
  IF status = 'dead' AND attempt = ? AND run_at = ? AND finished_at = ?`;

const DISCARD = `
  UPDATE jobs SET status = 'cancelled', reason = ?, bulk_marks = ?
  WHERE cohort = ? AND job_id = ?
  IF status = 'dead' AND attempt = ? AND run_at = ? AND finished_at = ?`;

const REMOVE = `
  DELETE FROM jobs
  WHERE cohort = ? AND job_id = ?
  IF status = ? AND finished_at = ?`;

const READ_JOBS = memberReads('jobs', 'job_id', JOB_COLUMNS);
const READ_TERMS = memberReads('jobs', 'job_id', TERMS_COLUMNS);
const READ_ENDS = memberReads('jobs', 'job_id', END_COLUMNS);
const READ_STATES = memberReads('jobs', 'job_id', STATE_COLUMNS);

export const JOB_STATEMENTS: readonly string[] = [
  CREATE,
  CREATE_PLAIN,
  ENQUEUE,
  UNQUEUE,
  UNQUEUE_OF_THIS_TIME,
  CLAIM,
  CLAIM_AND_FORGET,
  CLAIM_OF_THIS_TIME,
  CLAIM_OF_THIS_TIME_AND_FORGET,
  HEARTBEAT,
  SUCCEED,
  ...Object.values(END_ATTEMPT),
  CANCEL_WAITING,
  REQUEST_CANCEL,
  CHANGE,
  REPLAY,
  DISCARD,
  REMOVE,
  ...READ_JOBS,
  ...READ_TERMS,
  ...READ_ENDS,
  ...READ_STATES,
];

export function readJobs(cohort: string, jobIds: readonly string[]): Bound {
  return readMembers(READ_JOBS, cohort, jobIds);
}

export function readTerms(cohort: string, jobIds: readonly string[]): Bound {
  return readMembers(READ_TERMS, cohort, jobIds);
}

export function readEnds(cohort: string, jobIds: readonly string[]): Bound {
  return readMembers(READ_ENDS, cohort, jobIds);
}

export function readStates(cohort: string, jobIds: readonly string[]): Bound {
  return readMembers(READ_STATES, cohort, jobIds);
}

export function operationStatement(operation: Operation): Bound {
  switch (operation.edge) {
    case 'create':
      return create(operation);
    case 'enqueue':
      return enqueue(operation);
    case 'unqueue':
      return unqueue(operation);
    case 'claim':
      return claim(operation);
    case 'heartbeat':
      return heartbeat(operation);
    case 'succeed':
      return succeed(operation);
    case 'end_attempt':
      return endAttempt(operation);
    case 'cancel':
      return cancelWaiting(operation);
    case 'request_cancel':
      return requestCancel(operation);
    case 'change':
      return change(operation);
    case 'replay':
      return replay(operation);
    case 'discard':
      return discard(operation);
    case 'remove':
      return remove(operation);
  }
}

function create({ job }: Create): Bound {
  const { isPlain, values } = encodeJob(job);
  return { cql: isPlain ? CREATE_PLAIN : CREATE, values };
}

function enqueue(operation: Enqueue): Bound {
  return {
    cql: ENQUEUE,
    values: [
      timestamp(operation.enqueuedAt),
      ...key(operation),
      operation.queue,
      operation.attempt,
      timestamp(operation.runAtMost),
    ],
  };
}

function unqueue(operation: Unqueue): Bound {
  const { attempt, enqueuedAt } = operation;
  if (enqueuedAt === null) return { cql: UNQUEUE, values: [...key(operation), attempt] };
  return { cql: UNQUEUE_OF_THIS_TIME, values: [...key(operation), attempt, timestamp(enqueuedAt)] };
}

function claim(operation: Claim): Bound {
  const attempt = operation.attempt + 1;
  const forgotten = forgottenAttempt(attempt);
  const { enqueuedAt } = operation;
  const [plain, ofThisTime] =
    forgotten > 0 ? [CLAIM_AND_FORGET, CLAIM_OF_THIS_TIME_AND_FORGET] : [CLAIM, CLAIM_OF_THIS_TIME];
  return {
    cql: enqueuedAt === null ? plain : ofThisTime,
    values: [
      attempt,
      operation.worker,
      duration(operation.leaseMs),
      duration(operation.timeoutMs),
      attempt,
      encodeStart(operation),
      ...(forgotten > 0 ? [forgotten, forgotten] : []),
      ...key(operation),
      operation.attempt,
      ...(enqueuedAt === null ? [] : [timestamp(enqueuedAt)]),
    ],
  };
}

function heartbeat(operation: Heartbeat): Bound {
  const lease = duration(operation.leaseMs);
  return {
    cql: HEARTBEAT,
    values: [lease, operation.progress, ...key(operation), operation.attempt, operation.cancelRequested, lease],
  };
}

function succeed(operation: Succeed): Bound {
  return {
    cql: SUCCEED,
    values: [
      timestamp(operation.end.endedAt),
      operation.result,
      operation.attempt,
      encodeEnd(operation.end),
      ...key(operation),
      operation.attempt,
    ],
  };
}

function endAttempt(operation: EndAttempt): Bound {
  const { expect, next } = operation;
  return {
    cql: END_ATTEMPT[operation.clock],
    values: [
      next.status,
      timestamp(next.runAt),
      next.tries,
      next.lapses,
      next.lostClaims,
      next.maxAttempts,
      next.lastError,
      timestamp(next.enqueuedAt),
      timestamp(next.finishedAt),
      next.reason,
      expect.attempt,
      encodeEnd(operation.end),
      ...key(operation),
      expect.attempt,
      timestamp(expect.runAt),
      expect.cancelRequested,
    ],
  };
}

function change(operation: Change): Bound {
  const { expect, changes } = operation;
  return {
    cql: CHANGE,
    values: [
      setOrUnset(changes.runAt, timestamp),
      setOrUnset(changes.scheduledFor, timestamp),
      changes.payload,
      changes.payloadBytes,
      // Null empties a map.
      setOrUnset(changes.labels, (labels) => mapOrUnset(new Map(Object.entries(labels))) ?? null),
      changes.maxAttempts,
      changes.timeoutS,
      setOrUnset(changes.retry, encodeRetry),
      changes.priority,
      setOrUnset(changes.expiresAt, (at) => timestamp(at)),
      changes.bulkMarks,
      ...key(operation),
      expect.attempt,
      timestamp(expect.runAt),
    ],
  };
}

function setOrUnset<Value>(value: Value | undefined, encode: (value: Value) => unknown): unknown {
  return value === undefined ? undefined : encode(value);
}

function replay(operation: Replay): Bound {
  const { expect, runAt, changes } = operation;
  return {
    cql: REPLAY,
    values: [
      timestamp(runAt),
      changes.payload,
      changes.payloadBytes,
      changes.queue,
      changes.bulkMarks,
      ...key(operation),
      ...deadValues(expect),
    ],
  };
}

function discard(operation: Discard): Bound {
  return {
    cql: DISCARD,
    values: [operation.reason, operation.bulkMarks, ...key(operation), ...deadValues(operation.expect)],
  };
}

function remove(operation: Remove): Bound {
  const { status, finishedAt } = operation.expect;
  return { cql: REMOVE, values: [...key(operation), status, timestamp(finishedAt)] };
}

function deadValues({ attempt, runAt, finishedAt }: ExpectDead): unknown[] {
  return [attempt, timestamp(runAt), timestamp(finishedAt)];
}

function requestCancel(operation: RequestCancel): Bound {
  return { cql: REQUEST_CANCEL, values: [operation.bulkMarks, ...key(operation), operation.attempt] };
}

function cancelWaiting(operation: CancelWaiting): Bound {
  return {
    cql: CANCEL_WAITING,
    values: [
      timestamp(operation.finishedAt),
      operation.reason,
      operation.bulkMarks,
      ...key(operation),
      operation.expect.status,
      operation.expect.attempt,
      timestamp(operation.expect.runAt),
    ],
  };
}

function key(operation: Operation): [string, string] {
  return [cohortOf(operation.jobId), operation.jobId];
}

function duration(ms: number): types.Duration {
  return new types.Duration(0, 0, ms * 1_000_000);
}

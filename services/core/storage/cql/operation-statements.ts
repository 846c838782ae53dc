import { types } from 'cassandra-driver';
import { dayOf } from '../../domain/bucket.ts';
import type { BulkOperation } from '../../domain/bulk.ts';
import type { EpochMs } from '../../domain/time.ts';
import type { ListedOperation, OperationProgress } from '../../ports/operation-store.ts';
import { timestamp } from '../row-codec.ts';
import type { Bound } from '../statement.ts';

// `operations`: LWT only (session.conditional). Each write carries the TTL that is left until expires_at: an update without
// one would leave its cells behind when the rest of the row has gone.

export const OPERATION_COLUMNS: readonly string[] = [
  'operation_id',
  'owner',
  'verb',
  'filter',
  'new_time',
  'rate_per_s',
  'created_at',
  'expires_at',
  'status',
  'position',
  'changed',
  'failed',
  'last_error',
  'runner',
  'updated_at',
  'finished_at',
  'revision',
  'change_token',
];

const CREATE_OPERATION = `
  INSERT INTO operations (${OPERATION_COLUMNS.join(', ')}) VALUES (${OPERATION_COLUMNS.map(() => '?').join(', ')})
  IF NOT EXISTS USING TTL ?`;

const SAVE_OPERATION = `
  UPDATE operations USING TTL ? SET status = ?, position = ?, changed = ?, failed = ?, last_error = ?, runner = ?,
    updated_at = ?, finished_at = ?, revision = ?, change_token = ?
  WHERE operation_id = ? IF revision = ?`;

const FIND_OPERATION = `SELECT ${OPERATION_COLUMNS.join(', ')} FROM operations WHERE operation_id = ?`;

export const OPERATION_STATEMENTS: readonly string[] = [CREATE_OPERATION, SAVE_OPERATION, FIND_OPERATION];

// `operations_by_day`: plain idempotent writes, LOCAL_QUORUM (session.write, session.pages).

const LIST_OPERATION = `
  INSERT INTO operations_by_day (day, created_at, operation_id, expires_at) VALUES (?, ?, ?, ?) USING TTL ?`;

const READ_LIST = `
  SELECT created_at, operation_id, expires_at FROM operations_by_day WHERE day = ? AND created_at <= ?`;

export const OPERATION_LIST_STATEMENTS: readonly string[] = [LIST_OPERATION, READ_LIST];

export function createOperation(operation: BulkOperation, token: string, ttlS: number): Bound {
  const { operationId, owner, verb, filter, ratePerS, createdAt, expiresAt } = operation;
  // One column for both: it is the verb's, and no verb has two.
  const change = operation.newTime ?? operation.replayChanges;
  return {
    cql: CREATE_OPERATION,
    values: [
      operationId,
      owner,
      verb,
      JSON.stringify(filter),
      // Unset, as everything that is null here: a bound null writes a tombstone.
      change === null ? undefined : JSON.stringify(change),
      ratePerS,
      timestamp(createdAt),
      timestamp(expiresAt),
      ...progressValues(operation).map((value) => value ?? undefined),
      operation.revision,
      token,
      ttlS,
    ],
  };
}

export function saveOperation(
  { operationId, revision }: BulkOperation,
  progress: OperationProgress,
  token: string,
  ttlS: number,
): Bound {
  return {
    cql: SAVE_OPERATION,
    values: [ttlS, ...progressValues(progress), revision + 1, token, operationId, revision],
  };
}

export function findOperation(operationId: string): Bound {
  return { cql: FIND_OPERATION, values: [operationId] };
}

export function listOperation({ operationId, createdAt, expiresAt }: ListedOperation, ttlS: number): Bound {
  return {
    cql: LIST_OPERATION,
    values: [dayValue(createdAt), timestamp(createdAt), operationId, timestamp(expiresAt), ttlS],
  };
}

export function readOperationList(upTo: EpochMs): Bound {
  return { cql: READ_LIST, values: [dayValue(upTo), timestamp(upTo)] };
}

/** In the order of the statements. */
function progressValues(progress: OperationProgress): unknown[] {
  const { status, position, changed, failed, lastError, runner, updatedAt, finishedAt } = progress;
  return [
    status,
    position === null ? null : JSON.stringify(position),
    changed,
    failed,
    lastError,
    runner,
    timestamp(updatedAt),
    timestamp(finishedAt),
  ];
}

function dayValue(at: EpochMs): types.LocalDate {
  return types.LocalDate.fromString(dayOf(at));
}

import {
  type BulkFilter,
  type BulkOperation,
  type BulkPosition,
  type BulkReplayChanges,
  type BulkStatus,
  BulkVerb,
  type NewTime,
} from '../domain/bulk.ts';
import { SECOND_MS } from '../domain/limits.ts';
import type { EpochMs } from '../domain/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { OperationStore } from '../ports/operation-store.ts';
import { StoreError } from '../ports/store-error.ts';
import {
  createOperation,
  findOperation,
  listOperation,
  readOperationList,
  saveOperation,
} from './cql/operation-statements.ts';
import { number, text, textOrNull, time, timeOrNull } from './row-codec.ts';
import type { Session } from './session.ts';
import type { Row } from './statement.ts';

export function createOperationStore(session: Session, clock: Clock): OperationStore {
  const find = async (operationId: string): Promise<BulkOperation | null> => {
    const [row] = await session.read(findOperation(operationId), { serial: true });
    return row === undefined ? null : decodeOperation(row);
  };
  return {
    find,
    async create(operation) {
      const ttlS = secondsUntil(operation.expiresAt, clock);
      const rows = await session.conditional([createOperation(operation, operation.operationId, ttlS)]);
      if (rows === null) return operation;
      const standing = rows[0] === undefined ? null : decodeOperation(rows[0]);
      if (standing === null) throw new StoreError('unavailable', 'an operation of this id is just expiring');
      return standing;
    },
    async save(before, progress, token) {
      const ttlS = secondsUntil(before.expiresAt, clock);
      const rows = await session.conditional([saveOperation(before, progress, token, ttlS)]);
      return rows === null ? null : { found: await find(before.operationId) };
    },
    async bearsToken(operationId, token) {
      const [row] = await session.read(findOperation(operationId), { serial: true });
      return row !== undefined && textOrNull(row, 'change_token') === token;
    },
    list: (entry) => session.write([listOperation(entry, secondsUntil(entry.expiresAt, clock))]),
    async *readList(upTo) {
      for await (const rows of session.pages(readOperationList(upTo))) {
        yield rows.map((row) => ({
          operationId: text(row, 'operation_id'),
          createdAt: time(row, 'created_at'),
          expiresAt: time(row, 'expires_at'),
        }));
      }
    },
  };
}

/** Null of a row of which some cells have expired already. */
export function decodeOperation(row: Row): BulkOperation | null {
  if (textOrNull(row, 'owner') === null) return null;
  const verb = text(row, 'verb') as BulkVerb;
  const change = jsonOrNull(row, 'new_time');
  return {
    operationId: text(row, 'operation_id'),
    owner: text(row, 'owner'),
    verb,
    filter: JSON.parse(text(row, 'filter')) as BulkFilter,
    newTime: verb === BulkVerb.replay ? null : (change as NewTime | null),
    replayChanges: verb === BulkVerb.replay ? (change as BulkReplayChanges | null) : null,
    ratePerS: number(row, 'rate_per_s'),
    createdAt: time(row, 'created_at'),
    expiresAt: time(row, 'expires_at'),
    status: text(row, 'status') as BulkStatus,
    position: jsonOrNull(row, 'position') as BulkPosition | null,
    changed: number(row, 'changed'),
    failed: number(row, 'failed'),
    lastError: textOrNull(row, 'last_error'),
    runner: textOrNull(row, 'runner'),
    updatedAt: time(row, 'updated_at'),
    finishedAt: timeOrNull(row, 'finished_at'),
    revision: number(row, 'revision'),
  };
}

function jsonOrNull(row: Row, name: string): unknown {
  const stored = textOrNull(row, name);
  return stored === null ? null : JSON.parse(stored);
}

/** At least 1: a TTL of 0 means none. */
function secondsUntil(at: EpochMs, clock: Clock): number {
  return Math.max(1, Math.ceil((at - clock.now()) / SECOND_MS));
}

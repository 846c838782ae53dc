import type { QueueSettings } from '../domain/queue-settings.ts';
import type { QueueStore } from '../ports/queue-store.ts';
import { StoreError } from '../ports/store-error.ts';
import { changeQueue, readLastChange, readQueue, readQueues } from './cql/queue-statements.ts';
import { decodeRetryOrNull, number, numberOrNull, text, textOrNull, timeOrNull } from './row-codec.ts';
import type { Session } from './session.ts';
import type { Row } from './statement.ts';

export function createQueueStore(session: Session): QueueStore {
  const rowOf = async (queue: string): Promise<Row | undefined> =>
    (await session.read(readQueue(queue), { serial: true }))[0];
  return {
    async lastChange() {
      const [row] = await session.read(readLastChange());
      return row === undefined ? null : textOrNull(row, 'last_change');
    },
    async readAll() {
      return (await session.read(readQueues())).map(decodeQueue);
    },
    async read(queue) {
      const row = await rowOf(queue);
      return row === undefined ? null : decodeQueue(row);
    },
    async change(change) {
      try {
        return (await session.conditional([changeQueue(change)])) === null;
      } catch (error) {
        if (!(error instanceof StoreError) || error.kind !== 'unknown') throw error;
        // Without the mark it may still apply: only finding it settles anything.
        const row = await rowOf(change.next.queue);
        if (row !== undefined && textOrNull(row, 'change_token') === change.token) return true;
        throw error;
      }
    },
  };
}

function decodeQueue(row: Row): QueueSettings {
  const pausedAt = timeOrNull(row, 'paused_at');
  return {
    queue: text(row, 'queue'),
    ratePerS: numberOrNull(row, 'rate_per_s'),
    burst: numberOrNull(row, 'burst'),
    rampS: numberOrNull(row, 'ramp_s'),
    maxRunning: numberOrNull(row, 'max_running'),
    readyMax: numberOrNull(row, 'ready_max'),
    maxWaiting: numberOrNull(row, 'max_waiting'),
    maxAttempts: numberOrNull(row, 'max_attempts'),
    timeoutS: numberOrNull(row, 'timeout_s'),
    leaseS: numberOrNull(row, 'lease_s'),
    retry: decodeRetryOrNull(row),
    retentionDays: numberOrNull(row, 'retention_days'),
    deadRetentionDays: numberOrNull(row, 'dead_retention_days'),
    pause:
      pausedAt === null
        ? null
        : { at: pausedAt, reason: textOrNull(row, 'paused_reason'), until: timeOrNull(row, 'paused_until') },
    resumedAt: timeOrNull(row, 'resumed_at'),
    revision: number(row, 'revision'),
    createdAt: timeOrNull(row, 'created_at'),
    updatedAt: timeOrNull(row, 'updated_at'),
  };
}

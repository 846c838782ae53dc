import type { QueueChange } from '../../ports/queue-store.ts';
import { encodeRetry, timestamp } from '../row-codec.ts';
import type { Bound } from '../statement.ts';

// `queues`: LWT only (session.conditional). One partition, whose static last_change tells all readers that something changed.

const SCOPE = 'all';

const COLUMNS = [
  'rate_per_s',
  'burst',
  'ramp_s',
  'max_running',
  'ready_max',
  'max_waiting',
  'max_attempts',
  'timeout_s',
  'lease_s',
  'retry',
  'retention_days',
  'dead_retention_days',
  'paused_at',
  'paused_reason',
  'paused_until',
  'resumed_at',
  'revision',
  'change_token',
  'created_at',
  'updated_at',
];

/** A queue that was never configured has the revision null, and the condition holds on its absent row: it is made so. */
const CHANGE_QUEUE = `
  UPDATE queues SET last_change = ?, ${COLUMNS.map((column) => `${column} = ?`).join(', ')}
  WHERE scope = ? AND queue = ? IF revision = ?`;

const READ_QUEUE = `SELECT queue, ${COLUMNS.join(', ')} FROM queues WHERE scope = ? AND queue = ?`;

const READ_QUEUES = `SELECT queue, ${COLUMNS.join(', ')} FROM queues WHERE scope = ?`;

const READ_LAST_CHANGE = `SELECT DISTINCT scope, last_change FROM queues WHERE scope = ?`;

export const QUEUE_STATEMENTS: readonly string[] = [CHANGE_QUEUE, READ_QUEUE, READ_QUEUES, READ_LAST_CHANGE];

export function changeQueue({ next, token }: QueueChange): Bound {
  return {
    cql: CHANGE_QUEUE,
    values: [
      token,
      next.ratePerS,
      next.burst,
      next.rampS,
      next.maxRunning,
      next.readyMax,
      next.maxWaiting,
      next.maxAttempts,
      next.timeoutS,
      next.leaseS,
      next.retry === null ? null : encodeRetry(next.retry),
      next.retentionDays,
      next.deadRetentionDays,
      timestamp(next.pause?.at ?? null),
      next.pause?.reason ?? null,
      timestamp(next.pause?.until ?? null),
      timestamp(next.resumedAt),
      next.revision,
      token,
      timestamp(next.createdAt),
      timestamp(next.updatedAt),
      SCOPE,
      next.queue,
      next.revision === 1 ? null : next.revision - 1,
    ],
  };
}

export function readQueue(queue: string): Bound {
  return { cql: READ_QUEUE, values: [SCOPE, queue] };
}

export function readQueues(): Bound {
  return { cql: READ_QUEUES, values: [SCOPE] };
}

export function readLastChange(): Bound {
  return { cql: READ_LAST_CHANGE, values: [SCOPE] };
}

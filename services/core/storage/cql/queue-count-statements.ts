import { types } from 'cassandra-driver';
import { HOUR_MS, SECOND_MS } from '../../domain/limits.ts';
import { slotEnd, type SlotRange } from '../../domain/queue-counts.ts';
import type { EpochMs } from '../../domain/time.ts';
import type { ShardQueueCounts, WaitingTally } from '../../ports/queue-count-store.ts';
import { timestamp } from '../row-codec.ts';
import type { Bound } from '../statement.ts';

// `queue_waiting`, `queue_counts`: plain idempotent writes with a TTL, LOCAL_QUORUM (session.write, session.read).

const WRITE_WAITING = `INSERT INTO queue_waiting (queue, grain, slot, process, jobs) VALUES (?, ?, ?, ?, ?) USING TTL ?`;

const SUM_WAITING = `
  SELECT SUM(jobs) AS jobs FROM queue_waiting WHERE queue = ? AND grain = ? AND slot >= ? AND slot < ?`;

const WRITE_COUNTS = `
  INSERT INTO queue_counts (shard, queue, counted_at, due_soon, running, dead) VALUES (?, ?, ?, ?, ?, ?) USING TTL ?`;

const READ_COUNTS = `SELECT queue, counted_at, due_soon, running, dead FROM queue_counts WHERE shard = ?`;

export const QUEUE_COUNT_STATEMENTS: readonly string[] = [WRITE_WAITING, SUM_WAITING, WRITE_COUNTS, READ_COUNTS];

/** A tally is read no more once its slot is over. */
const WAITING_KEPT_MS = HOUR_MS;
const COUNTS_KEPT_S = 90;

export function writeWaiting(tally: WaitingTally, now: EpochMs): Bound {
  const { queue, grain, start, process, jobs } = tally;
  const ttlS = Math.max(1, Math.ceil((slotEnd(tally) + WAITING_KEPT_MS - now) / SECOND_MS));
  return { cql: WRITE_WAITING, values: [queue, grain, timestamp(start), process, types.Long.fromNumber(jobs), ttlS] };
}

export function sumWaiting(queue: string, { grain, from, to }: SlotRange): Bound {
  return { cql: SUM_WAITING, values: [queue, grain, timestamp(from), timestamp(to)] };
}

export function writeCounts({ shard, queue, countedAt, dueSoon, running, dead }: ShardQueueCounts): Bound {
  return {
    cql: WRITE_COUNTS,
    values: [shard, queue, timestamp(countedAt), dueSoon, running, dead ?? undefined, COUNTS_KEPT_S],
  };
}

export function readCounts(shard: number): Bound {
  return { cql: READ_COUNTS, values: [shard] };
}

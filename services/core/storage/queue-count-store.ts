import type { Clock } from '../ports/clock.ts';
import type { QueueCountStore, ShardQueueCounts, WaitingTally } from '../ports/queue-count-store.ts';
import { readCounts, sumWaiting, writeCounts, writeWaiting } from './cql/queue-count-statements.ts';
import { PartitionWriter } from './partition-writer.ts';
import { number, numberOrNull, text, time } from './row-codec.ts';
import type { Session } from './session.ts';

export function createQueueCountStore(session: Session, clock: Clock): QueueCountStore {
  const waiting = new PartitionWriter<WaitingTally>(
    ({ queue }) => queue,
    (rows) => session.write(rows.map((row) => writeWaiting(row, clock.now()))),
  );
  const counts = new PartitionWriter<ShardQueueCounts>(
    ({ shard }) => String(shard),
    (rows) => session.write(rows.map(writeCounts)),
  );
  return {
    writeWaiting: (tallies) => waiting.write(tallies),
    async sumWaiting(queue, range) {
      const [row] = await session.read(sumWaiting(queue, range));
      return row === undefined ? 0 : Number(row.get('jobs'));
    },
    writeShard: (rows) => counts.write(rows),
    async readShard(shard) {
      const rows = await session.read(readCounts(shard));
      return rows.map((row) => ({
        shard,
        queue: text(row, 'queue'),
        countedAt: time(row, 'counted_at'),
        dueSoon: row.get('due_soon') as readonly number[],
        running: number(row, 'running'),
        dead: numberOrNull(row, 'dead'),
      }));
    },
  };
}

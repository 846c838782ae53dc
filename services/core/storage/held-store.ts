import { hourOf } from '../domain/bucket.ts';
import type { Priority } from '../domain/job-status.ts';
import type { DueEntry } from '../domain/operation.ts';
import type { HeldHour, HeldStore } from '../ports/held-store.ts';
import {
  countHeld,
  dropHeld,
  dropHour,
  readHeld,
  readHours,
  readPositions,
  readStanding,
  savePosition,
  writeHeld,
  writeHour,
} from './cql/held-statements.ts';
import { PartitionWriter } from './partition-writer.ts';
import { number, text, time } from './row-codec.ts';
import type { Session } from './session.ts';

export function createHeldStore(session: Session): HeldStore {
  const held = new PartitionWriter<DueEntry>(partitionOf, (rows) => session.write(rows.map(writeHeld)));
  const hours = new PartitionWriter<HeldHour>(
    ({ shard }) => String(shard),
    (rows) => session.write(rows.map(writeHour)),
  );
  return {
    async write(rows) {
      await hours.write([...new Map(rows.map((row) => [partitionOf(row), hourHeldIn(row)])).values()]);
      await held.write(rows);
    },
    async hours(shard) {
      const rows = await session.read(readHours(shard));
      return rows.map((row) => ({
        shard,
        queue: text(row, 'queue'),
        priority: text(row, 'priority') as Priority,
        hour: time(row, 'hour'),
      }));
    },
    async read(hour, after, limit) {
      const { shard, queue, priority } = hour;
      const rows = await session.read(readHeld(hour, after, limit));
      return rows.map((row) => ({
        jobId: text(row, 'job_id'),
        shard,
        runAt: time(row, 'run_at'),
        queue,
        priority,
        attempt: number(row, 'attempt'),
        direct: false,
      }));
    },
    async standing(hour, from, to) {
      const rows = await session.read(readStanding(hour, from, to));
      return rows.map((row) => ({ runAt: time(row, 'run_at'), jobId: text(row, 'job_id') }));
    },
    async count(hour, after) {
      const [row] = await session.read(countHeld(hour, after));
      return row === undefined ? 0 : Number(row.get('held'));
    },
    async drop(hour) {
      await session.write([dropHeld(hour)]);
      await session.write([dropHour(hour)]);
    },
    async positions(shard) {
      const rows = await session.read(readPositions(shard));
      return rows.map((row) => ({
        shard,
        queue: text(row, 'queue'),
        priority: text(row, 'priority') as Priority,
        place: { runAt: time(row, 'run_at'), jobId: text(row, 'job_id') },
      }));
    },
    savePosition: (position) => session.write([savePosition(position)]),
  };
}

function partitionOf({ shard, queue, priority, runAt }: DueEntry): string {
  return `${shard} ${queue} ${priority} ${hourOf(runAt)}`;
}

function hourHeldIn({ shard, queue, priority, runAt }: DueEntry): HeldHour {
  return { shard, queue, priority, hour: hourOf(runAt) };
}

import { scheduleStripe } from '../domain/bucket.ts';
import type { ScheduleIndex, ScheduleIndexEntry } from '../ports/schedule-index.ts';
import { readEntries, removeEntry, writeEntry } from './cql/schedule-index-statements.ts';
import { PartitionWriter } from './partition-writer.ts';
import { text, time } from './row-codec.ts';
import type { Session } from './session.ts';
import type { Row } from './statement.ts';

export function createScheduleIndex(session: Session): ScheduleIndex {
  const partitionOf = ({ queue, scheduleId }: ScheduleIndexEntry): string => `${queue} ${scheduleStripe(scheduleId)}`;
  const writer = new PartitionWriter(partitionOf, (entries) => session.write(entries.map(writeEntry)));
  const remover = new PartitionWriter(partitionOf, (entries) => session.write(entries.map(removeEntry)));
  return {
    write: (entries) => writer.write(entries),
    remove: (entries) => remover.write(entries),
    async read(range) {
      return (await session.read(readEntries(range))).map(decodeEntry);
    },
  };
}

function decodeEntry(row: Row): ScheduleIndexEntry {
  return {
    queue: text(row, 'queue'),
    scheduleId: text(row, 'schedule_id'),
    writtenAt: time(row, 'written_at'),
  };
}

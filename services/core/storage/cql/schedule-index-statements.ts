import { scheduleStripe } from '../../domain/bucket.ts';
import type { ScheduleIndexEntry, ScheduleIndexRange } from '../../ports/schedule-index.ts';
import { timestamp } from '../row-codec.ts';
import type { Bound } from '../statement.ts';

// `schedules_by_queue`: plain idempotent writes, LOCAL_QUORUM (session.write). Each write is stamped with the entry's own
// written_at, so that a removal of what was read takes away nothing that was written later.

const WRITE_ENTRY = `
  INSERT INTO schedules_by_queue (queue, stripe, schedule_id, written_at) VALUES (?, ?, ?, ?) USING TIMESTAMP ?`;

const REMOVE_ENTRY = `
  DELETE FROM schedules_by_queue USING TIMESTAMP ? WHERE queue = ? AND stripe = ? AND schedule_id = ?`;

const READ_ENTRIES = `
  SELECT queue, schedule_id, written_at FROM schedules_by_queue
  WHERE queue = ? AND stripe = ? AND schedule_id > ? LIMIT ?`;

export const SCHEDULE_INDEX_STATEMENTS: readonly string[] = [WRITE_ENTRY, REMOVE_ENTRY, READ_ENTRIES];

export function writeEntry({ queue, scheduleId, writtenAt }: ScheduleIndexEntry): Bound {
  return {
    cql: WRITE_ENTRY,
    values: [queue, scheduleStripe(scheduleId), scheduleId, timestamp(writtenAt), microseconds(writtenAt)],
  };
}

export function removeEntry({ queue, scheduleId, writtenAt }: ScheduleIndexEntry): Bound {
  return { cql: REMOVE_ENTRY, values: [microseconds(writtenAt), queue, scheduleStripe(scheduleId), scheduleId] };
}

export function readEntries({ queue, stripe, after, limit }: ScheduleIndexRange): Bound {
  return { cql: READ_ENTRIES, values: [queue, stripe, after, limit] };
}

function microseconds(at: number): number {
  return at * 1_000;
}

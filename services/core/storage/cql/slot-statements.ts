import type { SlotChange } from '../../ports/slot-store.ts';
import { timestamp } from '../row-codec.ts';
import type { Bound } from '../statement.ts';

// `queue_slots`: LWT only, LOCAL_QUORUM with LOCAL_SERIAL (session.conditional); several slots of a queue in one.

const MAKE_SLOT = `
  INSERT INTO queue_slots (job_id, leaving, taken_at, change_token, queue, slot) VALUES (?, ?, ?, ?, ?, ?) IF NOT EXISTS`;

const CHANGE_SLOT = `
  UPDATE queue_slots SET job_id = ?, leaving = ?, taken_at = ?, change_token = ? WHERE queue = ? AND slot = ? IF change_token = ?`;

const READ_SLOTS = `SELECT slot, job_id, leaving, taken_at, change_token FROM queue_slots WHERE queue = ?`;

export const SLOT_STATEMENTS: readonly string[] = [MAKE_SLOT, CHANGE_SLOT, READ_SLOTS];

/** What stands in a free slot: null would write a tombstone with each job. */
export const NO_JOB = '';

export function changeSlot({ before, after }: SlotChange): Bound {
  const { queue, slot, jobId, leaving, takenAt, token } = after;
  const values = [jobId ?? NO_JOB, leaving, timestamp(takenAt), token, queue, slot];
  return before === null ? { cql: MAKE_SLOT, values } : { cql: CHANGE_SLOT, values: [...values, before] };
}

export function readSlots(queue: string): Bound {
  return { cql: READ_SLOTS, values: [queue] };
}

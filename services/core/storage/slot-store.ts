import type { SlotStore } from '../ports/slot-store.ts';
import { changeSlot, NO_JOB, readSlots } from './cql/slot-statements.ts';
import { flag, number, text, time } from './row-codec.ts';
import type { Session } from './session.ts';

export function createSlotStore(session: Session): SlotStore {
  return {
    async read(queue) {
      const rows = await session.read(readSlots(queue), { serial: true });
      return rows.map((row) => {
        const jobId = text(row, 'job_id');
        return {
          queue,
          slot: number(row, 'slot'),
          jobId: jobId === NO_JOB ? null : jobId,
          leaving: flag(row, 'leaving'),
          takenAt: time(row, 'taken_at'),
          token: text(row, 'change_token'),
        };
      });
    },
    change: async (changes) => (await session.conditional(changes.map(changeSlot))) === null,
  };
}

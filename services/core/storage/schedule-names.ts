import type { ScheduleName, ScheduleNames } from '../ports/schedule-names.ts';
import { StoreError } from '../ports/store-error.ts';
import { claimName, findName, markNameWritten, moveName, releaseName } from './cql/schedule-key-statements.ts';
import { flag, text, time } from './row-codec.ts';
import type { Session } from './session.ts';
import type { Row } from './statement.ts';

export function createScheduleNames(session: Session): ScheduleNames {
  return {
    async find(keyHash) {
      const [row] = await session.read(findName(keyHash), { serial: true });
      return row === undefined ? null : decodeName(row);
    },
    async claim(name) {
      const rows = await session.conditional([claimName(name)]);
      if (rows === null) return name;
      const [row] = rows;
      if (row === undefined) throw new StoreError('unknown', 'a lost claim of a name that does not say what stands');
      return decodeName(row);
    },
    async move(from, to) {
      return (await session.conditional([moveName(from, to)])) === null;
    },
    async markWritten(name) {
      return (await session.conditional([markNameWritten(name)])) === null;
    },
    async release(name) {
      await session.conditional([releaseName(name)]);
    },
  };
}

function decodeName(row: Row): ScheduleName {
  return {
    keyHash: text(row, 'key_hash'),
    scheduleId: text(row, 'schedule_id'),
    createdAt: time(row, 'created_at'),
    written: flag(row, 'written'),
  };
}

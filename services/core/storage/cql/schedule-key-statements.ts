import type { ScheduleName } from '../../ports/schedule-names.ts';
import { timestamp } from '../row-codec.ts';
import type { Bound } from '../statement.ts';

// `schedule_keys`: LWT only (session.conditional). Conditions are positive: they fail on a row that has gone.

const CLAIM_NAME = `
  INSERT INTO schedule_keys (key_hash, schedule_id, created_at, written) VALUES (?, ?, ?, ?) IF NOT EXISTS`;

const MOVE_NAME = `
  UPDATE schedule_keys SET schedule_id = ?, created_at = ?, written = ? WHERE key_hash = ? IF schedule_id = ?`;

const MARK_NAME_WRITTEN = `UPDATE schedule_keys SET written = true WHERE key_hash = ? IF schedule_id = ?`;

const RELEASE_NAME = `DELETE FROM schedule_keys WHERE key_hash = ? IF schedule_id = ?`;

const FIND_NAME = `SELECT key_hash, schedule_id, created_at, written FROM schedule_keys WHERE key_hash = ?`;

export const SCHEDULE_KEY_STATEMENTS: readonly string[] = [
  CLAIM_NAME,
  MOVE_NAME,
  MARK_NAME_WRITTEN,
  RELEASE_NAME,
  FIND_NAME,
];

export function claimName({ keyHash, scheduleId, createdAt, written }: ScheduleName): Bound {
  return { cql: CLAIM_NAME, values: [keyHash, scheduleId, timestamp(createdAt), written] };
}

export function moveName(from: ScheduleName, to: ScheduleName): Bound {
  return {
    cql: MOVE_NAME,
    values: [to.scheduleId, timestamp(to.createdAt), to.written, from.keyHash, from.scheduleId],
  };
}

export function markNameWritten({ keyHash, scheduleId }: ScheduleName): Bound {
  return { cql: MARK_NAME_WRITTEN, values: [keyHash, scheduleId] };
}

export function releaseName({ keyHash, scheduleId }: Pick<ScheduleName, 'keyHash' | 'scheduleId'>): Bound {
  return { cql: RELEASE_NAME, values: [keyHash, scheduleId] };
}

export function findName(keyHash: string): Bound {
  return { cql: FIND_NAME, values: [keyHash] };
}

import { SECOND_MS } from '../domain/limits.ts';
import type { EpochMs } from '../domain/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { JobKey, KeyStore } from '../ports/key-store.ts';
import { StoreError } from '../ports/store-error.ts';
import { claimKey, findKey, markKeyWritten } from './cql/key-statements.ts';
import { flag, text, textOrNull, time } from './row-codec.ts';
import type { Session } from './session.ts';
import type { Row } from './statement.ts';

export function createKeyStore(session: Session, clock: Clock): KeyStore {
  return {
    async claim(key) {
      const rows = await session.conditional([claimKey(key, secondsUntil(key.expiresAt, clock))]);
      if (rows === null) return key;
      const standing = rows[0] === undefined ? null : decodeKey(rows[0]);
      // The cells of a row may go up to a second or two apart, and until the last one has gone the key cannot be taken.
      if (standing === null) throw new StoreError('unavailable', 'an earlier use of this key is just expiring');
      return standing;
    },
    async find(keyHash) {
      const [row] = await session.read(findKey(keyHash), { serial: true });
      return row === undefined ? null : decodeKey(row);
    },
    async markWritten(key) {
      // Losing says that the row has gone: nothing is left to be marked.
      await session.conditional([markKeyWritten(key, secondsUntil(key.expiresAt, clock))]);
    },
  };
}

function decodeKey(row: Row): JobKey | null {
  if (textOrNull(row, 'job_id') === null) return null;
  return {
    keyHash: text(row, 'key_hash'),
    jobId: text(row, 'job_id'),
    requestHash: text(row, 'request_hash'),
    createdAt: time(row, 'created_at'),
    expiresAt: time(row, 'expires_at'),
    written: flag(row, 'written'),
  };
}

/** At least 1: a TTL of 0 means none. */
function secondsUntil(at: EpochMs, clock: Clock): number {
  return Math.max(1, Math.ceil((at - clock.now()) / SECOND_MS));
}

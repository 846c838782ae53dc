import type { JobKey } from '../../ports/key-store.ts';
import { timestamp } from '../row-codec.ts';
import type { Bound } from '../statement.ts';

// `job_keys`: LWT only (session.conditional). Each write carries the TTL that is left until expires_at: an update without one
// would leave its cell behind when the rest of the row has gone.

const CLAIM_KEY = `
  INSERT INTO job_keys (key_hash, job_id, request_hash, created_at, expires_at, written)
  VALUES (?, ?, ?, ?, ?, ?) IF NOT EXISTS USING TTL ?`;

/** Positive: on a row that has gone meanwhile it does not apply. */
const MARK_KEY_WRITTEN = `UPDATE job_keys USING TTL ? SET written = true WHERE key_hash = ? IF job_id = ?`;

const FIND_KEY = `
  SELECT key_hash, job_id, request_hash, created_at, expires_at, written FROM job_keys WHERE key_hash = ?`;

export const KEY_STATEMENTS: readonly string[] = [CLAIM_KEY, MARK_KEY_WRITTEN, FIND_KEY];

export function claimKey(key: JobKey, ttlS: number): Bound {
  return {
    cql: CLAIM_KEY,
    values: [
      key.keyHash,
      key.jobId,
      key.requestHash,
      timestamp(key.createdAt),
      timestamp(key.expiresAt),
      key.written,
      ttlS,
    ],
  };
}

export function markKeyWritten(key: Pick<JobKey, 'keyHash' | 'jobId'>, ttlS: number): Bound {
  return { cql: MARK_KEY_WRITTEN, values: [ttlS, key.keyHash, key.jobId] };
}

export function findKey(keyHash: string): Bound {
  return { cql: FIND_KEY, values: [keyHash] };
}

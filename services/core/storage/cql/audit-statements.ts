import { createHash } from 'node:crypto';
import { types } from 'cassandra-driver';
import { dayOf } from '../../domain/bucket.ts';
import type { AuditEntry } from '../../ports/audit-log.ts';
import { timestamp } from '../row-codec.ts';
import type { Bound } from '../statement.ts';

// `audit_log`: plain idempotent writes with a TTL, LOCAL_QUORUM (session.write).

const STRIPES = 8;

const WRITE_AUDIT = `
  INSERT INTO audit_log (day, stripe, at, entry_id, owner, actor, verb, subject, detail)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) USING TTL ?`;

export const AUDIT_STATEMENTS: readonly string[] = [WRITE_AUDIT];

export function writeAudit(entry: AuditEntry, ttlS: number): Bound {
  return {
    cql: WRITE_AUDIT,
    values: [
      types.LocalDate.fromString(dayOf(entry.at)),
      createHash('sha256').update(entry.entryId).digest().readUInt32BE(0) % STRIPES,
      timestamp(entry.at),
      entry.entryId,
      entry.owner,
      entry.actor ?? undefined,
      entry.verb,
      entry.subject,
      JSON.stringify(entry.detail),
      ttlS,
    ],
  };
}

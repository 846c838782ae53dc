import { DAY_MS, DEAD_RETENTION_DEFAULT_DAYS, SECOND_MS } from '../domain/limits.ts';
import type { AuditLog } from '../ports/audit-log.ts';
import { writeAudit } from './cql/audit-statements.ts';
import type { Session } from './session.ts';

const KEPT_S = (DEAD_RETENTION_DEFAULT_DAYS * DAY_MS) / SECOND_MS;

export function createAuditLog(session: Session): AuditLog {
  return { write: (entry) => session.write([writeAudit(entry, KEPT_S)]) };
}

import type { AuditEntry, AuditLog } from '../../core/ports/audit-log.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type { Log } from '../../core/ports/telemetry.ts';

const TRIES_MAX = 3;
const PAUSE_MS = 200;

/** Tells the audit log what was done. The change stands, whatever comes of its entry: what cannot be written goes to our own log. */
export class AuditTrail {
  readonly #audit: AuditLog;
  readonly #clock: Clock;
  readonly #log: Log;

  constructor(parts: { audit: AuditLog; clock: Clock; log: Log }) {
    this.#audit = parts.audit;
    this.#clock = parts.clock;
    this.#log = parts.log;
  }

  async record(act: Omit<AuditEntry, 'actor'>): Promise<void> {
    const entry: AuditEntry = { ...act, actor: null };
    for (let tries = 1; ; tries += 1) {
      try {
        await this.#audit.write(entry);
        return;
      } catch (error) {
        if (tries === TRIES_MAX) {
          this.#log.error('an audit entry could not be written', { ...entry, error: String(error) });
          return;
        }
        await this.#clock.sleep(PAUSE_MS);
      }
    }
  }
}

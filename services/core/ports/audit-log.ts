import type { EpochMs } from '../domain/time.ts';

/** Who did what: an act that changed state on behalf of a person or tool. */
export interface AuditEntry {
  readonly at: EpochMs;
  /** The act's own mark: a repeat lands on the same row. */
  readonly entryId: string;
  readonly owner: string;
  /** The name of the caller's key; null while callers have none. */
  readonly actor: string | null;
  /** Such as `queue.pause`. */
  readonly verb: string;
  /** The queue, job, schedule or operation. */
  readonly subject: string;
  /** Whatever tells what was changed; kept as JSON. */
  readonly detail: Readonly<Record<string, unknown>>;
}

/** Plain idempotent writes. Throws StoreError. */
export interface AuditLog {
  write(entry: AuditEntry): Promise<void>;
}

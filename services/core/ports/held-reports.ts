import type { Priority } from '../domain/job-status.ts';
import type { EpochMs } from '../domain/time.ts';

/** Due jobs of a subject that wait until its queue takes them. */
export interface HeldDepth {
  readonly queue: string;
  readonly priority: Priority;
  /** About how many. */
  readonly count: number;
  readonly oldestAt: EpochMs;
}

/** What one dispatcher holds. */
export interface HeldReport {
  readonly member: string;
  /** How many shards it owns. */
  readonly shards: number;
  readonly held: readonly HeldDepth[];
}

/** Core-NATS `held`: each dispatcher tells everybody once a second. Losing one makes nothing wrong, only a little less fair. */
export interface HeldReports {
  /** Never throws. */
  send(report: HeldReport): void;
  /** Calls back for each report, also our own, until the returned function is called. */
  listen(onReport: (report: HeldReport) => void): () => void;
}

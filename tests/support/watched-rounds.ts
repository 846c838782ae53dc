// Rounds on the stores in memory, watched: what is sent, in which order, and every change of a row.

import type { JobRow } from '../../services/core/domain/job.ts';
import { JobStatus } from '../../services/core/domain/job-status.ts';
import { ROUND_MAX_BYTES, ROUND_MAX_ROWS } from '../../services/core/domain/limits.ts';
import type { Operation } from '../../services/core/domain/operation.ts';
import type { CohortStore } from '../../services/core/ports/job-store.ts';
import { Rounds } from '../../services/core/rounds/rounds.ts';
import type { FakeClock } from './fake-clock.ts';
import type { MemoryStores } from './memory-store.ts';
import { silentTelemetry } from './silent-telemetry.ts';

export interface WatchedRounds {
  readonly rounds: Rounds;
  /** The operations of each round, in the order in which they were sent. */
  readonly sent: (readonly Operation[])[];
  /** Broken promises of the rounds. The store cannot throw them: a round takes what it throws for a lost answer. */
  readonly violations: string[];
}

/** The rounds of one process on the shared stores. */
export function watchedRounds(stores: MemoryStores, clock: FakeClock): WatchedRounds {
  const sent: (readonly Operation[])[] = [];
  const violations: string[] = [];
  const inFlight = new Set<string>();
  const store: CohortStore = {
    apply: async (cohort, operations) => {
      sent.push(operations);
      violations.push(...faultsOf(operations));
      if (inFlight.has(cohort)) violations.push(`two rounds of ${cohort} in flight`);
      inFlight.add(cohort);
      try {
        return await stores.cohorts.apply(cohort, operations);
      } finally {
        inFlight.delete(cohort);
      }
    },
  };
  const rounds = new Rounds({ store, reader: stores.jobs, clock, telemetry: silentTelemetry });
  return { rounds, sent, violations };
}

function faultsOf(operations: readonly Operation[]): string[] {
  const creates = operations.filter(({ edge }) => edge === 'create');
  const rows = new Set(operations.map(({ jobId }) => jobId));
  const payloadBytes = operations.reduce((sum, each) => sum + (each.edge === 'create' ? each.job.payloadBytes : 0), 0);
  const faults = {
    'an empty round': operations.length === 0,
    'more rows than a round may have': operations.length > ROUND_MAX_ROWS,
    'more bytes than a round may have': operations.length > 1 && payloadBytes > ROUND_MAX_BYTES,
    'two operations on one row': rows.size !== operations.length,
    'creates and transitions mixed': creates.length > 0 && creates.length < operations.length,
  };
  return Object.entries(faults).flatMap(([fault, found]) => (found ? [fault] : []));
}

/** One change of one row, as the store made it, whatever it answered. */
export interface Change {
  readonly before: JobRow | undefined;
  readonly after: JobRow;
}

/** Notes every change from now on. */
export function journalOf(stores: MemoryStores): readonly Change[] {
  const changes: Change[] = [];
  const set = stores.rows.set.bind(stores.rows);
  stores.rows.set = (jobId, after) => {
    changes.push({ before: stores.rows.get(jobId), after });
    return set(jobId, after);
  };
  return changes;
}

/** The mark of the operation that made the change, where each operation of a test has a mark of its own. */
export function markOf({ before, after }: Change): number {
  return Number(before === undefined ? after.createToken : markOfTransition(before, after));
}

function markOfTransition(before: JobRow, after: JobRow): string | number | null | undefined {
  if (before.status === JobStatus.running) {
    return after.status === JobStatus.running ? after.progress : after.ends.get(before.attempt)?.endedAt;
  }
  switch (after.status) {
    case JobStatus.scheduled:
      return before.status === JobStatus.dead ? after.runAt : after.labels['mark'];
    case JobStatus.enqueued:
      return after.enqueuedAt;
    case JobStatus.running:
      return after.starts.get(after.attempt)?.claimId;
    default:
      return before.status === JobStatus.dead ? after.bulkMarks[0] : after.finishedAt;
  }
}

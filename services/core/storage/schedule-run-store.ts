import { DAY_MS, SECOND_MS } from '../domain/limits.ts';
import type { ScheduleRunStore } from '../ports/schedule-store.ts';
import { chunks } from '../domain/chunks.ts';
import { readRuns, writeRun } from './cql/schedule-run-statements.ts';
import { decodeScheduleRun } from './schedule-codec.ts';
import type { Session } from './session.ts';

/** Each row is of a partition of its own, and Cassandra warns of batches over more than ten. */
const BATCH_MAX_ROWS = 10;

export function createScheduleRunStore(session: Session, keptDays: number): ScheduleRunStore {
  const ttlS = (keptDays * DAY_MS) / SECOND_MS;
  return {
    async write(runs) {
      const batches = chunks(runs, BATCH_MAX_ROWS);
      await Promise.all(batches.map((batch) => session.write(batch.map((run) => writeRun(run, ttlS)))));
    },
    async *read(range) {
      for await (const rows of session.pages(readRuns(range))) yield rows.map(decodeScheduleRun);
    },
  };
}

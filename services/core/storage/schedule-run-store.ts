import { monthOf } from '../domain/bucket.ts';
import { DAY_MS, SECOND_MS } from '../domain/limits.ts';
import type { ScheduleRun } from '../domain/occurrence.ts';
import type { ScheduleRunStore } from '../ports/schedule-store.ts';
import { readRuns, writeRun } from './cql/schedule-run-statements.ts';
import { PartitionWriter } from './partition-writer.ts';
import { decodeScheduleRun } from './schedule-codec.ts';
import type { Session } from './session.ts';

export function createScheduleRunStore(session: Session, keptDays: number): ScheduleRunStore {
  const ttlS = (keptDays * DAY_MS) / SECOND_MS;
  const writer = new PartitionWriter<ScheduleRun>(
    (run) => `${run.scheduleId} ${monthOf(run.slot)}`,
    (runs) => session.write(runs.map((run) => writeRun(run, ttlS))),
  );
  return {
    write: (runs) => writer.write(runs),
    async *read(range) {
      for await (const rows of session.pages(readRuns(range))) yield rows.map(decodeScheduleRun);
    },
  };
}

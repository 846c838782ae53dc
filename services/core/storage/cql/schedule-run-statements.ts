import { monthOf } from '../../domain/bucket.ts';
import type { ScheduleRun } from '../../domain/occurrence.ts';
import type { ScheduleRunRange } from '../../ports/schedule-store.ts';
import { timestamp } from '../row-codec.ts';
import type { Bound } from '../statement.ts';

// `schedule_runs`: plain idempotent writes with a TTL, LOCAL_QUORUM (session.write).

const WRITE_RUN = `
  INSERT INTO schedule_runs (schedule_id, month, slot, slot_until, job_id, outcome, reason, decided_at)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?) USING TTL ?`;

const READ_RUNS = `
  SELECT schedule_id, slot, slot_until, job_id, outcome, reason, decided_at FROM schedule_runs
  WHERE schedule_id = ? AND month = ? AND slot >= ? AND slot <= ? ORDER BY slot DESC`;

export const SCHEDULE_RUN_STATEMENTS: readonly string[] = [WRITE_RUN, READ_RUNS];

export function writeRun(run: ScheduleRun, ttlS: number): Bound {
  return {
    cql: WRITE_RUN,
    values: [
      run.scheduleId,
      monthOf(run.slot),
      timestamp(run.slot),
      timestamp(run.slotUntil) ?? undefined,
      run.jobId,
      run.outcome,
      run.reason ?? undefined,
      timestamp(run.decidedAt),
      ttlS,
    ],
  };
}

export function readRuns({ scheduleId, from, to }: ScheduleRunRange): Bound {
  return { cql: READ_RUNS, values: [scheduleId, monthOf(to), timestamp(from), timestamp(to)] };
}

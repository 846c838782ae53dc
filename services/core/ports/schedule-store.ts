import type { ScheduleRun } from '../domain/occurrence.ts';
import type { ScheduleConditionColumns, ScheduleOperation } from '../domain/schedule-operation.ts';
import type { ScheduleRow } from '../domain/schedule.ts';
import type { EpochMs } from '../domain/time.ts';
import type { CohortReader, CohortTable } from './cohort-table.ts';

/** The table `schedules`. */
export type ScheduleStore = CohortTable<ScheduleOperation, ScheduleConditionColumns>;
export type ScheduleReader = CohortReader<ScheduleRow>;

export interface ScheduleRunRange {
  readonly scheduleId: string;
  /** In the UTC month that `to` lies in. Inclusive. */
  readonly from: EpochMs;
  /** Inclusive. */
  readonly to: EpochMs;
}

/** What schedules did, slot by slot: a report, kept as long as dead jobs. Plain idempotent writes. Throws StoreError. */
export interface ScheduleRunStore {
  write(runs: readonly ScheduleRun[]): Promise<void>;
  /** Latest slot first, page by page. */
  read(range: ScheduleRunRange): AsyncIterable<readonly ScheduleRun[]>;
}

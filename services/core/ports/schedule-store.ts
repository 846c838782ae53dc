import type { ScheduleConditionColumns, ScheduleOperation } from '../domain/schedule-operation.ts';
import type { ScheduleRow } from '../domain/schedule.ts';
import type { EpochMs } from '../domain/time.ts';
import type { CohortReader, CohortTable } from './cohort-table.ts';

/** The table `schedules`. */
export type ScheduleStore = CohortTable<ScheduleOperation, ScheduleConditionColumns>;
export type ScheduleReader = CohortReader<ScheduleRow>;

/** What became of a slot, or of a range of slots that were not run. */
export const RunOutcome = {
  fired: 'fired',
  missed: 'missed',
  skippedOverlap: 'skipped_overlap',
  skippedByRequest: 'skipped_by_request',
  skippedPaused: 'skipped_paused',
  /** Overdue when the schedule got another timetable. */
  skippedByChange: 'skipped_by_change',
} as const;
export type RunOutcome = (typeof RunOutcome)[keyof typeof RunOutcome];

/** One row of schedule_runs((schedule_id, month), slot). */
export interface ScheduleRun {
  readonly scheduleId: string;
  readonly slot: EpochMs;
  /** The last slot of a range; null: it is one slot. */
  readonly slotUntil: EpochMs | null;
  readonly jobId: string;
  readonly outcome: RunOutcome;
  /** Says more than the outcome, where there is more to say. */
  readonly reason: string | null;
  readonly decidedAt: EpochMs;
}

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

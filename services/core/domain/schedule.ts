import type { DstGap, DstRepeat } from './cron-schedule.ts';
import type { Priority } from './job-status.ts';
import type { RetryPolicy } from './job.ts';
import type { EpochMs } from './time.ts';

/** What happens to a slot whose predecessor has not ended. */
export const OnOverlap = {
  /** The slot is not run. */
  skip: 'skip',
  /** Its occurrence waits until the one before has ended. */
  queue: 'queue',
  /** Both run. */
  allow: 'allow',
  /** The one before is cancelled, or asked to stop where it runs, and waited for. */
  replace: 'replace',
} as const;
export type OnOverlap = (typeof OnOverlap)[keyof typeof OnOverlap];

/** What happens to slots that were missed: see MISSED_AFTER_MS. */
export const OnMissed = {
  /** The latest of them is run. */
  runOnce: 'run_once',
  /** All are run: of those in missed_window_s the latest missed_limit. */
  runAll: 'run_all',
  skip: 'skip',
} as const;
export type OnMissed = (typeof OnMissed)[keyof typeof OnMissed];

/** What became of a slot, or of a range of slots that were not run, as schedule_runs reports it. */
export const RunOutcome = {
  fired: 'fired',
  missed: 'missed',
  skippedOverlap: 'skipped_overlap',
  skippedByRequest: 'skipped_by_request',
  skippedPaused: 'skipped_paused',
  /** Overdue when the schedule got another timetable, or was deleted. */
  skippedByChange: 'skipped_by_change',
} as const;
export type RunOutcome = (typeof RunOutcome)[keyof typeof RunOutcome];

/** Why slots were not run: the reason of the row that stands for them in `jobs`. */
export const NotRunReason = {
  /** on_missed skips them, or runs a later one. */
  missed: 'missed',
  /** Older than missed_window_s. */
  missedWindow: 'missed_window',
  /** More than missed_limit. */
  missedLimit: 'missed_limit',
  /** The occurrence before had not ended. */
  overlap: 'overlap',
  /** Too many were waiting for their predecessors already. */
  overlapFull: 'overlap_queue_full',
  byRequest: 'skipped_by_request',
  paused: 'schedule_paused',
  changed: 'schedule_changed',
  deleted: 'schedule_deleted',
} as const;
export type NotRunReason = (typeof NotRunReason)[keyof typeof NotRunReason];

export const OUTCOME_OF_REASON: Readonly<Record<NotRunReason, RunOutcome>> = {
  missed: RunOutcome.missed,
  missed_window: RunOutcome.missed,
  missed_limit: RunOutcome.missed,
  overlap: RunOutcome.skippedOverlap,
  overlap_queue_full: RunOutcome.skippedOverlap,
  skipped_by_request: RunOutcome.skippedByRequest,
  schedule_paused: RunOutcome.skippedPaused,
  schedule_changed: RunOutcome.skippedByChange,
  schedule_deleted: RunOutcome.skippedByChange,
};

/** What a schedule's slots follow from: one of cron and everyS. */
export interface TimetableDefinition {
  readonly cron: string | null;
  /** Counted from startAt in real elapsed time, so startAt is there too, at a whole second. */
  readonly everyS: number | null;
  /** An IANA name; with cron. */
  readonly timeZone: string | null;
  /** Null: as the cron rule has it for the hour field. */
  readonly onDstGap: DstGap | null;
  readonly onDstRepeat: DstRepeat | null;
  /** No slot is before it; null: before the schedule was made. */
  readonly startAt: EpochMs | null;
  /** No slot is after it. */
  readonly endAt: EpochMs | null;
}

/** What a caller says of a schedule. */
export interface ScheduleDefinition extends TimetableDefinition {
  readonly queue: string;
  readonly priority: Priority;
  /** Of every occurrence: the JSON text exactly as received; null when there is none. */
  readonly payload: string | null;
  readonly payloadBytes: number;
  readonly target: string | null;
  readonly labels: Readonly<Record<string, string>>;
  readonly maxAttempts: number;
  readonly timeoutS: number;
  readonly leaseS: number;
  readonly retry: RetryPolicy;
  readonly onOverlap: OnOverlap;
  readonly onMissed: OnMissed;
  /** At most so many missed slots are made good, the latest ones. */
  readonly missedLimit: number;
  /** Slots missed by more than this are not made good; null: however late. */
  readonly missedWindowS: number | null;
  /** Occurrences start up to so much after their slot. */
  readonly jitterS: number;
  /** The schedule ends after so many occurrences. */
  readonly maxRuns: number | null;
}

/** Where a schedule stands: moved by the firer, and by callers who pause, skip or change it. */
export interface ScheduleState {
  /** The next slot to decide; null when there is none any more. */
  readonly nextRunAt: EpochMs | null;
  /** The slot that was run last, and its occurrence: what on_overlap looks at. */
  readonly lastSlot: EpochMs | null;
  readonly lastJobId: string | null;
  /** Occurrences so far. */
  readonly runs: number;
  /** Occurrences that wait for their predecessors, oldest first. Some of them may have stopped waiting. */
  readonly waiting: readonly string[];
  readonly paused: boolean;
  readonly pausedReason: string | null;
  /** Where the pause ends; of one that was ended early: when that was. */
  readonly pausedUntil: EpochMs | null;
  /** The slot that a caller wants skipped. */
  readonly skipSlot: EpochMs | null;
}

/** What a caller makes of a schedule. */
export interface ScheduleChanges {
  readonly definition: ScheduleDefinition;
  /** What becomes different of where it stands. */
  readonly state: Partial<ScheduleState>;
  /** When this was decided: slots up to then are the old timetable's. */
  readonly at: EpochMs;
}

/** One row of the table `schedules` (schema/cassandra). Times are epoch milliseconds; null is an absent column. */
export interface ScheduleRow extends ScheduleDefinition, ScheduleState {
  readonly cohort: string;
  readonly scheduleId: string;
  readonly owner: string;
  /** The caller's own name for it. */
  readonly key: string | null;
  readonly shard: number;
  /** +1 per change by a caller: ETag and If-Match. */
  readonly revision: number;
  readonly createToken: string;
  /** The mark of the last change by a caller. */
  readonly changeToken: string | null;
  readonly requestHash: string | null;
  readonly traceparent: string | null;
  readonly createdAt: EpochMs;
  readonly updatedAt: EpochMs;
}

/** What a row says of where its schedule stands, and nothing else of it. */
export function stateOf(row: ScheduleState): ScheduleState {
  const { nextRunAt, lastSlot, lastJobId, runs, waiting, paused, pausedReason, pausedUntil, skipSlot } = row;
  return { nextRunAt, lastSlot, lastJobId, runs, waiting, paused, pausedReason, pausedUntil, skipSlot };
}

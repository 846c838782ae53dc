import type { Result } from '../../core/contract/problems.ts';
import type { JobRow } from '../../core/domain/job.ts';
import type { ScheduleDefinition, ScheduleRow } from '../../core/domain/schedule.ts';
import type { EpochMs } from '../../core/domain/time.ts';
import type { ScheduleRun } from '../../core/domain/occurrence.ts';
import type { CreatedJob } from './types.ts';

/** The part of the use-cases that is about schedules. */
export interface ScheduleUseCases {
  createSchedule(request: CreateSchedule): Promise<Result<CreatedSchedule>>;
  /** In order; each item stands for itself. A keyed call is exact when repeated. */
  createSchedules(batch: CreateSchedules): Promise<Result<readonly Result<CreatedSchedule>[]>>;
  /** Makes the schedule of a name, changes it, or finds that nothing is to be changed. */
  putSchedule(request: PutSchedule): Promise<Result<PutScheduleAnswer>>;
  getSchedule(reference: ScheduleReference): Promise<Result<ScheduleRow>>;
  /** A patch merges with what the schedule has, so the definition is asked for by row. */
  changeSchedule(
    target: ScheduleTarget,
    definitionOf: (row: ScheduleRow) => Result<ScheduleDefinition>,
  ): Promise<Result<ScheduleRow>>;
  pauseSchedule(target: ScheduleTarget, pause: Pause): Promise<Result<ScheduleRow>>;
  resumeSchedule(target: ScheduleTarget): Promise<Result<ScheduleRow>>;
  skipNextSlot(target: ScheduleTarget): Promise<Result<ScheduleRow>>;
  deleteSchedule(target: ScheduleTarget, cancelPending: boolean): Promise<Result<DeletedSchedule>>;
  /** A job with the schedule's work, due now; no slot. */
  runSchedule(reference: ScheduleReference, idempotencyKey: string | null): Promise<Result<CreatedJob>>;
  backfillSchedule(reference: ScheduleReference, request: Backfill): Promise<Result<readonly BackfilledSlot[]>>;
  listSchedules(request: ListSchedules): Promise<Result<SchedulePage>>;
  /** Pauses or resumes what a filter names; goes over a bounded number of schedules and says where to go on. */
  changeSchedules(request: ChangeSchedules): Promise<Result<ChangedSchedules>>;
  /** The latest slot first. */
  listScheduleRuns(reference: ScheduleReference, request: ListScheduleRuns): Promise<Result<ScheduleRunPage>>;
}

export interface CreateSchedule {
  readonly owner: string;
  readonly idempotencyKey: string | null;
  /** Of the request's content; null without a key. */
  readonly requestHash: string | null;
  readonly definition: ScheduleDefinition;
  readonly traceparent: string | null;
}

export interface CreatedSchedule {
  readonly schedule: ScheduleRow;
  /** The key had been used for this very schedule before. */
  readonly replayed: boolean;
}

export interface CreateSchedules {
  readonly owner: string;
  /** Covers the whole call. */
  readonly idempotencyKey: string | null;
  readonly requestHash: string | null;
  /** An item that was refused already keeps its place. */
  readonly schedules: readonly Result<CreateSchedule>[];
}

export interface PutSchedule {
  readonly owner: string;
  readonly name: string;
  /** If-Match; null: whatever it is now. */
  readonly revision: number | null;
  readonly definition: ScheduleDefinition;
  readonly traceparent: string | null;
}

export interface PutScheduleAnswer {
  readonly schedule: ScheduleRow;
  readonly created: boolean;
}

export interface ScheduleReference {
  readonly owner: string;
  /** The schedule's id, or the name it was made under. */
  readonly schedule: string;
}

export interface ScheduleTarget extends ScheduleReference {
  /** If-Match; null: whatever it is now. */
  readonly revision: number | null;
}

export interface Pause {
  readonly reason: string | null;
  /** It ends by itself then; null: when somebody resumes the schedule. */
  readonly until: EpochMs | null;
}

export interface DeletedSchedule {
  readonly schedule: ScheduleRow;
  /** The occurrences that were cancelled. */
  readonly cancelled: readonly string[];
}

export interface Backfill {
  readonly from: EpochMs;
  /** Exclusive. */
  readonly to: EpochMs;
  /** Only tells the slots. */
  readonly dryRun: boolean;
  readonly idempotencyKey: string | null;
  /** Of the request's content; null without a key. */
  readonly requestHash: string | null;
}

export interface BackfilledSlot {
  readonly slot: EpochMs;
  /** Null in a dry run. */
  readonly job: Result<CreatedJob> | null;
}

export interface ScheduleFilter {
  /** Null: in any queue. */
  readonly queue: string | null;
  readonly label: { readonly name: string; readonly value: string } | null;
  readonly paused: boolean | null;
}

export interface ListSchedules extends ScheduleFilter {
  readonly pageSize: number;
  /** The last schedule of the page before; null: the first page. */
  readonly after: string | null;
}

export interface SchedulePage {
  readonly schedules: readonly ScheduleRow[];
  readonly next: string | null;
}

export interface ChangeSchedules {
  readonly owner: string;
  readonly filter: Omit<ScheduleFilter, 'paused'>;
  /** Null: resume. */
  readonly pause: Pause | null;
  /** Only counts. */
  readonly dryRun: boolean;
  readonly after: string | null;
}

export interface ChangedSchedules {
  readonly matched: number;
  /** In a dry run: that would be. */
  readonly changed: number;
  readonly next: string | null;
}

export interface ListScheduleRuns {
  readonly from: EpochMs;
  /** Inclusive. */
  readonly to: EpochMs;
  readonly pageSize: number;
}

export interface ScheduleRunPage {
  readonly runs: readonly ListedRun[];
  /** The latest slot of the next page at most; null: there is none. */
  readonly next: EpochMs | null;
}

export interface ListedRun {
  readonly run: ScheduleRun;
  /** Of a slot that was run; null when it is kept no longer. */
  readonly job: JobRow | null;
}

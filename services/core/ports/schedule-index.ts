import type { EpochMs } from '../domain/time.ts';

/** The list that holds every schedule, beside those of the queues. */
export const ALL_QUEUES = '';

/** A row of schedules_by_queue((queue, stripe), schedule_id). */
export interface ScheduleIndexEntry {
  /** Or ALL_QUEUES. */
  readonly queue: string;
  readonly scheduleId: string;
  /** Also the row's version: only it is taken away by `remove`. */
  readonly writtenAt: EpochMs;
}

export interface ScheduleIndexRange {
  readonly queue: string;
  readonly stripe: number;
  /** Exclusive; '' begins. */
  readonly after: string;
  readonly limit: number;
}

/** Where schedules are listed. Plain idempotent writes. Throws StoreError. */
export interface ScheduleIndex {
  write(entries: readonly ScheduleIndexEntry[]): Promise<void>;
  /** Takes away what was read; an entry written again meanwhile stays. */
  remove(entries: readonly ScheduleIndexEntry[]): Promise<void>;
  /** In the order of ids. */
  read(range: ScheduleIndexRange): Promise<readonly ScheduleIndexEntry[]>;
}

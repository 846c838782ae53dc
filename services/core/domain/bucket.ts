import { cohortOf, shardOf } from './ids.ts';
import { HOUR_MS, MINUTE_MS } from './limits.ts';
import type { EpochMs } from './time.ts';

/** The UTC minute a timer lies in, as the epoch milliseconds of its start: half of a due or deadline partition's key. */
export function bucketOf(at: EpochMs): EpochMs {
  return Math.floor(at / MINUTE_MS) * MINUTE_MS;
}

/** The first instant after the bucket. */
export function bucketEnd(bucket: EpochMs): EpochMs {
  return bucket + MINUTE_MS;
}

/** The UTC hour, as the epoch milliseconds of its start: part of a job_history partition's key. */
export function hourOf(at: EpochMs): EpochMs {
  return Math.floor(at / HOUR_MS) * HOUR_MS;
}

/** The UTC day as 2026-11-15: part of a dead_letters partition's key. */
export function dayOf(at: EpochMs): string {
  return new Date(at).toISOString().slice(0, 10);
}

/** The UTC month as 2026-11: part of a schedule_runs partition's key. */
export function monthOf(at: EpochMs): string {
  return new Date(at).toISOString().slice(0, 7);
}

export const HISTORY_STRIPES = 8;

/** The stripe of job_history a job lies in. By cohort, not by job: jobs of one cohort finish together and go in one write. */
export function historyStripe(jobId: string): number {
  return shardOf(cohortOf(jobId), HISTORY_STRIPES);
}

export const SCHEDULE_STRIPES = 16;

/** The stripe of schedules_by_queue a schedule lies in. */
export function scheduleStripe(scheduleId: string): number {
  return shardOf(cohortOf(scheduleId), SCHEDULE_STRIPES);
}

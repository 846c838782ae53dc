import { formatInstant } from '../../core/contract/instant.ts';
import type { Result } from '../../core/contract/problems.ts';
import type { WireRetry } from '../../core/contract/wire.ts';
import type { RetryPolicy } from '../../core/domain/job.ts';
import { isPaused } from '../../core/domain/schedule-plan.ts';
import type { ScheduleRow } from '../../core/domain/schedule.ts';
import { timetableOf } from '../../core/domain/timetable.ts';
import type { EpochMs } from '../../core/domain/time.ts';
import { itemProblem, jsonWithRaw } from '../middleware/answer.ts';
import type { BackfilledSlot, CreatedSchedule, ListedRun } from '../use-cases/schedule-types.ts';
import { createdJobView, hrefOf, instantOrNull } from './job-view.ts';

/** What views need besides the row. */
export interface ScheduleViewTerms {
  readonly now: EpochMs;
  readonly keyspace: string;
}

export function scheduleHref(scheduleId: string): string {
  return `/schedules/${scheduleId}`;
}

/** A schedule with all that its row knows, as JSON text. */
export function scheduleJson(row: ScheduleRow, terms: ScheduleViewTerms): string {
  return jsonWithRaw(scheduleView(row, terms), { payload: row.payload });
}

/** As lists show it: without its payload. */
export function scheduleView(row: ScheduleRow, { now, keyspace }: ScheduleViewTerms): object {
  const isNowPaused = isPaused(row, now);
  return {
    schedule_id: row.scheduleId,
    href: scheduleHref(row.scheduleId),
    key: row.key,
    queue: row.queue,
    priority: row.priority,
    cron: row.cron,
    every_s: row.everyS,
    time_zone: row.timeZone,
    on_overlap: row.onOverlap,
    on_missed: row.onMissed,
    missed_limit: row.missedLimit,
    missed_window_s: row.missedWindowS,
    on_dst_gap: row.onDstGap,
    on_dst_repeat: row.onDstRepeat,
    jitter_s: row.jitterS,
    start_at: instantOrNull(row.startAt),
    end_at: instantOrNull(row.endAt),
    max_runs: row.maxRuns,
    runs: row.runs,
    status: row.nextRunAt === null ? 'ended' : isNowPaused ? 'paused' : 'active',
    next_run_at: instantOrNull(nextRun(row, isNowPaused)),
    paused_reason: isNowPaused ? row.pausedReason : null,
    paused_until: isNowPaused ? instantOrNull(row.pausedUntil) : null,
    skip_slot: instantOrNull(row.skipSlot),
    last_slot: instantOrNull(row.lastSlot),
    last_job_id: row.lastJobId,
    waiting: row.waiting,
    labels: row.labels,
    max_attempts: row.maxAttempts,
    timeout_s: row.timeoutS,
    lease_s: row.leaseS,
    retry: wireRetry(row.retry),
    revision: row.revision,
    owner: row.owner,
    traceparent: row.traceparent,
    payload_bytes: row.payloadBytes,
    cohort: row.cohort,
    shard: row.shard,
    created_at: formatInstant(row.createdAt),
    updated_at: formatInstant(row.updatedAt),
    cql: `SELECT * FROM ${keyspace}.schedules WHERE cohort = '${row.cohort}' AND schedule_id = '${row.scheduleId}';`,
  };
}

/** The next slot that will be run as things stand: not in a pause, and not the one to be skipped. */
function nextRun(row: ScheduleRow, isNowPaused: boolean): EpochMs | null {
  const { nextRunAt, paused, pausedUntil, skipSlot } = row;
  if (nextRunAt === null || (isNowPaused && pausedUntil === null)) return null;
  const from = paused && pausedUntil !== null ? Math.max(nextRunAt, pausedUntil) : nextRunAt;
  // Most schedules need no timetable here.
  if (from === nextRunAt && from !== skipSlot) return nextRunAt;
  const timetable = timetableOf(row, row.scheduleId);
  const slot = timetable.next(from - 1);
  return slot !== null && slot === skipSlot ? timetable.next(slot) : slot;
}

/** What became of one schedule of a batch. */
export function createdScheduleView(result: Result<CreatedSchedule>): object {
  if (!result.ok) return itemProblem(result.problem);
  const { schedule, replayed } = result.value;
  const { scheduleId, nextRunAt } = schedule;
  return {
    status: replayed ? 200 : 201,
    schedule_id: scheduleId,
    href: scheduleHref(scheduleId),
    next_run_at: instantOrNull(nextRunAt),
    replayed,
  };
}

export function backfilledView({ slot, job }: BackfilledSlot): object {
  return { slot: formatInstant(slot), ...(job === null ? {} : createdJobView(job)) };
}

export function runView({ run, job }: ListedRun): object {
  const startedAt = job?.starts.get(1)?.startedAt ?? null;
  return {
    slot: formatInstant(run.slot),
    slot_until: instantOrNull(run.slotUntil),
    outcome: run.outcome,
    reason: run.reason,
    job_id: run.jobId,
    href: hrefOf(run.jobId),
    decided_at: formatInstant(run.decidedAt),
    job_status: job?.status ?? null,
    lag_ms: startedAt === null ? null : startedAt - run.slot,
  };
}

export function wireRetry({ kind, baseS, factor, capS, jitter }: RetryPolicy): WireRetry {
  return { kind, base_s: baseS, factor, cap_s: capS, jitter };
}

export function instantOrUndefined(at: EpochMs | null): string | undefined {
  return at === null ? undefined : formatInstant(at);
}

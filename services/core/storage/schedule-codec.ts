import type { Priority } from '../domain/job-status.ts';
import type { ScheduleConditionColumns } from '../domain/schedule-operation.ts';
import type {
  OnMissed,
  OnOverlap,
  RunOutcome,
  ScheduleDefinition,
  ScheduleRow,
  ScheduleState,
} from '../domain/schedule.ts';
import type { ScheduleRun } from '../domain/occurrence.ts';
import {
  decodeRetry,
  encodeRetry,
  entries,
  flag,
  mapOrUnset,
  number,
  numberOrNull,
  text,
  textOrNull,
  time,
  timeOrNull,
  timestamp,
  value,
  type StoredRetry,
} from './row-codec.ts';
import type { Row } from './statement.ts';

// ScheduleRow <-> the columns of `schedules`. What is null or empty stays unset in an insert; an update writes the null.

type Encoding<From> = Readonly<Record<string, (from: From) => unknown>>;

/** What a caller says of a schedule, one entry a column. */
const DEFINITION: Encoding<ScheduleDefinition> = {
  queue: (schedule) => schedule.queue,
  priority: (schedule) => schedule.priority,
  payload: (schedule) => schedule.payload,
  payload_bytes: (schedule) => schedule.payloadBytes,
  target: (schedule) => schedule.target,
  labels: (schedule) => mapOrUnset(new Map(Object.entries(schedule.labels))) ?? null,
  max_attempts: (schedule) => schedule.maxAttempts,
  timeout_s: (schedule) => schedule.timeoutS,
  lease_s: (schedule) => schedule.leaseS,
  retry: (schedule) => encodeRetry(schedule.retry),
  cron: (schedule) => schedule.cron,
  every_s: (schedule) => schedule.everyS,
  time_zone: (schedule) => schedule.timeZone,
  on_overlap: (schedule) => schedule.onOverlap,
  on_missed: (schedule) => schedule.onMissed,
  missed_limit: (schedule) => schedule.missedLimit,
  missed_window_s: (schedule) => schedule.missedWindowS,
  on_dst_gap: (schedule) => schedule.onDstGap,
  on_dst_repeat: (schedule) => schedule.onDstRepeat,
  jitter_s: (schedule) => schedule.jitterS,
  start_at: (schedule) => timestamp(schedule.startAt),
  end_at: (schedule) => timestamp(schedule.endAt),
  max_runs: (schedule) => schedule.maxRuns,
};

const STATE: Encoding<ScheduleState> = {
  next_run_at: (schedule) => timestamp(schedule.nextRunAt),
  last_slot: (schedule) => timestamp(schedule.lastSlot),
  last_job_id: (schedule) => schedule.lastJobId,
  runs: (schedule) => schedule.runs,
  waiting: (schedule) => (schedule.waiting.length === 0 ? null : schedule.waiting),
  paused: (schedule) => schedule.paused,
  paused_reason: (schedule) => schedule.pausedReason,
  paused_until: (schedule) => timestamp(schedule.pausedUntil),
  skip_slot: (schedule) => timestamp(schedule.skipSlot),
};

const IDENTITY: Encoding<ScheduleRow> = {
  cohort: (schedule) => schedule.cohort,
  schedule_id: (schedule) => schedule.scheduleId,
  owner: (schedule) => schedule.owner,
  schedule_key: (schedule) => schedule.key,
  shard: (schedule) => schedule.shard,
  revision: (schedule) => schedule.revision,
  create_token: (schedule) => schedule.createToken,
  change_token: (schedule) => schedule.changeToken,
  request_hash: (schedule) => schedule.requestHash,
  traceparent: (schedule) => schedule.traceparent,
  created_at: (schedule) => timestamp(schedule.createdAt),
  updated_at: (schedule) => timestamp(schedule.updatedAt),
};

export const DEFINITION_COLUMNS: readonly string[] = Object.keys(DEFINITION);
export const STATE_COLUMNS: readonly string[] = Object.keys(STATE);
export const SCHEDULE_COLUMNS: readonly string[] = [...Object.keys(IDENTITY), ...DEFINITION_COLUMNS, ...STATE_COLUMNS];

/** The values of SCHEDULE_COLUMNS, for an insert. */
export function encodeSchedule(schedule: ScheduleRow): unknown[] {
  const values = [...encode(IDENTITY, schedule), ...encodeDefinition(schedule), ...encodeState(schedule)];
  return values.map((each) => each ?? undefined);
}

/** The values of DEFINITION_COLUMNS. */
export function encodeDefinition(definition: ScheduleDefinition): unknown[] {
  return encode(DEFINITION, definition);
}

/** The values of STATE_COLUMNS. */
export function encodeState(state: ScheduleState): unknown[] {
  return encode(STATE, state);
}

function encode<From>(encoding: Encoding<From>, from: From): unknown[] {
  return Object.values(encoding).map((column) => column(from));
}

export function decodeSchedule(row: Row): ScheduleRow {
  return {
    cohort: text(row, 'cohort'),
    scheduleId: text(row, 'schedule_id'),
    owner: text(row, 'owner'),
    key: textOrNull(row, 'schedule_key'),
    shard: number(row, 'shard'),
    revision: number(row, 'revision'),
    createToken: text(row, 'create_token'),
    changeToken: textOrNull(row, 'change_token'),
    requestHash: textOrNull(row, 'request_hash'),
    traceparent: textOrNull(row, 'traceparent'),
    createdAt: time(row, 'created_at'),
    updatedAt: time(row, 'updated_at'),
    ...decodeDefinition(row),
    ...decodeState(row),
  };
}

function decodeDefinition(row: Row): ScheduleDefinition {
  return {
    queue: text(row, 'queue'),
    priority: text(row, 'priority') as Priority,
    payload: textOrNull(row, 'payload'),
    payloadBytes: number(row, 'payload_bytes'),
    target: textOrNull(row, 'target'),
    labels: Object.fromEntries(entries<string, string>(row, 'labels')),
    maxAttempts: number(row, 'max_attempts'),
    timeoutS: number(row, 'timeout_s'),
    leaseS: number(row, 'lease_s'),
    retry: decodeRetry(value(row, 'retry') as StoredRetry),
    cron: textOrNull(row, 'cron'),
    everyS: numberOrNull(row, 'every_s'),
    timeZone: textOrNull(row, 'time_zone'),
    onOverlap: text(row, 'on_overlap') as OnOverlap,
    onMissed: text(row, 'on_missed') as OnMissed,
    missedLimit: number(row, 'missed_limit'),
    missedWindowS: numberOrNull(row, 'missed_window_s'),
    onDstGap: textOrNull(row, 'on_dst_gap') as ScheduleDefinition['onDstGap'],
    onDstRepeat: textOrNull(row, 'on_dst_repeat') as ScheduleDefinition['onDstRepeat'],
    jitterS: number(row, 'jitter_s'),
    startAt: timeOrNull(row, 'start_at'),
    endAt: timeOrNull(row, 'end_at'),
    maxRuns: numberOrNull(row, 'max_runs'),
  };
}

function decodeState(row: Row): ScheduleState {
  return {
    nextRunAt: timeOrNull(row, 'next_run_at'),
    lastSlot: timeOrNull(row, 'last_slot'),
    lastJobId: textOrNull(row, 'last_job_id'),
    runs: number(row, 'runs'),
    waiting: (row.get('waiting') as readonly string[] | null) ?? [],
    paused: flag(row, 'paused'),
    pausedReason: textOrNull(row, 'paused_reason'),
    pausedUntil: timeOrNull(row, 'paused_until'),
    skipSlot: timeOrNull(row, 'skip_slot'),
  };
}

/** The columns that a lost conditional write brought back; those it did not name stay undefined. */
export function decodeScheduleColumns(row: Row): ScheduleConditionColumns {
  const names = new Set(row.keys());
  return {
    ...(names.has('revision') && { revision: number(row, 'revision') }),
    ...(names.has('next_run_at') && { nextRunAt: timeOrNull(row, 'next_run_at') }),
  };
}

export function decodeScheduleRun(row: Row): ScheduleRun {
  return {
    scheduleId: text(row, 'schedule_id'),
    slot: time(row, 'slot'),
    slotUntil: timeOrNull(row, 'slot_until'),
    jobId: text(row, 'job_id'),
    outcome: text(row, 'outcome') as RunOutcome,
    reason: textOrNull(row, 'reason'),
    decidedAt: time(row, 'decided_at'),
  };
}

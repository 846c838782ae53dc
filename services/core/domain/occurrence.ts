import { cohortOf, occurrenceId, occurrenceOf, shardOf } from './ids.ts';
import type { JobRow } from './job.ts';
import { JobStatus } from './job-status.ts';
import { SECOND_MS } from './limits.ts';
import { OUTCOME_OF_REASON, RunOutcome, type NotRunReason, type OnOverlap, type ScheduleRow } from './schedule.ts';
import type { SlotRange } from './schedule-plan.ts';
import { stableFraction } from './stable-fraction.ts';
import type { EpochMs } from './time.ts';
import type { Timetable } from './timetable.ts';

/** When the occurrence of a slot starts: the slot, later by a hashed start second and by its own share of the jitter. */
export function startOf(row: ScheduleRow, timetable: Timetable, slot: EpochMs): EpochMs {
  const jitterMs = row.jitterS * SECOND_MS;
  const shareMs = jitterMs === 0 ? 0 : Math.floor(stableFraction(occurrenceId(row.scheduleId, slot)) * jitterMs);
  return slot + timetable.startOffsetMs + shareMs;
}

/** What the row of a slot says of it. */
export type SlotDecision =
  | {
      readonly kind: 'run';
      readonly slot: EpochMs;
      readonly startAt: EpochMs;
      readonly onOverlap: OnOverlap;
      /** It may go to the ready stream past the dispatcher, once it is due. */
      readonly isOpen: boolean;
      /** The occurrence that must have ended before this one starts. */
      readonly waitsFor: string | null;
    }
  | { readonly kind: 'not_run'; readonly slots: SlotRange; readonly reason: NotRunReason };

/** The row that decides a slot. Its run_at is the time of its timer. */
export function occurrenceRow(
  schedule: ScheduleRow,
  decision: SlotDecision,
  given: { readonly now: EpochMs; readonly shards: number; readonly createToken: string },
): JobRow {
  const { now, shards, createToken } = given;
  const slot = decision.kind === 'run' ? decision.slot : decision.slots.from;
  const jobId = occurrenceId(schedule.scheduleId, slot);
  const cohort = cohortOf(jobId);
  return {
    cohort,
    jobId,
    scheduleId: schedule.scheduleId,
    owner: schedule.owner,
    queue: schedule.queue,
    priority: schedule.priority,
    target: schedule.target,
    labels: schedule.labels,
    maxAttempts: schedule.maxAttempts,
    timeoutS: schedule.timeoutS,
    leaseS: schedule.leaseS,
    retry: schedule.retry,
    traceparent: schedule.traceparent,
    scheduledFor: slot,
    shard: shardOf(cohort, shards),
    createToken,
    createdAt: now,
    ...(decision.kind === 'run' ? runFields(schedule, decision, now) : notRunFields(decision, now)),
    idempotencyKey: null,
    requestHash: null,
    expiresAt: null,
    attempt: 0,
    tries: 0,
    lapses: 0,
    lostClaims: 0,
    heard: false,
    leaseUntil: null,
    deadlineAt: null,
    worker: null,
    cancelRequested: false,
    lastError: null,
    result: null,
    progress: null,
    bulkMarks: [],
    starts: new Map(),
    ends: new Map(),
  };
}

type DecidedFields = Pick<
  JobRow,
  | 'payload'
  | 'payloadBytes'
  | 'runAt'
  | 'status'
  | 'enqueuedAt'
  | 'finishedAt'
  | 'reason'
  | 'onOverlap'
  | 'waitsFor'
  | 'slotUntil'
>;

function runFields(
  { payload, payloadBytes }: ScheduleRow,
  decision: Extract<SlotDecision, { kind: 'run' }>,
  now: EpochMs,
): DecidedFields {
  const isEnqueued = decision.isOpen && decision.waitsFor === null && decision.startAt <= now;
  return {
    payload,
    payloadBytes,
    runAt: Math.max(decision.startAt, now),
    status: isEnqueued ? JobStatus.enqueued : JobStatus.scheduled,
    enqueuedAt: isEnqueued ? now : null,
    finishedAt: null,
    reason: null,
    onOverlap: decision.onOverlap,
    waitsFor: decision.waitsFor,
    slotUntil: null,
  };
}

function notRunFields({ slots, reason }: Extract<SlotDecision, { kind: 'not_run' }>, now: EpochMs): DecidedFields {
  return {
    payload: null,
    payloadBytes: 0,
    runAt: now,
    status: JobStatus.cancelled,
    enqueuedAt: null,
    finishedAt: now,
    reason,
    onOverlap: null,
    waitsFor: null,
    slotUntil: slots.to,
  };
}

/** What the report says of a decided slot. */
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

/** From the row alone, so that a repeat says the same. */
export function runOf(occurrence: JobRow): ScheduleRun {
  const { jobId, slotUntil, reason, createdAt } = occurrence;
  const of = occurrenceOf(jobId);
  if (of === null) throw new Error(`no occurrence: ${jobId}`);
  const wasRun = slotUntil === null;
  return {
    ...of,
    slotUntil: slotUntil === of.slot ? null : slotUntil,
    jobId,
    outcome: wasRun ? RunOutcome.fired : OUTCOME_OF_REASON[reason as NotRunReason],
    reason: wasRun ? null : reason,
    decidedAt: createdAt,
  };
}

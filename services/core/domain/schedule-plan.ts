import type { JobRow } from './job.ts';
import { occurrenceOf } from './ids.ts';
import { isTerminal } from './job-status.ts';
import { LATE_IN_OUTAGE_MS, MISSED_AFTER_MS, OVERLAP_WAITING_MAX, SECOND_MS } from './limits.ts';
import type { DueEntry } from './operation.ts';
import {
  NotRunReason,
  OnMissed,
  OnOverlap,
  stateOf,
  type ScheduleChanges,
  type ScheduleRow,
  type ScheduleState,
} from './schedule.ts';
import type { EpochMs } from './time.ts';
import type { Timetable } from './timetable.ts';

/** Slots from one to another, both included. */
export interface SlotRange {
  readonly from: EpochMs;
  readonly to: EpochMs;
}

/**
 * What is to be done about a schedule's next slot. `chosen` are missed slots that are made good: within one pass they are
 * then run as any other, however much later it is by then.
 */
export type SlotPlan =
  /** Nothing is due. */
  | { readonly kind: 'rest' }
  | { readonly kind: 'run'; readonly slot: EpochMs; readonly chosen: SlotRange | null }
  | {
      readonly kind: 'leave_out';
      readonly slots: SlotRange;
      readonly reason: NotRunReason;
      readonly chosen: SlotRange | null;
    };

/** A pause ends at its `until`, whether or not the firer has taken note. */
export function isPaused({ paused, pausedUntil }: ScheduleState, now: EpochMs): boolean {
  return paused && (pausedUntil === null || pausedUntil > now);
}

/** Whether the firer has a slot to decide. */
export function isDue(row: ScheduleState, now: EpochMs): boolean {
  return row.nextRunAt !== null && row.nextRunAt <= now && !isPaused(row, now);
}

/** Decides the next slot but for overlaps. @param chosen what an earlier step of the same pass chose. */
export function planSlot(row: ScheduleRow, timetable: Timetable, now: EpochMs, chosen: SlotRange | null): SlotPlan {
  const slot = row.nextRunAt;
  if (slot === null || !isDue(row, now)) return { kind: 'rest' };
  if (row.paused && row.pausedUntil !== null && slot < row.pausedUntil) {
    return leaveOut(slot, lastBefore(timetable, row.pausedUntil, slot), NotRunReason.paused, chosen);
  }
  if (slot === row.skipSlot) return leaveOut(slot, slot, NotRunReason.byRequest, chosen);
  if (chosen !== null && slot >= chosen.from && slot <= chosen.to) return { kind: 'run', slot, chosen };
  if (now - slot > MISSED_AFTER_MS) return planMissed(row, timetable, slot, now);
  return { kind: 'run', slot, chosen: null };
}

/**
 * Slots were missed: by more than MISSED_AFTER_MS at least the first of them. One run, or none, makes good for all that came
 * late, so there it counts every slot of the outage; where all are run, the others need no decision.
 */
function planMissed(row: ScheduleRow, timetable: Timetable, slot: EpochMs, now: EpochMs): SlotPlan {
  const { onMissed, missedLimit, missedWindowS } = row;
  const lateMs = onMissed === OnMissed.runAll ? MISSED_AFTER_MS : LATE_IN_OUTAGE_MS;
  const last = lastBefore(timetable, now - lateMs, slot);
  const windowFrom = missedWindowS === null ? -Infinity : now - missedWindowS * SECOND_MS;
  if (onMissed === OnMissed.skip) return leaveOut(slot, last, NotRunReason.missed, null);
  if (last < windowFrom) return leaveOut(slot, last, NotRunReason.missedWindow, null);
  const { first, reason } =
    onMissed === OnMissed.runOnce
      ? { first: last, reason: NotRunReason.missed }
      : latestOf(timetable, { from: slot, to: last }, missedLimit, windowFrom);
  const chosen = { from: first, to: last };
  if (first === slot) return { kind: 'run', slot, chosen };
  return leaveOut(slot, lastBefore(timetable, first, slot), reason, chosen);
}

/** The first of the latest `most` slots that are not before the window, and why those before it are left out. */
function latestOf(
  timetable: Timetable,
  { from, to }: SlotRange,
  most: number,
  windowFrom: EpochMs,
): { readonly first: EpochMs; readonly reason: NotRunReason } {
  let first = to;
  for (let count = 1; count < most; count += 1) {
    const before = timetable.previous(first);
    if (before === null || before < from) return { first: from, reason: NotRunReason.missed };
    if (before < windowFrom) return { first, reason: NotRunReason.missedWindow };
    first = before;
  }
  return { first, reason: NotRunReason.missedLimit };
}

function leaveOut(from: EpochMs, to: EpochMs, reason: NotRunReason, chosen: SlotRange | null): SlotPlan {
  return { kind: 'leave_out', slots: { from, to }, reason, chosen };
}

/**
 * What the row of overdue slots says that a caller takes away with another timetable, or with the schedule; what lies in a pause
 * has a row of its own. Null: none is overdue at `at`.
 */
export function planTakenAway(
  row: ScheduleRow,
  timetable: Timetable,
  { at, reason }: { readonly at: EpochMs; readonly reason: NotRunReason },
): { readonly slots: SlotRange; readonly reason: NotRunReason } | null {
  const slot = row.nextRunAt;
  if (slot === null || slot > at) return null;
  const pausedBefore = row.paused ? Math.min(row.pausedUntil ?? Infinity, at + 1) : -Infinity;
  const inPause = slot < pausedBefore;
  const to = lastBefore(timetable, inPause ? pausedBefore : at + 1, slot);
  return { slots: { from: slot, to }, reason: inPause ? NotRunReason.paused : reason };
}

/** The last slot before an instant, but none before `slot`, which the timetable may no longer name. */
function lastBefore(timetable: Timetable, before: EpochMs, slot: EpochMs): EpochMs {
  return Math.max(slot, timetable.previous(before) ?? slot);
}

/** Whether a slot that is run makes good for an outage: it was missed, or is late by more than a dispatcher's own pace. */
export function isCatchUp({ slot, chosen }: { slot: EpochMs; chosen: SlotRange | null }, now: EpochMs): boolean {
  return chosen !== null || now - slot > LATE_IN_OUTAGE_MS;
}

/** What on_overlap says of a slot that is to be run. */
export type OverlapPlan =
  | { readonly kind: 'run' }
  | { readonly kind: 'leave_out'; readonly reason: NotRunReason }
  /** It starts when the one before has ended, which is asked to end where it is to be replaced. */
  | { readonly kind: 'wait'; readonly replaces: boolean };

/**
 * @param previous the occurrence that ran or waits last; null: there is none any more. @param waiting how many wait for their predecessors.
 * @param catchesUp whether the slot is run late, because of an outage: where all of those are run, `skip` lets them wait for each other.
 * It says that no two may run at once, not that one that nobody could start in time is left out.
 */
export function planOverlap(
  row: ScheduleRow,
  previous: JobRow | null,
  waiting: number,
  catchesUp: boolean,
): OverlapPlan {
  if (previous === null || isTerminal(previous.status)) return { kind: 'run' };
  const onOverlap = effectiveOverlap(row, catchesUp);
  switch (onOverlap) {
    case OnOverlap.allow:
      return { kind: 'run' };
    case OnOverlap.skip:
      return { kind: 'leave_out', reason: NotRunReason.overlap };
    case OnOverlap.replace:
      return { kind: 'wait', replaces: true };
    case OnOverlap.queue: {
      const most = catchesUp ? Math.max(OVERLAP_WAITING_MAX, row.missedLimit) : OVERLAP_WAITING_MAX;
      return waiting < most
        ? { kind: 'wait', replaces: false }
        : { kind: 'leave_out', reason: NotRunReason.overlapFull };
    }
  }
}

/** The on_overlap that an occurrence goes by. */
export function effectiveOverlap({ onOverlap, onMissed }: ScheduleRow, catchesUp: boolean): OnOverlap {
  const runsAll = catchesUp && onMissed === OnMissed.runAll;
  return runsAll && onOverlap === OnOverlap.skip ? OnOverlap.queue : onOverlap;
}

/**
 * Where the schedule stands once its next slot is decided. It follows from the occurrence's row alone, whoever wrote it: the
 * row is the decision. @param waiting those of row.waiting that still wait.
 */
export function stateAfter(
  { row, timetable, waiting }: StandingSchedule,
  occurrence: JobRow,
  now: EpochMs,
): ScheduleState {
  const slot = slotOf(occurrence);
  const run: Partial<ScheduleState> = occurrence.slotUntil === null ? runState(row, occurrence) : {};
  const runs = run.runs ?? row.runs;
  const next = timetable.next(occurrence.slotUntil ?? slot);
  const nextRunAt = row.maxRuns !== null && runs >= row.maxRuns ? null : next;
  const pauseIsOver = !isPaused(row, now) && (nextRunAt ?? Infinity) >= (row.pausedUntil ?? -Infinity);
  const waits = occurrence.waitsFor !== null && !isTerminal(occurrence.status);
  return {
    ...stateOf(row),
    ...run,
    nextRunAt,
    waiting: waits ? [...waiting.filter((jobId) => jobId !== occurrence.jobId), occurrence.jobId] : waiting,
    ...(pauseIsOver && { paused: false, pausedReason: null, pausedUntil: null }),
    skipSlot: row.skipSlot !== null && row.skipSlot < (nextRunAt ?? Infinity) ? null : row.skipSlot,
  };
}

interface StandingSchedule {
  readonly row: ScheduleRow;
  readonly timetable: Timetable;
  readonly waiting: readonly string[];
}

/**
 * Where a schedule stands whose caller moved it past a slot that was run meanwhile: the run counts, and on_overlap looks at it.
 * Null when the schedule knows of it, or has yet to come to the slot.
 */
export function stateWithRun(row: ScheduleRow, occurrence: JobRow): ScheduleState | null {
  const slot = slotOf(occurrence);
  const isAhead = row.nextRunAt !== null && row.nextRunAt <= slot;
  const isKnown = row.lastSlot !== null && row.lastSlot >= slot;
  if (occurrence.slotUntil !== null || isAhead || isKnown) return null;
  const run = runState(row, occurrence);
  const isOver = row.maxRuns !== null && run.runs >= row.maxRuns;
  return { ...stateOf(row), ...run, nextRunAt: isOver ? null : row.nextRunAt };
}

/** Where a schedule stands once a caller has changed it. */
export function stateAfterChange(
  row: ScheduleRow,
  { definition, state }: Pick<ScheduleChanges, 'definition' | 'state'>,
): ScheduleState {
  const isOver = definition.maxRuns !== null && row.runs >= definition.maxRuns;
  return { ...stateOf(row), ...state, ...(isOver && { nextRunAt: null }) };
}

function runState(row: ScheduleRow, occurrence: JobRow): Pick<ScheduleState, 'lastSlot' | 'lastJobId' | 'runs'> {
  return { lastSlot: slotOf(occurrence), lastJobId: occurrence.jobId, runs: row.runs + 1 };
}

function slotOf({ jobId }: JobRow): EpochMs {
  const of = occurrenceOf(jobId);
  if (of === null) throw new Error(`no occurrence: ${jobId}`);
  return of.slot;
}

/** When there is something to decide about the schedule; null: not before somebody changes it. */
export function wakeUpAt({ nextRunAt, paused, pausedUntil }: ScheduleState): EpochMs | null {
  if (nextRunAt === null) return null;
  if (!paused) return nextRunAt;
  return pausedUntil === null ? null : Math.max(nextRunAt, pausedUntil);
}

/** A schedule's timer: "look at it by then". It stands in `due` under the schedule's own id. */
export function wakeUpRow(row: ScheduleRow, at: EpochMs): DueEntry {
  const { scheduleId, shard, queue, priority } = row;
  return { jobId: scheduleId, shard, runAt: at, queue, priority, attempt: 0, direct: false };
}

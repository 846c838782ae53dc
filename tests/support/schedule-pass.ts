// One pass of the pure decisions over a schedule, as a firer carries them out when nothing gets in its way.

import {
  occurrenceRow,
  runOf,
  startOf,
  type ScheduleRun,
  type SlotDecision,
} from '../../services/core/domain/occurrence.ts';
import { effectiveOverlap, planSlot, stateAfter, type SlotRange } from '../../services/core/domain/schedule-plan.ts';
import type { ScheduleRow } from '../../services/core/domain/schedule.ts';
import type { EpochMs } from '../../services/core/domain/time.ts';
import { timetableOf } from '../../services/core/domain/timetable.ts';

const STEPS_MAX = 2_000;

export interface Pass {
  readonly row: ScheduleRow;
  readonly runs: readonly ScheduleRun[];
}

/** Decides all slots that are due at `now`; no occurrence is in another's way. */
export function passOf(schedule: ScheduleRow, now: EpochMs): Pass {
  const timetable = timetableOf(schedule, schedule.scheduleId);
  const runs: ScheduleRun[] = [];
  let row = schedule;
  let chosen: SlotRange | null = null;
  for (let step = 0; step < STEPS_MAX; step += 1) {
    const plan = planSlot(row, timetable, now, chosen);
    if (plan.kind === 'rest') return { row, runs };
    chosen = plan.chosen;
    const decision: SlotDecision =
      plan.kind === 'leave_out'
        ? { kind: 'not_run', slots: plan.slots, reason: plan.reason }
        : {
            kind: 'run',
            slot: plan.slot,
            startAt: startOf(row, timetable, plan.slot),
            onOverlap: effectiveOverlap(row, chosen !== null),
            isOpen: true,
            waitsFor: null,
          };
    const occurrence = occurrenceRow(row, decision, { now, shards: 64, createToken: String(step) });
    runs.push(runOf(occurrence));
    row = { ...row, ...stateAfter({ row, timetable, waiting: row.waiting }, occurrence, now) };
  }
  throw new Error('a pass does not end');
}

/** A run as tests like to read it: slot (and the end of its range), outcome, reason. */
export function told({ slot, slotUntil, outcome, reason }: ScheduleRun): string {
  const range = slotUntil === null ? iso(slot) : `${iso(slot)}..${iso(slotUntil)}`;
  return `${range} ${outcome}${reason === null || reason === outcome ? '' : ` (${reason})`}`;
}

export function iso(at: EpochMs): string {
  return new Date(at).toISOString().replace('.000Z', 'Z');
}

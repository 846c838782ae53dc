import { COHORT_ENTROPY_BYTES, memberId, scheduleCohort } from '../../core/domain/ids.ts';
import type { TimetableDefinition } from '../../core/domain/schedule.ts';
import type { Random } from '../../core/ports/random.ts';

interface OpenCohort {
  readonly cohort: string;
  members: number;
}

/** More timetables than this are not worth sharing cohorts for. */
const OPEN_MAX = 10_000;

/**
 * Gives new schedules their ids. Those with the same timetable share a cohort until it is full: they fire together, so one wake-up
 * serves them all, and their occurrences share cohorts in turn. A member's number is never given twice.
 */
export class ScheduleCohorts {
  readonly #random: Random;
  readonly #size: number;
  readonly #open = new Map<string, OpenCohort>();

  constructor(parts: { random: Random; size: number }) {
    this.#random = parts.random;
    this.#size = parts.size;
  }

  /** A new id. */
  place(timetable: TimetableDefinition): string {
    const key = keyOf(timetable);
    let open = this.#open.get(key);
    if (open === undefined || open.members >= this.#size) {
      if (this.#open.size >= OPEN_MAX) this.#open.clear();
      open = { cohort: scheduleCohort(this.#random.bytes(COHORT_ENTROPY_BYTES)), members: 0 };
      this.#open.set(key, open);
    }
    const scheduleId = memberId(open.cohort, open.members);
    open.members += 1;
    return scheduleId;
  }

  /** The cohort's replicas are away: new schedules go elsewhere. */
  leave(timetable: TimetableDefinition): void {
    this.#open.delete(keyOf(timetable));
  }
}

/** Intervals fire together when they are counted from the same moment. */
function keyOf({ cron, everyS, timeZone, startAt }: TimetableDefinition): string {
  return JSON.stringify(cron === null ? [everyS, startAt] : [cron, timeZone]);
}

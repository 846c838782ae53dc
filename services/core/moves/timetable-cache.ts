import { LRUCache } from 'lru-cache';
import type { ScheduleRow } from '../domain/schedule.ts';
import { timetableOf, type Timetable } from '../domain/timetable.ts';

/** Reading an expression and its zone costs half a millisecond, and many schedules share both. */
const KEPT_MAX = 10_000;

/** Timetables of schedules, kept for the next time. */
export class TimetableCache {
  readonly #kept = new LRUCache<string, Timetable>({ max: KEPT_MAX });

  /** Throws Error on a schedule whose definition no longer names slots, for example with a zone that is gone. */
  of(row: ScheduleRow): Timetable {
    const { scheduleId, cron, everyS, timeZone, onDstGap, onDstRepeat, startAt, endAt } = row;
    const hashSeed = /h/i.test(cron ?? '') ? scheduleId : '';
    const key = JSON.stringify([cron, everyS, timeZone, onDstGap, onDstRepeat, startAt, endAt, hashSeed]);
    const known = this.#kept.get(key);
    if (known !== undefined) return known;
    const timetable = timetableOf(row, scheduleId);
    this.#kept.set(key, timetable);
    return timetable;
  }
}

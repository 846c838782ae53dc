import type { CronFields, DayRule } from './cron-fields.ts';
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from './limits.ts';

/**
 * A reading of a clock on the wall, as the epoch milliseconds at which a clock in UTC reads the same. It names a time in a zone
 * only together with the zone's offset (zone-clock.ts).
 */
export type WallMs = number;

/** The Gregorian calendar repeats after so many months: a date that has not come by then never comes. */
const CALENDAR_CYCLE_MONTHS = 400 * 12;

/** Walks over the readings that an expression names, as if no clock were ever changed. */
export interface WallCalendar {
  /** The first named reading at or after this one; null if none comes within the calendar's cycle. */
  next(from: WallMs): WallMs | null;
  /** The last named reading at or before this one. */
  previous(from: WallMs): WallMs | null;
}

export function wallCalendar(fields: CronFields): WallCalendar {
  const { seconds, minutes, hours } = fields;
  const daysIn = dayFinder(fields.days);
  const firstOfDay = timeOf(hours[0], minutes[0], seconds[0]);
  const lastOfDay = timeOf(hours.at(-1), minutes.at(-1), seconds.at(-1));
  const [nextHour, nextMinute, nextSecond] = [atOrAfter(hours, 24), atOrAfter(minutes, 60), atOrAfter(seconds, 60)];
  const [lastHour, lastMinute, lastSecond] = [atOrBefore(hours, 24), atOrBefore(minutes, 60), atOrBefore(seconds, 60)];

  /** The first named time of day at or after this one, -1 if there is none. */
  function timeFrom(timeMs: number): number {
    const [hour, minute, second] = clockOf(timeMs);
    if (nextHour[hour] === hour) {
      const sameMinute = nextMinute[minute] === minute ? nextSecond[second] : undefined;
      if (sameMinute !== undefined) return timeOf(hour, minute, sameMinute);
      const laterMinute = nextMinute[minute + 1];
      if (laterMinute !== undefined) return timeOf(hour, laterMinute, seconds[0]);
    }
    const laterHour = nextHour[hour + 1];
    return laterHour === undefined ? -1 : timeOf(laterHour, minutes[0], seconds[0]);
  }

  function timeUpTo(timeMs: number): number {
    const [hour, minute, second] = clockOf(timeMs);
    if (lastHour[hour] === hour) {
      const sameMinute = lastMinute[minute] === minute ? lastSecond[second] : undefined;
      if (sameMinute !== undefined) return timeOf(hour, minute, sameMinute);
      const earlierMinute = lastMinute[minute - 1];
      if (earlierMinute !== undefined) return timeOf(hour, earlierMinute, seconds.at(-1));
    }
    const earlierHour = lastHour[hour - 1];
    return earlierHour === undefined ? -1 : timeOf(earlierHour, minutes.at(-1), seconds.at(-1));
  }

  return {
    next(from) {
      const day = Math.floor(from / DAY_MS);
      if (daysIn.matches(day)) {
        const timeMs = timeFrom(from - day * DAY_MS);
        if (timeMs >= 0) return day * DAY_MS + timeMs;
      }
      const later = daysIn.next(day + 1);
      return later === null ? null : later * DAY_MS + firstOfDay;
    },
    previous(from) {
      const day = Math.floor(from / DAY_MS);
      if (daysIn.matches(day)) {
        const timeMs = timeUpTo(from - day * DAY_MS);
        if (timeMs >= 0) return day * DAY_MS + timeMs;
      }
      const earlier = daysIn.previous(day - 1);
      return earlier === null ? null : earlier * DAY_MS + lastOfDay;
    },
  };
}

/** 2026-03-08 02:30, with seconds where there are any. */
export function wallText(reading: WallMs): string {
  const text = new Date(reading).toISOString().slice(0, 19).replace('T', ' ');
  return text.endsWith(':00') ? text.slice(0, 16) : text;
}

/** Whether any date matches at all. */
export function everComes(rule: DayRule): boolean {
  return dayFinder(rule).next(0) !== null;
}

/** Days are numbered from 1970-01-01. */
function dayFinder(rule: DayRule) {
  // Slots of one month are asked for one after the other.
  let known = { month: NaN, days: 0 };
  const daysOf = (month: number): number => {
    if (known.month !== month) known = { month, days: matchingDays(rule, month) };
    return known.days;
  };
  return {
    matches(day: number): boolean {
      const { month, index } = placeOf(day);
      return ((daysOf(month) >>> index) & 1) === 1;
    },
    next(day: number): number | null {
      const { month, index } = placeOf(day);
      let days = (daysOf(month) >>> index) << index;
      for (let ahead = 0; ahead <= CALENDAR_CYCLE_MONTHS; ahead++) {
        if (days !== 0) return firstDayOf(month + ahead) + lowestBit(days);
        days = daysOf(month + ahead + 1);
      }
      return null;
    },
    previous(day: number): number | null {
      const { month, index } = placeOf(day);
      let days = daysOf(month) & ((2 << index) - 1);
      for (let back = 0; back <= CALENDAR_CYCLE_MONTHS; back++) {
        if (days !== 0) return firstDayOf(month - back) + highestBit(days);
        days = daysOf(month - back - 1);
      }
      return null;
    },
  };
}

/** The days of a month that the rule names, as bits 0..30. */
function matchingDays(rule: DayRule, month: number): number {
  if (((rule.months >>> (mod(month, 12) + 1)) & 1) === 0) return 0;
  const first = firstDayOf(month);
  const length = firstDayOf(month + 1) - first;
  // 1970-01-01 was a Thursday.
  const firstWeekday = mod(first + 4, 7);
  let byMonth = rule.daysOfMonth;
  if (rule.lastDayOfMonth) byMonth |= 1 << (length - 1);
  let byWeek = 0;
  for (let index = 0; index < length; index++) {
    const dayOfWeek = (firstWeekday + index) % 7;
    const isLast = index + 7 >= length && ((rule.lastDaysOfWeek >>> dayOfWeek) & 1) === 1;
    if (isLast || ((rule.daysOfWeek >>> dayOfWeek) & 1) === 1) byWeek |= 1 << index;
  }
  for (const { dayOfWeek, nth } of rule.nthDaysOfWeek) {
    const index = mod(dayOfWeek - firstWeekday, 7) + (nth - 1) * 7;
    if (index < length) byWeek |= 1 << index;
  }
  return (rule.either ? byMonth | byWeek : byMonth & byWeek) & (2 ** length - 1);
}

/** A month is numbered from January of the year 0. */
function placeOf(day: number): { readonly month: number; readonly index: number } {
  const date = new Date(day * DAY_MS);
  return { month: date.getUTCFullYear() * 12 + date.getUTCMonth(), index: date.getUTCDate() - 1 };
}

/** The day number of a month's first day, by the civil calendar's arithmetic: years are counted from March. */
function firstDayOf(month: number): number {
  const marchYear = Math.floor((month - 2) / 12);
  const monthFromMarch = month - 2 - marchYear * 12;
  const leapDays = Math.floor(marchYear / 4) - Math.floor(marchYear / 100) + Math.floor(marchYear / 400);
  return marchYear * 365 + leapDays + Math.floor((153 * monthFromMarch + 2) / 5) - 719_468;
}

function timeOf(hour = 0, minute = 0, second = 0): number {
  return hour * HOUR_MS + minute * MINUTE_MS + second * SECOND_MS;
}

function clockOf(timeMs: number): readonly [hour: number, minute: number, second: number] {
  const second = Math.floor(timeMs / SECOND_MS);
  return [Math.floor(second / 3_600), Math.floor(second / 60) % 60, second % 60];
}

/** For each number up to `size` the smallest value that is not smaller. */
function atOrAfter(values: readonly number[], size: number): readonly (number | undefined)[] {
  let index = 0;
  return Array.from({ length: size + 1 }, (_, from) => {
    while ((values[index] ?? size) < from) index += 1;
    return values[index];
  });
}

/** For each number below `size` the largest value that is not larger. */
function atOrBefore(values: readonly number[], size: number): readonly (number | undefined)[] {
  let index = -1;
  return Array.from({ length: size }, (_, from) => {
    while ((values[index + 1] ?? size) <= from) index += 1;
    return values[index];
  });
}

function lowestBit(set: number): number {
  return 31 - Math.clz32(set & -set);
}

function highestBit(set: number): number {
  return 31 - Math.clz32(set);
}

function mod(value: number, divisor: number): number {
  return ((value % divisor) + divisor) % divisor;
}

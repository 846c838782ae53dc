// The cron rule once more, naively: every minute or second of a stretch of time is asked of Intl, one by one. Nothing here is
// shared with the engine.

import type { DstGap, DstRepeat } from '../../services/core/domain/cron-schedule.ts';

const DAY_MS = 86_400_000;

/** The numbers that an expression names. */
export interface NamedNumbers {
  readonly seconds: readonly number[];
  readonly minutes: readonly number[];
  readonly hours: readonly number[];
  readonly daysOfMonth: readonly number[];
  readonly months: readonly number[];
  readonly daysOfWeek: readonly number[];
  readonly eitherDay: boolean;
}

/** What clocks in a zone show at each step of a stretch of time. */
export interface Walk {
  readonly timeZone: string;
  readonly fromMs: number;
  readonly stepMs: number;
  readonly walls: readonly number[];
}

const formats = new Map<string, Intl.DateTimeFormat>();

export function wallAt(timeZone: string, at: number): number {
  let format = formats.get(timeZone);
  if (format === undefined) {
    // 'longOffset' rather than the fields of a date: not what the engine does.
    format = new Intl.DateTimeFormat('en-US', { timeZone, hour: 'numeric', timeZoneName: 'longOffset' });
    formats.set(timeZone, format);
  }
  const [, sign, hours = '0', minutes = '0', seconds = '0'] =
    /GMT(?:([+-])(\d\d):(\d\d)(?::(\d\d))?)?/.exec(format.format(at)) ?? [];
  const offsetS = Number(hours) * 3_600 + Number(minutes) * 60 + Number(seconds);
  return at + (sign === '-' ? -1 : 1) * offsetS * 1_000;
}

export function walk(timeZone: string, fromMs: number, toMs: number, stepMs: number): Walk {
  const walls: number[] = [];
  for (let at = fromMs; at < toMs; at += stepMs) walls.push(wallAt(timeZone, at));
  return { timeZone, fromMs, stepMs, walls };
}

/** The days (UTC) of a year within which the zone's offset changes. */
export function daysOfChange(timeZone: string, year: number): readonly number[] {
  const days: number[] = [];
  let before: number | undefined;
  for (let day = Date.UTC(year, 0, 1); day <= Date.UTC(year + 1, 0, 1); day += DAY_MS) {
    const offset = wallAt(timeZone, day) - day;
    if (before !== undefined && offset !== before) days.push(day - DAY_MS);
    before = offset;
  }
  return days;
}

export function naiveSlots(
  { fromMs, stepMs, walls }: Walk,
  named: NamedNumbers,
  onGap: DstGap,
  onRepeat: DstRepeat,
): number[] {
  const seen = new Set<number>();
  const slots: number[] = [];
  walls.forEach((wall, index) => {
    const previous = walls[index - 1] ?? wall - stepMs;
    let fires = matches(named, wall) && (onRepeat === 'both' || !seen.has(wall));
    for (let skipped = previous + stepMs; onGap === 'run_after' && skipped < wall; skipped += stepMs) {
      fires ||= matches(named, skipped);
    }
    seen.add(wall);
    if (fires) slots.push(fromMs + index * stepMs);
  });
  return slots;
}

function matches(named: NamedNumbers, wall: number): boolean {
  const date = new Date(wall);
  const byMonth = named.daysOfMonth.includes(date.getUTCDate());
  const byWeek = named.daysOfWeek.includes(date.getUTCDay());
  return (
    named.seconds.includes(date.getUTCSeconds()) &&
    named.minutes.includes(date.getUTCMinutes()) &&
    named.hours.includes(date.getUTCHours()) &&
    named.months.includes(date.getUTCMonth() + 1) &&
    (named.eitherDay ? byMonth || byWeek : byMonth && byWeek)
  );
}

import type { CronFields, DayRule } from './cron-fields.ts';

const MONTHS = 'January,February,March,April,May,June,July,August,September,October,November,December'.split(',');
const WEEKDAYS = 'Sunday,Monday,Tuesday,Wednesday,Thursday,Friday,Saturday'.split(',');
const NTH = ['first', 'second', 'third', 'fourth', 'fifth'];
/** So many times of a day are listed one by one. */
const TIMES_LISTED_MAX = 6;
const ALL_DAYS_OF_MONTH = 2 ** 31 - 1;
const ALL_DAYS_OF_WEEK = 0b111_1111;
const ALL_MONTHS = 0b1_1111_1111_1110;

/** What an expression means, in words: `at 02:30, every day`. */
export function cronWords(fields: CronFields): string {
  return [timeWords(fields), dayWords(fields.days), monthWords(fields.days)].filter((part) => part !== '').join(', ');
}

function timeWords({ seconds, minutes, hours }: CronFields): string {
  const wholeMinutes = seconds.length === 1 && seconds[0] === 0;
  if (seconds.length * minutes.length * hours.length <= TIMES_LISTED_MAX) {
    const times = hours.flatMap((hour) =>
      minutes.flatMap((minute) =>
        seconds.map((second) => (wholeMinutes ? [hour, minute] : [hour, minute, second]).map(twoDigits).join(':')),
      ),
    );
    return `at ${listed(times)}`;
  }
  const parts = [
    ...(wholeMinutes ? [] : [unitWords(seconds, 'second', 60)]),
    unitWords(minutes, 'minute', 60),
    unitWords(hours, 'hour', 24),
  ];
  return parts.join(' of ');
}

/** `every minute`, `minute 5`, `minutes 0, 15, 30 and 45`. */
function unitWords(values: readonly number[], unit: string, all: number): string {
  if (values.length === all) return `every ${unit}`;
  return values.length === 1 ? `${unit} ${values[0] ?? 0}` : `${unit}s ${numbers(values)}`;
}

function dayWords(days: DayRule): string {
  const byMonth = daysOfMonthWords(days);
  const byWeek = daysOfWeekWords(days);
  const isEveryDay = [byMonth, byWeek].map((words) => words === null);
  if (days.either ? isEveryDay.includes(true) : !isEveryDay.includes(false)) return 'every day';
  if (byMonth === null || byWeek === null) return `on ${byMonth ?? byWeek ?? ''}`;
  return days.either ? `on ${byMonth}, and on ${byWeek}` : `on ${byMonth}, where that is one of ${byWeek}`;
}

/** Null: every day of the month. */
function daysOfMonthWords({ daysOfMonth, lastDayOfMonth }: DayRule): string | null {
  if (daysOfMonth === ALL_DAYS_OF_MONTH) return null;
  const days = valuesOf(daysOfMonth).map((index) => index + 1);
  return listed([
    ...(days.length === 0 ? [] : [`${days.length === 1 ? 'day' : 'days'} ${numbers(days)} of the month`]),
    ...(lastDayOfMonth ? ['the last day of the month'] : []),
  ]);
}

function daysOfWeekWords({ daysOfWeek, lastDaysOfWeek, nthDaysOfWeek }: DayRule): string | null {
  if (daysOfWeek === ALL_DAYS_OF_WEEK) return null;
  const weekday = (day: number): string => WEEKDAYS[day] ?? '';
  return listed([
    ...mondayFirst(valuesOf(daysOfWeek)).map((day) => `${weekday(day)}s`),
    ...nthDaysOfWeek.map(({ dayOfWeek, nth }) => `the ${NTH[nth - 1] ?? ''} ${weekday(dayOfWeek)} of the month`),
    ...mondayFirst(valuesOf(lastDaysOfWeek)).map((day) => `the last ${weekday(day)} of the month`),
  ]);
}

function monthWords({ months }: DayRule): string {
  if (months === ALL_MONTHS) return '';
  return `in ${listed(valuesOf(months).map((month) => MONTHS[month - 1] ?? ''))}`;
}

/** `1, 3 and 8 to 12`; long steps are cut: `0, 5, 10 ... 55`. */
function numbers(values: readonly number[]): string {
  const step = (values[1] ?? 0) - (values[0] ?? 0);
  const even = values.every((value, index) => index === 0 || value - (values[index - 1] ?? 0) === step);
  if (even && step > 1 && values.length > TIMES_LISTED_MAX) {
    return `${values.slice(0, 3).join(', ')} ... ${values.at(-1) ?? ''}`;
  }
  const runs: [number, number][] = [];
  for (const value of values) {
    const run = runs.at(-1);
    if (run !== undefined && run[1] === value - 1) run[1] = value;
    else runs.push([value, value]);
  }
  return listed(
    runs.flatMap(([from, to]) =>
      to - from >= 2 ? [`${from} to ${to}`] : from === to ? [`${from}`] : [`${from}`, `${to}`],
    ),
  );
}

function listed(words: readonly string[]): string {
  return words.length <= 1 ? (words[0] ?? '') : `${words.slice(0, -1).join(', ')} and ${words.at(-1) ?? ''}`;
}

function mondayFirst(days: readonly number[]): readonly number[] {
  return [...days.filter((day) => day !== 0), ...days.filter((day) => day === 0)];
}

function valuesOf(bits: number): readonly number[] {
  return Array.from({ length: 31 }, (_, value) => value).filter((value) => ((bits >>> value) & 1) === 1);
}

function twoDigits(value: number): string {
  return String(value).padStart(2, '0');
}

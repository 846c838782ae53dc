import { createHash } from 'node:crypto';
import { type CronFieldName, type CronRange, valuesOf } from './cron-values.ts';
import { CRON_MAX_CHARS } from './limits.ts';

/** What an expression says, without a zone. Days of the month are bits 0..30, months 1..12, days of the week 0..6 (Sunday 0). */
export interface CronFields {
  readonly seconds: readonly number[];
  readonly minutes: readonly number[];
  readonly hours: readonly number[];
  readonly days: DayRule;
  /** The hour field starts with `*`: the schedule follows elapsed time rather than fixed times of the day. */
  readonly everyHour: boolean;
  /** With H: how many seconds after its slot a job starts; 0 when the expression has a second field of its own. */
  readonly startOffsetS: number;
  readonly hashed: boolean;
}

export interface DayRule {
  readonly daysOfMonth: number;
  readonly lastDayOfMonth: boolean;
  readonly months: number;
  readonly daysOfWeek: number;
  /** Weekdays that count in their last week of a month only. */
  readonly lastDaysOfWeek: number;
  readonly nthDaysOfWeek: readonly { readonly dayOfWeek: number; readonly nth: number }[];
  /** Both day fields are restricted: either is enough. Otherwise both must match. */
  readonly either: boolean;
}

export type ParsedFields =
  { readonly ok: true; readonly fields: CronFields } | { readonly ok: false; readonly faults: readonly string[] };

interface FieldKind {
  readonly name: string;
  readonly field: CronFieldName;
  readonly min: number;
  readonly max: number;
  /** H hashes to this at most: every month has a 28th, and Sunday is once enough. */
  readonly hashMax: number;
  readonly names: readonly string[];
}

/** What one field names. */
interface FieldValues {
  readonly values: Set<number>;
  readonly lastDaysOfWeek: Set<number>;
  readonly nthDaysOfWeek: { readonly dayOfWeek: number; readonly nth: number }[];
  lastDayOfMonth: boolean;
  hashed: boolean;
}

const MONTHS = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec'];
const WEEKDAYS = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'];
const SECOND: FieldKind = { name: 'second', field: 'second', min: 0, max: 59, hashMax: 59, names: [] };
const MINUTE: FieldKind = { name: 'minute', field: 'minute', min: 0, max: 59, hashMax: 59, names: [] };
const HOUR: FieldKind = { name: 'hour', field: 'hour', min: 0, max: 23, hashMax: 23, names: [] };
const DAY_OF_MONTH: FieldKind = { name: 'day of month', field: 'dayOfMonth', min: 1, max: 31, hashMax: 28, names: [] };
const MONTH: FieldKind = { name: 'month', field: 'month', min: 1, max: 12, hashMax: 12, names: MONTHS };
const DAY_OF_WEEK: FieldKind = { name: 'day of week', field: 'dayOfWeek', min: 0, max: 7, hashMax: 6, names: WEEKDAYS };
const FIVE = [MINUTE, HOUR, DAY_OF_MONTH, MONTH, DAY_OF_WEEK];

const MACROS: Readonly<Record<string, string>> = {
  '@yearly': '0 0 1 1 *',
  '@annually': '0 0 1 1 *',
  '@monthly': '0 0 1 * *',
  '@weekly': '0 0 * * 0',
  '@daily': '0 0 * * *',
  '@midnight': '0 0 * * *',
  '@hourly': '0 * * * *',
};
const SHAPE =
  'it takes 5 fields (minute, hour, day of month, month, day of week), such as 0 6 * * *, or 6 with the second first';

const ITEM =
  /^(?:(?<wild>[*?])|(?<hash>H)(?:\((?<hashFrom>\d{1,4})-(?<hashTo>\d{1,4})\))?|(?<from>[a-z\d]+)(?:-(?<to>[a-z\d]+))?)(?:\/(?<step>\d{1,4}))?$/i;
const LAST_WEEKDAY = /^([a-z]{3}|\d)L$/i;
const NTH_WEEKDAY = /^([a-z]{3}|\d)#(\d{1,4})$/i;

/** Faults told of one field: a list of 300 wrong items needs no 300 sentences. */
const FAULTS_TOLD_MAX = 5;

/** Draws one of so many values. */
type Draw = (values: number) => number;

/**
 * Reads 5 fields, 6 with the second first, or a macro; names in any case (design section 9). `hashSeed` is what H hashes: the
 * schedule's id; null: H names all that it may stand for. Each fault names its field and what would be right.
 */
export function parseCronFields(expression: string, hashSeed: string | null): ParsedFields {
  if (expression.length > CRON_MAX_CHARS) return refused(`is longer than ${CRON_MAX_CHARS} characters`);
  const words = spelledOut(expression);
  if (typeof words === 'string') return refused(words);
  const kinds = words.length === 6 ? [SECOND, ...FIVE] : FIVE;
  const faults: string[] = [];
  const parsed = new Map<FieldKind, FieldValues>();
  const drawFor = (name: string): Draw | null =>
    hashSeed === null ? null : (values) => hashOf(hashSeed, name, values);
  kinds.forEach((kind, index) => {
    const { field, problems } = fieldOf(kind, words[index] ?? '', drawFor(kind.name));
    parsed.set(kind, field);
    faults.push(...problems.map((text) => `${kind.name}: ${text}`));
  });
  if (faults.length > 0) return { ok: false, faults };
  const named = (kind: FieldKind): FieldValues => parsed.get(kind) ?? emptyField();
  const [dayText = '', , weekdayText = ''] = words.slice(-3);
  const hashed = [...parsed.values()].some((field) => field.hashed);
  const weekdays = named(DAY_OF_WEEK);
  return {
    ok: true,
    fields: {
      seconds: parsed.has(SECOND) ? sorted(named(SECOND)) : [0],
      minutes: sorted(named(MINUTE)),
      hours: sorted(named(HOUR)),
      everyHour: isWild(words.at(-4) ?? ''),
      hashed,
      startOffsetS: hashed && !parsed.has(SECOND) ? (drawFor(SECOND.name)?.(60) ?? 0) : 0,
      days: {
        daysOfMonth: bits([...named(DAY_OF_MONTH).values].map((day) => day - 1)),
        lastDayOfMonth: named(DAY_OF_MONTH).lastDayOfMonth,
        months: bits([...named(MONTH).values]),
        daysOfWeek: bits([...weekdays.values]),
        lastDaysOfWeek: bits([...weekdays.lastDaysOfWeek]),
        nthDaysOfWeek: weekdays.nthDaysOfWeek,
        either: !isWild(dayText) && !isWild(weekdayText),
      },
    },
  };
}

/** The fields' words, or what is wrong with their number. */
function spelledOut(expression: string): readonly string[] | string {
  // Printed, a no-break space looks like a space, and two fields like one that is missing.
  const [blank] = /[^\S \t]/.exec(expression) ?? [];
  if (blank !== undefined) return `has a blank ${codePoint(blank)}; between fields stand spaces or tabs`;
  const text = expression.trim();
  if (text === '') return `is empty: ${SHAPE}`;
  if (/^(CRON_)?TZ=/i.test(text)) return 'has a time zone in it: that is said in time_zone';
  if (text.startsWith('@')) {
    const macro = /^@[a-z]+$/i.test(text) ? MACROS[text.toLowerCase()] : undefined;
    return macro?.split(' ') ?? `${text} is none of ${Object.keys(MACROS).join(', ')}`;
  }
  const words = text.split(/\s+/);
  if (words.length === 5 || words.length === 6) return words;
  const count = words.length === 1 ? '1 field' : `${words.length} fields`;
  return `has ${count}: ${SHAPE}${words.length === 7 ? '; there is no field for the year' : ''}`;
}

function codePoint(character: string): string {
  return `U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}`;
}

function fieldOf(
  kind: FieldKind,
  text: string,
  draw: Draw | null,
): { readonly field: FieldValues; readonly problems: readonly string[] } {
  const field = emptyField();
  const found = new Set<string>();
  for (const item of text.split(',')) {
    const problem = item === '' ? `${text} has an empty place in its list` : addItem(kind, item, draw, field);
    if (problem !== null) found.add(problem);
  }
  const problems = [...found].slice(0, FAULTS_TOLD_MAX);
  const more = found.size - problems.length;
  return { field, problems: more === 0 ? problems : [...problems, `and ${more} more like these`] };
}

/** Adds what one item of a list names; or says what is wrong with it. */
function addItem(kind: FieldKind, item: string, draw: Draw | null, field: FieldValues): string | null {
  if (kind === DAY_OF_MONTH && item.toUpperCase() === 'L') {
    field.lastDayOfMonth = true;
    return null;
  }
  if (kind === DAY_OF_WEEK) {
    const special = addWeekdayOfMonth(item, field);
    if (special !== undefined) return special;
  }
  const mixed = rangeOfMonth(kind, item);
  if (mixed !== null) return mixed;
  const parts = ITEM.exec(item)?.groups;
  if (parts === undefined || /^L-/i.test(item)) return notAnItem(kind, item);
  const range = parts['hash'] === undefined ? rangeOf(kind, item, parts) : hashRangeOf(kind, item, parts);
  if (typeof range === 'string') return range;
  const step = parts['step'] === undefined ? null : Number(parts['step']);
  if (step !== null) {
    const problem = stepFault(kind, item, step, parts['hash'] === undefined ? kind : range);
    if (problem !== null) return problem;
  }
  if (parts['hash'] === undefined) addRange(kind, field, { ...range, step: step ?? 1 });
  else {
    field.hashed = true;
    addRange(kind, field, draw === null ? { ...range, step: 1 } : drawn(range, step, draw));
  }
  return null;
}

function drawn({ min, max }: Range, step: number | null, draw: Draw): CronRange {
  const first = min + draw(Math.min(step ?? Infinity, max - min + 1));
  return { min: first, max: step === null ? first : max, step: step ?? 1 };
}

function addRange(kind: FieldKind, field: FieldValues, range: CronRange): void {
  for (const value of valuesOf(kind.field, range)) field.values.add(kind === DAY_OF_WEEK ? value % 7 : value);
}

/** `5L`, the month's last Friday, and `1#2`, its second Monday. Undefined: the item is neither. */
function addWeekdayOfMonth(item: string, field: FieldValues): string | null | undefined {
  if (item.toUpperCase() === 'L') return 'L alone names no day of the week; 5L is the last Friday of the month';
  const [, last] = LAST_WEEKDAY.exec(item) ?? [];
  const [, weekday = last, nthText] = NTH_WEEKDAY.exec(item) ?? [];
  if (weekday === undefined) return undefined;
  const value = valueOf(DAY_OF_WEEK, weekday);
  if (typeof value === 'string') return value;
  const dayOfWeek = value % 7;
  if (nthText === undefined) {
    field.lastDaysOfWeek.add(dayOfWeek);
    return null;
  }
  const nth = Number(nthText);
  if (nth < 1 || nth > 5) return `${item} counts to ${nth}; a month has a day of the week 1 to 5 times`;
  const isKnown = field.nthDaysOfWeek.some((known) => known.dayOfWeek === dayOfWeek && known.nth === nth);
  if (!isKnown) field.nthDaysOfWeek.push({ dayOfWeek, nth });
  return null;
}

interface Range {
  readonly min: number;
  readonly max: number;
}

function rangeOf(
  kind: FieldKind,
  item: string,
  { wild, from: fromText = '', to: toText, step }: Partial<Record<string, string>>,
): Range | string {
  if (wild !== undefined) return kind;
  const from = valueOf(kind, fromText);
  if (typeof from === 'string') return from;
  if (toText === undefined) return { min: from, max: step === undefined ? from : kind.max };
  const to = valueOf(kind, toText);
  if (typeof to === 'string') return to;
  // sat-sun: at the end of a range Sunday comes after Saturday.
  const max = kind === DAY_OF_WEEK && to === 0 && from > 0 ? 7 : to;
  if (from <= max) return { min: from, max };
  const last = kind === DAY_OF_WEEK ? 6 : kind.max;
  const parts = [from > last ? [] : [`${from}-${last}`], `${kind.min}-${to}`].flat();
  return `${item} runs backwards; write ${parts.join(',')}`;
}

function hashRangeOf(
  kind: FieldKind,
  item: string,
  { hashFrom, hashTo }: Partial<Record<string, string>>,
): Range | string {
  if (hashFrom === undefined || hashTo === undefined) return { min: kind.min, max: kind.hashMax };
  const [min, max] = [valueOf(kind, hashFrom), valueOf(kind, hashTo)];
  if (typeof min === 'string') return min;
  if (typeof max === 'string') return max;
  return min <= max ? { min, max } : `${item} runs backwards; write H(${max}-${min})`;
}

function stepFault(kind: FieldKind, item: string, step: number, range: Range): string | null {
  if (step === 0) return `${item} has a step of 0; a step is 1 or more`;
  // Sunday is one day, though it has two numbers.
  const widest = Math.min(range.max - range.min, kind === DAY_OF_WEEK ? 6 : Infinity);
  if (step <= widest) return null;
  const whole = range === kind ? 'the field' : 'its range';
  return (
    `the step of ${item} is wider than ${whole} (${range.min}-${range.min + widest}) and would name ` +
    `one value only, for steps start anew in each ${NEXT_LARGER[kind.name] ?? ''}; name that value instead`
  );
}

/** What a field's steps start anew in. */
const NEXT_LARGER: Readonly<Record<string, string>> = {
  second: 'minute',
  minute: 'hour',
  hour: 'day',
  'day of month': 'month',
  month: 'year',
  'day of week': 'week',
};

/** A number or a name of the field; or what is wrong with it. */
function valueOf(kind: FieldKind, text: string): number | string {
  const named = kind.names.indexOf(text.toLowerCase());
  if (named >= 0) return named + kind.min;
  if (!/^\d+$/.test(text)) return notAnItem(kind, text);
  const value = Number(text);
  return value >= kind.min && value <= kind.max ? value : `${text} is out of range; it must be ${bounds(kind)}`;
}

function notAnItem(kind: FieldKind, item: string): string {
  if (kind === DAY_OF_MONTH && /^(\d*|L)W$/i.test(item)) {
    return `${item} is not supported: W (the nearest weekday) means different days to different tools; use a day of the week such as 1-5, or 1#1`;
  }
  if (kind === DAY_OF_MONTH && /^L-\d+$/i.test(item)) return `${item} is not supported; L is the month's last day`;
  const meant = kind.names.find((name) => item.toLowerCase().startsWith(name));
  if (meant !== undefined && /^[a-z]+$/i.test(item)) return `${item} is not understood; did you mean ${meant}?`;
  return `${item} is not understood; it must be ${bounds(kind)}, a list 1,2, a range 1-5, or a step such as */${kind.name === 'day of week' ? 2 : 5}`;
}

/** Each half of `1-5L`, `1/2#1` and `15-L` is right by itself. */
function rangeOfMonth(kind: FieldKind, item: string): string | null {
  const [, sign] = (kind === DAY_OF_WEEK ? /(L|#\d+)(?:[-/]|$)/i : /(L)/i).exec(item) ?? [];
  if (sign === undefined || !/[-/*?]/.test(item) || /^L-\d+$/i.test(item)) return null;
  if (kind === DAY_OF_MONTH)
    return `${item} is not understood: L goes with no range and no step; write a list, such as 15,L`;
  if (kind !== DAY_OF_WEEK) return null;
  return `${item} is not understood: ${sign} goes with no range and no step; write a list, such as 1${sign},2${sign}`;
}

function bounds({ min, max, names }: FieldKind): string {
  const [first, last] = [names[0], names.at(-1)];
  return first === undefined || last === undefined ? `${min}-${max}` : `${min}-${max} or ${first}-${last}`;
}

function isWild(text: string): boolean {
  return text.startsWith('*') || text.startsWith('?');
}

/** 0..values-1, evenly over ids, the same in every process and release. */
function hashOf(seed: string, fieldName: string, values: number): number {
  return createHash('sha256').update(`${seed}\n${fieldName}`).digest().readUIntBE(0, 6) % values;
}

function emptyField(): FieldValues {
  return {
    values: new Set(),
    lastDaysOfWeek: new Set(),
    nthDaysOfWeek: [],
    lastDayOfMonth: false,
    hashed: false,
  };
}

function sorted({ values }: FieldValues): number[] {
  return [...values].sort((one, other) => one - other);
}

function bits(values: readonly number[]): number {
  return values.reduce((set, value) => set | (1 << value), 0);
}

function refused(fault: string): ParsedFields {
  return { ok: false, faults: [fault] };
}

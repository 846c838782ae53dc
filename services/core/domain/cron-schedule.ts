import { type CronFields, parseCronFields } from './cron-fields.ts';
import { cronWords } from './cron-words.ts';
import { SECOND_MS } from './limits.ts';
import type { EpochMs } from './time.ts';
import { everComes, wallCalendar, type WallMs } from './wall-calendar.ts';
import { CHANGE_REACH_MS, type ZoneStretch, zoneClock } from './zone-clock.ts';
import { zoneNameFault } from './zone-names.ts';

/** What happens to a time that clocks skip, when they go forward. */
export const DstGap = { runAfter: 'run_after', skip: 'skip' } as const;
export type DstGap = (typeof DstGap)[keyof typeof DstGap];

/** What happens to a time that clocks show twice, when they go back. */
export const DstRepeat = { first: 'first', both: 'both' } as const;
export type DstRepeat = (typeof DstRepeat)[keyof typeof DstRepeat];

export interface CronOptions {
  /** An IANA name. */
  readonly timeZone: string;
  /** What H hashes: the schedule's id. Without one H shows where some schedule would start, not this one. */
  readonly hashSeed?: string;
  /** Default: run_after, but skip when the hour field starts with `*`. */
  readonly onDstGap?: DstGap;
  /** Default: first, but both when the hour field starts with `*`. */
  readonly onDstRepeat?: DstRepeat;
}

export interface CronError {
  readonly field: 'cron' | 'time_zone';
  /** Says what is wrong and what would be right, after the field's name. */
  readonly message: string;
}

export type ParsedCron =
  | { readonly ok: true; readonly schedule: CronSchedule }
  | { readonly ok: false; readonly errors: readonly CronError[] };

/** The slots that an expression names in a zone: instants at whole seconds, each once, in order. */
export interface CronSchedule {
  /** The first slot after this instant; null when none comes before the year 10000. */
  next(after: EpochMs): EpochMs | null;
  /** The latest slot before this instant; null when none came since the year 1000. */
  previous(before: EpochMs): EpochMs | null;
  /** How long after its slot a job starts: 0..59 s for a 5-field expression with H, else 0. */
  readonly startOffsetMs: number;
  /** The expression has an H. */
  readonly hashed: boolean;
  /** What the expression means, in words. */
  describe(): string;
  /** The changes of the clocks in [from, until) that touch the schedule, the first `max` of them. */
  changes(from: EpochMs, until: EpochMs, max: number): readonly ClockChange[];
}

export const ClockChangeEffect = {
  /** Readings that clocks skip run once, at the end of the gap. */
  movedAfterGap: 'moved_after_gap',
  skipped: 'skipped',
  /** Readings that clocks show twice. */
  runsOnce: 'runs_once',
  runsTwice: 'runs_twice',
} as const;
export type ClockChangeEffect = (typeof ClockChangeEffect)[keyof typeof ClockChangeEffect];

/** A change of the clocks that skips or repeats readings which the expression names. */
export interface ClockChange {
  readonly at: EpochMs;
  /** What clocks would have shown, and what they show instead. */
  readonly fromWall: WallMs;
  readonly toWall: WallMs;
  /** The first of the readings that are skipped or repeated, and how many there are besides. */
  readonly readings: readonly WallMs[];
  readonly moreReadings: number;
  readonly effect: ClockChangeEffect;
}

const FIRST_MS = Date.parse('1000-01-01T00:00:00Z');
const LAST_MS = Date.parse('9999-12-31T23:59:59Z');
/**
 * From here on each zone has one rule for ever (the last that is listed year by year is Morocco's, up to 2087), and until
 * there each of the 14 kinds of year has come: leap or not, by its first weekday. What does not fire in these years does not
 * fire later either.
 */
const SETTLED_FROM_MS = Date.parse('2101-01-01T00:00:00Z');
const SETTLED_UNTIL_MS = Date.parse('2130-01-01T00:00:00Z');
/** At worst, one second of a minute, a hash in 60 fires: then one schedule in 20 million finds none among so many. */
const HASHES_MAX = 1_000;
/** Readings named one by one for one change of the clocks. */
const READINGS_NAMED_MAX = 4;

/**
 * The cron rule of design section 9. Zone data is that of this Node; the zone of the machine has no influence. Faults of the
 * expression and of the zone are told together. Whether an expression is accepted never depends on what H hashes.
 */
export function parseCron(expression: string, options: CronOptions): ParsedCron {
  const read = readCron(expression, options);
  const never = whyItNeverFires(expression, options);
  if (never === null) return read;
  return { ok: false, errors: [{ field: 'cron', message: never }, ...(read.ok ? [] : read.errors)] };
}

/** Of an expression accepted before. Zones change their rules: one that no longer fires has no slots, without an error. */
export function readCron(expression: string, options: CronOptions): ParsedCron {
  const parsed = parseCronFields(expression, options.hashSeed ?? '');
  const zoneFault = zoneNameFault(options.timeZone);
  const errors: CronError[] = parsed.ok ? [] : parsed.faults.map((message) => ({ field: 'cron', message }));
  if (zoneFault !== null) errors.push({ field: 'time_zone', message: zoneFault });
  if (!parsed.ok || errors.length > 0) return { ok: false, errors };
  const fields = parsed.fields.hashed ? firingHash(expression, parsed.fields, options) : parsed.fields;
  return { ok: true, schedule: cronSchedule(fields, options) };
}

function whyItNeverFires(expression: string, options: CronOptions): string | null {
  const parsed = parseCronFields(expression, null);
  if (!parsed.ok) return null;
  if (!everComes(parsed.fields.days)) {
    return 'never fires: no date is in one of its months and on one of its days; February has 29 days at most';
  }
  const { timeZone } = options;
  if (zoneNameFault(timeZone) !== null || firesAtLast(parsed.fields, options)) return null;
  return (
    `never fires: on each of its dates clocks in ${timeZone} skip its times, and on_dst_gap is skip; ` +
    'name other times, or run_after'
  );
}

/** Of all that H may stand for, the first by hash that fires: an id alone is no reason never to. */
function firingHash(expression: string, hashed: CronFields, options: CronOptions): CronFields {
  if (firesAtLast(hashed, options) || whyItNeverFires(expression, options) !== null) return hashed;
  for (let again = 1; again < HASHES_MAX; again++) {
    const parsed = parseCronFields(expression, `${options.hashSeed ?? ''}\n${again}`);
    if (parsed.ok && firesAtLast(parsed.fields, options)) return parsed.fields;
  }
  return hashed;
}

/** By the rules that zones keep for ever. */
function firesAtLast(fields: CronFields, options: CronOptions): boolean {
  return cronSchedule(fields, options).next(SETTLED_FROM_MS) !== null;
}

function cronSchedule(fields: CronFields, options: CronOptions): CronSchedule {
  const calendar = wallCalendar(fields);
  const clock = zoneClock(options.timeZone);
  const onGap = options.onDstGap ?? (fields.everyHour ? DstGap.skip : DstGap.runAfter);
  const onRepeat = options.onDstRepeat ?? (fields.everyHour ? DstRepeat.both : DstRepeat.first);

  /** Clocks went forward at the start of this stretch, and a time that they skipped is made good there. */
  function runsAfterGap({ startMs, offsetMs, previousOffsetMs }: ZoneStretch): boolean {
    if (onGap === DstGap.skip || previousOffsetMs >= offsetMs) return false;
    const skipped = calendar.next(startMs + previousOffsetMs);
    return skipped !== null && skipped < startMs + offsetMs;
  }

  function shownBefore(stretch: ZoneStretch, wall: WallMs): { readonly from: WallMs; readonly to: WallMs } | undefined {
    if (onRepeat === DstRepeat.both) return undefined;
    return stretch.shownBefore.find(({ from, to }) => from <= wall && wall < to);
  }

  /** The next reading at or after this one that the stretch does not repeat, however far ahead. */
  function nextReading(stretch: ZoneStretch, from: WallMs): WallMs {
    for (let wall = calendar.next(from); wall !== null;) {
      const shown = shownBefore(stretch, wall);
      if (shown === undefined) return wall;
      wall = calendar.next(shown.to);
    }
    return Infinity;
  }

  /** The last reading at or before this one that the stretch does not repeat; of what lies before the stretch simply the last. */
  function previousReading(stretch: ZoneStretch, from: WallMs): WallMs {
    const start = stretch.startMs + stretch.offsetMs;
    for (let wall = calendar.previous(from); wall !== null;) {
      const shown = wall < start ? undefined : shownBefore(stretch, wall);
      if (shown === undefined) return wall;
      wall = calendar.previous(Math.max(shown.from, start) - SECOND_MS);
    }
    return -Infinity;
  }

  function changeAt({ startMs, offsetMs, previousOffsetMs }: ZoneStretch): ClockChange | null {
    const [fromWall, toWall] = [startMs + previousOffsetMs, startMs + offsetMs];
    const [first, end] = [Math.min(fromWall, toWall), Math.max(fromWall, toWall)];
    const readings: WallMs[] = [];
    let moreReadings = 0;
    for (let wall = calendar.next(first); wall !== null && wall < end; wall = calendar.next(wall + SECOND_MS)) {
      if (readings.length < READINGS_NAMED_MAX) readings.push(wall);
      else moreReadings++;
    }
    if (readings.length === 0) return null;
    const gapEffect = onGap === DstGap.skip ? ClockChangeEffect.skipped : ClockChangeEffect.movedAfterGap;
    const repeatEffect = onRepeat === DstRepeat.both ? ClockChangeEffect.runsTwice : ClockChangeEffect.runsOnce;
    return {
      at: startMs,
      fromWall,
      toWall,
      readings,
      moreReadings,
      effect: toWall > fromWall ? gapEffect : repeatEffect,
    };
  }

  /** @param from a whole second. */
  function firstSlot(from: EpochMs, until: EpochMs): EpochMs | null {
    while (from < until) {
      if (from >= SETTLED_UNTIL_MS && !goesOn()) return null;
      const stretch = clock.stretchAt(from);
      if (from === stretch.startMs && runsAfterGap(stretch)) return from;
      const slot = nextReading(stretch, from + stretch.offsetMs) - stretch.offsetMs;
      if (slot < stretch.endMs) return slot < until ? slot : null;
      // Years without a slot are stepped over at once, unless the end of this stretch may show again what lies before `from`.
      const nothingRepeats = from <= stretch.endMs - CHANGE_REACH_MS;
      from = nothingRepeats ? Math.max(stretch.endMs, slot - CHANGE_REACH_MS) : stretch.endMs;
    }
    return null;
  }

  /** Otherwise a search would pass 8,000 years of gaps in 2.4 s. */
  function goesOn(): boolean {
    return firstSlot(SETTLED_FROM_MS, SETTLED_UNTIL_MS) !== null;
  }

  return {
    describe: () => cronWords(fields),
    changes(from, until, max) {
      const found: ClockChange[] = [];
      for (let at = from; at < until && found.length < max;) {
        const stretch = clock.stretchAt(at);
        const change = stretch.startMs >= from ? changeAt(stretch) : null;
        if (change !== null) found.push(change);
        at = stretch.endMs;
      }
      return found;
    },
    next(after) {
      const from = Math.max(Math.floor(after / SECOND_MS) * SECOND_MS + SECOND_MS, FIRST_MS);
      return firstSlot(from, LAST_MS + SECOND_MS);
    },
    previous(before) {
      let from = Math.min(Math.ceil(before / SECOND_MS) * SECOND_MS - SECOND_MS, LAST_MS);
      if (from > SETTLED_UNTIL_MS && !goesOn()) from = SETTLED_UNTIL_MS;
      while (from >= FIRST_MS) {
        const stretch = clock.stretchAt(from);
        const slot = previousReading(stretch, from + stretch.offsetMs) - stretch.offsetMs;
        if (slot >= stretch.startMs) return slot >= FIRST_MS ? slot : null;
        if (runsAfterGap(stretch)) return stretch.startMs;
        // As far back as the last reading named at all: one that this stretch repeats was first shown just before it.
        const named = (calendar.previous(from + stretch.offsetMs) ?? -Infinity) - stretch.offsetMs;
        const nothingRepeats = from >= stretch.startMs + CHANGE_REACH_MS;
        const untilMs = stretch.startMs - SECOND_MS;
        from = nothingRepeats ? Math.min(untilMs, named + CHANGE_REACH_MS) : untilMs;
      }
      return null;
    },
    startOffsetMs: fields.startOffsetS * SECOND_MS,
    hashed: fields.hashed,
  };
}

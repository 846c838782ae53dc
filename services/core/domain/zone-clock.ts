import { DAY_MS, SECOND_MS } from './limits.ts';
import type { EpochMs } from './time.ts';
import type { WallMs } from './wall-calendar.ts';

/** A stretch of time with one offset from UTC. It ends with a change of the clocks, or where the next stretch is not worked out yet. */
export interface ZoneStretch {
  readonly startMs: EpochMs;
  readonly endMs: EpochMs;
  /** What a clock on the wall reads more than UTC. */
  readonly offsetMs: number;
  /** The offset just before the start. */
  readonly previousOffsetMs: number;
  /** What clocks have shown in the days before the start, so that a reading shown a second time is known as such. */
  readonly shownBefore: readonly { readonly from: WallMs; readonly to: WallMs }[];
}

export interface ZoneClock {
  stretchAt(at: EpochMs): ZoneStretch;
}

/** No change of a clock has ever been larger than the 24 h of a skipped day, so none reaches beyond this. */
export const CHANGE_REACH_MS = 2 * DAY_MS;
/** Stretches are worked out a piece of so many days at a time: 0.3 ms each. */
const PIECE_MS = 400 * DAY_MS;
/**
 * How far apart a zone's offset is looked at. Two changes that undo each other are 95 h apart at the closest, in all zones and
 * from 1900 to 2100 (Freetown 1939), so none is overlooked.
 */
const SAMPLE_MS = 3 * DAY_MS;
/** Pieces kept for one zone: a thousand years. */
const PIECES_MAX = 1_000;

const clocks = new Map<string, ZoneClock>();

/** The zone's clock by the zone data of this Node; `timeZone` is a name that zoneNameFault finds nothing wrong with. */
export function zoneClock(timeZone: string): ZoneClock {
  const known = clocks.get(timeZone);
  if (known !== undefined) return known;
  const clock = madeClock(offsetReader(timeZone));
  clocks.set(timeZone, clock);
  return clock;
}

function madeClock(offsetAt: (at: EpochMs) => number): ZoneClock {
  const pieces = new Map<number, readonly ZoneStretch[]>();
  return {
    stretchAt(at) {
      const index = Math.floor(at / PIECE_MS);
      let piece = pieces.get(index);
      if (piece === undefined) {
        if (pieces.size >= PIECES_MAX) pieces.clear();
        piece = stretchesIn(index * PIECE_MS, (index + 1) * PIECE_MS, offsetAt);
        pieces.set(index, piece);
      }
      const stretch = piece.find(({ endMs }) => at < endMs);
      if (stretch === undefined) throw new RangeError(`no time: ${at}`);
      return stretch;
    },
  };
}

interface Change {
  readonly at: EpochMs;
  readonly offsetMs: number;
}

function stretchesIn(fromMs: EpochMs, toMs: EpochMs, offsetAt: (at: EpochMs) => number): readonly ZoneStretch[] {
  const beforeMs = fromMs - CHANGE_REACH_MS;
  const changes: Change[] = [{ at: beforeMs, offsetMs: offsetAt(beforeMs) }];
  for (let at = beforeMs; at < toMs; at += SAMPLE_MS) addChanges(at, at + SAMPLE_MS, offsetAt, changes);
  const stretches: ZoneStretch[] = [];
  changes.forEach(({ at, offsetMs }, index) => {
    const endMs = Math.min(changes[index + 1]?.at ?? toMs, toMs);
    const startMs = Math.max(at, fromMs);
    if (endMs <= startMs) return;
    const previousOffsetMs = at < startMs ? offsetMs : (changes[index - 1]?.offsetMs ?? offsetMs);
    stretches.push({ startMs, endMs, offsetMs, previousOffsetMs, shownBefore: shownBefore(changes, index, startMs) });
  });
  return stretches;
}

/** What the stretches before this one showed that this one may show again. */
function shownBefore(changes: readonly Change[], index: number, startMs: EpochMs): ZoneStretch['shownBefore'] {
  const stretchOffsetMs = changes[index]?.offsetMs ?? 0;
  return changes.slice(0, index).flatMap(({ at, offsetMs }, earlier) => {
    const endMs = changes[earlier + 1]?.at ?? at;
    const shown = { from: at + offsetMs, to: endMs + offsetMs };
    return endMs > startMs - CHANGE_REACH_MS && shown.to > startMs + stretchOffsetMs ? [shown] : [];
  });
}

/** Adds the changes in (from, to], which lie at whole seconds. */
function addChanges(from: EpochMs, to: EpochMs, offsetAt: (at: EpochMs) => number, changes: Change[]): void {
  const offsetBefore = changes.at(-1)?.offsetMs;
  if (offsetAt(to) === offsetBefore) return;
  let [before, after] = [from, to];
  while (after - before > SECOND_MS) {
    const middle = before + Math.floor((after - before) / 2 / SECOND_MS) * SECOND_MS;
    if (offsetAt(middle) === offsetBefore) before = middle;
    else after = middle;
  }
  changes.push({ at: after, offsetMs: offsetAt(after) });
  addChanges(after, to, offsetAt, changes);
}

function offsetReader(timeZone: string): (at: EpochMs) => number {
  const format = new Intl.DateTimeFormat('en-US', {
    timeZone,
    calendar: 'gregory',
    numberingSystem: 'latn',
    hourCycle: 'h23',
    year: 'numeric',
    month: 'numeric',
    day: 'numeric',
    hour: 'numeric',
    minute: 'numeric',
    second: 'numeric',
  });
  return (at) => {
    const numbers = format.format(at).match(/\d+/g) ?? [];
    const [month = 0, day = 0, year = 0, hour = 0, minute = 0, second = 0] = numbers.map(Number);
    return Date.UTC(year, month - 1, day, hour, minute, second) - at;
  };
}

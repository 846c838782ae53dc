import { bucketOf, hourOf } from './bucket.ts';
import { DAY_MS, HOUR_MS, MINUTE_MS } from './limits.ts';
import type { EpochMs } from './time.ts';

// How the jobs of a queue that wait for their time are counted: those of the current minute and the next from their due rows,
// all others from tallies, one for each minute, hour and day that jobs of the queue are due in.

export const GRAINS = ['minute', 'hour', 'day'] as const;
export type Grain = (typeof GRAINS)[number];

export interface Slot {
  readonly grain: Grain;
  readonly start: EpochMs;
}

export interface SlotRange {
  readonly grain: Grain;
  readonly from: EpochMs;
  /** Exclusive. */
  readonly to: EpochMs;
}

/** Minutes counted from their due rows: the current one, the next, and one more for readers that come a minute later. */
export const NEAR_MINUTES = 3;

const LENGTH_MS: Readonly<Record<Grain, number>> = { minute: MINUTE_MS, hour: HOUR_MS, day: DAY_MS };

/** The year 10000: later than anything can be due. */
const NEVER: EpochMs = 253_402_300_800_000;

/** The slots that a job due then is in. */
export function slotsOf(runAt: EpochMs): readonly Slot[] {
  return [
    { grain: 'minute', start: bucketOf(runAt) },
    { grain: 'hour', start: hourOf(runAt) },
    { grain: 'day', start: dayStart(runAt) },
  ];
}

export function slotEnd({ grain, start }: Slot): EpochMs {
  return start + LENGTH_MS[grain];
}

/** From here on the tallies count. */
export function farFrom(now: EpochMs): EpochMs {
  return bucketOf(now) + (NEAR_MINUTES - 1) * MINUTE_MS;
}

/** The slots that hold every time from farFrom(now) on exactly once: minutes to the full hour, hours to midnight, then days. */
export function farRanges(now: EpochMs): readonly SlotRange[] {
  const from = farFrom(now);
  const hour = hourOf(from + HOUR_MS - 1);
  const day = dayStart(hour + DAY_MS - 1);
  const ranges: readonly SlotRange[] = [
    { grain: 'minute', from, to: hour },
    { grain: 'hour', from: hour, to: day },
    { grain: 'day', from: day, to: NEVER },
  ];
  return ranges.filter((range) => range.from < range.to);
}

function dayStart(at: EpochMs): EpochMs {
  return Math.floor(at / DAY_MS) * DAY_MS;
}

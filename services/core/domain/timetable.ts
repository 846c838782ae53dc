import { readCron } from './cron-schedule.ts';
import { SECOND_MS } from './limits.ts';
import type { TimetableDefinition } from './schedule.ts';
import type { EpochMs } from './time.ts';

/** The slots that a definition names: instants at whole seconds, in order. */
export interface Timetable {
  /** The first slot after this instant; null when none comes any more. */
  next(after: EpochMs): EpochMs | null;
  /** The last slot before this instant; null when there is none. */
  previous(before: EpochMs): EpochMs | null;
  /** How long after its slot each occurrence starts. */
  readonly startOffsetMs: number;
}

/** @param scheduleId what H hashes. Throws Error on a definition that cannot be read, for example with a zone that is gone. */
export function timetableOf(definition: TimetableDefinition, scheduleId: string): Timetable {
  const all = definition.cron === null ? intervalSlots(definition) : cronSlots(definition, definition.cron, scheduleId);
  const { startAt, endAt } = definition;
  const within = (slot: EpochMs | null): EpochMs | null =>
    slot === null || slot < (startAt ?? -Infinity) || slot > (endAt ?? Infinity) ? null : slot;
  return {
    next: (after) => within(all.next(startAt === null ? after : Math.max(after, startAt - 1))),
    previous: (before) => within(all.previous(endAt === null ? before : Math.min(before, endAt + 1))),
    startOffsetMs: all.startOffsetMs,
  };
}

/** start_at + n x every_s, in real elapsed time. */
function intervalSlots({ everyS, startAt }: TimetableDefinition): Timetable {
  if (everyS === null || startAt === null || startAt % SECOND_MS !== 0) {
    throw new Error('an interval needs every_s and a start_at at a whole second');
  }
  const everyMs = everyS * SECOND_MS;
  return {
    next: (after) => startAt + Math.max(0, Math.floor((after - startAt) / everyMs) + 1) * everyMs,
    previous: (before) => startAt + (Math.ceil((before - startAt) / everyMs) - 1) * everyMs,
    startOffsetMs: 0,
  };
}

function cronSlots(
  { timeZone, onDstGap, onDstRepeat }: TimetableDefinition,
  cron: string,
  hashSeed: string,
): Timetable {
  const parsed = readCron(cron, {
    timeZone: timeZone ?? '',
    hashSeed,
    ...(onDstGap !== null && { onDstGap }),
    ...(onDstRepeat !== null && { onDstRepeat }),
  });
  if (parsed.ok) return parsed.schedule;
  throw new Error(parsed.errors.map(({ field, message }) => `${field}: ${message}`).join('; '));
}

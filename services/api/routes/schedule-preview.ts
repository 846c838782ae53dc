import { formatInstant } from '../../core/contract/instant.ts';
import { type ClockChange, readCron } from '../../core/domain/cron-schedule.ts';
import { CLOCK_CHANGES_AHEAD_MS, CLOCK_CHANGES_TOLD_MAX } from '../../core/domain/limits.ts';
import { startOf } from '../../core/domain/occurrence.ts';
import { isPaused } from '../../core/domain/schedule-plan.ts';
import { NotRunReason, type ScheduleRow } from '../../core/domain/schedule.ts';
import { timetableOf } from '../../core/domain/timetable.ts';
import type { EpochMs } from '../../core/domain/time.ts';
import { wallText } from '../../core/domain/wall-calendar.ts';
import { zoneReading } from '../../core/domain/zone-reading.ts';

export interface PreviewTerms {
  readonly count: number;
  readonly after: EpochMs;
  readonly now: EpochMs;
  /** It does not exist yet, so that its id is none. */
  readonly isNew: boolean;
}

/** What a schedule does next, as things stand. */
export function previewView(row: ScheduleRow, { count, after, now, isNew }: PreviewTerms): object {
  const cron = cronOf(row);
  return {
    meaning: cron === null ? intervalWords(row) : `${cron.describe()}, ${row.timeZone ?? ''} time`,
    note: cron?.hashed === true && isNew ? "H hashes the schedule's id: these slots are an example" : null,
    slots: slotsOf(row, { count, after, now }),
    clock_changes:
      cron?.changes(after, after + CLOCK_CHANGES_AHEAD_MS, CLOCK_CHANGES_TOLD_MAX).map(clockChangeView) ?? [],
  };
}

function slotsOf(row: ScheduleRow, { count, after, now }: Omit<PreviewTerms, 'isNew'>): readonly object[] {
  const timetable = timetableOf(row, row.scheduleId);
  const slots: object[] = [];
  // How many of its runs will have been used up by then can only be told from now on.
  let runsLeft = row.maxRuns === null || after > now ? Infinity : row.maxRuns - row.runs;
  for (let slot = timetable.next(after); slot !== null && slots.length < count && runsLeft > 0;) {
    const reason = whyLeftOut(row, slot, now);
    if (reason === null) runsLeft -= 1;
    slots.push({
      slot: formatInstant(slot),
      local: row.timeZone === null ? null : zoneReading(row.timeZone, slot),
      starts_at: formatInstant(startOf(row, timetable, slot)),
      runs: reason === null,
      reason,
    });
    slot = timetable.next(slot);
  }
  return slots;
}

function whyLeftOut(row: ScheduleRow, slot: EpochMs, now: EpochMs): NotRunReason | null {
  if (isPaused(row, now) && (row.pausedUntil === null || slot < row.pausedUntil)) return NotRunReason.paused;
  return slot === row.skipSlot ? NotRunReason.byRequest : null;
}

function cronOf({ cron, timeZone, scheduleId, onDstGap, onDstRepeat }: ScheduleRow) {
  if (cron === null) return null;
  const parsed = readCron(cron, {
    timeZone: timeZone ?? '',
    hashSeed: scheduleId,
    ...(onDstGap !== null && { onDstGap }),
    ...(onDstRepeat !== null && { onDstRepeat }),
  });
  return parsed.ok ? parsed.schedule : null;
}

function intervalWords({ everyS, startAt }: ScheduleRow): string {
  return `every ${everyS ?? 0} s of real time, counted from ${formatInstant(startAt ?? 0)}`;
}

function clockChangeView({ at, fromWall, toWall, readings, moreReadings, effect }: ClockChange): object {
  return {
    at: formatInstant(at),
    clocks_from: wallText(fromWall),
    clocks_to: wallText(toWall),
    times: readings.map(wallText),
    more_times: moreReadings,
    effect,
  };
}

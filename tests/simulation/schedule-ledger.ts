// Schedules as they were promised: each slot is decided once, none is passed over, the chain goes on, and what was paused,
// skipped or deleted does not run.

import { isDeepStrictEqual } from 'node:util';
import { occurrenceId, occurrenceOf } from '../../services/core/domain/ids.ts';
import type { JobRow } from '../../services/core/domain/job.ts';
import { isTerminal, JobStatus } from '../../services/core/domain/job-status.ts';
import { CLOCK_SKEW_STOP_MS, SCHEDULE_READ_FRESH_MS, SECOND_MS } from '../../services/core/domain/limits.ts';
import { OnOverlap, type ScheduleRow, type TimetableDefinition } from '../../services/core/domain/schedule.ts';
import { isPaused } from '../../services/core/domain/schedule-plan.ts';
import { timetableOf } from '../../services/core/domain/timetable.ts';
import type { EpochMs } from '../../services/core/domain/time.ts';
import type { MemoryStores } from '../support/memory-store.ts';
import type { Ledger } from './ledger.ts';
import type { TimerInvariant } from './timer-invariant.ts';
import type { Report } from './violation.ts';

/** A firer decides by a schedule that it read so long ago at most, and by its own clock. */
const STALE_MAX_MS = SCHEDULE_READ_FRESH_MS + CLOCK_SKEW_STOP_MS + SECOND_MS;

/** What stands for one slot, or for a range of slots that were not run. */
interface Decision {
  readonly jobId: string;
  readonly from: EpochMs;
  readonly to: EpochMs;
  readonly wasRun: boolean;
  /** Of the schedule as it was then. */
  readonly revision: number;
  readonly times: TimetableDefinition;
}

/** Since when, by the true time, a schedule's row says so. */
interface Since {
  paused: EpochMs | null;
  skip: EpochMs | null;
}

export class ScheduleLedger {
  /** Answered as made, and not deleted since. */
  readonly accepted = new Set<string>();
  slots = 0;
  readonly #stores: MemoryStores;
  readonly #timers: TimerInvariant;
  readonly #ledger: Ledger;
  readonly #report: Report;
  readonly #now: () => EpochMs;
  readonly #decisions = new Map<string, Decision[]>();
  readonly #since = new Map<string, Since>();
  readonly #deletedAt = new Map<string, EpochMs>();
  /** Occurrences that have ended once: a replay makes one of them run again. */
  readonly #ended = new Set<string>();
  /** Occurrences that a caller gave another time: they run at it, whatever they waited for. */
  readonly #moved = new Set<string>();

  constructor(parts: {
    stores: MemoryStores;
    timers: TimerInvariant;
    ledger: Ledger;
    now: () => EpochMs;
    report: Report;
  }) {
    this.#stores = parts.stores;
    this.#timers = parts.timers;
    this.#ledger = parts.ledger;
    this.#now = parts.now;
    this.#report = parts.report;
  }

  /** Answered as made or changed; another client may have deleted it meanwhile. */
  created({ scheduleId }: ScheduleRow): void {
    if (this.#deletedAt.has(scheduleId)) return;
    if (!this.#stores.scheduleTables.rows.has(scheduleId)) {
      this.#broken('an accepted schedule is missing', scheduleId, 'answered and not stored');
    }
    this.accepted.add(scheduleId);
    this.#timers.watch(scheduleId);
  }

  /** A schedule's row was written. */
  changed(before: ScheduleRow | undefined, after: ScheduleRow): void {
    const { scheduleId } = after;
    const since = this.#since.get(scheduleId) ?? { paused: null, skip: null };
    this.#since.set(scheduleId, since);
    if (!after.paused) since.paused = null;
    else if (before?.paused !== true || before.pausedUntil !== after.pausedUntil) since.paused = this.#now();
    if (after.skipSlot === null) since.skip = null;
    else if (before?.skipSlot !== after.skipSlot) since.skip = this.#now();
    if (before !== undefined && before.nextRunAt !== after.nextRunAt) this.#checkStep(before, after);
    this.#timers.check(scheduleId);
  }

  removed(scheduleId: string): void {
    this.#deletedAt.set(scheduleId, this.#now());
    this.accepted.delete(scheduleId);
  }

  /** A job's row was written: that of an occurrence decides its slot. */
  jobChanged(before: JobRow | undefined, after: JobRow): void {
    const of = occurrenceOf(after.jobId);
    if (of === null) return;
    if (before === undefined) this.#decided(of.scheduleId, of.slot, after);
    const waited = before?.status === JobStatus.scheduled && after.status === JobStatus.scheduled;
    if (waited && before.runAt !== after.runAt) this.#moved.add(after.jobId);
    const starts = before?.status === JobStatus.enqueued && after.status === JobStatus.running;
    if (starts && after.onOverlap !== OnOverlap.allow && !this.#moved.has(after.jobId))
      this.#checkTurn(of.scheduleId, after);
    if (isTerminal(after.status)) this.#ended.add(after.jobId);
  }

  /** Schedules whose next slot has passed by more than so much, undecided. */
  standing(lateMs: number): readonly ScheduleRow[] {
    const now = this.#now();
    return [...this.accepted].flatMap((scheduleId) => {
      const row = this.#stores.scheduleTables.rows.get(scheduleId);
      if (row === undefined || row.nextRunAt === null || isPaused(row, now)) return [];
      return Math.max(row.nextRunAt, row.paused ? (row.pausedUntil ?? 0) : 0) + lateMs < now ? [row] : [];
    });
  }

  /** From one slot to the next that its timetable names, over a row that says what became of the first. */
  #checkStep(before: ScheduleRow, after: ScheduleRow): void {
    const { scheduleId, nextRunAt: slot } = before;
    if (before.revision !== after.revision) {
      this.#checkChange(before, after);
      return;
    }
    const isOver = after.maxRuns !== null && after.runs >= after.maxRuns && after.nextRunAt === null;
    if (slot === null) {
      this.#broken('an ended schedule goes on', scheduleId, `to ${timeText(after.nextRunAt)}`);
      return;
    }
    const decision = this.#stores.rows.get(occurrenceId(scheduleId, slot));
    if (decision === undefined) {
      if (!isOver) this.#broken('a slot without a decision', scheduleId, `passed over ${timeText(slot)}`);
      return;
    }
    const next = timetableOf(before, scheduleId).next(decision.slotUntil ?? slot);
    if (after.nextRunAt !== next && !isOver) {
      const detail = `from ${timeText(slot)} to ${timeText(after.nextRunAt)} instead of ${timeText(next)}`;
      this.#broken('a slot was passed over', scheduleId, detail);
    }
    this.slots += 1;
    // Until now the schedule's own wake-up row was a timer of its slot.
    if (decision.slotUntil === null && this.accepted.has(scheduleId)) this.#ledger.occurred(decision);
  }

  /** A caller moves the next slot only by another timetable, or ends the schedule by max_runs. */
  #checkChange(before: ScheduleRow, after: ScheduleRow): void {
    const isExhausted = after.maxRuns !== null && after.runs >= after.maxRuns && after.nextRunAt === null;
    const isOtherTimetable = !isDeepStrictEqual(timesOf(before), timesOf(after));
    if (isExhausted || isOtherTimetable || before.nextRunAt === null) return;
    const detail = `from ${timeText(before.nextRunAt)} to ${timeText(after.nextRunAt)}`;
    this.#broken('a change moved the next slot', after.scheduleId, detail);
  }

  #decided(scheduleId: string, slot: EpochMs, row: JobRow): void {
    const schedule = this.#stores.scheduleTables.rows.get(scheduleId);
    const wasRun = row.slotUntil === null;
    if (wasRun) this.#checkMayRun(scheduleId, schedule, slot);
    if (schedule === undefined) return;
    const decisions = this.#decisions.get(scheduleId) ?? [];
    const made: Decision = {
      ...{ jobId: row.jobId, from: slot, to: row.slotUntil ?? slot, wasRun },
      ...{ revision: schedule.revision, times: timesOf(schedule) },
    };
    const other = decisions.find((each) => decidesTwice(each, made, scheduleId));
    if (other !== undefined) {
      this.#broken('a slot was decided twice', scheduleId, `${other.jobId} and ${made.jobId}`);
    }
    this.#decisions.set(scheduleId, [...decisions, made]);
  }

  #checkMayRun(scheduleId: string, schedule: ScheduleRow | undefined, slot: EpochMs): void {
    const since = this.#since.get(scheduleId);
    const isLate = (at: EpochMs | null | undefined): boolean => typeof at === 'number' && slot > at + STALE_MAX_MS;
    if (schedule === undefined) {
      if (isLate(this.#deletedAt.get(scheduleId))) {
        this.#broken('a deleted schedule fires', scheduleId, timeText(slot));
      }
      return;
    }
    if (isPaused(schedule, slot) && isLate(since?.paused)) {
      this.#broken('a paused schedule fires', scheduleId, timeText(slot));
    }
    if (schedule.skipSlot === slot && isLate(since?.skip)) {
      this.#broken('a skipped slot is run', scheduleId, timeText(slot));
    }
  }

  /** Only `allow` lets two occurrences of one schedule run at once. */
  #checkTurn(scheduleId: string, row: JobRow): void {
    const decisions = this.#decisions.get(scheduleId) ?? [];
    const own = decisions.find(({ jobId }) => jobId === row.jobId);
    const before = decisions
      .filter(({ wasRun, from }) => wasRun && from < (own?.from ?? 0))
      .reduce<Decision | null>((last, each) => (last === null || each.from > last.from ? each : last), null);
    // A change of the schedule may overtake the note of the run before; a replay runs when it is asked to.
    if (before === null || before.revision !== own?.revision || this.#ended.has(row.jobId)) return;
    const previous = this.#stores.rows.get(before.jobId);
    if (previous === undefined || isTerminal(previous.status) || this.#ended.has(before.jobId)) return;
    this.#broken('two occurrences run at once', row.jobId, `${before.jobId} is ${previous.status}`);
  }

  #broken(rule: string, id: string, detail: string): void {
    this.#report({ rule, detail: `${id}: ${detail}`, subject: id });
  }
}

/** One slot of the same timetable in both. */
function decidesTwice(one: Decision, other: Decision, scheduleId: string): boolean {
  const from = Math.max(one.from, other.from);
  const to = Math.min(one.to, other.to);
  if (from > to || !isDeepStrictEqual(one.times, other.times)) return false;
  const slot = timetableOf(one.times, scheduleId).next(from - 1);
  return slot !== null && slot <= to;
}

function timesOf(row: TimetableDefinition): TimetableDefinition {
  const { cron, everyS, timeZone, onDstGap, onDstRepeat, startAt, endAt } = row;
  return { cron, everyS, timeZone, onDstGap, onDstRepeat, startAt, endAt };
}

function timeText(at: EpochMs | null): string {
  return at === null ? 'none' : new Date(at).toISOString().slice(11, 19);
}

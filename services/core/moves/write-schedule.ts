import type { ScheduleOperation } from '../domain/schedule-operation.ts';
import { planTakenAway, stateAfter, stateAfterChange, wakeUpAt, wakeUpRow } from '../domain/schedule-plan.ts';
import { NotRunReason, type ScheduleChanges, type ScheduleRow } from '../domain/schedule.ts';
import type { EpochMs } from '../domain/time.ts';
import type { Timetable } from '../domain/timetable.ts';
import type { Clock } from '../ports/clock.ts';
import type { Random } from '../ports/random.ts';
import type { ScheduleReader } from '../ports/schedule-store.ts';
import type { RoundOutcome, ScheduleRounds } from '../rounds/rounds.ts';
import type { ArmOptions, Timers } from '../timers/timers.ts';
import type { OccurrenceWriter } from './occurrence-writer.ts';
import type { TimetableCache } from './timetable-cache.ts';

export type ScheduleOutcome =
  | { readonly kind: 'written'; readonly row: ScheduleRow }
  | Exclude<RoundOutcome<ScheduleRow>, { readonly kind: 'applied' }>;

type TakenAway =
  { readonly kind: 'standing'; readonly row: ScheduleRow } | Extract<ScheduleOutcome, { kind: 'lost' | 'unknown' }>;

export interface ScheduleWriterParts {
  readonly schedules: ScheduleReader;
  readonly rounds: ScheduleRounds;
  readonly timers: Timers;
  readonly occurrences: OccurrenceWriter;
  readonly timetables: TimetableCache;
  readonly clock: Clock;
  readonly random: Random;
}

/** Of the slots in hand a firer may have run the first, and a pause may have ended among the others. */
const TAKEN_AWAY_ROWS_MAX = 8;
/** Of a definition that can be read no longer: only the slot in hand is known. */
const NO_SLOTS: Timetable = { next: () => null, previous: () => null, startOffsetMs: 0 };

/**
 * What callers do to a schedule's row. As with jobs the timer goes first: the wake-up row for the time at which the firer is to look
 * at it, then the conditional write, then rule 3. All but create name the row as it was read. Where the write takes overdue slots
 * away, the rows that decide them come before it: no slot is gone without one, wherever this ends. Throws StoreError when a timer
 * could not be written; the schedule is as it was then.
 */
export class ScheduleWriter {
  readonly #parts: ScheduleWriterParts;

  constructor(parts: ScheduleWriterParts) {
    this.#parts = parts;
  }

  /** Lost: a schedule stands under the id already. */
  create(row: ScheduleRow, timer: ArmOptions = {}): Promise<ScheduleOutcome> {
    return this.#write({ edge: 'schedule_create', scheduleId: row.scheduleId, schedule: row }, row, timer);
  }

  async change(row: ScheduleRow, changes: ScheduleChanges): Promise<ScheduleOutcome> {
    const { definition, at } = changes;
    const takesAway = stateAfterChange(row, changes).nextRunAt !== row.nextRunAt;
    const taken: TakenAway = takesAway
      ? await this.#takeAway(row, at, NotRunReason.changed)
      : { kind: 'standing', row };
    if (taken.kind !== 'standing') return taken;
    const state = stateAfterChange(taken.row, changes);
    const marks = { requestHash: null, updatedAt: at, changeToken: this.#parts.random.token() };
    const operation: ScheduleOperation = {
      ...{ edge: 'schedule_change', scheduleId: row.scheduleId, expect: expected(row) },
      ...{ definition, state, ...marks },
    };
    return this.#write(operation, { ...row, ...definition, ...state, ...marks, revision: row.revision + 1 });
  }

  /** Its wake-up rows find nothing then. */
  async remove(row: ScheduleRow): Promise<ScheduleOutcome> {
    const { rounds, clock } = this.#parts;
    const taken = await this.#takeAway(row, clock.now(), NotRunReason.deleted);
    if (taken.kind !== 'standing') return taken;
    const { scheduleId } = row;
    const outcome = await rounds.submit({ edge: 'schedule_remove', scheduleId, expect: expected(row) });
    return outcome.kind === 'applied' ? { kind: 'written', row: taken.row } : outcome;
  }

  /**
   * Decides the slots that are overdue at `at`, as a firer would; returns where the schedule stands by their rows, which may be a
   * firer's. Lost when another changed it meanwhile: nothing is decided by a row that did not stand after the timer was written.
   */
  async #takeAway(row: ScheduleRow, at: EpochMs, reason: NotRunReason): Promise<TakenAway> {
    const { occurrences, schedules } = this.#parts;
    let standing = row;
    const timetable = this.#timetableOf(row);
    for (let rows = 0; rows < TAKEN_AWAY_ROWS_MAX; rows += 1) {
      const plan = planTakenAway(standing, timetable, { at, reason });
      if (plan === null) return { kind: 'standing', row: standing };
      const armed = await occurrences.arm([{ schedule: standing, decision: { kind: 'not_run', ...plan } }]);
      const found = (await schedules.read([row.scheduleId])).get(row.scheduleId) ?? null;
      if (found?.revision !== row.revision) return { kind: 'lost', row: found };
      const [occurrence = null] = await occurrences.create(armed);
      if (occurrence === null) return { kind: 'unknown', cause: null };
      await occurrences.report([occurrence]);
      standing = {
        ...standing,
        ...stateAfter({ row: standing, timetable, waiting: standing.waiting }, occurrence, at),
      };
    }
    return { kind: 'unknown', cause: null };
  }

  #timetableOf(row: ScheduleRow): Timetable {
    try {
      return this.#parts.timetables.of(row);
    } catch {
      return NO_SLOTS;
    }
  }

  async #write(operation: ScheduleOperation, after: ScheduleRow, timer: ArmOptions = {}): Promise<ScheduleOutcome> {
    const { timers, rounds } = this.#parts;
    const at = wakeUpAt(after);
    const armed = at === null ? null : await timers.armDue([wakeUpRow(after, at)], timer);
    const outcome = await rounds.submit(operation);
    if (outcome.kind === 'lost' || outcome.kind === 'not_written') return outcome;
    if (armed !== null) {
      await timers.afterRound(armed.chosenAt, [{ jobId: after.scheduleId, shard: after.shard }]);
    }
    if (outcome.kind === 'unknown') return outcome;
    if (armed !== null) timers.hint(armed.entries);
    return { kind: 'written', row: after };
  }
}

function expected({ revision, nextRunAt }: ScheduleRow): Pick<ScheduleRow, 'revision' | 'nextRunAt'> {
  return { revision, nextRunAt };
}

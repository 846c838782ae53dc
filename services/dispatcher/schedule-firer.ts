import type { JobRow } from '../core/domain/job.ts';
import { isTerminal, JobStatus } from '../core/domain/job-status.ts';
import { OVERLAP_FIRST_LOOK_MS, SCHEDULE_READ_FRESH_MS, SECOND_MS } from '../core/domain/limits.ts';
import { runOf, startOf, type SlotDecision } from '../core/domain/occurrence.ts';
import {
  effectiveOverlap,
  isCatchUp,
  planOverlap,
  planSlot,
  stateAfter,
  stateWithRun,
  wakeUpRow,
  type SlotPlan,
  type SlotRange,
} from '../core/domain/schedule-plan.ts';
import { OnOverlap, type ScheduleRow, type ScheduleState } from '../core/domain/schedule.ts';
import { elapsedMs, type EpochMs, type Moment } from '../core/domain/time.ts';
import type { Timetable } from '../core/domain/timetable.ts';
import { CancelReason, type WaitingCanceller } from '../core/moves/cancel-waiting.ts';
import type { DecidedSlot, OccurrenceWriter } from '../core/moves/occurrence-writer.ts';
import type { OverlapQueue } from '../core/moves/overlap-queue.ts';
import type { TimetableCache } from '../core/moves/timetable-cache.ts';
import type { Clock } from '../core/ports/clock.ts';
import type { JobReader } from '../core/ports/job-store.ts';
import type { ScheduleReader } from '../core/ports/schedule-store.ts';
import type { Log, Telemetry } from '../core/ports/telemetry.ts';
import type { QueueGate } from '../core/queues/queue-gate.ts';
import type { RoundOutcome, Rounds, ScheduleRounds } from '../core/rounds/rounds.ts';
import type { Timers } from '../core/timers/timers.ts';

export interface ScheduleFirerParts {
  readonly schedules: ScheduleReader;
  readonly reader: JobReader;
  readonly rounds: Rounds;
  readonly scheduleRounds: ScheduleRounds;
  readonly occurrences: OccurrenceWriter;
  readonly overlaps: OverlapQueue;
  readonly canceller: WaitingCanceller;
  readonly timetables: TimetableCache;
  readonly timers: Timers;
  readonly gate: QueueGate;
  readonly clock: Clock;
  readonly telemetry: Telemetry;
  readonly log: Log;
}

/** settled: the schedule has a wake-up row ahead, or needs none. absent: nobody has stored it, yet. */
export type Fired = 'settled' | 'absent' | { readonly again: EpochMs };

/** A schedule in the firer's hands. */
interface Firing {
  readonly row: ScheduleRow;
  readonly readAt: Moment;
  /** The missed slots that this pass makes good. */
  readonly chosen: SlotRange | null;
}

type DuePlan = Exclude<SlotPlan, { kind: 'rest' }>;

interface Planned extends Firing {
  readonly timetable: Timetable;
  readonly decision: SlotDecision;
  /** Those of row.waiting that still wait. */
  readonly waiting: readonly string[];
  /** The occurrence before, where this one is to replace it. */
  readonly replaced: JobRow | null;
}

interface Decided extends Planned {
  readonly occurrence: JobRow;
  readonly state: ScheduleState;
}

/** Slots of one schedule decided in one go; the rest follows, after others had their turn. */
const WAVES_MAX = 100;
/** Cohorts fired at a time: at most 64 payloads of 64 KiB each. */
const COHORTS_AT_A_TIME_MAX = 32;
const REPLACE_TRIES_MAX = 3;

/**
 * Decides the due slots of schedules, whole cohorts at a time (design section 9): timers and rows of the occurrences, their
 * messages, the wake-up row for the next slot, then next_run_at. The next slot follows from the slot, never from now. Any two
 * firers may do so at once, and any may die half-way: what decides a slot is its occurrence's row, and the wake-up row in hand
 * stays somebody's until next_run_at lies ahead.
 */
export class ScheduleFirer {
  readonly #parts: ScheduleFirerParts;
  #firing = 0;
  readonly #waiting: (() => void)[] = [];

  constructor(parts: ScheduleFirerParts) {
    this.#parts = parts;
  }

  /** @param scheduleIds of one cohort. @param mayAct asked before each wave. Never rejects. */
  async fire(scheduleIds: readonly string[], mayAct: () => boolean): Promise<ReadonlyMap<string, Fired>> {
    const results = new Map<string, Fired>();
    while (this.#firing >= COHORTS_AT_A_TIME_MAX) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    this.#firing += 1;
    try {
      await this.#fireAll(scheduleIds, mayAct, results);
    } catch (error) {
      this.#parts.log.warn('schedules could not be fired; trying again', {
        schedules: scheduleIds.length,
        error: String(error),
      });
    } finally {
      this.#firing -= 1;
      this.#waiting.shift()?.();
    }
    const again = { again: this.#parts.clock.now() + SECOND_MS };
    return new Map(scheduleIds.map((scheduleId) => [scheduleId, results.get(scheduleId) ?? again]));
  }

  /** What has no result in the end is to be looked at again. Throws StoreError. */
  async #fireAll(scheduleIds: readonly string[], mayAct: () => boolean, results: Map<string, Fired>): Promise<void> {
    let firings = await this.#read(scheduleIds);
    const found = new Set(firings.map(({ row }) => row.scheduleId));
    for (const scheduleId of scheduleIds) if (!found.has(scheduleId)) results.set(scheduleId, 'absent');
    for (let wave = 0; wave < WAVES_MAX && firings.length > 0; wave += 1) {
      if (!mayAct()) return;
      const planned = await this.#plan(firings, results);
      firings = planned.length === 0 ? [] : await this.#carryOut(planned, results);
    }
    for (const { row } of firings) results.set(row.scheduleId, { again: this.#parts.clock.now() });
  }

  async #read(scheduleIds: readonly string[]): Promise<readonly Firing[]> {
    const readAt = this.#parts.clock.moment();
    const rows = await this.#parts.schedules.read(scheduleIds);
    return [...rows.values()].map((row) => ({ row, readAt, chosen: null }));
  }

  /** What is to become of each one's next slot; those with none that is due are settled. */
  async #plan(firings: readonly Firing[], results: Map<string, Fired>): Promise<readonly Planned[]> {
    const now = this.#parts.clock.now();
    const due: { readonly firing: Firing; readonly timetable: Timetable; readonly plan: DuePlan }[] = [];
    for (const firing of firings) {
      const { scheduleId } = firing.row;
      try {
        const timetable = this.#parts.timetables.of(firing.row);
        const plan = planSlot(firing.row, timetable, now, firing.chosen);
        if (plan.kind === 'rest') results.set(scheduleId, 'settled');
        else due.push({ firing: { ...firing, chosen: plan.chosen }, timetable, plan });
      } catch (error) {
        // Nothing that comes again soon would help, and the cursor must not wait: the second look asks each minute.
        this.#parts.log.error('a schedule cannot be read', { schedule_id: scheduleId, error: String(error) });
        results.set(scheduleId, 'settled');
      }
    }
    const jobs = await this.#previous(due.map(({ firing }) => firing.row));
    return Promise.all(due.map((each) => this.#planOne(each.firing, each.timetable, each.plan, jobs)));
  }

  /** The occurrences run last, of schedules that care. */
  async #previous(rows: readonly ScheduleRow[]): Promise<ReadonlyMap<string, JobRow>> {
    const ids = rows.flatMap(({ onOverlap, lastJobId }) =>
      onOverlap === OnOverlap.allow || lastJobId === null ? [] : [lastJobId],
    );
    return ids.length === 0 ? new Map<string, JobRow>() : this.#parts.reader.read(ids);
  }

  async #planOne(
    firing: Firing,
    timetable: Timetable,
    plan: DuePlan,
    jobs: ReadonlyMap<string, JobRow>,
  ): Promise<Planned> {
    const { row } = firing;
    const common = { ...firing, timetable, waiting: row.waiting, replaced: null };
    if (plan.kind === 'leave_out') {
      return { ...common, decision: { kind: 'not_run', slots: plan.slots, reason: plan.reason } };
    }
    const { slot } = plan;
    const catchesUp = isCatchUp(plan, this.#parts.clock.now());
    const last = row.lastJobId === null ? undefined : jobs.get(row.lastJobId);
    const previous = last === undefined ? null : await this.#parts.overlaps.lastToRun(last);
    const waiting = row.waiting.length === 0 ? [] : await this.#parts.overlaps.stillWaiting(row.waiting);
    const overlap = planOverlap(row, previous, waiting.length, catchesUp);
    if (overlap.kind === 'leave_out') {
      const slots = { from: slot, to: slot };
      return { ...common, waiting, decision: { kind: 'not_run', slots, reason: overlap.reason } };
    }
    return {
      ...common,
      waiting,
      replaced: overlap.kind === 'wait' && overlap.replaces ? previous : null,
      decision: {
        kind: 'run',
        slot,
        startAt: startOf(row, timetable, slot),
        onOverlap: effectiveOverlap(row, catchesUp),
        isOpen: this.#parts.gate.isOpen(row),
        waitsFor: overlap.kind === 'wait' ? (previous?.jobId ?? null) : null,
      },
    };
  }

  /** One slot of each; returns those that go on. */
  async #carryOut(planned: readonly Planned[], results: Map<string, Fired>): Promise<readonly Firing[]> {
    const { occurrences } = this.#parts;
    const armed = await occurrences.arm(planned.map(decidedSlotOf));
    const { stands, changed } = await this.#readAgain(planned);
    const standing = planned.flatMap((each, index) => {
      const row = armed.rows[index];
      return stands.has(each) && row !== undefined ? [{ each, row }] : [];
    });
    const created = await occurrences.create({ rows: standing.map(({ row }) => row), chosenAt: armed.chosenAt });
    const now = this.#parts.clock.now();
    const decided = standing.flatMap(({ each }, index): readonly Decided[] => {
      const occurrence = created[index] ?? null;
      return occurrence === null ? [] : [{ ...each, occurrence, state: stateAfter(each, occurrence, now) }];
    });
    await Promise.all(decided.map((each) => this.#lookAfter(each)));
    return [...changed, ...(await this.#advance(decided, results))];
  }

  /**
   * A schedule that was read too long ago is read again: it may have been paused, changed or deleted since. Nothing is decided
   * by a row that did not stand after the timers were written.
   */
  async #readAgain(
    planned: readonly Planned[],
  ): Promise<{ readonly stands: ReadonlySet<Planned>; readonly changed: readonly Firing[] }> {
    const now = this.#parts.clock.moment();
    const stale = planned.filter(({ readAt }) => elapsedMs(readAt, now) > SCHEDULE_READ_FRESH_MS);
    if (stale.length === 0) return { stands: new Set(planned), changed: [] };
    const firings = new Map(
      (await this.#read(stale.map(scheduleIdOf))).map((firing) => [scheduleIdOf(firing), firing]),
    );
    const isSame = (each: Planned): boolean => {
      const found = firings.get(scheduleIdOf(each))?.row;
      return found?.revision === each.row.revision && found.nextRunAt === each.row.nextRunAt;
    };
    const moved = stale.filter((each) => !isSame(each));
    return {
      stands: new Set(planned.filter((each) => !moved.includes(each))),
      // One that was deleted is not among them, and has no result: the next look finds it absent.
      changed: moved.flatMap((each) => firings.get(scheduleIdOf(each)) ?? []),
    };
  }

  /** A waiting occurrence gets a look of its own, and the one that it replaces is asked to end. */
  async #lookAfter({ occurrence, replaced }: Decided): Promise<void> {
    const { waitsFor, status, jobId, shard } = occurrence;
    if (waitsFor === null || status !== JobStatus.scheduled) return;
    const { timers, clock, overlaps } = this.#parts;
    await timers.armDeadlines([{ jobId, shard, at: clock.now() + OVERLAP_FIRST_LOOK_MS, publishedAt: null }]);
    if (replaced?.jobId !== waitsFor) return;
    await this.#replace(replaced);
    if (!(await overlaps.isBlocked(occurrence))) await overlaps.release(occurrence);
  }

  /** Cancelled at once where it waits, asked to stop where it runs. */
  async #replace(previous: JobRow): Promise<void> {
    let row: JobRow | null = previous;
    for (let tries = 0; tries < REPLACE_TRIES_MAX && row !== null && !isTerminal(row.status); tries += 1) {
      const { jobId, attempt }: JobRow = row;
      const outcome: RoundOutcome | { readonly kind: 'cancelled' } =
        (await this.#parts.canceller.cancel(row, CancelReason.replaced)) ??
        (await this.#parts.rounds.submit({ edge: 'request_cancel', jobId, attempt }));
      if (outcome.kind !== 'lost') return;
      row = outcome.row;
    }
  }

  /** The report, the wake-up rows of what comes next, then next_run_at; returns those that have another due slot. */
  async #advance(decided: readonly Decided[], results: Map<string, Fired>): Promise<readonly Firing[]> {
    if (decided.length === 0) return [];
    const { timers, scheduleRounds, occurrences, clock } = this.#parts;
    const now = clock.now();
    const wakeUps = decided.flatMap(({ row, state }) =>
      state.nextRunAt !== null && state.nextRunAt > now ? [wakeUpRow(row, state.nextRunAt)] : [],
    );
    const [armed] = await Promise.all([
      timers.armDue(wakeUps),
      occurrences.report(decided.map(({ occurrence }) => occurrence)),
    ]);
    const readAt = clock.moment();
    const outcomes = await Promise.all(
      decided.map(({ row, state }) => {
        const { scheduleId, revision, nextRunAt } = row;
        return scheduleRounds.submit({
          edge: 'schedule_advance',
          scheduleId,
          expect: { revision, nextRunAt },
          state,
        });
      }),
    );
    await timers.afterRound(
      armed.chosenAt,
      decided.map(({ row }) => ({ jobId: row.scheduleId, shard: row.shard })),
    );
    timers.hint(armed.entries);
    const going = await Promise.all(decided.map((each, index) => this.#goOn(each, outcomes[index], readAt, results)));
    return going.flat();
  }

  async #goOn(
    each: Decided,
    outcome: RoundOutcome<ScheduleRow> | undefined,
    readAt: Moment,
    results: Map<string, Fired>,
  ): Promise<readonly Firing[]> {
    const { row, state, occurrence, chosen } = each;
    switch (outcome?.kind) {
      case 'applied':
        this.#parts.telemetry.count('punctual_schedule_fires_total', { outcome: runOf(occurrence).outcome });
        return [{ row: { ...row, ...state }, readAt, chosen }];
      case 'lost':
        if (outcome.row !== null) return [{ row: await this.#recorded(each, outcome.row), readAt, chosen: null }];
        results.set(row.scheduleId, 'settled');
        return [];
      default:
        return [];
    }
  }

  /** One whose caller took it past a slot while that was run: the run counts all the same. The row as it is then. */
  async #recorded({ occurrence }: Decided, found: ScheduleRow): Promise<ScheduleRow> {
    const state = stateWithRun(found, occurrence);
    if (state === null) return found;
    const { scheduleId, revision, nextRunAt } = found;
    const expect = { revision, nextRunAt };
    const outcome = await this.#parts.scheduleRounds.submit({ edge: 'schedule_advance', scheduleId, expect, state });
    return outcome.kind === 'applied' ? { ...found, ...state } : found;
  }
}

function decidedSlotOf({ row, decision }: Planned): DecidedSlot {
  return { schedule: row, decision };
}

function scheduleIdOf({ row }: Firing): string {
  return row.scheduleId;
}

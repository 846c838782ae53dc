import { isDeepStrictEqual } from 'node:util';
import { ok, refused, type Result } from '../../core/contract/problems.ts';
import { isPaused } from '../../core/domain/schedule-plan.ts';
import type { ScheduleChanges, ScheduleDefinition, ScheduleRow, ScheduleState } from '../../core/domain/schedule.ts';
import { timetableOf } from '../../core/domain/timetable.ts';
import type { EpochMs } from '../../core/domain/time.ts';
import type { ScheduleWriter } from '../../core/moves/write-schedule.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type { ScheduleIndex } from '../../core/ports/schedule-index.ts';
import type { ScheduleNames } from '../../core/ports/schedule-names.ts';
import { canonicalJson } from '../middleware/canonical-json.ts';
import type { AuditTrail } from './audit-trail.ts';
import type { JobCanceller } from './cancel-job.ts';
import { nameHash, type ScheduleFinder } from './find-schedules.ts';
import { anchored, listEntries } from './new-schedule.ts';
import {
  changedMeanwhile,
  neverFires,
  problemOfWrite,
  changedAgainAndAgain,
  scheduleEnded,
  scheduleNotFound,
  schedulePaused,
} from './schedule-problems.ts';
import type { DeletedSchedule, Pause, ScheduleTarget } from './schedule-types.ts';
import { withStore } from './store-problems.ts';

export interface ChangeScheduleParts {
  readonly writer: ScheduleWriter;
  readonly finder: ScheduleFinder;
  readonly names: ScheduleNames;
  readonly index: ScheduleIndex;
  readonly canceller: JobCanceller;
  readonly trail: AuditTrail;
  readonly clock: Clock;
}

/** A schedule's firer moves it on each slot; after so many losses somebody else keeps changing it. */
const TRIES_MAX = 8;

/** What is to become of a row; null: it is so already. */
type Decide = (row: ScheduleRow, now: EpochMs) => Result<ScheduleChanges | null>;

/** PUT on a schedule that is there, PATCH, pause, resume, skip next and DELETE. */
export class ScheduleChanger {
  readonly #parts: ChangeScheduleParts;

  constructor(parts: ChangeScheduleParts) {
    this.#parts = parts;
  }

  change(
    target: ScheduleTarget,
    definitionOf: (row: ScheduleRow) => Result<ScheduleDefinition>,
  ): Promise<Result<ScheduleRow>> {
    return this.#ofReference('schedule.change', target, (row, now) => {
      const definition = definitionOf(row);
      return definition.ok ? redefined(row, definition.value, now) : definition;
    });
  }

  /** The same content changes nothing. */
  put(target: ScheduleTarget, row: ScheduleRow, definition: ScheduleDefinition): Promise<Result<ScheduleRow>> {
    return this.#move('schedule.put', target, row, (before, now) => redefined(before, definition, now));
  }

  pause(target: ScheduleTarget, pause: Pause): Promise<Result<ScheduleRow>> {
    return this.#ofReference('schedule.pause', target, (row, now) => ok(paused(row, pause, now)));
  }

  /** As pause, of a row that was just read. */
  pauseRow(row: ScheduleRow, pause: Pause): Promise<Result<ScheduleRow>> {
    const target = { owner: row.owner, schedule: row.scheduleId, revision: null };
    return withStore(() => this.#move(null, target, row, (before, now) => ok(paused(before, pause, now))));
  }

  resume(target: ScheduleTarget): Promise<Result<ScheduleRow>> {
    return this.#ofReference('schedule.resume', target, (row, now) => ok(resumed(row, now)));
  }

  resumeRow(row: ScheduleRow): Promise<Result<ScheduleRow>> {
    const target = { owner: row.owner, schedule: row.scheduleId, revision: null };
    return withStore(() => this.#move(null, target, row, (before, now) => ok(resumed(before, now))));
  }

  skipNext(target: ScheduleTarget): Promise<Result<ScheduleRow>> {
    return this.#ofReference('schedule.skip_next', target, skipped);
  }

  /** The schedule first: what remains of a name and in lists leads nowhere, and is cleaned by whoever meets it. */
  remove(target: ScheduleTarget, cancelPending: boolean): Promise<Result<DeletedSchedule>> {
    const { finder, writer } = this.#parts;
    const { schedule, revision } = target;
    return withStore(async () => {
      const found = await finder.find(target);
      if (!found.ok) return found;
      let row: ScheduleRow | null = found.value;
      for (let tries = 0; tries < TRIES_MAX; tries += 1) {
        if (row === null) return refused(scheduleNotFound(schedule));
        if (revision !== null && row.revision !== revision) return refused(changedMeanwhile(row, revision));
        const outcome = await writer.remove(row);
        if (outcome.kind === 'written') {
          const { row: gone } = outcome;
          await this.#forget(gone);
          await this.#record('schedule.delete', gone, gone);
          return ok({ schedule: gone, cancelled: cancelPending ? await this.#cancelPending(gone) : [] });
        }
        if (outcome.kind !== 'lost') return problemOfWrite(outcome);
        row = outcome.row;
      }
      return refused(changedAgainAndAgain(schedule));
    });
  }

  async #forget(row: ScheduleRow): Promise<void> {
    const { names, index, clock } = this.#parts;
    const { owner, key, scheduleId } = row;
    if (key !== null) await names.release({ keyHash: nameHash(owner, key), scheduleId });
    await index.remove(listEntries(row, clock.now()));
  }

  /** Its occurrences that may still wait: those behind others, and the last one. */
  async #cancelPending({ waiting, lastJobId }: ScheduleRow): Promise<readonly string[]> {
    const jobIds = [...new Set([...waiting, ...(lastJobId === null ? [] : [lastJobId])])];
    const results = await Promise.all(jobIds.map((jobId) => this.#parts.canceller.cancel(jobId)));
    return jobIds.filter((_, index) => results[index]?.ok === true);
  }

  #record(verb: string, before: ScheduleRow, after: ScheduleRow): Promise<void> {
    const { scheduleId, owner, revision, changeToken, createToken } = after;
    const isDelete = before === after;
    return this.#parts.trail.record({
      ...{
        at: this.#parts.clock.now(),
        entryId: isDelete ? `deleted-${createToken}` : (changeToken ?? createToken),
        owner,
      },
      ...{ verb, subject: scheduleId, detail: { revision, ...(isDelete ? {} : changesOf(before, after)) } },
    });
  }

  #ofReference(verb: string, target: ScheduleTarget, decide: Decide): Promise<Result<ScheduleRow>> {
    return withStore(async () => {
      const found = await this.#parts.finder.find(target);
      return found.ok ? this.#move(verb, target, found.value, decide) : found;
    });
  }

  /** @param verb of the entry in the audit log; null: the caller writes one for many. */
  async #move(
    verb: string | null,
    { schedule, revision }: ScheduleTarget,
    found: ScheduleRow,
    decide: Decide,
  ): Promise<Result<ScheduleRow>> {
    const { writer, index, clock } = this.#parts;
    let row: ScheduleRow | null = found;
    for (let tries = 0; tries < TRIES_MAX; tries += 1) {
      if (row === null) return refused(scheduleNotFound(schedule));
      if (revision !== null && row.revision !== revision) return refused(changedMeanwhile(row, revision));
      const now = clock.now();
      const changes = decide(row, now);
      if (!changes.ok) return changes;
      if (changes.value === null) return ok(row);
      const { queue } = changes.value.definition;
      if (queue !== row.queue) await index.write(listEntries({ ...row, queue }, now));
      const outcome = await writer.change(row, changes.value);
      if (outcome.kind === 'written') {
        if (verb !== null) await this.#record(verb, row, outcome.row);
        return ok(outcome.row);
      }
      if (outcome.kind !== 'lost') return problemOfWrite(outcome);
      row = outcome.row;
    }
    return refused(changedAgainAndAgain(schedule));
  }
}

/** What a person would want to know of a change: payloads stay private. */
function changesOf(before: ScheduleRow, after: ScheduleRow): Readonly<Record<string, unknown>> {
  const told = {
    ...definitionOf(after),
    ...pauseOf(after.pausedReason, after.pausedUntil),
    paused: after.paused,
    skipSlot: after.skipSlot,
  };
  const names = (Object.keys(told) as (keyof typeof told)[]).filter(
    (name) => name !== 'payload' && !isDeepStrictEqual(before[name], after[name]),
  );
  return {
    before: Object.fromEntries(names.map((name) => [name, before[name]])),
    after: Object.fromEntries(names.map((name) => [name, after[name]])),
    ...(before.payload !== after.payload && { payload_changed: true }),
  };
}

/** Another definition. A new timetable counts from now: nothing of it was missed before. */
function redefined(row: ScheduleRow, wanted: ScheduleDefinition, now: EpochMs): Result<ScheduleChanges | null> {
  const before = definitionOf(row);
  const definition = anchoredAs(before, wanted, now);
  if (sameDefinition(before, definition)) return ok(null);
  const isNewTimetable = !isDeepStrictEqual(timesOf(before), timesOf(definition));
  const next = timetableOf(definition, row.scheduleId).next(now);
  if (isNewTimetable && next === null) return refused(neverFires());
  // One that had ended may go on: with more runs.
  const state = isNewTimetable ? { nextRunAt: next, skipSlot: null } : { nextRunAt: row.nextRunAt ?? next };
  return ok({ definition, state, at: now });
}

/** An interval keeps the moment that it is counted from, unless the caller names another or changes it. */
function anchoredAs(before: ScheduleDefinition, wanted: ScheduleDefinition, now: EpochMs): ScheduleDefinition {
  const keeps = wanted.everyS !== null && wanted.startAt === null && wanted.everyS === before.everyS;
  return keeps ? { ...wanted, startAt: before.startAt } : anchored(wanted, now);
}

function paused(row: ScheduleRow, { reason, until }: Pause, now: EpochMs): ScheduleChanges | null {
  if (isPaused(row, now) && row.pausedReason === reason && row.pausedUntil === until) return null;
  return { definition: definitionOf(row), state: pauseOf(reason, until), at: now };
}

function pauseOf(
  reason: string | null,
  until: EpochMs | null,
): Pick<ScheduleState, 'paused' | 'pausedReason' | 'pausedUntil'> {
  return { paused: true, pausedReason: reason, pausedUntil: until };
}

/** Paused until now: the firer tells the slots of the pause and then ends it. */
function resumed(row: ScheduleRow, now: EpochMs): ScheduleChanges | null {
  if (!isPaused(row, now)) return null;
  return { definition: definitionOf(row), state: pauseOf(row.pausedReason, now), at: now };
}

function skipped(row: ScheduleRow, now: EpochMs): Result<ScheduleChanges | null> {
  if (row.nextRunAt === null) return refused(scheduleEnded(row));
  if (isPaused(row, now)) return refused(schedulePaused(row));
  const slot = row.nextRunAt > now ? row.nextRunAt : timetableOf(row, row.scheduleId).next(now);
  if (slot === null) return refused(scheduleEnded(row));
  if (row.skipSlot === slot) return ok(null);
  return ok({ definition: definitionOf(row), state: { skipSlot: slot }, at: now });
}

function sameDefinition(one: ScheduleDefinition, other: ScheduleDefinition): boolean {
  return isDeepStrictEqual(comparable(one), comparable(other));
}

/** However a payload is laid out. */
function comparable({ payload, payloadBytes: _, ...rest }: ScheduleDefinition): object {
  return { ...rest, payload: payload === null ? null : canonicalJson(payload, null) };
}

function timesOf({ cron, everyS, timeZone, onDstGap, onDstRepeat, startAt, endAt }: ScheduleDefinition): object {
  return { cron, everyS, timeZone, onDstGap, onDstRepeat, startAt, endAt };
}

function definitionOf(row: ScheduleRow): ScheduleDefinition {
  return {
    queue: row.queue,
    priority: row.priority,
    payload: row.payload,
    payloadBytes: row.payloadBytes,
    target: row.target,
    labels: row.labels,
    maxAttempts: row.maxAttempts,
    timeoutS: row.timeoutS,
    leaseS: row.leaseS,
    retry: row.retry,
    cron: row.cron,
    everyS: row.everyS,
    timeZone: row.timeZone,
    onDstGap: row.onDstGap,
    onDstRepeat: row.onDstRepeat,
    startAt: row.startAt,
    endAt: row.endAt,
    onOverlap: row.onOverlap,
    onMissed: row.onMissed,
    missedLimit: row.missedLimit,
    missedWindowS: row.missedWindowS,
    jitterS: row.jitterS,
    maxRuns: row.maxRuns,
  };
}

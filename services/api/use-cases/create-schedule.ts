import { ok, refused, type Result } from '../../core/contract/problems.ts';
import { DAY_MS, IDEMPOTENCY_KEY_KEPT_DAYS } from '../../core/domain/limits.ts';
import type { EpochMs } from '../../core/domain/time.ts';
import type { ScheduleWriter } from '../../core/moves/write-schedule.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type { KeyStore } from '../../core/ports/key-store.ts';
import type { Random } from '../../core/ports/random.ts';
import type { ArmOptions } from '../../core/timers/timers.ts';
import type { ScheduleIndex } from '../../core/ports/schedule-index.ts';
import type { ScheduleName, ScheduleNames } from '../../core/ports/schedule-names.ts';
import type { ScheduleDefinition } from '../../core/domain/schedule.ts';
import type { AuditTrail } from './audit-trail.ts';
import { batchItemId, scheduleBatchSeedId } from './batch-items.ts';
import type { ScheduleChanger } from './change-schedule.ts';
import { nameHash, type ScheduleFinder } from './find-schedules.ts';
import { inSomePlace } from './in-some-place.ts';
import { type KeyedCalls, keyHashOf } from './keyed-calls.ts';
import { anchored, firstSlot, listEntries, newScheduleRow } from './new-schedule.ts';
import type { ScheduleCohorts } from './schedule-cohorts.ts';
import {
  neverFires,
  nothingToChange,
  problemOfWrite,
  changedAgainAndAgain,
  scheduleNotFound,
} from './schedule-problems.ts';
import type {
  CreatedSchedule,
  CreateSchedule,
  CreateSchedules,
  PutSchedule,
  PutScheduleAnswer,
} from './schedule-types.ts';
import { withStore } from './store-problems.ts';

export interface CreateScheduleParts {
  readonly writer: ScheduleWriter;
  readonly changer: ScheduleChanger;
  readonly finder: ScheduleFinder;
  readonly names: ScheduleNames;
  readonly index: ScheduleIndex;
  readonly cohorts: ScheduleCohorts;
  readonly keyed: KeyedCalls;
  readonly keys: KeyStore;
  readonly trail: AuditTrail;
  readonly clock: Clock;
  readonly random: Random;
  readonly shards: number;
}

const KEY_REMEMBERED_MS = IDEMPOTENCY_KEY_KEPT_DAYS * DAY_MS;
/** A name can change hands a few times while its schedule is being put; after that it is anybody's. */
const TRIES_MAX = 5;

/** POST /schedules, POST /schedules/batch and PUT /schedules/{name}: key or name first, then the list, then the schedule. */
export class ScheduleCreator {
  readonly #parts: CreateScheduleParts;

  constructor(parts: CreateScheduleParts) {
    this.#parts = parts;
  }

  create(request: CreateSchedule): Promise<Result<CreatedSchedule>> {
    const { idempotencyKey } = request;
    return withStore(() =>
      idempotencyKey === null ? this.#createUnkeyed(request) : this.#createKeyed(request, idempotencyKey),
    );
  }

  /** Refused as a whole only for its key; else each item has its own result. */
  async createBatch(batch: CreateSchedules): Promise<Result<readonly Result<CreatedSchedule>[]>> {
    const { idempotencyKey, schedules } = batch;
    if (idempotencyKey !== null) return withStore(() => this.#createKeyedBatch(batch, idempotencyKey));
    return ok(await Promise.all(schedules.map(async (each) => (each.ok ? this.create(each.value) : each))));
  }

  put(request: PutSchedule): Promise<Result<PutScheduleAnswer>> {
    const { names, finder, changer } = this.#parts;
    const { owner, name, definition, revision } = request;
    const keyHash = nameHash(owner, name);
    return withStore(async () => {
      for (let tries = 0; tries < TRIES_MAX; tries += 1) {
        const standing = await names.find(keyHash);
        const row = standing === null ? null : await finder.read(standing.scheduleId, { serial: true });
        const result = row === null ? await this.#putNew(request, standing) : null;
        if (result !== null) return result;
        if (row === null || standing === null) continue;
        if (!standing.written) await names.markWritten(standing);
        const changed = await changer.put({ owner, schedule: name, revision }, row, definition);
        if (changed.ok) return ok({ schedule: changed.value, created: false });
        // Deleted meanwhile: made anew.
        if (changed.problem.code !== 'schedule_not_found') return changed;
      }
      return refused(changedAgainAndAgain(name));
    });
  }

  /** Null: somebody else was faster, so that it has to be looked at again. @param standing of a schedule that is not there. */
  async #putNew(request: PutSchedule, standing: ScheduleName | null): Promise<Result<PutScheduleAnswer> | null> {
    const { names, cohorts, clock } = this.#parts;
    const { definition, owner, name, revision } = request;
    if (revision !== null) return refused(nothingToChange(name));
    if (this.#neverFires(definition)) return refused(neverFires());
    if (standing !== null && !standing.written) return this.#putUnder(request, standing);
    const wanted: ScheduleName = {
      keyHash: nameHash(owner, name),
      scheduleId: cohorts.place(definition),
      createdAt: clock.now(),
      written: false,
    };
    if (standing === null) return this.#putUnder(request, await names.claim(wanted));
    return (await names.move(standing, wanted)) ? this.#putUnder(request, wanted) : null;
  }

  async #putUnder(request: PutSchedule, name: ScheduleName): Promise<Result<PutScheduleAnswer> | null> {
    const { names, writer } = this.#parts;
    if (name.written) return null;
    const result = await this.#write(name.scheduleId, request, { name: request.name, baseTime: name.createdAt });
    if (!result.ok) return result;
    const { schedule, replayed } = result.value;
    if (replayed) return null;
    if (await names.markWritten(name)) return ok({ schedule, created: true });
    // While we stalled the name went to another schedule: this one would have no name.
    await writer.remove(schedule);
    return null;
  }

  #createUnkeyed(request: CreateSchedule): Promise<Result<CreatedSchedule>> {
    const { cohorts, clock } = this.#parts;
    const { definition } = request;
    return inSomePlace(
      { choose: () => cohorts.place(definition), leave: () => cohorts.leave(definition) },
      (scheduleId, timer) => this.#write(scheduleId, request, { name: null, baseTime: clock.now(), timer }),
    );
  }

  async #createKeyed(request: CreateSchedule, key: string): Promise<Result<CreatedSchedule>> {
    const { keyed, keys, cohorts, clock } = this.#parts;
    const keyHash = keyHashOf(request.owner, 'POST /schedules', key);
    // A repeat is answered with its schedule however late it comes; a new request is refused before it takes the key.
    if (this.#neverFires(request.definition) && (await keys.find(keyHash)) === null) return refused(neverFires());
    const now = clock.now();
    return keyed.run({
      keyHash,
      requestHash: hashOf(request),
      newKey: () => ({
        jobId: cohorts.place(request.definition),
        createdAt: now,
        expiresAt: now + KEY_REMEMBERED_MS,
      }),
      replay: ({ jobId }) => this.#replayed(jobId),
      write: async ({ jobId, createdAt }) => {
        const result = await this.#write(jobId, request, { name: null, baseTime: createdAt });
        return { result, complete: result.ok };
      },
    });
  }

  /** One key for all items, whose ids follow from the key's seed and their place, so that a repeat is exact. */
  #createKeyedBatch(batch: CreateSchedules, key: string): Promise<Result<readonly Result<CreatedSchedule>[]>> {
    const { keyed, clock, random } = this.#parts;
    const now = clock.now();
    return keyed.run({
      keyHash: keyHashOf(batch.owner, 'POST /schedules/batch', key),
      requestHash: hashOf(batch),
      newKey: () => ({ jobId: scheduleBatchSeedId(random), createdAt: now, expiresAt: now + KEY_REMEMBERED_MS }),
      replay: async ({ jobId: seedId }) =>
        ok(
          await Promise.all(
            batch.schedules.map(async (each, index) => (each.ok ? this.#replayed(batchItemId(seedId, index)) : each)),
          ),
        ),
      write: async ({ jobId: seedId, createdAt }) => {
        const results = await Promise.all(
          batch.schedules.map(async (each, index) =>
            each.ok
              ? withStore(() =>
                  this.#write(batchItemId(seedId, index), each.value, { name: null, baseTime: createdAt }),
                )
              : each,
          ),
        );
        // What is refused for its content is refused again; what the store could not take is still to be written.
        const complete = results.every((result) => result.ok || result.problem.code === 'invalid_request');
        return { result: ok(results), complete };
      },
    });
  }

  async #replayed(scheduleId: string): Promise<Result<CreatedSchedule>> {
    const schedule = await this.#parts.finder.read(scheduleId);
    return schedule === null ? refused(scheduleNotFound(scheduleId)) : ok({ schedule, replayed: true });
  }

  /** Entry in the lists, then wake-up row and schedule: dying in between leaves an entry that leads nowhere. */
  async #write(
    scheduleId: string,
    { owner, definition, traceparent }: Pick<CreateSchedule, 'owner' | 'definition' | 'traceparent'>,
    {
      name,
      baseTime,
      timer,
    }: { readonly name: string | null; readonly baseTime: EpochMs; readonly timer?: ArmOptions },
  ): Promise<Result<CreatedSchedule>> {
    const { writer, index, trail, clock, random, shards } = this.#parts;
    const now = clock.now();
    const complete = anchored(definition, baseTime);
    const nextRunAt = firstSlot(complete, scheduleId, now);
    if (nextRunAt === null) return refused(neverFires());
    const createToken = random.token();
    const row = newScheduleRow(scheduleId, complete, { owner, name, nextRunAt, now, shards, createToken, traceparent });
    await index.write(listEntries(row, now));
    const outcome = await writer.create(row, timer);
    if (outcome.kind === 'written') {
      const detail = { name, queue: row.queue, cron: row.cron, every_s: row.everyS, time_zone: row.timeZone };
      await trail.record({
        at: now,
        entryId: createToken,
        owner,
        verb: 'schedule.create',
        subject: scheduleId,
        detail,
      });
      return ok({ schedule: outcome.row, replayed: false });
    }
    // Only under a key or a name can an id be taken: by the same schedule.
    if (outcome.kind === 'lost') return ok({ schedule: outcome.row ?? row, replayed: true });
    return problemOfWrite(outcome);
  }

  #neverFires(definition: ScheduleDefinition): boolean {
    const now = this.#parts.clock.now();
    return firstSlot(anchored(definition, now), '', now) === null;
  }
}

/** What is sent under a key comes with the hash of its content. */
function hashOf({ requestHash }: Pick<CreateSchedule, 'requestHash'>): string {
  if (requestHash === null) throw new Error('a keyed request without the hash of its content');
  return requestHash;
}

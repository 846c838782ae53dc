// Faults planted into the product's parts as a process is put together, to see that the checkers find each of them.

import type { Connections } from '../../services/core/foundation/foundation.ts';
import { JobStatus, Outcome } from '../../services/core/domain/job-status.ts';
import { decideLapse } from '../../services/core/domain/life-cycle.ts';
import { OPERATION_DEADLINE_MS, SECOND_MS } from '../../services/core/domain/limits.ts';
import { isScheduleId, occurrenceOf } from '../../services/core/domain/ids.ts';
import type { Operation } from '../../services/core/domain/operation.ts';
import { timetableOf } from '../../services/core/domain/timetable.ts';
import { elapsedMs, type EpochMs } from '../../services/core/domain/time.ts';
import type { Clock } from '../../services/core/ports/clock.ts';
import type { CohortStore } from '../../services/core/ports/job-store.ts';
import type { HeldStore } from '../../services/core/ports/held-store.ts';
import type { TimerStore } from '../../services/core/ports/timer-store.ts';
import { StoreError } from '../../services/core/ports/store-error.ts';
import type { Stores } from '../../services/core/storage/stores.ts';
import type { StoreMethod } from '../support/memory-store.ts';
import type { Plant, PlantContext, World } from './world.ts';

export interface PlantedFault {
  readonly name: string;
  /** One that catches it. */
  readonly seed: number;
  /** A call beside which a process must stall for the fault to show: seeds that strike there most of all are tried first. */
  readonly besides?: StoreMethod;
  readonly plant: Plant;
}

const LATER_MS = SECOND_MS / 2;

/**
 * A message published before its round is none of them: a worker that is faster than the round loses its claim, and the second
 * look publishes the message again. It makes jobs late, and loses none.
 */
export const PLANTED_FAULTS: readonly PlantedFault[] = [
  {
    name: 'rule 1: the state first, its timer later',
    seed: 1,
    plant: {
      foundation: ({ timers }, { clock }) => {
        const armDue = timers.armDue.bind(timers);
        const armDeadlines = timers.armDeadlines.bind(timers);
        timers.armDue = async (wanted) => {
          const chosenAt = clock.moment();
          later(clock, () => armDue(wanted));
          return { entries: wanted.map((row) => ({ ...row, runAt: Math.max(row.runAt, chosenAt.wallMs) })), chosenAt };
        };
        timers.armDeadlines = async (wanted) => {
          const chosenAt = clock.moment();
          later(clock, () => armDeadlines(wanted));
          return { entries: wanted.map((row) => ({ ...row, at: Math.max(row.at, chosenAt.wallMs) })), chosenAt };
        };
      },
    },
  },
  {
    name: 'rule 2: a timer that landed behind its reader is not written again',
    seed: 18,
    plant: {
      foundation: ({ timers, stores }, { clock }) => {
        timers.armDue = async (wanted) => {
          const chosenAt = clock.moment();
          const entries = wanted.map((row) => ({ ...row, runAt: Math.max(row.runAt, chosenAt.wallMs) }));
          await insist(clock, () => stores.timers.writeDue(entries));
          return { entries, chosenAt };
        };
        timers.armDeadlines = async (wanted) => {
          const chosenAt = clock.moment();
          const entries = wanted.map((row) => ({ ...row, at: Math.max(row.at, chosenAt.wallMs) }));
          await insist(clock, () => stores.timers.writeDeadlines(entries));
          return { entries, chosenAt };
        };
      },
    },
  },
  {
    name: 'rule 3: no spare timer after a slow round',
    seed: 96,
    besides: 'cohorts.apply',
    plant: {
      foundation: ({ timers }) => {
        timers.afterRound = () => Promise.resolve();
        timers.afterDispatch = () => Promise.resolve();
      },
    },
  },
  {
    name: 'rule 4: a row matches a job by equality',
    seed: 22,
    besides: 'timers.writeDue',
    plant: { connections: (connections, { world }) => withTimers(connections, (timers) => exactTimers(timers, world)) },
  },
  {
    name: 'rule 4: a row moves its job whatever the job says',
    seed: 4,
    plant: { connections: rewritten((operation) => ({ ...operation, ...(isEnqueue(operation) && ANY_TIME) })) },
  },
  {
    name: 'rule 5: no second look at the due rows',
    seed: 1,
    plant: {
      connections: (connections, { kind }) =>
        kind === 'reaper' ? withTimers(connections, (timers) => ({ ...bound(timers), readDue: nothing })) : connections,
    },
  },
  {
    name: 'rule 5: after a takeover the cursors begin at now',
    seed: 3,
    plant: {
      connections: (connections, { clock }) =>
        withStore(connections, 'cursors', (cursors) => ({
          load: async (role, shard) => ((await cursors.load(role, shard)) === null ? null : clock.now()),
          save: (role, shard, position) => cursors.save(role, shard, position),
        })),
    },
  },
  {
    name: 'rule 5: a cursor passes rows that are not settled',
    seed: 1,
    plant: {
      connections: (connections, { clock }) =>
        withStore(connections, 'cursors', (cursors) => ({
          load: (role, shard) => cursors.load(role, shard),
          save: (role, shard) => cursors.save(role, shard, clock.now()),
        })),
    },
  },
  {
    // Without its held row alone a job is only late: the second look finds none and gives it another due row.
    name: 'rule 6: a job passed over has no held row, and the second look takes it for held',
    seed: 2,
    plant: {
      connections: (connections, { world }) =>
        withStore(connections, 'held', (held) => ({
          ...boundHeld(held),
          write: () => Promise.resolve(),
          standing: () => Promise.resolve([...world.stores.rows.values()]),
        })),
    },
  },
  {
    name: 'rule 6: held rows are forgotten when their shard changes hands',
    seed: 2,
    plant: {
      connections: (connections) =>
        withStore(connections, 'held', (held) => ({ ...boundHeld(held), hours: () => Promise.resolve([]) })),
    },
  },
  {
    name: 'a round without an answer is taken for applied',
    seed: 12,
    plant: {
      foundation: ({ rounds }) => {
        const submit = rounds.submit.bind(rounds);
        rounds.submit = async (operation, options) => {
          const outcome = await submit(operation, options);
          return outcome.kind === 'unknown' ? { kind: 'applied' } : outcome;
        };
      },
    },
  },
  {
    name: 'a create without an answer is taken for refused, and tried again elsewhere',
    seed: 2,
    plant: {
      connections: (connections) =>
        withStore(connections, 'cohorts', (cohorts) => ({
          apply: async (cohort, operations) => {
            try {
              return await cohorts.apply(cohort, operations);
            } catch (error) {
              const isUnclear = error instanceof StoreError && error.kind === 'unknown';
              if (!isUnclear || !operations.every(({ edge }) => edge === 'create')) throw error;
              throw new StoreError('unavailable', error.message);
            }
          },
        })),
    },
  },
  {
    name: 'a success is written whatever the attempt',
    seed: 1,
    plant: {
      connections: rewritten((operation, { world }) =>
        operation.edge === 'succeed' ? { ...operation, attempt: attemptOf(world, operation) } : operation,
      ),
    },
  },
  {
    name: 'a cancel does not look whether the job runs',
    seed: 1,
    plant: {
      connections: aside((operation, world) => {
        const row = world.stores.rows.get(operation.jobId);
        if (operation.edge !== 'cancel' || row === undefined) return false;
        const { finishedAt, reason } = operation;
        world.stores.rows.set(row.jobId, { ...row, status: JobStatus.cancelled, finishedAt, reason });
        return true;
      }),
    },
  },
  {
    name: 'the history is written apart from the status',
    seed: 1,
    plant: {
      connections: aside((operation, { stores, clock }) => {
        const row = stores.rows.get(operation.jobId);
        if (operation.edge !== 'succeed' || row?.status !== JobStatus.running) return false;
        if (row.attempt !== operation.attempt) return false;
        const { attempt, end } = operation;
        stores.rows.set(row.jobId, { ...row, status: JobStatus.succeeded, finishedAt: end.endedAt });
        later(clock, async () => stores.rows.set(row.jobId, { ...row, ends: new Map(row.ends).set(attempt, end) }));
        return true;
      }),
    },
  },
  {
    name: 'a lapse ignores a request to cancel',
    seed: 13,
    plant: {
      foundation: ({ ender }, { clock }) => {
        const end = ender.end.bind(ender);
        ender.end = (row, decision) => {
          const { outcome } = decision.operation.end;
          if (outcome !== Outcome.leaseExpired || !row.cancelRequested) return end(row, decision);
          const now = { now: clock.now(), fraction: 0.5, queueIsOpen: true };
          const deaf = decideLapse({ ...row, cancelRequested: false }, 'lease_passed', now);
          const { operation } = deaf;
          const expect = { ...operation.expect, cancelRequested: true };
          return end(row, { ...deaf, operation: { ...operation, expect } });
        };
      },
    },
  },
  {
    name: 'a lapse is judged by the clock of the reaper',
    seed: 2,
    plant: {
      connections: rewritten((operation) =>
        operation.edge === 'end_attempt' && operation.clock === 'lease_passed'
          ? { ...operation, clock: 'before_deadline' }
          : operation,
      ),
    },
  },
  {
    name: 'a heartbeat sets the lease back',
    seed: 2,
    plant: {
      connections: aside((operation, world) => {
        const row = world.stores.rows.get(operation.jobId);
        if (operation.edge !== 'heartbeat' || row?.status !== JobStatus.running) return false;
        if (row.attempt !== operation.attempt) return false;
        const leaseUntil = world.clock.now() + 0.4 * operation.leaseMs;
        world.stores.rows.set(row.jobId, { ...row, leaseUntil, heard: true });
        return true;
      }),
    },
  },
  {
    name: 'a claim leaves out its deadline row',
    seed: 1,
    plant: {
      foundation: ({ timers }, { kind, clock }) => {
        if (kind !== 'api') return;
        timers.armDeadlines = async (entries) => ({ entries, chosenAt: clock.moment() });
      },
    },
  },
  {
    name: 'a job that waits for its claim is looked at only once',
    seed: 1,
    plant: {
      foundation: ({ timers }, { kind, clock }) => {
        if (kind !== 'reaper') return;
        const armDeadlines = timers.armDeadlines.bind(timers);
        timers.armDeadlines = async (wanted) => {
          const kept = wanted.filter(({ publishedAt }) => publishedAt === null);
          return kept.length === 0 ? { entries: wanted, chosenAt: clock.moment() } : armDeadlines(kept);
        };
      },
    },
  },
  {
    name: 'a message that was lost is never published again',
    seed: 1,
    plant: {
      foundation: ({ publisher }, { kind }) => {
        if (kind === 'reaper') publisher.publish = () => Promise.resolve('stored');
      },
    },
  },
  {
    name: 'a key is marked as written before its job is',
    seed: 2,
    plant: {
      connections: (connections) =>
        withStore(connections, 'keys', (keys) => ({
          find: (keyHash) => keys.find(keyHash),
          claim: async (key) => ({ ...(await keys.claim({ ...key, written: true })), written: false }),
          markWritten: (key) => keys.markWritten(key),
        })),
    },
  },
  {
    name: 'an occurrence has no timer of its own',
    seed: 3,
    plant: { foundation: withoutTimers((id) => occurrenceOf(id) !== null) },
  },
  {
    name: 'a schedule moves on without its next wake-up row',
    seed: 3,
    plant: { foundation: withoutTimers(isScheduleId) },
  },
  {
    name: 'a slot that is not run leaves no row',
    seed: 4,
    plant: {
      foundation: ({ rounds }) => {
        const submit = rounds.submit.bind(rounds);
        rounds.submit = async (operation, options) => {
          const isNotRun = operation.edge === 'create' && operation.job.slotUntil !== null;
          return isNotRun ? { kind: 'applied' } : submit(operation, options);
        };
      },
    },
  },
  {
    name: 'a schedule goes on from now, not from its slot',
    seed: 4,
    plant: {
      foundation: ({ scheduleRounds }, { world, clock }) => {
        const submit = scheduleRounds.submit.bind(scheduleRounds);
        scheduleRounds.submit = (operation, options) => {
          const row = world.stores.scheduleTables.rows.get(operation.scheduleId);
          if (operation.edge !== 'schedule_advance' || row === undefined) return submit(operation, options);
          const nextRunAt = timetableOf(row, row.scheduleId).next(clock.now());
          return submit({ ...operation, state: { ...operation.state, nextRunAt } }, options);
        };
      },
    },
  },
  {
    name: 'a firer does not heed a pause',
    seed: 15,
    plant: {
      connections: (connections, { kind }) =>
        kind !== 'dispatcher'
          ? connections
          : withStore(connections, 'schedules', (schedules) => ({
              read: async (ids, options) => {
                const rows = await schedules.read(ids, options);
                return new Map(Array.from(rows, ([id, row]) => [id, { ...row, paused: false, pausedUntil: null }]));
              },
            })),
    },
  },
  {
    name: 'a slot is freed by time',
    seed: 2,
    plant: {
      connections: (connections, { kind, clock }) =>
        kind !== 'dispatcher'
          ? connections
          : withStore(connections, 'slots', (slots) => ({
              change: (changes) => slots.change(changes),
              read: async (queue) =>
                (await slots.read(queue)).map((slot) =>
                  slot.takenAt < clock.now() - 5 * SECOND_MS ? { ...slot, jobId: null } : slot,
                ),
            })),
    },
  },
  {
    name: 'nobody looks whether the clock is right',
    seed: 3,
    plant: {
      foundation: ({ clockGuard }) => {
        clockGuard.trusts = () => true;
      },
    },
  },
];

/** After a moment, if the process still lives; whatever comes of it. */
function later(clock: Clock, work: () => Promise<unknown>): void {
  clock
    .sleep(LATER_MS)
    .then(work)
    .catch(() => undefined);
}

/** Of these ids a dispatcher writes no due rows. */
function withoutTimers(isOf: (id: string) => boolean): NonNullable<Plant['foundation']> {
  return ({ timers }, { kind, clock }) => {
    if (kind !== 'dispatcher') return;
    const armDue = timers.armDue.bind(timers);
    timers.armDue = async (wanted) => {
      const kept = wanted.filter(({ jobId }) => !isOf(jobId));
      return kept.length === wanted.length ? armDue(wanted) : { entries: wanted, chosenAt: clock.moment() };
    };
  };
}

async function insist(clock: Clock, write: () => Promise<void>): Promise<void> {
  for (const startedAt = clock.moment(); ;) {
    try {
      await write();
      return;
    } catch (error) {
      if (elapsedMs(startedAt, clock.moment()) > OPERATION_DEADLINE_MS) throw error;
      await clock.sleep(LATER_MS);
    }
  }
}

function withStore<Name extends keyof Stores>(
  connections: Connections,
  name: Name,
  change: (store: Stores[Name]) => Stores[Name],
): Connections {
  const changed = change(connections.stores[name]);
  const stores = new Proxy(connections.stores, {
    get: (target, key): unknown => (key === name ? changed : Reflect.get(target, key)),
  });
  return { ...connections, stores };
}

function withTimers(connections: Connections, change: (timers: TimerStore) => TimerStore): Connections {
  return withStore(connections, 'timers', change);
}

function boundHeld(held: HeldStore): HeldStore {
  return {
    write: (rows) => held.write(rows),
    hours: (shard) => held.hours(shard),
    read: (hour, after, limit) => held.read(hour, after, limit),
    standing: (hour, from, to) => held.standing(hour, from, to),
    count: (hour, after) => held.count(hour, after),
    drop: (hour) => held.drop(hour),
    positions: (shard) => held.positions(shard),
    savePosition: (position) => held.savePosition(position),
  };
}

function bound(timers: TimerStore): TimerStore {
  return {
    writeDue: (rows) => timers.writeDue(rows),
    writeDeadlines: (rows) => timers.writeDeadlines(rows),
    readDue: (range) => timers.readDue(range),
    readDeadlines: (range) => timers.readDeadlines(range),
    dropDue: (minute, rows) => timers.dropDue(minute, rows),
    dropDeadlines: (minute, rows) => timers.dropDeadlines(minute, rows),
  };
}

async function* nothing(): AsyncGenerator<readonly never[]> {
  yield await Promise.resolve([]);
}

function exactTimers(timers: TimerStore, { stores }: World): TimerStore {
  const matches = (jobId: string, at: EpochMs): boolean => {
    const job = stores.rows.get(jobId);
    return job?.status !== JobStatus.scheduled || job.runAt === at;
  };
  return {
    ...bound(timers),
    readDue: (range) => kept(timers.readDue(range), ({ jobId, runAt }) => matches(jobId, runAt)),
    readDeadlines: (range) => kept(timers.readDeadlines(range), ({ jobId, at }) => matches(jobId, at)),
  };
}

async function* kept<Row>(pages: AsyncIterable<readonly Row[]>, keeps: (row: Row) => boolean) {
  for await (const page of pages) yield page.filter(keeps);
}

const ANY_TIME = { runAtMost: Infinity };

function isEnqueue(operation: Operation): boolean {
  return operation.edge === 'enqueue';
}

function attemptOf({ stores }: World, { jobId }: Operation): number {
  return stores.rows.get(jobId)?.attempt ?? 0;
}

/** Each operation is changed on its way to the store. */
function rewritten(
  change: (operation: Operation, context: PlantContext) => Operation,
): NonNullable<Plant['connections']> {
  return (connections, context) =>
    withStore(connections, 'cohorts', (cohorts) => ({
      apply: (cohort, operations) =>
        cohorts.apply(
          cohort,
          operations.map((operation) => change(operation, context)),
        ),
    }));
}

/** An operation that is carried out beside the store, if the plant says so. */
function aside(carryOut: (operation: Operation, world: World) => boolean): NonNullable<Plant['connections']> {
  return (connections, { world }) =>
    withStore(connections, 'cohorts', (cohorts): CohortStore => ({
      apply: async (cohort, operations) => {
        const left = operations.filter((operation) => !carryOut(operation, world));
        return left.length === 0 ? { applied: true } : cohorts.apply(cohort, left);
      },
    }));
}

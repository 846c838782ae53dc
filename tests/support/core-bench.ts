// What every service stands on, over the stores and the bus in memory, for tests of one use-case or duty at a time.

import assert from 'node:assert/strict';
import { JobCreator } from '../../services/api/use-cases/create-job.ts';
import { KeyedCalls } from '../../services/api/use-cases/keyed-calls.ts';
import { OpenCohorts } from '../../services/api/use-cases/open-cohorts.ts';
import { WaitingLimit } from '../../services/api/use-cases/waiting-limit.ts';
import { JobWriter } from '../../services/api/use-cases/write-job.ts';
import { COHORT_SIZE, SHARDS_DEFAULT } from '../../services/core/domain/limits.ts';
import { defaultSettings, type QueueSettings } from '../../services/core/domain/queue-settings.ts';
import { StaleMessages } from '../../services/core/moves/stale-messages.ts';
import { WaitingCanceller } from '../../services/core/moves/cancel-waiting.ts';
import { AttemptEnder } from '../../services/core/moves/end-attempt.ts';
import { OccurrenceWriter } from '../../services/core/moves/occurrence-writer.ts';
import { OverlapQueue } from '../../services/core/moves/overlap-queue.ts';
import { ReadyPublisher } from '../../services/core/moves/ready-publisher.ts';
import { TimetableCache } from '../../services/core/moves/timetable-cache.ts';
import { JobUnqueuer } from '../../services/core/moves/unqueue-job.ts';
import { HeldBoard } from '../../services/core/queues/held-board.ts';
import { ReadyDepths } from '../../services/core/queues/ready-depths.ts';
import { ReadySurplus } from '../../services/core/queues/ready-surplus.ts';
import { QueueBook } from '../../services/core/queues/queue-book.ts';
import { RunningSlots } from '../../services/core/queues/running-slots.ts';
import { StartLags } from '../../services/api/use-cases/start-lags.ts';
import { QueueGate } from '../../services/core/queues/queue-gate.ts';
import { Rounds, ScheduleRounds } from '../../services/core/rounds/rounds.ts';
import { Timers } from '../../services/core/timers/timers.ts';
import { ScheduleFirer } from '../../services/dispatcher/schedule-firer.ts';
import { Retention } from '../../services/reaper/retention.ts';
import { ScheduleWaker } from '../../services/reaper/schedule-waker.ts';
import { FakeClock } from './fake-clock.ts';
import { MemoryBus, type BusCall, type BusFault, type BusMethod } from './memory-bus.ts';
import { MemoryStores, type Fault, type StoreCall, type StoreMethod } from './memory-store.ts';
import { scriptedRandom } from './scripted-random.ts';
import { silentLog, silentTelemetry } from './silent-telemetry.ts';

export type BenchEvent = StoreMethod | BusMethod | 'row changed';

export interface CoreBenchOptions {
  /** Called as each call to a store or the bus begins, and as each row of `jobs` changes. */
  readonly onEvent?: (event: BenchEvent) => void;
  /** What befalls a call to a store. */
  readonly strikes?: (call: StoreCall) => Fault | undefined;
  /** What befalls a call to the bus. */
  readonly busStrikes?: (call: BusCall) => BusFault | undefined;
  /** How far Cassandra's clock is ahead of the process's. */
  readonly serverAheadMs?: number;
  /** How many shards timers are spread over. */
  readonly shards?: number;
  /** Messages that a subject of the ready stream has room for. */
  readonly perSubject?: number;
}

export function coreBench(options: CoreBenchOptions = {}) {
  const { onEvent, strikes, busStrikes, serverAheadMs = 0, shards = SHARDS_DEFAULT, perSubject } = options;
  const clock = new FakeClock();
  const events: BenchEvent[] = [];
  const note = (event: BenchEvent): void => {
    events.push(event);
    onEvent?.(event);
  };
  const stores = new MemoryStores({
    clock,
    serverNow: () => clock.now() + serverAheadMs,
    plan: (call) => {
      note(call.method);
      return strikes?.(call);
    },
  });
  const bus = new MemoryBus({
    clock,
    ...(perSubject === undefined ? {} : { perSubject }),
    plan: (call) => {
      note(call.method);
      return busStrikes?.(call);
    },
  });
  const connection = bus.connect();
  const { queue, hints } = connection;
  const { jobs: reader, history } = stores;
  const [random, telemetry, log] = [scriptedRandom(), silentTelemetry, silentLog];
  const rounds = new Rounds({ store: stores.cohorts, reader, clock, telemetry });
  const scheduleRounds = new ScheduleRounds({
    store: stores.scheduleCohorts,
    reader: stores.schedules,
    clock,
    telemetry,
  });
  const timers = new Timers({ store: stores.timers, hints, clock });
  const publisher = new ReadyPublisher({ queue, clock });
  const queueBook = new QueueBook({ store: stores.queues, clock });
  const heldBoard = new HeldBoard({ clock });
  connection.heldReports.listen((report) => heldBoard.note(report));
  const gate = new QueueGate({ book: queueBook, publisher, queue, board: heldBoard });
  const { schedules } = stores;
  const depths = new ReadyDepths({ queue, clock, log });
  const waitingLimit = new WaitingLimit({ book: queueBook, board: heldBoard, depths });
  const overlaps = new OverlapQueue({ reader, schedules, timers, clock, log });
  const leftBehind = new StaleMessages({ queue, reader, clock, telemetry, log });
  const canceller = new WaitingCanceller({ rounds, timers, history, overlaps, leftBehind, clock, log });
  const ender = new AttemptEnder({ rounds, timers, history, publisher, overlaps, telemetry, log });
  const unqueuer = new JobUnqueuer({ rounds, timers, leftBehind, clock });
  const waker = new ScheduleWaker({ schedules, timers, clock, telemetry, log });
  const occurrences = new OccurrenceWriter({
    ...{ rounds, timers, publisher, clock, random, telemetry, log, shards },
    runs: stores.scheduleRuns,
  });
  const timetables = new TimetableCache();
  const firer = new ScheduleFirer({
    schedules,
    reader,
    rounds,
    scheduleRounds,
    occurrences,
    overlaps,
    canceller,
    timetables,
    timers,
    gate,
    clock,
    telemetry,
    log,
  });

  // Rows that a test lays down by itself are set before it begins; see `begin`.
  const setRow = stores.rows.set.bind(stores.rows);
  const begin = (): void => {
    events.length = 0;
    stores.rows.set = (jobId, row) => {
      const rows = setRow(jobId, row);
      note('row changed');
      return rows;
    };
  };
  return {
    parts: {
      rounds,
      scheduleRounds,
      reader,
      timers,
      ender,
      overlaps,
      waker,
      occurrences,
      timetables,
      firer,
      canceller,
      leftBehind,
      unqueuer,
      heldStore: stores.held,
      retention: new Retention({
        reader,
        rounds,
        timers,
        overlaps,
        timerStore: stores.timers,
        book: queueBook,
        clock,
        telemetry,
      }),
      history,
      publisher,
      queue,
      queueBook,
      slots: new RunningSlots({ store: stores.slots, reader, clock, random, log }),
      surplus: new ReadySurplus({ book: queueBook, depths, clock }),
      startLags: new StartLags(clock),
      heldBoard,
      waitingLimit,
      heldReports: connection.heldReports,
      gate,
      hints,
      clock,
      random,
      telemetry,
      log,
    },
    clock,
    stores,
    bus,
    connection,
    events,
    begin,
  };
}

/** The creates of one process: with open cohorts, and by default the chance, of its own. */
export function jobCreator({ parts, stores }: Pick<CoreBench, 'parts' | 'stores'>, random = parts.random): JobCreator {
  const { clock } = parts;
  const cohorts = new OpenCohorts({ clock, random, shards: SHARDS_DEFAULT, size: COHORT_SIZE });
  const writer = new JobWriter({ ...parts, random, cohorts, shards: SHARDS_DEFAULT });
  return new JobCreator({
    ...parts,
    random,
    writer,
    keyed: new KeyedCalls(stores.keys, parts.clock),
    keys: stores.keys,
  });
}

export type CoreBench = ReturnType<typeof coreBench>;

/** Changes a queue's settings, and everybody knows at once. */
export async function setQueue(
  { stores, parts }: Pick<CoreBench, 'stores' | 'parts'>,
  queue: string,
  overrides: Partial<QueueSettings>,
): Promise<void> {
  const before = (await stores.queues.read(queue)) ?? defaultSettings(queue);
  const next = { ...before, ...overrides, revision: before.revision + 1 };
  assert.ok(await stores.queues.change({ next, token: `${queue} ${next.revision}` }));
  await parts.queueBook.refresh();
}

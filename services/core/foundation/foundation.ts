import { QUEUE_SETTINGS_EVERY_MS, SECOND_MS, STALE_MESSAGES_EVERY_MS, TALLIES_EVERY_MS } from '../domain/limits.ts';
import type { EpochMs } from '../domain/time.ts';
import type { ClockSource } from '../ports/clock-source.ts';
import type { DueHints } from '../ports/due-hints.ts';
import type { HeldReports } from '../ports/held-reports.ts';
import type { ReadyQueue } from '../ports/ready-queue.ts';
import type { ShardLeases } from '../ports/shard-leases.ts';
import { connectBus } from '../bus/connection.ts';
import { createBusClock } from '../bus/bus-clock.ts';
import { createDueHints } from '../bus/due-hints.ts';
import { NatsHeldReports } from '../bus/held-reports.ts';
import { createReadyQueue } from '../bus/ready-queue.ts';
import { createShardLeases } from '../bus/shard-leases.ts';
import { AttemptEnder } from '../moves/end-attempt.ts';
import { WaitingCanceller } from '../moves/cancel-waiting.ts';
import { OccurrenceWriter } from '../moves/occurrence-writer.ts';
import { OverlapQueue } from '../moves/overlap-queue.ts';
import { ReadyPublisher } from '../moves/ready-publisher.ts';
import { JobUnqueuer } from '../moves/unqueue-job.ts';
import { StaleMessages } from '../moves/stale-messages.ts';
import { TimetableCache } from '../moves/timetable-cache.ts';
import { HeldBoard } from '../queues/held-board.ts';
import { QueueBook } from '../queues/queue-book.ts';
import { QueueGate } from '../queues/queue-gate.ts';
import { WaitingTallies } from '../queues/waiting-tallies.ts';
import { Rounds, ScheduleRounds } from '../rounds/rounds.ts';
import { ClockGuard } from '../runtime/clock-guard.ts';
import { startLoop } from '../runtime/loop.ts';
import type { ServiceContext } from '../runtime/run-service.ts';
import { createQueueStore } from '../storage/queue-store.ts';
import { requireSchema, SCHEMA_VERSION } from '../storage/schema-version.ts';
import { openSession } from '../storage/session.ts';
import { createStores, type Stores } from '../storage/stores.ts';
import { Timers } from '../timers/timers.ts';

/** Cassandra and NATS as one process reaches them. */
export interface Connections {
  readonly stores: Stores;
  /** The queues' settings, as they were a few seconds ago at most. */
  readonly queueBook: QueueBook;
  readonly queue: ReadyQueue;
  readonly hints: DueHints;
  readonly heldReports: HeldReports;
  readonly leases: ShardLeases;
  /** The servers whose clocks can be asked at the moment. */
  readonly clockSources: () => readonly ClockSource[];
  /** Calls back now, if NATS is there, and whenever it is there again. */
  readonly onBusConnected: (callback: () => void) => () => void;
}

/** What every service stands on: the stores, the bus, and the core's one way of writing to them. */
export interface Foundation extends Connections {
  readonly rounds: Rounds;
  readonly scheduleRounds: ScheduleRounds;
  readonly timers: Timers;
  readonly publisher: ReadyPublisher;
  readonly ender: AttemptEnder;
  readonly overlaps: OverlapQueue;
  readonly occurrences: OccurrenceWriter;
  readonly timetables: TimetableCache;
  /** What dispatchers hold, as they told in the last seconds. */
  readonly heldBoard: HeldBoard;
  readonly gate: QueueGate;
  readonly canceller: WaitingCanceller;
  readonly unqueuer: JobUnqueuer;
  /** Whether this machine's wall clock may be acted by. */
  readonly clockGuard: ClockGuard;
  /** How many shards new rows are spread over: one value for the whole cluster, stored when it began. */
  readonly writeShards: number;
  /** When the cluster began: nothing can be due before it. */
  readonly clusterStartedAt: EpochMs;
  readonly schemaVersion: string;
}

export interface FoundationOptions {
  /** The api can accept jobs without NATS; the others do nothing without it. */
  readonly busRequired: boolean;
  readonly onRoundStart?: (cohort: string) => void;
}

/** A cluster's first process may start a little after its first job was accepted by a clock behind. */
const STARTED_SLACK_MS = 60 * SECOND_MS;

/** How a service gets what it stands on: from real servers, or in the simulation from memory. */
export type LayFoundation = (context: ServiceContext, options: FoundationOptions) => Promise<Foundation>;

/** Connects and puts together; keeps dialling until both stores answer. Rejects when the schema is too old. */
export const layFoundation: LayFoundation = async (context, options) =>
  buildFoundation(await connect(context, options), context, options);

async function connect(context: ServiceContext, options: FoundationOptions): Promise<Connections> {
  const { config, clock, telemetry, log } = context;
  const session = await openSession(config.cassandra, {
    telemetry,
    clock,
    log,
    signal: context.stopping,
    onConnectFailure: ({ attempt, error, retryInMs }) => {
      log.warn('cassandra does not answer yet', { attempt, error: error.message, retry_in_ms: retryInMs });
    },
  });
  context.onStop('cassandra', () => session.close());
  const queues = createQueueStore(session);
  const queueBook = new QueueBook({ store: queues, clock });
  const stores = createStores(session, { clock, queues, retentionOf: (queue) => queueBook.retentionOf(queue) });

  const { prefix, replicas } = config.nats;
  const bus = connectBus({ ...config.nats, name: config.memberId }, { clock, log });
  context.onStop('nats', () => bus.close());
  context.addReadyCheck({ name: 'nats', required: options.busRequired, problem: () => bus.problem() });
  context.addReadyCheck({
    name: 'cassandra',
    required: true,
    problem: async () => session.problem() ?? (await requireSchema(session).then(() => null)),
  });

  const busClock = createBusClock({ prefix }, { bus });
  return {
    stores,
    queueBook,
    queue: createReadyQueue({ prefix, replicas }, { bus, clock, telemetry, log }),
    hints: createDueHints({ prefix }, { bus, log }),
    heldReports: new NatsHeldReports({ prefix }, { bus, log }),
    leases: createShardLeases({ prefix, replicas, ttlMs: config.shardLease.ttlMs }, { bus, telemetry, log }),
    clockSources: () => [...session.clockSources(), busClock],
    onBusConnected: (callback) => bus.onConnected(callback),
  };
}

/** Puts together what stands on the connections. */
export async function buildFoundation(
  connections: Connections,
  context: ServiceContext,
  options: FoundationOptions,
): Promise<Foundation> {
  const { config, clock, random, telemetry, log } = context;
  const { stores, queueBook, queue, hints } = connections;
  const clockGuard = new ClockGuard({ sources: connections.clockSources, clock, random, telemetry, log });
  context.addReadyCheck({ name: 'clock', required: true, problem: () => clockGuard.problem() });
  await clockGuard.start();
  context.onStop('clock check', () => clockGuard.stop());

  await keepQueueBook(context, queueBook);
  const rounds = new Rounds({
    store: stores.cohorts,
    reader: stores.jobs,
    clock,
    telemetry,
    ...(options.onRoundStart === undefined ? {} : { onStart: options.onRoundStart }),
  });
  const scheduleRounds = new ScheduleRounds({
    store: stores.scheduleCohorts,
    reader: stores.schedules,
    clock,
    telemetry,
  });
  const tallies = openTallies(context, stores);
  const isClockRight = (): boolean => clockGuard.trusts();
  const timers = new Timers({ store: stores.timers, hints, clock, isClockRight, tallies });
  const publisher = new ReadyPublisher({ queue, clock });
  const heldBoard = new HeldBoard({ clock });
  const stopListening = connections.heldReports.listen((report) => heldBoard.note(report));
  context.onStop('what is held', async () => stopListening());
  const gate = new QueueGate({ book: queueBook, publisher, queue, board: heldBoard });
  const overlaps = new OverlapQueue({ reader: stores.jobs, schedules: stores.schedules, timers, clock, log });
  const ender = new AttemptEnder({ rounds, timers, history: stores.history, publisher, overlaps, telemetry, log });

  const leftBehind = openStaleMessages(context, connections);

  const writeShards = Number(await stores.settings.readOrSeed('write_shards', String(config.writeShards)));
  if (writeShards !== config.writeShards) {
    log.info('the cluster keeps its own number of shards', { stored: writeShards, configured: config.writeShards });
  }
  const startedAt = await stores.settings.readOrSeed(
    'started_at',
    new Date(clock.now() - STARTED_SLACK_MS).toISOString(),
  );
  return {
    ...connections,
    rounds,
    scheduleRounds,
    timers,
    publisher,
    ender,
    overlaps,
    occurrences: new OccurrenceWriter({
      ...{ rounds, timers, publisher, clock, random, telemetry, log },
      runs: stores.scheduleRuns,
      shards: writeShards,
    }),
    timetables: new TimetableCache(),
    heldBoard,
    gate,
    canceller: new WaitingCanceller({ rounds, timers, history: stores.history, overlaps, leftBehind, clock, log }),
    unqueuer: new JobUnqueuer({ rounds, timers, leftBehind, clock }),
    clockGuard,
    writeShards,
    clusterStartedAt: Date.parse(startedAt),
    schemaVersion: String(SCHEMA_VERSION),
  };
}

/** Written each second, and once more when all that could change them has ended. */
function openTallies({ clock, random, log, onStop }: ServiceContext, { queueCounts }: Stores): WaitingTallies {
  const tallies = new WaitingTallies({ store: queueCounts, clock, random });
  const runOnce = (): Promise<void> => tallies.flush();
  const loop = startLoop({ name: 'waiting tallies', everyMs: TALLIES_EVERY_MS, runOnce, clock, random, log });
  onStop('waiting tallies', async () => {
    await loop.stop();
    try {
      await tallies.flush();
    } catch (error) {
      // As after a kill: missing in the counts until those jobs' time comes near.
      log.warn('how many jobs wait could not be written at the end', { error: String(error) });
    }
  });
  return tallies;
}

/** Looked for each second, and once more when all that leaves any behind has ended. */
function openStaleMessages(context: ServiceContext, { queue, stores }: Connections): StaleMessages {
  const { clock, random, telemetry, log, onStop } = context;
  const stale = new StaleMessages({ queue, reader: stores.jobs, clock, telemetry, log });
  const runOnce = (): Promise<number> => stale.runOnce();
  const loop = startLoop({ name: 'stale messages', everyMs: STALE_MESSAGES_EVERY_MS, runOnce, clock, random, log });
  onStop('stale messages', async () => {
    await loop.stop();
    try {
      await stale.runOnce(0);
    } catch (error) {
      // As after a kill: they stay until a worker asks for them.
      log.warn('messages of jobs that wait no longer could not be removed at the end', { error: String(error) });
    }
  });
  return stale;
}

/** Read before anything is done by it, then every few seconds. */
async function keepQueueBook({ clock, random, log, onStop }: ServiceContext, book: QueueBook): Promise<void> {
  await book.refresh();
  const runOnce = (): Promise<void> => book.refresh();
  const loop = startLoop({ name: 'queue settings', everyMs: QUEUE_SETTINGS_EVERY_MS, runOnce, clock, random, log });
  onStop('queue settings', () => loop.stop());
}

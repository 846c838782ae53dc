import { SECOND_MS } from '../domain/limits.ts';
import type { EpochMs } from '../domain/time.ts';
import type { DueHints } from '../ports/due-hints.ts';
import type { ReadyQueue } from '../ports/ready-queue.ts';
import type { ShardLeases } from '../ports/shard-leases.ts';
import { connectBus, type BusConnection } from '../bus/connection.ts';
import { createBusClock } from '../bus/bus-clock.ts';
import { createDueHints } from '../bus/due-hints.ts';
import { createReadyQueue } from '../bus/ready-queue.ts';
import { createShardLeases } from '../bus/shard-leases.ts';
import { AttemptEnder } from '../moves/end-attempt.ts';
import { WaitingCanceller } from '../moves/cancel-waiting.ts';
import { ReadyPublisher } from '../moves/ready-publisher.ts';
import { Rounds } from '../rounds/rounds.ts';
import { ClockGuard } from '../runtime/clock-guard.ts';
import type { ServiceContext } from '../runtime/run-service.ts';
import { requireSchema, SCHEMA_VERSION } from '../storage/schema-version.ts';
import { openSession } from '../storage/session.ts';
import { createStores, type Stores } from '../storage/stores.ts';
import { Timers } from '../timers/timers.ts';

/** What every service stands on: the stores, the bus, and the core's one way of writing to them. */
export interface Foundation {
  readonly stores: Stores;
  readonly bus: BusConnection;
  readonly queue: ReadyQueue;
  readonly hints: DueHints;
  readonly leases: ShardLeases;
  readonly rounds: Rounds;
  readonly timers: Timers;
  readonly publisher: ReadyPublisher;
  readonly ender: AttemptEnder;
  readonly canceller: WaitingCanceller;
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

/** Connects and puts together; keeps dialling until both stores answer. Rejects when the schema is too old. */
export async function layFoundation(context: ServiceContext, options: FoundationOptions): Promise<Foundation> {
  const { config, clock, random, telemetry, log } = context;
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
  const stores = createStores(session, { clock });

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
  const clockGuard = new ClockGuard({
    sources: () => [...session.clockSources(), busClock],
    clock,
    random,
    telemetry,
    log,
  });
  context.addReadyCheck({ name: 'clock', required: true, problem: () => clockGuard.problem() });
  await clockGuard.start();
  context.onStop('clock check', () => clockGuard.stop());

  const queue = createReadyQueue({ prefix, replicas }, { bus, clock, telemetry, log });
  const hints = createDueHints({ prefix }, { bus, log });
  const leases = createShardLeases({ prefix, replicas, ttlMs: config.shardLease.ttlMs }, { bus, telemetry, log });
  const rounds = new Rounds({
    store: stores.cohorts,
    reader: stores.jobs,
    clock,
    telemetry,
    ...(options.onRoundStart === undefined ? {} : { onStart: options.onRoundStart }),
  });
  const timers = new Timers({ store: stores.timers, hints, clock });
  const publisher = new ReadyPublisher({ queue, clock });
  const ender = new AttemptEnder({ rounds, timers, history: stores.history, publisher, telemetry, log });

  const writeShards = Number(await stores.settings.readOrSeed('write_shards', String(config.writeShards)));
  if (writeShards !== config.writeShards) {
    log.info('the cluster keeps its own number of shards', { stored: writeShards, configured: config.writeShards });
  }
  const startedAt = await stores.settings.readOrSeed(
    'started_at',
    new Date(clock.now() - STARTED_SLACK_MS).toISOString(),
  );
  return {
    stores,
    bus,
    queue,
    hints,
    leases,
    rounds,
    timers,
    publisher,
    ender,
    canceller: new WaitingCanceller({ rounds, history: stores.history, clock, log }),
    clockGuard,
    writeShards,
    clusterStartedAt: Date.parse(startedAt),
    schemaVersion: String(SCHEMA_VERSION),
  };
}

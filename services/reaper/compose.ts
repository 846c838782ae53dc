import { OperationRegister } from '../core/bulk/operation-register.ts';
import { type Foundation, layFoundation, type LayFoundation } from '../core/foundation/foundation.ts';
import { CENSUS_EVERY_MS, SECOND_MS } from '../core/domain/limits.ts';
import { ShardOwner } from '../core/ownership/shard-owner.ts';
import { startLoop, type Loop } from '../core/runtime/loop.ts';
import { JobIndex } from '../core/scan/job-index.ts';
import { JobMover } from '../core/moves/move-job.ts';
import type { Compose, ServiceContext } from '../core/runtime/run-service.ts';
import { BulkCarrier } from './bulk-carrier.ts';
import { DeadCensus } from './dead-census.ts';
import { Operations, settlesAll } from './operations.ts';
import { QueueCensus } from './queue-census.ts';
import { ReadyGauges } from './ready-gauges.ts';
import { Reaper } from './reaper.ts';
import { ReadyWatch } from './ready-watch.ts';
import { Republisher } from './republish.ts';
import { Retention } from './retention.ts';
import { ScheduleWaker } from './schedule-waker.ts';
import { SlotAdopter } from './slot-adopter.ts';
import { Settler } from './settle.ts';

const DEADLINES_EVERY_MS = SECOND_MS;
const SECOND_LOOKS_EVERY_MS = 5 * SECOND_MS;
const RETENTION_EVERY_MS = 10 * SECOND_MS;
const READY_WATCH_EVERY_MS = 3 * SECOND_MS;
/** The census of dead letters wakes the other each CENSUS_EVERY_MS; where it takes longer, the other goes on by itself. */
const CENSUS_UNWOKEN_MS = 1.5 * CENSUS_EVERY_MS;

/** Puts the reaper together: shard ownership tells it what to look after, two loops do its duties. */
export async function composeReaper(context: ServiceContext, lay: LayFoundation = layFoundation): ReturnType<Compose> {
  const { config, clock, random, telemetry, log } = context;
  const foundation = await lay(context, { busRequired: true });
  const { stores, rounds, timers, publisher, canceller, ender, overlaps, queue, gate, leases, clusterStartedAt } =
    foundation;

  const retention = new Retention({
    ...{ rounds, timers, overlaps, clock, telemetry },
    reader: stores.jobs,
    timerStore: stores.timers,
    book: foundation.queueBook,
  });
  const settler = new Settler({
    retention,
    reader: stores.jobs,
    heldStore: stores.held,
    history: stores.history,
    rounds,
    timers,
    ender,
    overlaps,
    waker: new ScheduleWaker({ schedules: stores.schedules, timers, clock, telemetry, log }),
    publisher,
    canceller,
    unqueuer: foundation.unqueuer,
    queue,
    gate,
    clock,
    random,
    telemetry,
    log,
  });
  const operations = new Operations({
    store: stores.operations,
    register: new OperationRegister({ store: stores.operations, clock, random }),
    index: new JobIndex({ timerStore: stores.timers, history: stores.history, shards: foundation.writeShards }),
    carrier: new BulkCarrier({
      reader: stores.jobs,
      rounds,
      timers,
      mover: new JobMover({ rounds, timers, overlaps }),
      canceller,
      clock,
    }),
    timers,
    clock,
    random,
    log,
    holds: (shard) => owner.holds(shard),
  });
  const reaper = new Reaper({
    timerStore: stores.timers,
    cursors: stores.cursors,
    settler: settlesAll(settler, operations),
    timers,
    readyWatch: new ReadyWatch({ queue, clock, log }),
    republisher: new Republisher({ timerStore: stores.timers, reader: stores.jobs, queue, clock, telemetry }),
    retention,
    clock,
    telemetry,
    log,
    holds: (shard) => owner.holds(shard),
    clusterStartedAt,
  });
  const { census, ...counting } = composeCensus(context, foundation, (shard) => owner.holds(shard));
  const owner = new ShardOwner(
    {
      role: 'reaper',
      scanShards: foundation.writeShards,
      name: config.memberId,
      renewEveryMs: config.shardLease.renewMs,
      mayAct: () => foundation.clockGuard.trusts(),
      onAcquired: (shard) => {
        reaper.acquired(shard);
        census.acquired(shard);
      },
      onLost: (shard) => {
        reaper.lost(shard);
        census.lost(shard);
      },
    },
    { leases, clock, random, telemetry, log },
  );

  owner.start();
  context.onStop('shard ownership', () => owner.stop());
  const start = (name: string, everyMs: number, runOnce: () => Promise<void>): Loop =>
    startLoop({ name, everyMs, runOnce, clock, random, log });
  const watch = start('lost messages', READY_WATCH_EVERY_MS, () => reaper.republishLost());
  const queueCensus = start('queue census', CENSUS_UNWOKEN_MS, () => census.runOnce());
  const loops = [
    start('deadlines', DEADLINES_EVERY_MS, () => reaper.reapDeadlines()),
    start('second looks', SECOND_LOOKS_EVERY_MS, () => reaper.lookAgain()),
    start('retention', RETENTION_EVERY_MS, () => reaper.sweep()),
    watch,
    queueCensus,
    // Told at once: at its own turn, some time in the next ten seconds, the other would tell twice as old numbers.
    start('census of dead letters', CENSUS_EVERY_MS, () =>
      counting.dead.runOnce().finally(() => {
        queueCensus.wake();
      }),
    ),
    start('ready gauges', CENSUS_EVERY_MS, () => counting.readyGauges.runOnce()),
  ];
  const unwatch = foundation.onBusConnected(() => {
    watch.wake();
  });
  context.onStop('operations', () => operations.stop());
  context.onStop('duties', async () => {
    unwatch();
    reaper.stop();
    await Promise.all(loops.map((loop) => loop.stop()));
  });
  return { schemaVersion: foundation.schemaVersion };
}

/** What counts the jobs of queues: each reaper those of its own shards. */
function composeCensus(
  { clock, random, telemetry, log }: ServiceContext,
  { stores, queue, queueBook: book, writeShards: shards }: Foundation,
  holds: (shard: number) => boolean,
): { readonly census: QueueCensus; readonly dead: DeadCensus; readonly readyGauges: ReadyGauges } {
  const { timers: timerStore, jobs: reader, history, queueCounts: counts } = stores;
  const dead = new DeadCensus({ history, reader, clock, telemetry, log, shards, holds });
  const adopter = new SlotAdopter({ store: stores.slots, reader, clock, random });
  const census = new QueueCensus({ timerStore, reader, counts, dead, book, adopter, clock, telemetry, log, holds });
  return { census, dead, readyGauges: new ReadyGauges({ queue, clock, telemetry, tells: () => holds(0) }) };
}

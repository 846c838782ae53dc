import { layFoundation, type LayFoundation } from '../core/foundation/foundation.ts';
import { BEAT_MS, TICK_MS } from '../core/domain/limits.ts';
import { RunningSlots } from '../core/queues/running-slots.ts';
import { ShardOwner } from '../core/ownership/shard-owner.ts';
import { startLoop, type Loop } from '../core/runtime/loop.ts';
import type { Compose, ServiceContext } from '../core/runtime/run-service.ts';
import { Dispatcher } from './dispatcher.ts';
import { ScheduleFirer } from './schedule-firer.ts';

/** Puts the dispatcher together: shard ownership tells it what to scan, one loop ticks it. */
export async function composeDispatcher(
  context: ServiceContext,
  lay: LayFoundation = layFoundation,
): ReturnType<Compose> {
  const { config, clock, random, telemetry, log } = context;
  const foundation = await lay(context, { busRequired: true });
  const { stores, rounds, timers, publisher, canceller, queueBook, hints, leases, clusterStartedAt } = foundation;

  const shards = foundation.writeShards;
  const firer = new ScheduleFirer({
    schedules: stores.schedules,
    reader: stores.jobs,
    rounds,
    scheduleRounds: foundation.scheduleRounds,
    occurrences: foundation.occurrences,
    overlaps: foundation.overlaps,
    canceller,
    timetables: foundation.timetables,
    timers,
    gate: foundation.gate,
    clock,
    telemetry,
    log,
  });

  const dispatcher = new Dispatcher({
    timerStore: stores.timers,
    cursors: stores.cursors,
    heldStore: stores.held,
    queue: foundation.queue,
    reader: stores.jobs,
    rounds,
    timers,
    publisher,
    canceller,
    firer,
    queueBook,
    slots: new RunningSlots({ store: stores.slots, reader: stores.jobs, clock, random, log }),
    hints,
    heldReports: foundation.heldReports,
    heldBoard: foundation.heldBoard,
    member: config.memberId,
    clock,
    telemetry,
    log,
    holds: (shard) => owner.holds(shard),
    clusterStartedAt,
    shards,
  });
  const owner = new ShardOwner(
    {
      role: 'dispatcher',
      scanShards: shards,
      name: config.memberId,
      renewEveryMs: config.shardLease.renewMs,
      mayAct: () => foundation.clockGuard.trusts(),
      onAcquired: (shard) => {
        dispatcher.acquired(shard);
      },
      onLost: (shard) => {
        dispatcher.lost(shard);
      },
    },
    { leases, clock, random, telemetry, log },
  );

  owner.start();
  context.onStop('shard ownership', () => owner.stop());
  context.onStop('work in hand', () => dispatcher.drain());
  const start = (name: string, everyMs: number, runOnce: () => Promise<void>): Loop =>
    startLoop({ name, everyMs, runOnce, clock, random, log });
  const loops = [
    start('dispatch', TICK_MS, () => dispatcher.runOnce()),
    start('turns of queues', BEAT_MS, async () => {
      dispatcher.beat();
    }),
  ];
  context.onStop('dispatch loops', async () => {
    await Promise.all(loops.map((loop) => loop.stop()));
  });
  return { schemaVersion: foundation.schemaVersion };
}

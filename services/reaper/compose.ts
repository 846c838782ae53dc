import { layFoundation } from '../core/foundation/foundation.ts';
import { SECOND_MS } from '../core/domain/limits.ts';
import { ShardOwner } from '../core/ownership/shard-owner.ts';
import { startLoop } from '../core/runtime/loop.ts';
import type { Compose } from '../core/runtime/run-service.ts';
import { Reaper } from './reaper.ts';
import { Settler } from './settle.ts';

const DEADLINES_EVERY_MS = SECOND_MS;
const SECOND_LOOKS_EVERY_MS = 5 * SECOND_MS;

/** Puts the reaper together: shard ownership tells it what to look after, two loops do its duties. */
export const composeReaper: Compose = async (context) => {
  const { config, clock, random, telemetry, log } = context;
  const foundation = await layFoundation(context, { busRequired: true });
  const { stores, rounds, timers, publisher, canceller, ender, queue, leases, clusterStartedAt } = foundation;

  const settler = new Settler({
    reader: stores.jobs,
    history: stores.history,
    rounds,
    timers,
    ender,
    publisher,
    canceller,
    queue,
    clock,
    random,
    telemetry,
    log,
  });
  const reaper = new Reaper({
    timerStore: stores.timers,
    cursors: stores.cursors,
    settler,
    timers,
    clock,
    telemetry,
    log,
    holds: (shard) => owner.holds(shard),
    clusterStartedAt,
  });
  const owner = new ShardOwner(
    {
      role: 'reaper',
      scanShards: foundation.writeShards,
      name: config.memberId,
      renewEveryMs: config.shardLease.renewMs,
      onAcquired: (shard) => {
        reaper.acquired(shard);
      },
      onLost: (shard) => {
        reaper.lost(shard);
      },
    },
    { leases, clock, random, telemetry, log },
  );

  owner.start();
  context.onStop('shard ownership', () => owner.stop());
  const loops = [
    { name: 'deadlines', everyMs: DEADLINES_EVERY_MS, runOnce: () => reaper.reapDeadlines() },
    { name: 'second looks', everyMs: SECOND_LOOKS_EVERY_MS, runOnce: () => reaper.lookAgain() },
  ].map((duty) => startLoop({ ...duty, clock, random, log }));
  context.onStop('duties', async () => {
    await Promise.all(loops.map((loop) => loop.stop()));
  });
  return { schemaVersion: foundation.schemaVersion };
};

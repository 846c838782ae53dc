// What the promise says of single faults, each in an otherwise healthy cluster.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { MINUTE_MS, SECOND_MS } from '../../services/core/domain/limits.ts';
import { MemoryBus } from '../support/memory-bus.ts';
import { runScenario } from './simulation.ts';
import { type Plant, SHARDS, type World } from './world.ts';

const SEEDS = [1, 2, 3];
/** Each of the two takes the other's shards, gives them back, and so on. */
const TAKEOVERS_MAX = 6 * SHARDS;

/** Jobs with two attempts although no worker died, failed or was slow. */
function startedTwice({ stores }: World): readonly string[] {
  return [...stores.rows.values()].flatMap(({ jobId, starts }) => (starts.size > 1 ? [jobId] : []));
}

function acquisitions({ trace }: World): number {
  return trace.count('info: acquired a shard');
}

function assertHolds(world: World): void {
  assert.equal(world.violation, null, `seed ${world.seed}: ${world.violation?.rule}: ${world.violation?.detail}`);
  assert.deepEqual(startedTwice(world), []);
  assert.ok(world.ledger.accepted.size > 50, `${world.ledger.accepted.size} jobs`);
}

describe('in a healthy cluster', () => {
  it('the clock of one dispatcher 10 min ahead, then 10 min behind, starts no job early, loses none and storms no leases', async () => {
    for (const seed of SEEDS) {
      const world = await runScenario({ seed }, async (running, advance) => {
        await advance(20 * SECOND_MS);
        const [slot] = running.slotsOf('dispatcher');
        assert.ok(slot !== undefined);
        const before = acquisitions(running);
        for (const aheadMs of [10 * MINUTE_MS, -10 * MINUTE_MS, 0]) {
          slot.machine.aheadMs = aheadMs;
          await advance(MINUTE_MS);
        }
        const takeovers = acquisitions(running) - before;
        assert.ok(takeovers <= TAKEOVERS_MAX, `${takeovers} takeovers`);
      });
      assertHolds(world);
    }
  });

  it('two dispatchers that own the same shards for 60 s start no job twice', async () => {
    for (const seed of SEEDS) {
      // Each believes what a lease bucket of its own says.
      const plant: Plant = {
        connections: (connections, { kind, world }) =>
          kind === 'dispatcher' && world.clock.now() < world.startedAt + MINUTE_MS
            ? { ...connections, leases: new MemoryBus({ clock: world.clock }).connect().leases }
            : connections,
      };
      const world = await runScenario({ seed, plant }, async (running, advance) => {
        await advance(MINUTE_MS);
        // Both of the dispatchers' shards, and those of the reapers.
        assert.ok(acquisitions(running) >= 3 * SHARDS);
        for (const { machine } of running.slotsOf('dispatcher')) machine.crash();
        await advance(30 * SECOND_MS);
      });
      assertHolds(world);
    }
  });
});

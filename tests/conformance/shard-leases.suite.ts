import assert from 'node:assert/strict';
import { it } from 'node:test';
import type { ShardLeases } from '../../services/core/ports/shard-leases.ts';

/** Two processes' view of the same fresh buckets. */
export interface ShardLeasesHarness {
  readonly ours: ShardLeases;
  readonly theirs: ShardLeases;
  readonly pass: (ms: number) => Promise<void>;
}

/** Expiry is noticed at most this much late: up to 260 ms were measured. */
const LATE_MS = 700;
/** By each of two, in a loop. */
const TAKES = 30;
/** Until a change is told. */
const TOLD_MS = 100;

/** What every ShardLeases promises; run on the fake and on a real server. */
export function shardLeasesSuite(start: () => Promise<ShardLeasesHarness>): void {
  it('makes the buckets as often as it is asked to, from everywhere', async () => {
    const { ours, theirs } = await start();
    await Promise.all([ours.ensure(), theirs.ensure(), ours.ensure()]);
    assert.deepEqual(await ours.members('dispatcher'), []);
    assert.deepEqual(await ours.holders('dispatcher'), new Map());
  });

  it('gives a free shard to one, and to nobody else', async () => {
    const { ours, theirs } = await start();
    const results = await Promise.all([ours.acquire('reaper', 7, 'a'), theirs.acquire('reaper', 7, 'b')]);
    const won = results.filter((result) => result !== null);
    assert.equal(won.length, 1);
    assert.equal(won[0]?.before, null);
    const holder = results[0] === null ? 'b' : 'a';
    assert.deepEqual(await ours.holders('reaper'), new Map([[7, holder]]));
    assert.equal(await theirs.acquire('reaper', 7, 'c'), null);
  });

  it('writes a lease of our own anew when it is acquired again', async () => {
    const { ours, theirs, pass } = await start();
    const first = await ours.acquire('reaper', 7, 'a');
    await pass(ours.ttlMs * 0.6);
    const again = await ours.acquire('reaper', 7, 'a');
    assert.ok(first !== null && again !== null && again.revision > first.revision);
    assert.equal(again.before, null);
    await pass(ours.ttlMs * 0.6);
    assert.equal(await theirs.acquire('reaper', 7, 'b'), null);
  });

  it('keeps the roles and the shards apart', async () => {
    const { ours, theirs } = await start();
    assert.ok(await ours.acquire('reaper', 7, 'a'));
    assert.ok(await theirs.acquire('dispatcher', 7, 'b'));
    assert.ok(await theirs.acquire('reaper', 17, 'b'));
    assert.deepEqual(
      await ours.holders('reaper'),
      new Map([
        [7, 'a'],
        [17, 'b'],
      ]),
    );
    assert.deepEqual(await ours.holders('dispatcher'), new Map([[7, 'b']]));
  });

  it('renews by the last revision, each time to a later one', async () => {
    const { ours, pass } = await start();
    const acquired = await ours.acquire('reaper', 0, 'a');
    assert.ok(acquired);
    let revision = acquired.revision;
    for (let round = 0; round < 3; round++) {
      await pass(ours.ttlMs * 0.6);
      const renewed = await ours.renew('reaper', 0, 'a', revision);
      assert.ok(renewed !== null && renewed > revision);
      revision = renewed;
    }
    assert.deepEqual(await ours.holders('reaper'), new Map([[0, 'a']]));
  });

  it('renews although the answer to an earlier renewal was lost', async () => {
    const { ours } = await start();
    const acquired = await ours.acquire('reaper', 0, 'a');
    assert.ok(acquired);
    const unheard = await ours.renew('reaper', 0, 'a', acquired.revision);
    const renewed = await ours.renew('reaper', 0, 'a', acquired.revision);
    assert.ok(unheard !== null && renewed !== null && renewed > unheard);
  });

  it('expires a lease that is not renewed, not before its time, and tells the next owner so', async () => {
    const { ours, theirs, pass } = await start();
    const acquired = await ours.acquire('reaper', 0, 'a');
    assert.ok(acquired);
    await pass(ours.ttlMs * 0.7);
    assert.equal(await theirs.acquire('reaper', 0, 'b'), null);
    await pass(ours.ttlMs * 0.3 + LATE_MS);
    assert.deepEqual(await ours.holders('reaper'), new Map());
    assert.equal(await ours.renew('reaper', 0, 'a', acquired.revision), null, 'a lapsed owner never renews');
    const taken = await theirs.acquire('reaper', 0, 'b');
    assert.equal(taken?.before, 'expired');
    assert.equal(await ours.renew('reaper', 0, 'a', acquired.revision), null);
    assert.deepEqual(await ours.holders('reaper'), new Map([[0, 'b']]));
  });

  it('hands a released shard to the next, and tells that it was handed over', async () => {
    const { ours, theirs } = await start();
    const acquired = await ours.acquire('reaper', 0, 'a');
    assert.ok(acquired);
    await ours.release('reaper', 0, acquired.revision);
    assert.deepEqual(await theirs.holders('reaper'), new Map());
    const taken = await theirs.acquire('reaper', 0, 'b');
    assert.equal(taken?.before, 'released');
    await ours.release('reaper', 0, acquired.revision);
    assert.deepEqual(await theirs.holders('reaper'), new Map([[0, 'b']]), 'an old revision releases nothing');
  });

  it('R062 goes from hand to hand between two that take and release it in a loop, and is never in both', async () => {
    const { ours, theirs, pass } = await start();
    let holders = 0;
    const taken = { a: 0, b: 0 };
    const takeAndRelease = async (leases: ShardLeases, id: 'a' | 'b'): Promise<void> => {
      for (let tries = 0; tries < 10_000 && taken[id] < TAKES; tries += 1) {
        const acquired = await leases.acquire('dispatcher', 7, id);
        // An answer to a write of a moment ago; the other must have its turn.
        if (acquired === null) await pass(1);
        else {
          holders += 1;
          taken[id] += 1;
          await pass(1);
          assert.equal(holders, 1);
          holders -= 1;
          await leases.release('dispatcher', 7, acquired.revision);
        }
      }
    };
    await Promise.all([takeAndRelease(ours, 'a'), takeAndRelease(theirs, 'b')]);
    assert.deepEqual(taken, { a: TAKES, b: TAKES });
  });

  it('lists the members of a role until they withdraw or fall silent', async () => {
    const { ours, theirs, pass } = await start();
    const byId = async (): Promise<readonly unknown[]> =>
      (await ours.members('reaper')).toSorted((a, b) => a.id.localeCompare(b.id));
    await ours.announce('reaper', { id: 'host-1_a', scanShards: 64 });
    await theirs.announce('reaper', { id: 'host-2_b', scanShards: 128 });
    await theirs.announce('dispatcher', { id: 'other', scanShards: 64 });
    assert.deepEqual(await byId(), [
      { id: 'host-1_a', scanShards: 64 },
      { id: 'host-2_b', scanShards: 128 },
    ]);
    await theirs.withdraw('reaper', 'host-2_b');
    assert.deepEqual(await byId(), [{ id: 'host-1_a', scanShards: 64 }]);
    await pass(ours.ttlMs * 0.6);
    await ours.announce('reaper', { id: 'host-1_a', scanShards: 64 });
    await pass(ours.ttlMs * 0.6);
    assert.equal((await byId()).length, 1);
    await pass(ours.ttlMs * 0.4 + LATE_MS);
    assert.deepEqual(await byId(), []);
  });

  it('tells what changes, and no renewals', async () => {
    const { ours, theirs, pass } = await start();
    let told = 0;
    const changes = async (act: () => Promise<unknown>, ms = TOLD_MS): Promise<number> => {
      told = 0;
      await act();
      await pass(ms);
      return told;
    };
    const stop = ours.watch('reaper', () => told++);
    assert.ok(told > 0, 'the connection is up');
    await pass(TOLD_MS);
    const member = { id: 'b', scanShards: 64 };
    assert.equal(await changes(() => theirs.announce('reaper', member)), 1, 'a newcomer');
    assert.equal(await changes(() => theirs.announce('reaper', member)), 0, 'a sign of life');
    const acquired = await theirs.acquire('reaper', 0, 'b');
    assert.ok(acquired);
    assert.equal(await changes(() => theirs.renew('reaper', 0, 'b', acquired.revision)), 0, 'a renewal');
    assert.equal(await changes(() => theirs.withdraw('reaper', 'b')), 1, 'a member gone');
    assert.equal(await changes(async () => undefined, ours.ttlMs + LATE_MS), 1, 'an expired lease');
    const again = await theirs.acquire('reaper', 0, 'b');
    assert.ok(again);
    assert.equal(await changes(() => theirs.release('reaper', 0, again.revision)), 1, 'a released lease');
    stop();
    assert.equal(await changes(() => theirs.announce('reaper', { id: 'c', scanShards: 64 })), 0, 'after its end');
  });
}

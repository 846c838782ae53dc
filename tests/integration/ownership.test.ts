import assert from 'node:assert/strict';
import { after, describe, it } from 'node:test';
import type { BusConnection } from '../../services/core/bus/connection.ts';
import { createShardLeases } from '../../services/core/bus/shard-leases.ts';
import { ShardOwner } from '../../services/core/ownership/shard-owner.ts';
import { systemClock } from '../../services/core/runtime/system-clock.ts';
import { systemRandom } from '../../services/core/runtime/system-random.ts';
import {
  connectedBus,
  dropStreams,
  eventually,
  natsServers,
  RecordingTelemetry,
  silentLog,
  testPrefix,
} from '../support/bus.ts';
import { startTcpProxy } from '../support/tcp-proxy.ts';

const SHARDS = 64;
const TTL_MS = 3_000;
const RENEW_EVERY_MS = 500;

interface Started {
  readonly owner: ShardOwner;
  readonly bus: BusConnection;
  readonly telemetry: RecordingTelemetry;
  readonly events: string[];
}

describe('shard ownership over NATS', async () => {
  const admin = await connectedBus();
  const prefixes: string[] = [];
  const started: Started[] = [];

  after(async () => {
    await Promise.all(started.map(({ owner }) => owner.stop()));
    await Promise.all(started.map(({ bus }) => bus.close()));
    for (const prefix of prefixes) await dropStreams(admin, prefix);
    await admin.close();
  });

  function newPrefix(): string {
    const prefix = testPrefix();
    prefixes.push(prefix);
    return prefix;
  }

  async function start(prefix: string, scanShards = SHARDS, servers = natsServers()): Promise<Started> {
    const bus = await connectedBus(servers);
    const telemetry = new RecordingTelemetry();
    const events: string[] = [];
    const owner = new ShardOwner(
      {
        role: 'dispatcher',
        scanShards,
        name: 'test.host',
        renewEveryMs: RENEW_EVERY_MS,
        onAcquired: (shard) => events.push(`+${shard}`),
        onLost: (shard) => events.push(`-${shard}`),
      },
      {
        leases: createShardLeases({ prefix, ttlMs: TTL_MS }, { bus, telemetry, log: silentLog }),
        clock: systemClock,
        random: systemRandom,
        telemetry,
        log: silentLog,
      },
    );
    const one = { owner, bus, telemetry, events };
    started.push(one);
    owner.start();
    return one;
  }

  function owns(count: number, ...all: readonly Started[]): () => boolean {
    return () => all.every(({ owner }) => owner.owned().size === count);
  }

  it('gives all to the first, half to the second, and all back when it stops, at once', async () => {
    const prefix = newPrefix();
    const first = await start(prefix);
    await eventually(owns(SHARDS, first), 'the first owns all');
    const second = await start(prefix);
    const joined = await eventually(owns(SHARDS / 2, first, second), 'both own half');
    assert.ok(joined < 2_000, `joined within ${joined} ms`);
    for (const shard of second.owner.owned()) assert.ok(!first.owner.holds(shard));
    assert.equal(second.telemetry.counts.get('punctual_shard_takeovers_total dispatcher handover'), SHARDS / 2);

    await second.owner.stop();
    const back = await eventually(owns(SHARDS, first), 'the first owns all again');
    assert.ok(back < 1_000, `handed over within ${back} ms`);
    assert.equal(first.telemetry.counts.get('punctual_shard_takeovers_total dispatcher handover'), SHARDS / 2);
    assert.equal(second.events.filter((event) => event.startsWith('-')).length, SHARDS / 2);
    await eventually(() => first.telemetry.gauges.get('punctual_shards_unowned dispatcher') === 0, 'none is unowned');
  });

  it('takes over from an owner that vanished within its TTL and a second', async () => {
    const prefix = newPrefix();
    const [first, second] = [await start(prefix), await start(prefix)];
    await eventually(owns(SHARDS / 2, first, second), 'both own half');
    // As a killed process: no release, no withdrawal.
    await second.bus.close();
    const taken = await eventually(owns(SHARDS, first), 'the first owns all', TTL_MS + 1_000);
    assert.ok(taken > TTL_MS - RENEW_EVERY_MS - 1_000, 'a live lease is never stolen');
    assert.ok(owns(0, second)(), 'the vanished one stopped acting before that');
    assert.equal(first.telemetry.counts.get('punctual_shard_takeovers_total dispatcher expired'), SHARDS / 2);
    assert.ok((second.telemetry.counts.get('punctual_lease_renew_failures_total dispatcher') ?? 0) > 0);
  });

  it('goes on after the buckets vanished', async () => {
    const prefix = newPrefix();
    const [first, second] = [await start(prefix), await start(prefix)];
    await eventually(owns(SHARDS / 2, first, second), 'both own half');
    await dropStreams(admin, prefix);
    await eventually(
      () => [first, second].some(({ telemetry }) => telemetry.counts.has('punctual_bus_recreated_total bucket')),
      'a bucket is made again',
    );
    await eventually(owns(SHARDS / 2, first, second), 'both own half again', TTL_MS + 2_000);
  });

  it('R072 leaves no consumers behind when the connections of five break off 30 times', async (test) => {
    const prefix = newPrefix();
    const proxy = await startTcpProxy(test, natsServers()[0]!);
    const owners = await Promise.all(Array.from({ length: 5 }, () => start(prefix, SHARDS, [proxy.address])));
    const total = (): number => owners.reduce((sum, { owner }) => sum + owner.owned().size, 0);
    await eventually(() => total() === SHARDS, 'all are owned', 10_000);
    const { jsm } = admin.link();
    const consumers = async (): Promise<number> => {
      const streams = [`KV_${prefix}leases`, `KV_${prefix}members`];
      const infos = await Promise.all(streams.map((name) => jsm.streams.info(name)));
      return infos.reduce((sum, { state }) => sum + state.consumer_count, 0);
    };
    const before = await consumers();
    for (let flaps = 0; flaps < 30; flaps += 1) {
      proxy.cut();
      await systemClock.sleep(300);
    }
    await eventually(() => total() === SHARDS, 'all are owned again', 10_000);
    assert.equal(await consumers(), before);
  });

  it('gives shards only to members that scan them', async () => {
    const prefix = newPrefix();
    const old = await start(prefix, SHARDS / 2);
    await eventually(owns(SHARDS / 2, old), 'the old one owns what it scans');
    const grown = await start(prefix, SHARDS);
    await eventually(() => old.owner.owned().size + grown.owner.owned().size === SHARDS, 'all are owned');
    for (const shard of old.owner.owned()) assert.ok(shard < SHARDS / 2);
  });

  it('keeps the roles apart', async () => {
    const prefix = newPrefix();
    const dispatcher = await start(prefix);
    await eventually(owns(SHARDS, dispatcher), 'the dispatcher owns all');
    const leases = createShardLeases(
      { prefix, ttlMs: TTL_MS },
      { bus: admin, telemetry: new RecordingTelemetry(), log: silentLog },
    );
    assert.notEqual(await leases.acquire('reaper', 0, 'somebody'), null);
    assert.equal(await leases.acquire('dispatcher', 0, 'somebody'), null);
  });
});

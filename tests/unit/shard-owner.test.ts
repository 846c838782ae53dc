import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ShardOwner } from '../../services/core/ownership/shard-owner.ts';
import type { Clock } from '../../services/core/ports/clock.ts';
import { systemRandom } from '../../services/core/runtime/system-random.ts';
import { RecordingTelemetry, silentLog } from '../support/bus.ts';
import { FakeClock, settled } from '../support/fake-clock.ts';
import { type BusCall, type BusFault, MemoryBus, type MemoryConnection } from '../support/memory-bus.ts';

const SHARDS = 16;
const TTL_MS = 8_000;
const SAFE_MS = TTL_MS - 1_000;

interface Process {
  readonly owner: ShardOwner;
  readonly connection: MemoryConnection;
  readonly telemetry: RecordingTelemetry;
  readonly events: string[];
}

class Cluster {
  readonly clock = new FakeClock();
  fault: (call: BusCall) => BusFault | undefined = () => undefined;
  readonly bus = new MemoryBus({ clock: this.clock, leaseTtlMs: TTL_MS, plan: (call) => this.fault(call) });

  start(clock: Clock = this.clock, mayAct?: () => boolean): Process {
    const connection = this.bus.connect();
    const telemetry = new RecordingTelemetry();
    const events: string[] = [];
    const owner = new ShardOwner(
      {
        role: 'dispatcher',
        scanShards: SHARDS,
        name: 'host',
        ...(mayAct === undefined ? {} : { mayAct }),
        onAcquired: (shard) => events.push(`+${shard}`),
        onLost: (shard) => events.push(`-${shard}`),
      },
      { leases: connection.leases, clock, random: systemRandom, telemetry, log: silentLog },
    );
    owner.start();
    return { owner, connection, telemetry, events };
  }
}

describe('a shard owner that must not act', () => {
  it('holds nothing from that moment, hands everything to the others, and takes its share again afterwards', async () => {
    const cluster = new Cluster();
    const allowed = { ours: true };
    const { owner: ours, events } = cluster.start(cluster.clock, () => allowed.ours);
    const { owner: theirs } = cluster.start();
    await cluster.clock.advance(12_000);
    assert.equal(ours.owned().size, SHARDS / 2);

    allowed.ours = false;
    assert.equal(ours.owned().size, 0, 'before any timer fires');
    await cluster.clock.advance(3_000);
    assert.equal(theirs.owned().size, SHARDS);
    assert.equal(events.filter((event) => event.startsWith('-')).length, SHARDS / 2);

    allowed.ours = true;
    await cluster.clock.advance(12_000);
    assert.equal(ours.owned().size, SHARDS / 2);
    assert.equal(theirs.owned().size, SHARDS / 2);
    await cluster.clock.until(Promise.all([ours.stop(), theirs.stop()]));
  });

  it('takes nothing when it starts like that, and ends as any other', async () => {
    const cluster = new Cluster();
    const { owner } = cluster.start(cluster.clock, () => false);
    await cluster.clock.advance(12_000);
    assert.equal(owner.owned().size, 0);
    assert.equal(cluster.bus.keys('leases.').size, 0);
    assert.equal(cluster.bus.keys('members.').size, 0);
    await cluster.clock.until(owner.stop());
  });
});

describe('a shard owner', () => {
  it('keeps its shards while it renews', async () => {
    const cluster = new Cluster();
    const { owner, events } = cluster.start();
    await cluster.clock.advance(60_000);
    assert.equal(owner.owned().size, SHARDS);
    assert.equal(events.length, SHARDS);
    await cluster.clock.until(owner.stop());
  });

  it('stops acting by the clock alone, a second before its lease can lapse', async () => {
    const cluster = new Cluster();
    const { owner } = cluster.start();
    await cluster.clock.advance(1_000);
    assert.ok(owner.holds(0));
    // The process stands still: no timer of it fires.
    cluster.clock.step({ wallMs: SAFE_MS - 1_000, monotonicMs: SAFE_MS - 1_000 });
    assert.ok(!owner.holds(0));
    assert.equal(owner.owned().size, 0);
  });

  it('goes on without a break when it stood still and its renewal then succeeds', async () => {
    const cluster = new Cluster();
    const { owner, events } = cluster.start();
    await cluster.clock.advance(1_000);
    // Seen from the server it is still in time.
    cluster.clock.step({ wallMs: SAFE_MS - 1_000, monotonicMs: SAFE_MS - 1_000 });
    await cluster.clock.advance(0);
    assert.equal(owner.owned().size, SHARDS);
    assert.equal(events.length, SHARDS, 'nobody was told of a loss');
    await cluster.clock.until(owner.stop());
  });

  it('does not trust the monotonic clock of a machine that was suspended', async () => {
    const cluster = new Cluster();
    const { owner } = cluster.start();
    await cluster.clock.advance(1_000);
    cluster.clock.step({ wallMs: 3_600_000 });
    assert.ok(!owner.holds(0));
    await cluster.clock.advance(2_000);
    assert.ok(owner.holds(0), 'until a renewal says that all is well');
    await cluster.clock.until(owner.stop());
  });

  it('loses its shards when the bus is away, and has them again when it is back', async () => {
    const cluster = new Cluster();
    const { owner, connection, events, telemetry } = cluster.start();
    await cluster.clock.advance(1_000);
    connection.disconnect();
    await cluster.clock.advance(SAFE_MS + 500);
    assert.equal(owner.owned().size, 0);
    assert.equal(events.filter((event) => event.startsWith('-')).length, SHARDS);
    assert.equal(telemetry.gauges.get('punctual_shards_unowned dispatcher'), SHARDS);
    assert.ok(telemetry.counts.has('punctual_lease_renew_failures_total dispatcher'));
    await cluster.clock.advance(30_000);
    connection.reconnect();
    await cluster.clock.advance(1_000);
    assert.equal(owner.owned().size, SHARDS);
    assert.equal(telemetry.gauges.get('punctual_shards_unowned dispatcher'), 0);
    await cluster.clock.until(owner.stop());
  });

  it('keeps its shards over a lost answer', async () => {
    const cluster = new Cluster();
    const { owner, events } = cluster.start();
    await cluster.clock.advance(1_000);
    let lost = 0;
    cluster.fault = ({ method }) => (method === 'leases.renew' && lost++ < 20 ? { kind: 'answer_lost' } : undefined);
    await cluster.clock.advance(20_000);
    assert.ok(lost > 20);
    assert.equal(owner.owned().size, SHARDS);
    assert.equal(events.length, SHARDS);
    await cluster.clock.until(owner.stop());
  });

  it('never has two owners act for one shard, whoever comes, goes or falls silent', async () => {
    const cluster = new Cluster();
    const processes = [cluster.start(), cluster.start(), cluster.start()];
    const check = (): void => {
      for (let shard = 0; shard < SHARDS; shard++) {
        assert.ok(processes.filter(({ owner }) => owner.holds(shard)).length <= 1, `shard ${shard}`);
      }
    };
    const pass = async (ms: number): Promise<void> => {
      for (let passed = 0; passed < ms; passed += 50) {
        await cluster.clock.advance(50);
        check();
      }
    };
    await pass(3_000);
    processes[0]!.connection.disconnect();
    await pass(12_000);
    processes.push(cluster.start());
    await pass(3_000);
    processes[0]!.connection.reconnect();
    await pass(3_000);
    const stopped = processes[1]!.owner.stop();
    await pass(3_000);
    await stopped;
    const owned = processes.map(({ owner }) => owner.owned().size);
    assert.equal(
      owned.reduce((sum, each) => sum + each, 0),
      SHARDS,
    );
    for (const { owner } of processes) await cluster.clock.until(owner.stop());
  });

  it('starts without the bus, and stops without it', async () => {
    const cluster = new Cluster();
    cluster.fault = () => ({ kind: 'request_lost' });
    const { owner } = cluster.start();
    await cluster.clock.advance(5_000);
    assert.equal(owner.owned().size, 0);
    cluster.fault = () => undefined;
    await cluster.clock.advance(1_000);
    assert.equal(owner.owned().size, SHARDS);
    cluster.fault = () => ({ kind: 'request_lost' });
    await cluster.clock.until(owner.stop());
    await settled();
  });

  it('goes on when a listener throws', async () => {
    const cluster = new Cluster();
    const connection = cluster.bus.connect();
    const owner = new ShardOwner(
      {
        role: 'reaper',
        scanShards: SHARDS,
        name: 'host',
        onAcquired: () => {
          throw new Error('a listener that fails');
        },
        onLost: () => undefined,
      },
      {
        leases: connection.leases,
        clock: cluster.clock,
        random: systemRandom,
        telemetry: new RecordingTelemetry(),
        log: silentLog,
      },
    );
    owner.start();
    await cluster.clock.advance(10_000);
    assert.equal(owner.owned().size, SHARDS);
    await cluster.clock.until(owner.stop());
  });

  it('refuses leases too short for its renewals', () => {
    const cluster = new Cluster();
    const { leases } = new MemoryBus({ clock: cluster.clock, leaseTtlMs: 3_000 }).connect();
    const parts = { clock: cluster.clock, random: systemRandom, telemetry: new RecordingTelemetry(), log: silentLog };
    const options = { scanShards: 1, name: 'a', onAcquired: () => undefined, onLost: () => undefined };
    assert.throws(() => new ShardOwner({ role: 'reaper', ...options }, { leases, ...parts }), RangeError);
  });
});

// Three nats-servers whose leaders come and go: leases and ready messages.

import assert from 'node:assert/strict';
import { describe, it, type TestContext } from 'node:test';
import { createReadyQueue } from '../../services/core/bus/ready-queue.ts';
import { createShardLeases } from '../../services/core/bus/shard-leases.ts';
import type { BusConnection } from '../../services/core/bus/connection.ts';
import { systemClock } from '../../services/core/runtime/system-clock.ts';
import { messageOf } from '../conformance/ready-queue.suite.ts';
import { connectedBus, eventually, RecordingTelemetry, silentLog } from '../support/bus.ts';
import type { PrivateServer } from '../support/servers.ts';
import { startThreeNats } from '../support/three-nodes.ts';

const REPLICAS = 3;
const LEASE_TTL_MS = 5_000;
/** Until a new leader is elected: 4-9 s. */
const ELECTION_MAX_MS = 15_000;
const STEP_DOWNS = 3;
const RESUMES_WITHIN_MS = 10_000;

describe('three nats-servers', () => {
  it('R064 give an expiring lease to one of those who ask, though the leader of its bucket is stopped', async (test: TestContext) => {
    const { servers, bus } = await start(test);
    const others = await Promise.all(servers.map(({ contactPoint }) => connect(test, [contactPoint])));
    const leasesOf = (each: BusConnection) =>
      createShardLeases(
        { replicas: REPLICAS, ttlMs: LEASE_TTL_MS },
        { bus: each, telemetry: new RecordingTelemetry(), log: silentLog },
      );
    const ours = leasesOf(bus);
    await eventually(
      () =>
        ours.ensure().then(
          () => true,
          () => false,
        ),
      'the buckets are made',
      ELECTION_MAX_MS,
    );
    const first = await ours.acquire('dispatcher', 7, 'first');
    assert.ok(first !== null);
    const { cluster } = await bus.link().jsm.streams.info('KV_leases');
    const leader = servers.find(({ contactPoint }) => cluster?.leader === `nats-${contactPoint.split(':')[0] ?? ''}`);
    assert.ok(leader !== undefined, cluster?.leader);
    await leader.process.kill('SIGSTOP');
    const standing = others.filter((_, index) => servers[index] !== leader).map(leasesOf);
    const winners = new Set<string>();
    const acquire = async (): Promise<boolean> => {
      const tries = await Promise.allSettled(
        standing.map((each, index) => each.acquire('dispatcher', 7, `next-${index}`)),
      );
      tries.forEach((each, index) => {
        if (each.status === 'fulfilled' && each.value !== null) winners.add(`next-${index}`);
      });
      return winners.size > 0;
    };
    await eventually(acquire, 'the lease has a new holder', LEASE_TTL_MS + 2 * ELECTION_MAX_MS);
    assert.equal(winners.size, 1);
    await leader.process.kill('SIGCONT');
    // Without an answer nothing is known, and asked again.
    const known = { renewed: undefined as number | null | undefined, holders: [] as readonly string[] };
    const ask = async (): Promise<boolean> => {
      try {
        known.renewed = await ours.renew('dispatcher', 7, 'first', first.revision);
        known.holders = [...(await ours.holders('dispatcher')).values()];
        return true;
      } catch {
        return false;
      }
    };
    await eventually(ask, 'the buckets answer', ELECTION_MAX_MS);
    assert.equal(known.renewed, null, 'the former holder cannot renew');
    // The new one renews nothing here, so that it may have lapsed by now.
    assert.ok(
      known.holders.every((holder) => winners.has(holder)),
      known.holders.join(),
    );
  });

  it('R066 deliver again within 10 s whenever the leader of a consumer steps down, and when one of them restarts', async (test: TestContext) => {
    const { servers, bus } = await start(test);
    const telemetry = new RecordingTelemetry();
    const queue = createReadyQueue(
      { replicas: REPLICAS, maxBytes: 16 * 1024 * 1024 },
      { bus, clock: systemClock, telemetry, log: silentLog },
    );
    await eventually(
      () =>
        queue.ensureQueue('mail').then(
          () => true,
          () => false,
        ),
      'the queue is made',
      ELECTION_MAX_MS,
    );
    const stopping = new AbortController();
    test.after(() => {
      stopping.abort();
    });
    let pulled = 0;
    const pulling = (async () => {
      while (!stopping.signal.aborted) {
        const request = { queue: 'mail', priorities: ['normal'] as const, max: 10, waitMs: 2_000 };
        const messages = await queue.pull({ ...request, signal: stopping.signal }).catch(() => []);
        for (const message of messages) message.ack();
        pulled += messages.length;
        if (messages.length === 0) await systemClock.sleep(100);
      }
    })();
    let sent = 0;
    const flows = async (what: string): Promise<void> => {
      const before = pulled;
      const took = await eventually(
        async () => {
          await queue.publish([messageOf((sent += 1))]);
          return pulled > before;
        },
        `messages flow after ${what}`,
        RESUMES_WITHIN_MS,
      );
      test.diagnostic(`${what}: ${took.toFixed()} ms`);
    };
    await flows('the start');
    for (let count = 1; count <= STEP_DOWNS; count += 1) {
      const subject = '$JS.API.CONSUMER.LEADER.STEPDOWN.READY_0.q_mail_p_normal';
      // While a leader is being elected nobody is there to step down.
      await eventually(
        () =>
          bus
            .link()
            .nats.request(subject, '', { timeout: 5_000 })
            .then(
              () => true,
              () => false,
            ),
        `step-down ${count} is heard`,
        ELECTION_MAX_MS,
      );
      await flows(`step-down ${count}`);
    }
    const [restarted] = servers as [PrivateServer, ...PrivateServer[]];
    await restarted.process.kill('SIGKILL');
    await restarted.restart();
    await flows('a restart');
    stopping.abort();
    await pulling;
  });
});

async function start(test: TestContext): Promise<{ servers: readonly PrivateServer[]; bus: BusConnection }> {
  const servers = await startThreeNats(test);
  return {
    servers,
    bus: await connect(
      test,
      servers.map(({ contactPoint }) => contactPoint),
    ),
  };
}

async function connect(test: TestContext, addresses: string[]): Promise<BusConnection> {
  const bus = await connectedBus(addresses);
  test.after(() => bus.close());
  return bus;
}

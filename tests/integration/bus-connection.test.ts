import assert from 'node:assert/strict';
import { createServer, type Socket } from 'node:net';
import type { AddressInfo } from 'node:net';
import { describe, it } from 'node:test';
import { connectBus } from '../../services/core/bus/connection.ts';
import { createDueHints } from '../../services/core/bus/due-hints.ts';
import { createReadyQueue } from '../../services/core/bus/ready-queue.ts';
import { createShardLeases } from '../../services/core/bus/shard-leases.ts';
import { ShardOwner } from '../../services/core/ownership/shard-owner.ts';
import { BusError } from '../../services/core/ports/ready-queue.ts';
import { systemClock } from '../../services/core/runtime/system-clock.ts';
import { systemRandom } from '../../services/core/runtime/system-random.ts';
import { dueEntryOf } from '../conformance/due-hints.suite.ts';
import { messageOf } from '../conformance/ready-queue.suite.ts';
import { connectedBus, eventually, RecordingTelemetry, silentLog, TestBus, whenConnected } from '../support/bus.ts';
import { startPrivateNats } from '../support/servers.ts';

describe('the connection to NATS', () => {
  const shared = new TestBus();

  it('starts without a server, refuses calls meanwhile, and connects when there is one', async (test) => {
    const server = await startPrivateNats(test);
    await server.process.kill('SIGKILL');
    const bus = connectBus({ servers: [server.contactPoint] }, { clock: systemClock, log: silentLog });
    test.after(() => bus.close());
    let connections = 0;
    bus.onConnected(() => connections++);
    const heard: string[] = [];
    bus.subscribe('greetings', (message) => heard.push(message.string()));
    await new Promise((resolve) => setTimeout(resolve, 600));
    assert.equal(bus.connected(), false);
    assert.match(bus.problem() ?? '', /ECONNREFUSED|refused/i);
    assert.throws(() => bus.link(), BusError);

    await server.restart();
    await whenConnected(bus);
    assert.equal(connections, 1);
    assert.equal(bus.problem(), null);
    bus.link().nats.publish('greetings', 'hello');
    await eventually(() => heard.length === 1, 'a subscription made before the connection works');
  });

  it('is back after the server was killed, with its subscriptions', async (test) => {
    const server = await startPrivateNats(test);
    const bus = await connectedBus([server.contactPoint]);
    test.after(() => bus.close());
    let connections = 0;
    bus.onConnected(() => connections++);
    const heard: string[] = [];
    bus.subscribe('greetings', (message) => heard.push(message.string()));
    await server.process.kill('SIGKILL');
    await eventually(() => !bus.connected(), 'the break is noticed');
    await server.restart();
    await whenConnected(bus);
    assert.equal(connections, 2);
    bus.link().nats.publish('greetings', 'hello');
    await eventually(() => heard.length === 1, 'the subscription works again');
  });

  it('closes without a server, never connected or cut off', async (test) => {
    const server = await startPrivateNats(test);
    const cutOff = await connectedBus([server.contactPoint]);
    await server.process.kill('SIGKILL');
    const never = connectBus({ servers: [server.contactPoint] }, { clock: systemClock, log: silentLog });
    await eventually(() => !cutOff.connected(), 'the break is noticed');
    await Promise.all([cutOff.close(), never.close()]);
  });

  it('refuses a server that is too old, and says so', async (test) => {
    const sockets = new Set<Socket>();
    const old = createServer((socket) => {
      sockets.add(socket);
      socket.on('error', () => undefined);
      socket.write('INFO {"server_id":"x","version":"2.10.29","max_payload":1048576,"headers":true,"proto":1}\r\n');
      socket.on('data', (data) => {
        if (data.includes('PING')) socket.write('PONG\r\n');
      });
    });
    await new Promise<void>((resolve) => old.listen(0, '127.0.0.1', resolve));
    const servers = [`127.0.0.1:${(old.address() as AddressInfo).port}`];
    const warnings: unknown[] = [];
    const log = { ...silentLog, warn: (_: string, fields: unknown) => warnings.push(fields) };
    const bus = connectBus({ servers }, { clock: systemClock, log });
    test.after(async () => {
      for (const socket of sockets) socket.destroy();
      old.close();
      await bus.close();
    });
    await eventually(() => warnings.length > 0, 'a warning');
    assert.equal(bus.connected(), false);
    assert.equal(bus.problem(), 'nats-server 2.10.29 is too old: 2.14 or later is needed');
    assert.throws(() => bus.link(), BusError);
  });

  it('brings everything back after the server was killed: messages, owners, hints', async (test) => {
    const server = await startPrivateNats(test);
    const bus = await connectedBus([server.contactPoint]);
    const telemetry = new RecordingTelemetry();
    const parts = { bus, clock: systemClock, telemetry, log: silentLog };
    const queue = createReadyQueue({}, parts);
    const hints = createDueHints({}, parts);
    const owner = new ShardOwner(
      {
        role: 'reaper',
        scanShards: 64,
        name: 'host',
        renewEveryMs: 500,
        onAcquired: () => undefined,
        onLost: () => undefined,
      },
      { ...parts, leases: createShardLeases({ ttlMs: 3_000 }, parts), random: systemRandom },
    );
    test.after(async () => {
      await owner.stop();
      await bus.close();
    });
    owner.start();
    let heard = 0;
    hints.listen(3, () => heard++);
    await queue.ensureQueue('mail');
    assert.deepEqual(await queue.publish([messageOf(1)]), ['stored']);
    await eventually(() => owner.owned().size === 64, 'all shards are owned');

    await server.process.kill('SIGKILL');
    await eventually(() => !queue.connected(), 'the break is noticed');
    assert.deepEqual(await queue.publish([messageOf(2)]), ['failed']);
    hints.send([dueEntryOf(1)]);
    await eventually(() => owner.owned().size === 0, 'the owner stops acting', 3_000);

    await server.restart();
    await whenConnected(bus);
    await eventually(() => owner.owned().size === 64, 'all shards are owned again', 5_000);
    assert.ok((await queue.oldestMessageAt('mail', 'normal')) !== null, 'what was stored is still there');
    assert.deepEqual(await queue.publish([messageOf(2)]), ['stored']);
    hints.send([dueEntryOf(1)]);
    await eventually(() => heard > 0, 'hints are heard again');
  });

  it('ignores hints that it does not understand', async () => {
    const { prefix } = shared.names();
    const warnings: string[] = [];
    const log = { ...silentLog, warn: (message: string) => warnings.push(message) };
    const hints = createDueHints({ prefix }, { bus: shared.bus, log });
    const heard: unknown[] = [];
    hints.listen(3, (row) => heard.push(row));
    const { nats } = shared.bus.link();
    const row = { job_id: dueEntryOf(1).jobId, run_at: 'x', queue: 'mail', priority: 'high', attempt: 1, direct: true };
    const malformed = ['', '{}', '[null]', '[7]', '[{}]', JSON.stringify([row]), '\u0000'];
    for (const text of malformed) nats.publish(`${prefix}due.3`, text);
    hints.send([dueEntryOf(1)]);
    await eventually(() => heard.length > 0, 'the good one is heard');
    assert.deepEqual(heard, [dueEntryOf(1)]);
    assert.equal(warnings.length, malformed.length);
  });
});

// The embedded servers keep what they acknowledged through kill -9: the promise on a one-node store rests on it.

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { jetstream, jetstreamManager } from '@nats-io/jetstream';
import { connect } from '@nats-io/transport-node';
import cassandra from 'cassandra-driver';
import { DATA_CENTER } from '../../scripts/embedded/cassandra.ts';
import { startNats } from '../../scripts/embedded/nats.ts';
import {
  assertPortsFree,
  findFreePorts,
  findServer,
  type ServerProcess,
} from '../../scripts/embedded/server-process.ts';
import { findOurServers, findServers, type Servers, stopServers } from '../../scripts/embedded/servers.ts';
import { startPrivateCassandra, startPrivateNats } from '../support/servers.ts';

const ROWS = 200;

async function withSession<T>(contactPoint: string, body: (client: cassandra.Client) => Promise<T>): Promise<T> {
  const client = new cassandra.Client({ contactPoints: [contactPoint], localDataCenter: DATA_CENTER });
  try {
    await client.connect();
    return await body(client);
  } finally {
    await client.shutdown();
  }
}

describe('an embedded Cassandra', () => {
  it('has every acknowledged row after kill -9', async (t) => {
    const server = await startPrivateCassandra(t);
    await withSession(server.contactPoint, async (client) => {
      await client.execute(
        `CREATE KEYSPACE survival WITH replication = {'class': 'NetworkTopologyStrategy', '${DATA_CENTER}': 1}`,
      );
      await client.execute('CREATE TABLE survival.rows (id int PRIMARY KEY, body text)');
      for (let id = 0; id < ROWS; id += 1) {
        const condition = id % 2 === 0 ? 'IF NOT EXISTS' : '';
        await client.execute(`INSERT INTO survival.rows (id, body) VALUES (?, 'kept') ${condition}`, [id], {
          prepare: true,
        });
      }
    });

    await server.process.kill('SIGKILL');
    assert.equal(server.process.isRunning(), false);
    assert.equal(findServer(server.process.dir), undefined);
    await server.restart();

    const { rows } = await withSession(server.contactPoint, (client) => client.execute('SELECT id FROM survival.rows'));
    assert.equal(rows.length, ROWS);
  });
});

describe('an embedded nats-server', () => {
  it('has every acknowledged message after kill -9', async (t) => {
    const server = await startPrivateNats(t);
    const before = await connect({ servers: server.contactPoint });
    await (await jetstreamManager(before)).streams.add({ name: 'SURVIVAL', subjects: ['survival'] });
    for (let count = 0; count < ROWS; count += 1) await jetstream(before).publish('survival', 'kept');

    await server.process.kill('SIGKILL');
    await before.close();
    await server.restart();

    const after = await connect({ servers: server.contactPoint });
    t.after(() => after.close());
    const { state } = await (await jetstreamManager(after)).streams.info('SURVIVAL');
    assert.equal(state.messages, ROWS);
  });

  it('answers again after SIGSTOP and SIGCONT, and ends on stop', async (t) => {
    const server = await startPrivateNats(t);
    await server.process.kill('SIGSTOP');
    await sleep(100);
    assert.equal(server.process.isRunning(), true);
    await server.process.kill('SIGCONT');
    const connection = await connect({ servers: server.contactPoint });
    await connection.close();
    await server.process.stop();
    assert.equal(server.process.isRunning(), false);
  });

  it('is ours also in a shell whose environment names it', async (t) => {
    const stateDir = mkdtempSync(join(tmpdir(), 'punctual-test-state-'));
    const [port = 0, monitorPort = 0] = await findFreePorts('127.0.0.1', 2);
    const server = await startNats({ dir: join(stateDir, 'nats'), port, monitorPort });
    t.after(async () => {
      await server.stop();
      rmSync(stateDir, { recursive: true });
    });
    const natsIn = (servers: string): Servers['nats'] => {
      process.env['PUNCTUAL_NATS_SERVERS'] = servers;
      return findServers(stateDir).nats;
    };
    const before = process.env['PUNCTUAL_NATS_SERVERS'];
    t.after(() => {
      if (before === undefined) delete process.env['PUNCTUAL_NATS_SERVERS'];
      else process.env['PUNCTUAL_NATS_SERVERS'] = before;
    });
    assert.equal((natsIn(server.contactPoint) as ServerProcess).pid, server.pid);
    assert.deepEqual(natsIn('127.0.0.1:1'), { contactPoint: '127.0.0.1:1', external: true });
    assert.equal(findOurServers(stateDir).nats?.pid, server.pid, 'which stop is for');
    natsIn(server.contactPoint);
    await stopServers(findOurServers(stateDir));
    assert.equal(process.env['PUNCTUAL_NATS_SERVERS'], undefined, 'so that it can be started again');
  });

  it('names a port in use, what wants it and how to choose another', async (t) => {
    const [port = 0] = await findFreePorts('127.0.0.1', 1);
    const squatter = createServer();
    t.after(() => squatter.close());
    await new Promise<void>((resolve) => squatter.listen({ host: '127.0.0.1', port }, resolve));
    await assert.rejects(
      assertPortsFree('127.0.0.1', [{ number: port, purpose: 'NATS', variable: 'PUNCTUAL_NATS_PORT' }]),
      (error: Error) => error.message.includes(`127.0.0.1:${port}, wanted by NATS (PUNCTUAL_NATS_PORT)`),
    );
  });
});

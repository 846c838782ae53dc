// Three Cassandra nodes and three nats-servers on loopback, as in production, with the keyspace on all three nodes and each stream
// on all three servers.

import { randomBytes, randomInt } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { types, type Client } from 'cassandra-driver';
import { DATA_CENTER, startCassandra } from '../../scripts/embedded/cassandra.ts';
import { startNats } from '../../scripts/embedded/nats.ts';
import { showProgress, withProgress } from '../../scripts/embedded/progress.ts';
import { findFreePorts } from '../../scripts/embedded/server-process.ts';
import { applySchema } from '../../scripts/migrator/migrator.ts';
import { createDriver } from '../../services/core/storage/session.ts';
import { until } from './rest.ts';
import { type Cleanup, HEAP_MB, type PrivateServer, startPrivate } from './servers.ts';

export interface ThreeNodes {
  readonly cassandra: readonly PrivateServer[];
  readonly nats: readonly PrivateServer[];
  readonly servers: ClusterServers;
  /** The same, with a keyspace of which each row has one copy only. */
  readonly oneCopy: ClusterServers;
}

/** What services are told of their servers. */
export interface ClusterServers {
  readonly cassandraContactPoints: readonly string[];
  readonly cassandraDataCenter: string;
  readonly natsServers: readonly string[];
  readonly replicas: number;
  /** One that has the whole schema already. */
  readonly keyspace?: string;
}

const NODES = 3;
const RING_LIMIT_MS = 60_000;

/** A network of loopback addresses of our own, so that runs side by side never meet. */
function newAddresses(): readonly string[] {
  const network = `127.${randomInt(1, 255)}.${randomInt(1, 255)}`;
  return Array.from({ length: NODES }, (_, index) => `${network}.${index + 1}`);
}

/** Three nats-servers that keep streams together: 1-4 s. */
export async function startThreeNats(test: Cleanup, addresses = newAddresses()): Promise<readonly PrivateServer[]> {
  const [port = 0, monitorPort = 0, clusterPort = 0] = await findFreePorts(addresses[0] ?? '', 3);
  const cluster = { port: clusterPort, addresses };
  return Promise.all(
    addresses.map((address) =>
      startPrivate(test, 'nats', (dir) => startNats({ dir, address, port, monitorPort, cluster })),
    ),
  );
}

/** About 40 s: Cassandra's nodes join one after the other. */
export async function startThreeNodes(test: Cleanup): Promise<ThreeNodes> {
  const addresses = newAddresses();
  const [first = ''] = addresses;
  const nats = startThreeNats(test, addresses);
  const [port = 0, storagePort = 0] = await findFreePorts(first, 2);
  const shared = { port, storagePort, seed: first, heapMb: HEAP_MB, isShortLived: true, progress: showProgress };
  const cassandra: PrivateServer[] = [];
  const [keyspace, ofOneCopy] = [newKeyspace(), newKeyspace()];
  for (const address of addresses) {
    const node = await startPrivate(test, 'cassandra', (dir) => startCassandra({ ...shared, address, dir }));
    if (cassandra.length === 0) for (const each of [keyspace, ofOneCopy]) await makeSchema(node, each);
    cassandra.push(node);
  }
  const servers: ClusterServers = {
    keyspace,
    cassandraContactPoints: cassandra.map(({ contactPoint }) => contactPoint),
    cassandraDataCenter: DATA_CENTER,
    natsServers: (await nats).map(({ contactPoint }) => contactPoint),
    replicas: NODES,
  };
  await withProgress(showProgress, 'Waiting until all nodes know each other', () => untilRingIsWhole(servers));
  await spreadOverAllNodes(servers, keyspace);
  // Its rows were written when there was one node: first all nodes have them, then only those are left who are to.
  await spreadOverAllNodes(servers, ofOneCopy);
  await setCopies(servers, ofOneCopy, 1);
  const oneCopy = { ...servers, keyspace: ofOneCopy, replicas: 1 };
  return { cassandra, nats: await nats, servers, oneCopy };
}

/** A name that no keyspace has yet. */
export function newKeyspace(): string {
  return `t${randomBytes(5).toString('hex')}`;
}

/** On one node it takes seconds; each statement waits until all nodes agree, which three of them need minutes for. */
async function makeSchema({ contactPoint }: PrivateServer, keyspace: string): Promise<void> {
  const target = { contactPoints: [contactPoint], localDatacenter: DATA_CENTER, keyspace, replicationFactor: 1 };
  await withProgress(showProgress, 'Making the schema', () => applySchema(target));
}

async function spreadOverAllNodes(servers: ClusterServers, keyspace: string): Promise<void> {
  await setCopies(servers, keyspace, NODES);
  await withClient(servers, async (client) => {
    // The only rows that there are: a read of all copies makes those that are missing.
    const all = { prepare: true, consistency: types.consistencies.all };
    await client.execute(`SELECT * FROM ${keyspace}.schema_migrations WHERE scope = 'cassandra'`, [], all);
  });
}

async function setCopies(servers: ClusterServers, keyspace: string, copies: number): Promise<void> {
  const replication = `{'class': 'NetworkTopologyStrategy', '${DATA_CENTER}': ${copies}}`;
  await withClient(servers, (client) =>
    // A node may be up before it has been told of the schema.
    until('the keyspace is known to the node that is asked', RING_LIMIT_MS, async () => {
      try {
        await client.execute(`ALTER KEYSPACE ${keyspace} WITH replication = ${replication}`);
        return true;
      } catch {
        return undefined;
      }
    }),
  );
}

async function withClient(servers: ClusterServers, work: (client: Client) => Promise<unknown>): Promise<void> {
  const { client } = createDriver({ contactPoints: servers.cassandraContactPoints, localDatacenter: DATA_CENTER });
  try {
    await client.connect();
    await work(client);
  } finally {
    await client.shutdown();
  }
}

/** Each node must know all the others: the one that is asked first may answer before it does. */
export async function untilRingIsWhole({ cassandraContactPoints }: ClusterServers): Promise<void> {
  for (const contactPoint of cassandraContactPoints) {
    await until(`${contactPoint} knows all nodes`, RING_LIMIT_MS, async () => {
      const { client } = createDriver({ contactPoints: [contactPoint], localDatacenter: DATA_CENTER });
      try {
        await client.connect();
        return (await hostsUp(client)) === NODES || undefined;
      } catch {
        return undefined;
      } finally {
        await client.shutdown();
      }
    });
  }
}

async function hostsUp(client: Client): Promise<number> {
  await sleep(100);
  return [...client.hosts.values()].filter((host) => host.isUp()).length;
}

// Servers for tests. Most tests share the pair that scripts/test starts for the whole run (sharedServers); a test that
// kills, stops or restarts a server starts one of its own, which ends with the test.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type CassandraOptions, DATA_CENTER, startCassandra } from '../../scripts/embedded/cassandra.ts';
import { type NatsOptions, startNats } from '../../scripts/embedded/nats.ts';
import { type ServerProcess, findFreePorts, findServer } from '../../scripts/embedded/server-process.ts';

export const HEAP_MB = 512;

/** Undoes things at the end: a test's context, or what a suite collects for its `after` hook. */
export interface Cleanup {
  after(undo: () => Promise<void>): void;
}

/** Addresses as the driver and the client take them. */
export interface SharedServers {
  readonly cassandraContactPoints: readonly string[];
  readonly cassandraDataCenter: string;
  readonly natsServers: readonly string[];
}

/** The pair of this run. Throws when there is none: such tests are started by scripts/test. */
export function sharedServers(): SharedServers {
  const { PUNCTUAL_CASSANDRA_CONTACT_POINTS: cassandra, PUNCTUAL_NATS_SERVERS: nats } = process.env;
  if (cassandra === undefined || nats === undefined) {
    throw new Error('no servers in the environment: run scripts/test <rung or file>');
  }
  return {
    cassandraContactPoints: cassandra.split(','),
    cassandraDataCenter: process.env.PUNCTUAL_CASSANDRA_LOCAL_DATACENTER ?? DATA_CENTER,
    natsServers: nats.split(','),
  };
}

/** A server of the test's own; `restart` starts it again on the same data and ports, after a kill or a stop. */
export interface PrivateServer {
  readonly contactPoint: string;
  readonly process: ServerProcess;
  restart(): Promise<void>;
  /** Takes its data away, as a lost disk would: to be called while it is dead. */
  wipe(): void;
}

/** A server in a folder that goes with the test. */
export async function startPrivate(
  test: Cleanup,
  name: string,
  start: (dir: string) => Promise<ServerProcess>,
): Promise<PrivateServer> {
  const dir = mkdtempSync(join(tmpdir(), `punctual-test-${name}-`));
  test.after(async () => {
    await findServer(dir)?.kill('SIGKILL');
    rmSync(dir, { recursive: true, force: true });
  });
  let running = await start(dir);
  return {
    contactPoint: running.contactPoint,
    get process() {
      return running;
    },
    async restart() {
      running = await start(dir);
    },
    wipe() {
      rmSync(join(dir, 'data'), { recursive: true });
    },
  };
}

type Unsettled<T> = Partial<Omit<T, 'dir' | 'port' | 'lifetime'>>;

/** One Cassandra node on an empty folder and free ports: 8-13 s. */
export async function startPrivateCassandra(
  test: Cleanup,
  options: Unsettled<CassandraOptions> = {},
): Promise<PrivateServer> {
  const [port = 0, storagePort = 0] = await findFreePorts(options.address ?? '127.0.0.1', 2);
  return startPrivate(test, 'cassandra', (dir) =>
    startCassandra({ heapMb: HEAP_MB, storagePort, ...options, dir, port }),
  );
}

/** One nats-server with JetStream on an empty folder and free ports: 0.2 s. */
export async function startPrivateNats(test: Cleanup, options: Unsettled<NatsOptions> = {}): Promise<PrivateServer> {
  const [port = 0, monitorPort = 0] = await findFreePorts(options.address ?? '127.0.0.1', 2);
  return startPrivate(test, 'nats', (dir) => startNats({ monitorPort, ...options, dir, port }));
}

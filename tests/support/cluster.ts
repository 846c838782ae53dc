// The services as real processes on the shared servers, in a keyspace and under a bus prefix of their own.

import { randomBytes } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { findFreePorts } from '../../scripts/embedded/server-process.ts';
import { startService } from '../../scripts/embedded/service-process.ts';
import { applySchema, dropKeyspace, type SchemaTarget } from '../../scripts/migrator/migrator.ts';
import { connectedBus, dropStreams } from './bus.ts';
import { type Cleanup, sharedServers } from './servers.ts';
import type { ClusterServers } from './three-nodes.ts';

export type ServiceName = 'api' | 'dispatcher' | 'reaper';

/** One service process. `restart` starts it again on the same ports, after a kill or a stop. */
export interface ServiceProcess {
  readonly name: ServiceName;
  readonly url: string;
  readonly metricsUrl: string;
  /** SIGKILL: ends when the process is gone. */
  kill(): Promise<void>;
  signal(signal: NodeJS.Signals): void;
  /** SIGTERM: ends when the process is gone. */
  stop(): Promise<void>;
  restart(): Promise<void>;
  /** The most memory it has held since its start, in MB. */
  peakRssMb(): number;
}

export interface Cluster {
  readonly keyspace: SchemaTarget;
  readonly environment: Readonly<Record<string, string>>;
  readonly apis: readonly ServiceProcess[];
  readonly dispatchers: readonly ServiceProcess[];
  readonly reapers: readonly ServiceProcess[];
  readonly apiUrl: string;
  all(): readonly ServiceProcess[];
  /** One more api, in other circumstances than the rest. */
  addApi(environment: Readonly<Record<string, string>>): Promise<ServiceProcess>;
}

export interface ClusterOptions {
  readonly apis?: number;
  readonly dispatchers?: number;
  readonly reapers?: number;
  readonly environment?: Readonly<Record<string, string>>;
  /** Others than the shared ones, for a test that kills them. */
  readonly natsServers?: readonly string[];
  /** All servers others than the shared ones. */
  readonly servers?: ClusterServers;
}

export async function startCluster(test: Cleanup, options: ClusterOptions = {}): Promise<Cluster> {
  const servers: ClusterServers = options.servers ?? { ...sharedServers(), replicas: 1 };
  const { cassandraContactPoints, cassandraDataCenter, replicas } = servers;
  const natsServers = options.natsServers ?? servers.natsServers;
  const isShared = options.servers === undefined;
  const name = servers.keyspace ?? `t${randomBytes(5).toString('hex')}`;
  const target = {
    contactPoints: cassandraContactPoints,
    localDatacenter: cassandraDataCenter,
    keyspace: name,
    replicationFactor: replicas,
  };
  const logs = mkdtempSync(join(tmpdir(), `punctual-${name}-`));
  if (servers.keyspace === undefined) await applySchema(target);
  const environment = {
    PUNCTUAL_CASSANDRA_CONTACT_POINTS: cassandraContactPoints.join(','),
    PUNCTUAL_CASSANDRA_LOCAL_DATACENTER: cassandraDataCenter,
    PUNCTUAL_CASSANDRA_KEYSPACE: name,
    PUNCTUAL_NATS_SERVERS: natsServers.join(','),
    PUNCTUAL_NATS_PREFIX: `${name}_`,
    PUNCTUAL_NATS_REPLICAS: String(replicas),
    PUNCTUAL_LOG_LEVEL: 'info',
    ...options.environment,
  };
  const started: ServiceProcess[] = [];
  test.after(async () => {
    await Promise.all(started.map((service) => service.kill()));
    // What is a test's own goes with its servers.
    if (isShared) await dropKeyspace(target);
    if (isShared && options.natsServers === undefined) {
      const bus = await connectedBus();
      await dropStreams(bus, environment.PUNCTUAL_NATS_PREFIX);
      await bus.close();
    }
    rmSync(logs, { recursive: true, force: true });
  });
  const start = async (service: ServiceName, itsEnvironment = environment): Promise<ServiceProcess> => {
    const logFile = join(logs, `${service}-${randomBytes(2).toString('hex')}.log`);
    const launched = await launch(service, itsEnvironment, logFile);
    started.push(launched);
    return launched;
  };
  const several = (service: ServiceName, count: number): Promise<ServiceProcess[]> =>
    Promise.all(Array.from({ length: count }, () => start(service)));
  // The first one seeds the settings that all of them share.
  const apis = await several('api', options.apis ?? 1);
  const [dispatchers, reapers] = await Promise.all([
    several('dispatcher', options.dispatchers ?? 1),
    several('reaper', options.reapers ?? 1),
  ]);
  return {
    keyspace: target,
    environment,
    apis,
    dispatchers,
    reapers,
    apiUrl: apis[0]?.url ?? '',
    all: () => started,
    addApi: (itsEnvironment) => start('api', { ...environment, ...itsEnvironment }),
  };
}

async function launch(
  name: ServiceName,
  environment: Readonly<Record<string, string>>,
  logFile: string,
): Promise<ServiceProcess> {
  const [port = 0, metricsPort = 0] = await findFreePorts('127.0.0.1', 2);
  const options = { name, environment: { ...environment, PUNCTUAL_API_PORT: String(port) }, metricsPort, logFile };
  let running = await startService(options);
  return {
    name,
    url: `http://127.0.0.1:${port}`,
    metricsUrl: running.metricsUrl,
    kill: async () => {
      if (isAlive(running.pid)) process.kill(running.pid, 'SIGKILL');
      await running.ended;
    },
    signal: (signal) => void process.kill(running.pid, signal),
    stop: () => running.stop(),
    restart: async () => {
      running = await startService(options);
    },
    peakRssMb: () => peakRssMb(running.pid),
  };
}

/** Until its end is waited for, a process of ours keeps its pid, so this cannot hit another. */
function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

function peakRssMb(pid: number): number {
  const kilobytes = /VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
  return Number(kilobytes) / 1024;
}

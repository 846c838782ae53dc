// The services as real processes on the shared servers, in a keyspace and under a bus prefix of their own.

import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { findFreePorts } from '../../scripts/embedded/server-process.ts';
import { ROOT } from '../../scripts/embedded/settings.ts';
import { applySchema, dropKeyspace } from '../../scripts/migrator/migrator.ts';
import { type Cleanup, sharedServers } from './servers.ts';

export type ServiceName = 'api' | 'dispatcher' | 'reaper';

/** One service process. `restart` starts it again on the same ports, after a kill or a stop. */
export interface ServiceProcess {
  readonly name: ServiceName;
  readonly url: string;
  readonly metricsUrl: string;
  readonly logFile: string;
  pid(): number;
  /** SIGKILL: ends when the process is gone. */
  kill(): Promise<void>;
  signal(signal: NodeJS.Signals): void;
  /** SIGTERM: ends when the process is gone, with its exit code. */
  stop(): Promise<number | null>;
  restart(): Promise<void>;
  /** The most memory it has held since its start, in MB. */
  peakRssMb(): number;
}

export interface Cluster {
  readonly environment: Readonly<Record<string, string>>;
  readonly apis: readonly ServiceProcess[];
  readonly dispatchers: readonly ServiceProcess[];
  readonly reapers: readonly ServiceProcess[];
  readonly apiUrl: string;
  all(): readonly ServiceProcess[];
  /** Starts one more process of a service. */
  add(name: ServiceName): Promise<ServiceProcess>;
}

export interface ClusterOptions {
  readonly apis?: number;
  readonly dispatchers?: number;
  readonly reapers?: number;
  readonly environment?: Readonly<Record<string, string>>;
}

const START_LIMIT_MS = 30_000;

export async function startCluster(test: Cleanup, options: ClusterOptions = {}): Promise<Cluster> {
  const { cassandraContactPoints, cassandraDataCenter, natsServers } = sharedServers();
  const name = `t${randomBytes(5).toString('hex')}`;
  const target = {
    contactPoints: cassandraContactPoints,
    localDatacenter: cassandraDataCenter,
    keyspace: name,
    replicationFactor: 1,
  };
  const logs = mkdtempSync(join(tmpdir(), `punctual-${name}-`));
  await applySchema(target);
  const environment = {
    PUNCTUAL_CASSANDRA_CONTACT_POINTS: cassandraContactPoints.join(','),
    PUNCTUAL_CASSANDRA_LOCAL_DATACENTER: cassandraDataCenter,
    PUNCTUAL_CASSANDRA_KEYSPACE: name,
    PUNCTUAL_NATS_SERVERS: natsServers.join(','),
    PUNCTUAL_NATS_PREFIX: `${name}_`,
    PUNCTUAL_LOG_LEVEL: 'info',
    ...options.environment,
  };
  const started: ServiceProcess[] = [];
  test.after(async () => {
    await Promise.all(started.map((service) => service.kill()));
    await dropKeyspace(target);
    rmSync(logs, { recursive: true, force: true });
  });
  const add = async (service: ServiceName): Promise<ServiceProcess> => {
    const launched = await launch(service, environment, join(logs, `${service}-${started.length}.log`));
    started.push(launched);
    return launched;
  };
  const several = (service: ServiceName, count: number): Promise<ServiceProcess[]> =>
    Promise.all(Array.from({ length: count }, () => add(service)));
  // The first one seeds the settings that all of them share.
  const apis = await several('api', options.apis ?? 1);
  const [dispatchers, reapers] = await Promise.all([
    several('dispatcher', options.dispatchers ?? 1),
    several('reaper', options.reapers ?? 1),
  ]);
  return {
    environment,
    apis,
    dispatchers,
    reapers,
    apiUrl: apis[0]?.url ?? '',
    all: () => started,
    add,
  };
}

async function launch(
  name: ServiceName,
  environment: Readonly<Record<string, string>>,
  logFile: string,
): Promise<ServiceProcess> {
  const [port = 0, metricsPort = 0] = await findFreePorts('127.0.0.1', 2);
  const own = { PUNCTUAL_API_PORT: String(port), PUNCTUAL_METRICS_PORT: String(metricsPort) };
  const metricsUrl = `http://127.0.0.1:${metricsPort}`;
  let child: ChildProcess;

  const start = async (): Promise<void> => {
    const log = openSync(logFile, 'a');
    child = spawn(process.execPath, [join(ROOT, 'services', name, 'main.ts')], {
      cwd: ROOT,
      env: { PATH: process.env.PATH, ...environment, ...own },
      stdio: ['ignore', log, log],
    });
    await untilReady(name, metricsUrl, child, logFile);
  };
  const gone = async (): Promise<number | null> => {
    if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
    return child.exitCode;
  };
  await start();
  return {
    name,
    url: `http://127.0.0.1:${port}`,
    metricsUrl,
    logFile,
    pid: () => child.pid ?? 0,
    kill: async () => {
      child.kill('SIGKILL');
      await gone();
    },
    signal: (signal) => void child.kill(signal),
    stop: async () => {
      child.kill('SIGTERM');
      return gone();
    },
    restart: start,
    peakRssMb: () => peakRssMb(child.pid ?? 0),
  };
}

async function untilReady(name: ServiceName, metricsUrl: string, child: ChildProcess, logFile: string): Promise<void> {
  const limit = Date.now() + START_LIMIT_MS;
  while (Date.now() < limit) {
    if (child.exitCode !== null) break;
    const answer = await fetch(`${metricsUrl}/readyz`).catch(() => undefined);
    if (answer?.status === 200) return;
    await sleep(50);
  }
  throw new Error(`${name} did not become ready:\n${readFileSync(logFile, 'utf8').slice(-3_000)}`);
}

export function peakRssMb(pid: number): number {
  const kilobytes = /VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
  return Number(kilobytes) / 1024;
}

/** The sum of a counter over its labels, as a service's /metrics shows it. */
export async function readCounter(service: ServiceProcess, metric: string): Promise<number> {
  const text = await (await fetch(`${service.metricsUrl}/metrics`)).text();
  return text
    .split('\n')
    .filter((line) => line.startsWith(`${metric}{`) || line.startsWith(`${metric} `))
    .reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' ') + 1)), 0);
}

// What a scenario plays on: services of its own on the servers at hand, workers, and a load program, all measured.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from 'cassandra-driver';
import { createDriver } from '../../services/core/storage/session.ts';
import type { Progress } from '../embedded/progress.ts';
import { findFreePorts } from '../embedded/server-process.ts';
import { ADDRESS } from '../embedded/servers.ts';
import { type ServiceProcess, startService } from '../embedded/service-process.ts';
import { applySchema, dropKeyspace } from '../migrator/migrator.ts';
import { type ChildProgram, startChild } from './child-program.ts';
import { type Counts, countAttempts, countFires, countRounds, countStatements, total } from './counters.ts';
import { startsOf, type Start } from './lags.ts';
import type { LoadMethods } from './load-program.ts';
import { cpuSeconds, listenerOf, peakRssMb, rssMb } from './processes.ts';
import type { WorkerMethods } from './worker-program.ts';

export interface StageOptions {
  readonly progress: Progress;
  /** Jobs stored together; the product's own when undefined. */
  readonly cohortSize?: number | undefined;
  /** Each worker process works all of these; default: one queue, one process. */
  readonly queues?: readonly string[];
  readonly workers?: number;
  readonly workerConcurrency?: number;
}

/** All that is counted, at one moment. */
export interface Reading {
  readonly at: number;
  readonly cpuS: Counts;
  readonly rounds: Counts;
  readonly reads: Counts;
  readonly writes: Counts;
}

export interface Stage {
  readonly apiUrl: string;
  readonly queues: readonly string[];
  readonly progress: Progress;
  readonly load: ChildProgram<LoadMethods>;
  /** Starts seen so far. */
  readonly startCount: () => Promise<number>;
  /** Starts since they were last taken. */
  readonly takeStarts: () => Promise<readonly Start[]>;
  /** Attempts that ended so far, as the api and the reaper count them. */
  readonly endedCount: () => Promise<number>;
  /** Slots of schedules that were fired so far, as the dispatcher counts them. */
  readonly firedCount: () => Promise<number>;
  readonly read: () => Promise<Reading>;
  /** Peak resident memory by process, in MB, since it started; of one that was killed and started again that of both. */
  readonly peakRssMb: () => Record<string, number>;
  readonly rssMb: () => Record<string, number>;
  /** SIGKILL, and another one in its place at once. */
  readonly killDispatcher: () => Promise<void>;
}

/** Resolves when so many attempts were started since the stage stands, or after `mostMs`: the figures tell what is missing. */
export async function untilStarted(
  { startCount }: Pick<Stage, 'startCount'>,
  count: number,
  { mostMs, pollMs }: { readonly mostMs: number; readonly pollMs: number },
): Promise<void> {
  const giveUpAt = Date.now() + mostMs;
  while ((await startCount()) < count && Date.now() < giveUpAt) await sleep(pollMs);
}

const SERVICES = ['api', 'dispatcher', 'reaper'] as const;
const SHARDS_TAKEN_LIMIT_MS = 30_000;

/** The keyspace of this run, which scenarios share with the raw measurements. */
export interface Theatre {
  readonly client: Client;
  readonly keyspace: string;
  readonly natsServers: readonly string[];
}

export async function withTheatre<T>(play: (theatre: Theatre) => Promise<T>): Promise<T> {
  const target = targetOf(`bench${process.pid}`);
  await applySchema(target);
  const { client } = createDriver(target, { keyspace: target.keyspace, withoutMetadata: true });
  try {
    await client.connect();
    return await play({ client, keyspace: target.keyspace, natsServers: natsServers() });
  } finally {
    await client.shutdown();
    await dropKeyspace(target);
  }
}

/** Services in a keyspace and under a bus prefix of their own, so that a scenario begins with nothing. */
export async function withStage<T>(options: StageOptions, play: (stage: Stage) => Promise<T>): Promise<T> {
  const { progress, cohortSize, queues = ['bench'], workers = 1, workerConcurrency = 100 } = options;
  const name = `bench${process.pid}_${Date.now() % 1_000_000}`;
  const target = targetOf(name);
  const logs = mkdtempSync(join(tmpdir(), `punctual-${name}-`));
  await applySchema(target);
  const { client } = createDriver(target, { keyspace: name, withoutMetadata: true });
  const [apiPort = 0, ...metricsPorts] = await findFreePorts(ADDRESS, 1 + SERVICES.length);
  const environment = {
    PUNCTUAL_CASSANDRA_KEYSPACE: name,
    PUNCTUAL_NATS_PREFIX: `${name}_`,
    PUNCTUAL_API_PORT: String(apiPort),
    PUNCTUAL_LOG_LEVEL: 'warn',
    ...(cohortSize === undefined ? {} : { PUNCTUAL_COHORT_SIZE: String(cohortSize) }),
  };
  const apiUrl = `http://${ADDRESS}:${apiPort}`;
  const services: ServiceProcess[] = [];
  const children: ChildProgram<never>[] = [];
  try {
    await client.connect();
    progress(`• starting api, dispatcher, reaper, ${workers} worker processes and the load program`);
    const start = (service: (typeof SERVICES)[number]): Promise<ServiceProcess> => {
      const metricsPort = metricsPorts[SERVICES.indexOf(service)] ?? 0;
      return startService({ name: service, environment, metricsPort, logFile: join(logs, `${service}.log`) });
    };
    for (const service of SERVICES) services.push(await start(service));
    const workerArgs = ['--api', apiUrl, '--nats', natsServers().join(','), '--queues', queues.join(',')];
    const workerPrograms = Array.from({ length: workers }, (_, index) =>
      startChild<WorkerMethods>(workers === 1 ? 'worker' : `worker ${index + 1}`, 'worker-program.ts', [
        ...workerArgs,
        ...['--concurrency', String(workerConcurrency)],
      ]),
    );
    const load = startChild<LoadMethods>('load program', 'load-program.ts');
    children.push(...workerPrograms, load);
    const others = [...children, ...serverProcesses()];
    const measured = () => [...services, ...others];
    const metricsUrls = services.map(({ metricsUrl }) => metricsUrl);
    const rss = (of: (pid: number) => number) =>
      Object.fromEntries(measured().map((each) => [each.name, of(each.pid)]));
    let killedPeakMb = 0;
    await allShardsTaken(metricsUrls.slice(1));
    return await play({
      apiUrl,
      queues,
      progress,
      load,
      startCount: async () => {
        const counts = await Promise.all(workerPrograms.map((worker) => worker.ask('count', undefined as never)));
        return counts.reduce((sum, count) => sum + count, 0);
      },
      takeStarts: async () => {
        const taken = await Promise.all(workerPrograms.map((worker) => worker.ask('take', undefined as never)));
        return taken.flatMap(startsOf);
      },
      endedCount: async () => total(await countAttempts(metricsUrls)),
      firedCount: async () => total(await countFires(metricsUrls)),
      read: async () => {
        const [rounds, { reads, writes }] = await Promise.all([
          countRounds(metricsUrls),
          countStatements(client, name),
        ]);
        const cpuS = Object.fromEntries(measured().map((each) => [each.name, cpuSeconds(each.pid)]));
        return { at: performance.now(), cpuS, rounds, reads, writes };
      },
      peakRssMb: () => {
        const peaks = rss(peakRssMb);
        return { ...peaks, dispatcher: Math.max(peaks['dispatcher'] ?? 0, killedPeakMb) };
      },
      rssMb: () => rss(rssMb),
      killDispatcher: async () => {
        const index = SERVICES.indexOf('dispatcher');
        const killed = services[index];
        if (killed === undefined) throw new Error('there is no dispatcher');
        killedPeakMb = Math.max(killedPeakMb, peakRssMb(killed.pid));
        process.kill(killed.pid, 'SIGKILL');
        await killed.ended;
        services[index] = await start('dispatcher');
      },
    });
  } finally {
    await Promise.all(children.map((child) => child.stop()));
    await Promise.all(services.map((service) => service.stop()));
    await client.shutdown();
    await dropKeyspace(target);
    rmSync(logs, { recursive: true, force: true });
  }
}

/** A service is ready before it has its shards. */
async function allShardsTaken(metricsUrls: readonly string[]): Promise<void> {
  for (const limit = performance.now() + SHARDS_TAKEN_LIMIT_MS; performance.now() < limit;) {
    await sleep(100);
    const texts = await Promise.all(metricsUrls.map(async (url) => (await fetch(`${url}/metrics`)).text()));
    if (texts.every((text) => /^punctual_shards_unowned\{[^}]*\} 0$/m.test(text))) return;
  }
  throw new Error('the shards are not all owned');
}

function targetOf(keyspace: string) {
  return {
    contactPoints: (process.env.PUNCTUAL_CASSANDRA_CONTACT_POINTS ?? '').split(','),
    localDatacenter: process.env.PUNCTUAL_CASSANDRA_LOCAL_DATACENTER ?? 'datacenter1',
    keyspace,
    replicationFactor: 1,
  };
}

function natsServers(): readonly string[] {
  return (process.env.PUNCTUAL_NATS_SERVERS ?? '').split(',');
}

/** The servers that run on this machine. */
function serverProcesses(): readonly { readonly name: string; readonly pid: number }[] {
  const [cassandra = ''] = (process.env.PUNCTUAL_CASSANDRA_CONTACT_POINTS ?? '').split(',');
  const [nats = ''] = natsServers();
  return [
    { name: 'cassandra', pid: listenerOf(portOf(cassandra)) },
    { name: 'nats', pid: listenerOf(portOf(nats)) },
  ].flatMap(({ name, pid }) => (pid === undefined ? [] : [{ name, pid }]));
}

function portOf(address: string): number {
  return Number(address.split(':').at(-1));
}

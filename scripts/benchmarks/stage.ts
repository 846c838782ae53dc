// What a scenario plays on: services of its own on the servers at hand, and a worker that prints what it does.

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { PunctualClient } from '../../services/client/index.ts';
import type { Progress } from '../embedded/progress.ts';
import { findFreePorts } from '../embedded/server-process.ts';
import { ADDRESS } from '../embedded/servers.ts';
import { type ServiceProcess, startService } from '../embedded/service-process.ts';
import { ROOT } from '../embedded/settings.ts';
import { tiedToUs } from '../embedded/tied-child.ts';
import { applySchema, dropKeyspace } from '../migrator/migrator.ts';

export interface Start {
  readonly jobId: string;
  readonly attempt: number;
  /** The worker's clock at handler start. */
  readonly startedAt: number;
  readonly scheduledFor: number;
}

export interface Stage {
  readonly apiUrl: string;
  readonly client: PunctualClient;
  readonly progress: Progress;
  /** Starts seen so far, in the order of the worker's lines. */
  readonly starts: readonly Start[];
  /** Peak resident memory by service, in MB. */
  peakRssMb(): Readonly<Record<string, number>>;
}

export const QUEUE = 'bench';
const WORKER_CONCURRENCY = 100;
const SERVICES = ['api', 'dispatcher', 'reaper'] as const;

/** Services in a keyspace and under a bus prefix of their own, so that a scenario begins with nothing. */
export async function withStage<T>(progress: Progress, play: (stage: Stage) => Promise<T>): Promise<T> {
  const name = `bench${process.pid}`;
  const target = {
    contactPoints: (process.env.PUNCTUAL_CASSANDRA_CONTACT_POINTS ?? '').split(','),
    localDatacenter: process.env.PUNCTUAL_CASSANDRA_LOCAL_DATACENTER ?? 'datacenter1',
    keyspace: name,
    replicationFactor: 1,
  };
  const logs = mkdtempSync(join(tmpdir(), `punctual-${name}-`));
  progress('Applying the schema');
  await applySchema(target);
  const [apiPort = 0, ...metricsPorts] = await findFreePorts(ADDRESS, 1 + SERVICES.length);
  const environment = {
    PUNCTUAL_CASSANDRA_KEYSPACE: name,
    PUNCTUAL_NATS_PREFIX: `${name}_`,
    PUNCTUAL_API_PORT: String(apiPort),
    PUNCTUAL_LOG_LEVEL: 'warn',
  };
  const started: ServiceProcess[] = [];
  let worker: ChildProcess | undefined;
  try {
    progress('Starting api, dispatcher, reaper and a worker');
    for (const [index, service] of SERVICES.entries()) {
      const metricsPort = metricsPorts[index] ?? 0;
      started.push(
        await startService({ name: service, environment, metricsPort, logFile: join(logs, `${service}.log`) }),
      );
    }
    const apiUrl = `http://${ADDRESS}:${apiPort}`;
    const starts: Start[] = [];
    worker = startWorker(apiUrl, starts);
    const client = new PunctualClient({ apiUrl });
    return await play({ apiUrl, client, progress, starts, peakRssMb: () => peakRssMb(started) });
  } finally {
    if (worker !== undefined) {
      worker.kill('SIGTERM');
      await once(worker, 'exit');
    }
    await Promise.all(started.map((service) => service.stop()));
    await dropKeyspace(target);
    rmSync(logs, { recursive: true, force: true });
  }
}

function startWorker(apiUrl: string, starts: Start[]): ChildProcess {
  const args = [
    join(ROOT, 'services/client/sample-worker.ts'),
    ...['--queue', QUEUE, '--api', apiUrl, '--nats', process.env.PUNCTUAL_NATS_SERVERS ?? ''],
    ...['--concurrency', String(WORKER_CONCURRENCY), '--name', 'bench-worker'],
  ];
  const worker = spawn(...tiedToUs(process.execPath, args), { stdio: ['ignore', 'pipe', 'ignore'], detached: true });
  createInterface({ input: worker.stdout }).on('line', (line) => {
    const event = JSON.parse(line) as Record<string, string | number>;
    if (event['event'] !== 'start') return;
    starts.push({
      jobId: String(event['job_id']),
      attempt: Number(event['attempt']),
      startedAt: Number(event['started_at']),
      scheduledFor: Date.parse(String(event['scheduled_for'])),
    });
  });
  return worker;
}

function peakRssMb(services: readonly ServiceProcess[]): Readonly<Record<string, number>> {
  return Object.fromEntries(
    services.map(({ name, pid }) => {
      const status = readFileSync(`/proc/${pid}/status`, 'utf8');
      return [name, Math.round(Number(/VmHWM:\s+(\d+)/.exec(status)?.[1]) / 1_024)];
    }),
  );
}

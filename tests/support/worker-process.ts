// The sample worker as a process of its own, to be watched, stopped and killed.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { ROOT } from '../../scripts/embedded/settings.ts';
import type { Cluster } from './cluster.ts';
import type { Cleanup } from './servers.ts';

/** A line that the sample worker prints. */
export interface WorkerEvent {
  readonly event: 'start' | 'finish';
  readonly job_id: string;
  readonly attempt: number;
  readonly started_at?: number;
  readonly scheduled_for?: string;
  readonly outcome?: string;
}

export interface WorkerProcess {
  readonly events: readonly WorkerEvent[];
  /** Called for each event from now on. */
  onEvent(listener: (event: WorkerEvent) => void): void;
  signal(signal: NodeJS.Signals): void;
  kill(): Promise<void>;
}

export interface WorkerProcessOptions {
  readonly queue: string;
  readonly name?: string;
  readonly concurrency?: number;
}

export function startWorker(test: Cleanup, cluster: Cluster, options: WorkerProcessOptions): WorkerProcess {
  const { queue, name = 'worker', concurrency = 20 } = options;
  const args = [
    join(ROOT, 'services/client/sample-worker.ts'),
    ...['--queue', queue, '--name', name, '--concurrency', String(concurrency)],
    ...['--api', cluster.apis.map((api) => api.url).join(',')],
    ...['--nats', cluster.environment['PUNCTUAL_NATS_SERVERS'] ?? ''],
  ];
  const child = spawn(process.execPath, args, { cwd: ROOT, stdio: ['ignore', 'pipe', 'ignore'] });
  const events: WorkerEvent[] = [];
  const listeners: ((event: WorkerEvent) => void)[] = [];
  createInterface({ input: child.stdout }).on('line', (line) => {
    const event = JSON.parse(line) as WorkerEvent;
    events.push(event);
    for (const listener of listeners) listener(event);
  });
  const kill = async (): Promise<void> => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.kill('SIGKILL');
    await once(child, 'exit');
  };
  test.after(kill);
  return {
    events,
    onEvent: (listener) => void listeners.push(listener),
    signal: (signal) => void child.kill(signal),
    kill,
  };
}

/** Start lags of an event list in ms: the worker's clock at handler start minus the time asked for. */
export function startLagsMs(events: readonly WorkerEvent[]): number[] {
  return events
    .filter((event) => event.event === 'start' && event.attempt === 1)
    .map((event) => (event.started_at ?? 0) - Date.parse(event.scheduled_for ?? ''))
    .sort((a, b) => a - b);
}

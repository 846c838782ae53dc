// One nats-server with JetStream.

import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { installNats } from './install.ts';
import { type Progress, silent, withProgress } from './progress.ts';
import { type ServerProcess, launchServer } from './server-process.ts';

const HEALTH_LIMIT_MS = 1_000;

export interface NatsOptions {
  /** Absolute. Started again on the same folder, the server has its streams again. */
  readonly dir: string;
  readonly port: number;
  /** HTTP: /healthz, /jsz, ... */
  readonly monitorPort: number;
  readonly address?: string;
  readonly lifetime?: 'ours' | 'detached';
  readonly progress?: Progress;
}

function configuration(options: { address: string; port: number; monitorPort: number; dir: string }): string {
  const { address, port, monitorPort, dir } = options;
  // Without an explicit bound JetStream takes three quarters of the free disk, and refuses streams when that is little.
  return [
    `listen: "${address}:${port}"`,
    `http: "${address}:${monitorPort}"`,
    `jetstream { store_dir: "${join(dir, 'data')}", max_file_store: 8GB, max_memory_store: 256MB }`,
    '',
  ].join('\n');
}

async function isHealthy(address: string, monitorPort: number): Promise<boolean> {
  try {
    const response = await fetch(`http://${address}:${monitorPort}/healthz`, {
      signal: AbortSignal.timeout(HEALTH_LIMIT_MS),
    });
    return response.ok;
  } catch {
    return false;
  }
}

/** Starts the server and waits until it and its JetStream are healthy: 0.1 s on an empty folder. */
export async function startNats(options: NatsOptions): Promise<ServerProcess> {
  const { dir, port, monitorPort, address = '127.0.0.1', progress = silent } = options;
  const command = await installNats(progress);
  mkdirSync(dir, { recursive: true });
  writeFileSync(join(dir, 'nats.conf'), configuration({ address, port, monitorPort, dir }));
  return withProgress(progress, `Starting NATS on ${address}:${port}`, () =>
    launchServer({
      name: 'nats-server',
      dir,
      contactPoint: `${address}:${port}`,
      ports: {
        address,
        wanted: [
          { number: port, purpose: 'NATS' },
          { number: monitorPort, purpose: 'NATS (monitoring)' },
        ],
      },
      command,
      args: ['--config', join(dir, 'nats.conf')],
      lifetime: options.lifetime ?? 'ours',
      isReady: () => isHealthy(address, monitorPort),
    }),
  );
}

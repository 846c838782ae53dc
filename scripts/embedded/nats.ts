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
  /** One of several servers that keep streams together; without it the server is alone. */
  readonly cluster?: NatsCluster;
  readonly lifetime?: 'ours' | 'detached';
  readonly progress?: Progress;
}

export interface NatsCluster {
  /** Between servers: the same one on all of them. */
  readonly port: number;
  /** The addresses of all servers, this one included. */
  readonly addresses: readonly string[];
}

interface Configuration {
  readonly address: string;
  readonly port: number;
  readonly monitorPort: number;
  readonly dir: string;
  readonly cluster: NatsCluster | undefined;
}

function configuration({ address, port, monitorPort, dir, cluster }: Configuration): string {
  // Without an explicit bound JetStream takes three quarters of the free disk, and refuses streams when that is little.
  return [
    `listen: "${address}:${port}"`,
    `http: "${address}:${monitorPort}"`,
    `jetstream { store_dir: "${join(dir, 'data')}", max_file_store: 8GB, max_memory_store: 256MB }`,
    ...(cluster === undefined ? [] : clusterLines(address, cluster)),
    '',
  ].join('\n');
}

function clusterLines(address: string, { port, addresses }: NatsCluster): string[] {
  const routes = addresses.map((each) => `"nats://${each}:${port}"`).join(', ');
  return [
    `server_name: "nats-${address}"`,
    `cluster { name: "punctual", listen: "${address}:${port}", routes: [${routes}] }`,
  ];
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

/**
 * Starts the server and waits until it and its JetStream are healthy: 0.1 s on an empty folder. One of a cluster waits for most
 * of the others too, so that those are to be started at once.
 */
export async function startNats(options: NatsOptions): Promise<ServerProcess> {
  const { dir, port, monitorPort, address = '127.0.0.1', cluster, progress = silent } = options;
  const command = await installNats(progress);
  mkdirSync(dir, { recursive: true });
  writeFileSync(join(dir, 'nats.conf'), configuration({ address, port, monitorPort, dir, cluster }));
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
          ...(cluster === undefined ? [] : [{ number: cluster.port, purpose: 'NATS (between servers)' }]),
        ],
      },
      command,
      args: ['--config', join(dir, 'nats.conf')],
      lifetime: options.lifetime ?? 'ours',
      isReady: () => isHealthy(address, monitorPort),
    }),
  );
}

// An empty Cassandra and NATS on free ports of loopback, for one run: tests and benchmarks.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { CommitlogSync } from './cassandra.ts';
import type { Progress } from './progress.ts';
import { findFreePorts } from './server-process.ts';
import { ADDRESS, environmentOf, eraseData, startServers, stopServers } from './servers.ts';

export interface TemporaryServersOptions {
  readonly purpose: 'test' | 'bench';
  readonly heapMb: number;
  readonly commitlogSync: CommitlogSync;
  readonly progress: Progress;
}

/**
 * Gives `body` the servers through the environment and takes them away after it, silently: what the body printed last
 * stays last. Their logs are kept when it did not succeed.
 */
export async function withTemporaryServers(
  options: TemporaryServersOptions,
  body: () => Promise<boolean>,
): Promise<boolean> {
  const { purpose, heapMb, commitlogSync, progress } = options;
  const stateDir = mkdtempSync(join(tmpdir(), `punctual-${purpose}-`));
  const [cassandra = 0, cassandraStorage = 0, nats = 0, natsMonitor = 0] = await findFreePorts(ADDRESS, 4);
  progress(`Servers of this run: ${stateDir}`);
  let succeeded = false;
  try {
    const servers = await startServers({
      stateDir,
      ports: {
        cassandra: { number: cassandra, purpose: 'Cassandra (CQL)' },
        cassandraStorage: { number: cassandraStorage, purpose: 'Cassandra (between nodes)' },
        nats: { number: nats, purpose: 'NATS' },
        natsMonitor: { number: natsMonitor, purpose: 'NATS (monitoring)' },
      },
      heapMb,
      commitlogSync,
      lifetime: 'ours',
      progress,
    });
    Object.assign(process.env, environmentOf(servers));
    try {
      succeeded = await body();
    } finally {
      await stopServers(servers);
    }
  } finally {
    if (succeeded) rmSync(stateDir, { recursive: true, force: true });
    else eraseData(stateDir);
  }
  return succeeded;
}

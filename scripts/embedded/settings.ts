// Where the embedded servers keep things and which ports they take: the environment, read once.

import { homedir } from 'node:os';
import { join, resolve } from 'node:path';

export const ROOT = resolve(import.meta.dirname, '../..');

/** What is downloaded and built once per machine; shared by all checkouts. */
export const CACHE_DIR = resolve(
  process.env.PUNCTUAL_CACHE_DIR ?? join(process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'punctual'),
);

/** Data, logs and pids of this checkout's servers. */
export const STATE_DIR = resolve(process.env.PUNCTUAL_STATE_DIR ?? join(ROOT, '.punctual'));

interface PortDefault {
  readonly variable: string;
  readonly port: number;
  readonly purpose: string;
}

const PORT_DEFAULTS = {
  cassandra: { variable: 'PUNCTUAL_CASSANDRA_PORT', port: 9042, purpose: 'Cassandra (CQL)' },
  cassandraStorage: { variable: 'PUNCTUAL_CASSANDRA_STORAGE_PORT', port: 7000, purpose: 'Cassandra (between nodes)' },
  nats: { variable: 'PUNCTUAL_NATS_PORT', port: 4222, purpose: 'NATS' },
  natsMonitor: { variable: 'PUNCTUAL_NATS_MONITOR_PORT', port: 8222, purpose: 'NATS (monitoring)' },
  api: { variable: 'PUNCTUAL_API_PORT', port: 7400, purpose: 'api' },
  apiMetrics: { variable: 'PUNCTUAL_API_METRICS_PORT', port: 7401, purpose: 'api (metrics)' },
  dispatcherMetrics: { variable: 'PUNCTUAL_DISPATCHER_METRICS_PORT', port: 7402, purpose: 'dispatcher (metrics)' },
  reaperMetrics: { variable: 'PUNCTUAL_REAPER_METRICS_PORT', port: 7403, purpose: 'reaper (metrics)' },
} as const satisfies Record<string, PortDefault>;

/** A port and the words for it when it is taken. */
export interface Port {
  readonly number: number;
  readonly purpose: string;
  /** The environment variable that chooses another. */
  readonly variable?: string;
}

type PortName = keyof typeof PORT_DEFAULTS;

function readPortNumber(variable: string): number | undefined {
  const text = process.env[variable];
  if (text === undefined || text === '') return undefined;
  const number = Number(text);
  if (!Number.isInteger(number) || number < 0 || number > 65_535)
    throw new Error(`${variable}=${text} is no port number`);
  return number;
}

/** A port named by its own variable stands as it is; the others are the defaults moved by PUNCTUAL_PORT_OFFSET. */
function readPort(name: PortName): Port {
  const { variable, port, purpose } = PORT_DEFAULTS[name];
  return {
    number: readPortNumber(variable) ?? port + (readPortNumber('PUNCTUAL_PORT_OFFSET') ?? 0),
    purpose,
    variable,
  };
}

export function readPorts(): Record<PortName, Port> {
  const names = Object.keys(PORT_DEFAULTS) as PortName[];
  return Object.fromEntries(names.map((name) => [name, readPort(name)])) as Record<PortName, Port>;
}

/** Cassandra's heap in MB. 1,024 makes a process of 1.5 GB, 512 one of 0.9 GB. */
export function readHeapMb(): number {
  return Number(process.env.PUNCTUAL_CASSANDRA_HEAP_MB ?? 1_024);
}

/** See CommitlogSync in cassandra.ts. */
export function readCommitlogSync(): 'batch' | 'periodic' {
  const mode = process.env.PUNCTUAL_CASSANDRA_COMMITLOG_SYNC ?? 'batch';
  if (mode !== 'batch' && mode !== 'periodic') {
    throw new Error(`PUNCTUAL_CASSANDRA_COMMITLOG_SYNC=${mode} is neither batch nor periodic`);
  }
  return mode;
}

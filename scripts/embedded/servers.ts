// The pair of servers that everything of ours needs, under one state folder: Cassandra and NATS.

import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { type CommitlogSync, DATA_CENTER, startCassandra } from './cassandra.ts';
import { installCassandra, installCqlsh, installNats } from './install.ts';
import { tryLock, withLock } from './lock.ts';
import { startNats } from './nats.ts';
import type { Progress } from './progress.ts';
import { type ServerProcess, assertPortsFree, findServer } from './server-process.ts';
import type { Port } from './settings.ts';

export const ADDRESS = '127.0.0.1';

/** The servers of a state folder; one that the environment names (`external`) is not ours to start or stop. */
export interface Servers {
  readonly cassandra: ServerProcess | External | undefined;
  readonly nats: ServerProcess | External | undefined;
}

export interface External {
  readonly contactPoint: string;
  readonly external: true;
}

export interface ServersOptions {
  readonly stateDir: string;
  readonly ports: Readonly<Record<'cassandra' | 'cassandraStorage' | 'nats' | 'natsMonitor', Port>>;
  readonly heapMb: number;
  readonly commitlogSync: CommitlogSync;
  readonly lifetime: 'ours' | 'detached';
  readonly progress: Progress;
}

const NAMES = ['cassandra', 'nats'] as const;
/** By which the environment names a server. */
const VARIABLES = { cassandra: 'PUNCTUAL_CASSANDRA_CONTACT_POINTS', nats: 'PUNCTUAL_NATS_SERVERS' } as const;

function isOurs(server: Servers['cassandra']): server is ServerProcess {
  return server !== undefined && !('external' in server);
}

/** The server that the environment names, or our own; that is the same one in a shell that took `scripts/servers env`. */
function named(variable: string, own: ServerProcess | undefined): ServerProcess | External | undefined {
  const contactPoint = process.env[variable] ?? '';
  return contactPoint === '' || contactPoint === own?.contactPoint ? own : { contactPoint, external: true };
}

/** What runs now. */
export function findServers(stateDir: string): Servers {
  const { cassandra, nats } = findOurServers(stateDir);
  return {
    cassandra: named(VARIABLES.cassandra, cassandra),
    nats: named(VARIABLES.nats, nats),
  };
}

/** What runs of the state folder's own servers, whatever the environment names. */
export function findOurServers(stateDir: string): Record<keyof Servers, ServerProcess | undefined> {
  return { cassandra: findServer(join(stateDir, 'cassandra')), nats: findServer(join(stateDir, 'nats')) };
}

/** The ports that starting would take: those of the servers that do not run. */
export function portsWanted({ cassandra, nats }: Servers, ports: ServersOptions['ports']): Port[] {
  return [
    ...(cassandra === undefined ? [ports.cassandra, ports.cassandraStorage] : []),
    ...(nats === undefined ? [ports.nats, ports.natsMonitor] : []),
  ];
}

/** Starts what does not run yet. Throws before it starts anything when ports are in use. */
export async function startServers(options: ServersOptions): Promise<Servers> {
  const { stateDir, ports, heapMb, commitlogSync, lifetime, progress } = options;
  return withLock(join(stateDir, 'servers.lock'), async () => {
    const running = findServers(stateDir);
    for (const name of NAMES) {
      const server = running[name];
      if (server === undefined || isOurs(server)) continue;
      progress(`• Using ${server.contactPoint}, for ${VARIABLES[name]} names it; unset it to have one started here`);
    }
    await assertPortsFree(ADDRESS, portsWanted(running, ports));
    // The first time this is a minute of downloads and compiling: side by side.
    await Promise.all([
      ...(running.cassandra === undefined ? [installCassandra(progress)] : []),
      ...(running.nats === undefined ? [installNats(progress)] : []),
      installCqlsh(progress),
    ]);
    const common = { address: ADDRESS, lifetime, progress };
    const nats =
      running.nats ??
      (await startNats({
        ...common,
        dir: join(stateDir, 'nats'),
        port: ports.nats.number,
        monitorPort: ports.natsMonitor.number,
      }));
    const cassandra =
      running.cassandra ??
      (await startCassandra({
        ...common,
        dir: join(stateDir, 'cassandra'),
        port: ports.cassandra.number,
        storagePort: ports.cassandraStorage.number,
        heapMb,
        commitlogSync,
      }));
    return { cassandra, nats };
  });
}

/** Stops those that are ours, which the environment names no longer then. */
export async function stopServers(servers: Servers): Promise<void> {
  await Promise.all(
    NAMES.map(async (name) => {
      const server = servers[name];
      if (!isOurs(server)) return;
      await server.stop();
      if (process.env[VARIABLES[name]] === server.contactPoint) Reflect.deleteProperty(process.env, VARIABLES[name]);
    }),
  );
}

/** Empties the data, the logs stay. Only for servers that do not run. */
export function eraseData(stateDir: string): void {
  for (const name of NAMES) rmSync(join(stateDir, name, 'data'), { recursive: true, force: true });
}

/** The environment by which our services and tests find these servers. */
export function environmentOf(servers: Servers): Record<string, string> {
  return {
    ...(servers.cassandra && {
      PUNCTUAL_CASSANDRA_CONTACT_POINTS: servers.cassandra.contactPoint,
      PUNCTUAL_CASSANDRA_LOCAL_DATACENTER: process.env.PUNCTUAL_CASSANDRA_LOCAL_DATACENTER ?? DATA_CENTER,
    }),
    ...(servers.nats && { PUNCTUAL_NATS_SERVERS: servers.nats.contactPoint }),
  };
}

/**
 * One quickstart per state folder: a second one, or emptying the data, would take its servers away. Returns what gives the
 * place up again; throws when a quickstart runs.
 */
export async function claimStateDir(stateDir: string): Promise<() => Promise<void>> {
  const release = await tryLock(join(stateDir, 'quickstart.lock'));
  if (release !== null) return release;
  throw new Error(
    `a quickstart runs already on ${stateDir}: end it with Ctrl-C, or set PUNCTUAL_STATE_DIR to another folder and ` +
      'PUNCTUAL_PORT_OFFSET to another offset to run a second one beside it',
  );
}

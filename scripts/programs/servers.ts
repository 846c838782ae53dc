// scripts/servers: the embedded servers of this checkout, in the background.

import { parseArgs } from 'node:util';
import { runProgram } from '../lib/run-program.ts';
import { showProgress } from '../embedded/progress.ts';
import {
  type Servers,
  claimStateDir,
  environmentOf,
  eraseData,
  findOurServers,
  findServers,
  startServers,
  stopServers,
} from '../embedded/servers.ts';
import { CACHE_DIR, STATE_DIR, readCommitlogSync, readHeapMb, readPorts } from '../embedded/settings.ts';

const HELP = `usage: scripts/servers start|stop|status|env [--fresh] [--json]

Cassandra 5.0 and nats-server with JetStream, on loopback, without Docker.

  start    starts what does not run yet, in the background; --fresh stops them first and empties their data
  stop     stops them; --fresh empties their data too
  status   tells what runs
  env      prints the exports by which services, tests and tools find them: eval "$(scripts/servers env)"
  --json   the answer of start, status and env as JSON

environment:
  PUNCTUAL_STATE_DIR        data, logs and pids (default .punctual in the checkout)
  PUNCTUAL_CACHE_DIR        downloads, shared by all checkouts (default ~/.cache/punctual)
  PUNCTUAL_PORT_OFFSET      added to every default port, so that two checkouts run side by side
  PUNCTUAL_CASSANDRA_PORT   9042        PUNCTUAL_CASSANDRA_STORAGE_PORT   7000
  PUNCTUAL_NATS_PORT        4222        PUNCTUAL_NATS_MONITOR_PORT        8222
  PUNCTUAL_CASSANDRA_HEAP_MB           1024
  PUNCTUAL_CASSANDRA_COMMITLOG_SYNC    batch: what was acknowledged survives kill -9; periodic: LWTs 2-3 times as fast, and
                                       kill -9 of Cassandra takes the last 100 ms along
  PUNCTUAL_CASSANDRA_CONTACT_POINTS, PUNCTUAL_NATS_SERVERS
                            servers that run already; nothing is started in place of those

here: state in ${STATE_DIR}, downloads in ${CACHE_DIR}
`;

function describe(servers: Servers): object {
  return Object.fromEntries(
    Object.entries(servers).map(([name, server]: [string, Servers['cassandra']]) => {
      if (server === undefined) return [name, { state: 'stopped' }];
      if ('external' in server) return [name, { state: 'external', contact_point: server.contactPoint }];
      const { pid, contactPoint, logFile } = server;
      return [name, { state: 'running', contact_point: contactPoint, pid, log: logFile }];
    }),
  );
}

function print(value: object, asJson: boolean, asText: (entry: [string, unknown]) => string): void {
  const lines = asJson ? [JSON.stringify(value, null, 2)] : Object.entries(value).map(asText);
  for (const line of lines) console.log(line);
}

function printStatus(servers: Servers, asJson: boolean): void {
  print(describe(servers), asJson, ([name, fields]) => {
    const words = Object.entries(fields as Record<string, unknown>).map(([key, value]) =>
      key === 'state' ? String(value) : `${key}=${String(value)}`,
    );
    return `${name.padEnd(10)} ${words.join(' ')}`;
  });
}

async function main(): Promise<void> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { fresh: { type: 'boolean' }, json: { type: 'boolean' }, help: { type: 'boolean' } },
  });
  const [command] = positionals;
  const asJson = values.json === true;
  if (values.help === true) {
    console.log(HELP);
    return;
  }
  if (values.fresh === true || command === 'stop') {
    const release = await claimStateDir(STATE_DIR);
    await stopServers(findOurServers(STATE_DIR));
    if (values.fresh === true) eraseData(STATE_DIR);
    await release();
  }
  switch (command) {
    case 'start': {
      const servers = await startServers({
        stateDir: STATE_DIR,
        ports: readPorts(),
        heapMb: readHeapMb(),
        commitlogSync: readCommitlogSync(),
        lifetime: 'detached',
        progress: showProgress,
      });
      printStatus(servers, asJson);
      return;
    }
    case 'stop':
    case 'status':
      printStatus(findServers(STATE_DIR), asJson);
      return;
    case 'env':
      print(environmentOf(findServers(STATE_DIR)), asJson, ([name, value]) => `export ${name}='${value as string}'`);
      return;
    default:
      console.error(HELP);
      process.exitCode = 2;
  }
}

await runProgram('servers', main);

// scripts/quickstart: all of Punctual on this machine, in the foreground.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { installCqlsh } from '../embedded/install.ts';
import { showProgress, silent, withProgress } from '../embedded/progress.ts';
import { assertPortsFree } from '../embedded/server-process.ts';
import {
  ADDRESS,
  type Servers,
  claimStateDir,
  environmentOf,
  eraseData,
  findOurServers,
  findServers,
  portsWanted,
  startServers,
  stopServers,
} from '../embedded/servers.ts';
import { type ServiceProcess, startService } from '../embedded/service-process.ts';
import { ROOT, STATE_DIR, readCommitlogSync, readHeapMb, readPorts } from '../embedded/settings.ts';
import { tiedToUs } from '../embedded/tied-child.ts';
import { runProgram } from '../lib/run-program.ts';
import { runTour } from '../tour/tour.ts';

const HELP = `usage: scripts/quickstart [--once] [--fresh]

Starts all of Punctual on this machine and stays until Ctrl-C, which leaves no process behind:

  - installs what is missing: npm packages, Cassandra 5.0, nats-server 2.15, cqlsh
  - starts Cassandra and NATS on loopback (or uses those that scripts/servers has started)
  - applies the schema
  - starts api, dispatcher and reaper, one process each
  - runs the tour: jobs now, later and in a burst, one that fails twice, one that ends dead, one that is cancelled

  --once    ends after the tour; exit code 0 only if every job ended as it should
  --fresh   empties the data of earlier runs first; without it they survive

environment: as for scripts/servers (see its --help), and
  PUNCTUAL_API_PORT                  7400
  PUNCTUAL_API_METRICS_PORT          7401
  PUNCTUAL_DISPATCHER_METRICS_PORT   7402
  PUNCTUAL_REAPER_METRICS_PORT       7403
`;

/** As shells say it of a program that Ctrl-C ended. */
const INTERRUPTED = 130;

type Ports = ReturnType<typeof readPorts>;

/** What has been started, in the order of starting; stopped in reverse. */
class Undo {
  readonly #steps: (() => Promise<void>)[] = [];

  add(step: () => Promise<void>): void {
    this.#steps.push(step);
  }

  async run(): Promise<void> {
    for (let step = this.#steps.pop(); step !== undefined; step = this.#steps.pop()) await step();
  }
}

async function startEmbedded(ports: Ports, fresh: boolean, undo: Undo): Promise<Servers> {
  let running = findServers(STATE_DIR);
  if (fresh) {
    await stopServers(findOurServers(STATE_DIR));
    eraseData(STATE_DIR);
    running = findServers(STATE_DIR);
  }
  const { api, apiMetrics, dispatcherMetrics, reaperMetrics } = ports;
  await assertPortsFree(ADDRESS, [
    ...portsWanted(running, ports),
    ...[api, apiMetrics, dispatcherMetrics, reaperMetrics],
  ]);
  const servers = await startServers({
    stateDir: STATE_DIR,
    ports,
    heapMb: readHeapMb(),
    commitlogSync: readCommitlogSync(),
    lifetime: 'ours',
    progress: showProgress,
  });
  // Those that ran already stay: someone has started them to run in the background.
  undo.add(() =>
    stopServers({
      cassandra: running.cassandra === undefined ? servers.cassandra : undefined,
      nats: running.nats === undefined ? servers.nats : undefined,
    }),
  );
  return servers;
}

async function applySchema(): Promise<void> {
  const child = spawn(...tiedToUs(join(ROOT, 'scripts', 'schema'), ['apply']), {
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  const [code] = (await once(child, 'exit')) as [number | null];
  if (code !== 0) throw new Error('the schema could not be applied');
}

async function startServices(ports: Ports, undo: Undo): Promise<ServiceProcess[]> {
  const metricsPorts = {
    api: ports.apiMetrics.number,
    dispatcher: ports.dispatcherMetrics.number,
    reaper: ports.reaperMetrics.number,
  };
  const starting = Object.entries(metricsPorts).map(async ([name, metricsPort]) => {
    const service = await startService({
      name: name as keyof typeof metricsPorts,
      environment: { PUNCTUAL_API_PORT: String(ports.api.number) },
      metricsPort,
      logFile: join(STATE_DIR, name, 'service.log'),
    });
    undo.add(() => service.stop());
    return service;
  });
  // All of them, so that none is still on its way up when one has failed and the others are stopped.
  const outcomes = await Promise.allSettled(starting);
  return outcomes.map((outcome) => {
    if (outcome.status === 'rejected') throw outcome.reason;
    return outcome.value;
  });
}

async function cqlshCommand(servers: Servers): Promise<readonly string[]> {
  const [host = '', port = ''] = servers.cassandra?.contactPoint.split(',')[0]?.split(':') ?? [];
  return [await installCqlsh(silent), host, port, '-k', process.env.PUNCTUAL_CASSANDRA_KEYSPACE ?? 'punctual'];
}

async function describe(ports: Ports, servers: Servers, services: readonly ServiceProcess[]): Promise<string> {
  const cqlsh = await cqlshCommand(servers);
  return [
    '',
    `REST API    http://${ADDRESS}:${ports.api.number}`,
    ...services.map(({ name, metricsUrl }) => `${name.padEnd(11)} ${metricsUrl}/metrics`),
    `Cassandra   ${servers.cassandra?.contactPoint ?? ''}   ${cqlsh.join(' ')}`,
    `NATS        ${servers.nats?.contactPoint ?? ''}`,
    `logs        ${STATE_DIR}/*/*.log`,
    '',
    'For the tools in another shell:',
    `  export PUNCTUAL_API_URL=http://${ADDRESS}:${ports.api.number}`,
    `  export PUNCTUAL_NATS_SERVERS=${servers.nats?.contactPoint ?? ''}`,
    `  export PUNCTUAL_CASSANDRA_CONTACT_POINTS=${servers.cassandra?.contactPoint ?? ''}`,
    '',
  ].join('\n');
}

/** Aborts on the first Ctrl-C or SIGTERM; a second one ends us at once, and what is tied to us with us. */
function stopOnSignals(): AbortController {
  const stop = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.on(signal, () => {
      if (stop.signal.aborted) process.exit(INTERRUPTED);
      stop.abort();
    });
  }
  return stop;
}

/** Resolves when the tour is over. Throws when a job of it ended otherwise than it should. */
async function startAll(options: { fresh: boolean; stopping: AbortSignal; undo: Undo }): Promise<void> {
  const { fresh, stopping, undo } = options;
  undo.add(await claimStateDir(STATE_DIR));
  const ports = readPorts();
  const servers = await startEmbedded(ports, fresh, undo);
  Object.assign(process.env, environmentOf(servers));
  await withProgress(showProgress, 'Applying the schema', applySchema);
  const services = await withProgress(showProgress, 'Starting api, dispatcher and reaper', () =>
    startServices(ports, undo),
  );
  for (const { name, ended, logFile } of services) {
    void ended.then((how) => {
      if (!stopping.aborted) showProgress(`! ${name} has ended with ${how} (log: ${logFile})`);
    });
  }
  const faults = await runTour({
    apiUrl: `http://${ADDRESS}:${ports.api.number}`,
    natsServers: servers.nats?.contactPoint ?? '',
    cqlsh: await cqlshCommand(servers),
    stopping,
  });
  console.log(await describe(ports, servers, services));
  if (faults.length > 0) throw new Error(`the tour found faults:\n  ${faults.join('\n  ')}`);
}

async function run(options: { once: boolean; fresh: boolean }): Promise<void> {
  const stop = stopOnSignals();
  const stopped = once(stop.signal, 'abort').then(() => 'stopped' as const);
  const undo = new Undo();
  try {
    const started = startAll({ fresh: options.fresh, stopping: stop.signal, undo });
    const first = await Promise.race([started, stopped]);
    if (first === 'stopped') process.exitCode = INTERRUPTED;
    else if (!options.once) {
      showProgress('Running until Ctrl-C.');
      await stopped;
    }
  } finally {
    stop.abort();
    await withProgress(showProgress, 'Stopping', () => undo.run());
  }
}

await runProgram('quickstart', async () => {
  const { values } = parseArgs({
    options: { once: { type: 'boolean' }, fresh: { type: 'boolean' }, help: { type: 'boolean' } },
  });
  if (values.help === true) console.log(HELP);
  else await run({ once: values.once === true, fresh: values.fresh === true });
});

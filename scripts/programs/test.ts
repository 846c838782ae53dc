// scripts/test: runs the tests on servers of their own.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, globSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { showProgress } from '../embedded/progress.ts';
import { ROOT } from '../embedded/settings.ts';
import { tiedToUs } from '../embedded/tied-child.ts';
import { withTemporaryServers } from '../embedded/temporary-servers.ts';
import { runProgram } from '../lib/run-program.ts';
import { runTestFiles } from '../lib/run-test-files.ts';

const RUNGS = ['unit', 'property', 'simulation', 'conformance', 'integration', 'end-to-end', 'cluster'] as const;
const RUNGS_ON_SERVERS: readonly string[] = ['conformance', 'integration', 'end-to-end'];
/** They start servers of their own, three of each, and want the machine for themselves. */
const RUNG_ON_OWN_SERVERS = 'cluster';
const TEST_LIMIT_MS = 300_000;
// Nobody kills these two: a test that kills a server starts its own.
const SERVERS = { purpose: 'test', heapMb: 512, commitlogSync: 'periodic', progress: showProgress } as const;

const HELP = `usage: scripts/test [rung | file ...] [--no-check] [--environment-servers] [--name <pattern>] [--long]

Runs every test there is, or those of the named rungs and files.

  rungs: ${RUNGS.join(', ')} (folders of tests/)

  --no-check              skips what comes first: format, types, lint, arrows between folders, unused code
  --environment-servers   runs on PUNCTUAL_CASSANDRA_CONTACT_POINTS and PUNCTUAL_NATS_SERVERS. Without it the rungs
                          ${RUNGS_ON_SERVERS.join(', ')} get an empty Cassandra and NATS on free ports of
                          loopback, stopped and removed at the end; their logs stay when something failed
  --name <pattern>        only tests whose name matches
  --long                  the long form of tests that have one: cluster strikes every node and service in every way, for
                          an hour and a half, under 100 jobs/s (PUNCTUAL_TEST_JOBS_PER_S)
`;

interface Selection {
  readonly fast: readonly string[];
  readonly onServers: readonly string[];
  readonly onOwnServers: readonly string[];
}

function select(names: readonly string[]): Selection {
  const files = (names.length === 0 ? RUNGS : names).flatMap((name) => {
    if ((RUNGS as readonly string[]).includes(name))
      return globSync(`tests/${name}/**/*.test.ts`, { cwd: ROOT }).sort();
    if (existsSync(join(ROOT, name))) return [name];
    throw new Error(`no rung and no file: ${name} (rungs: ${RUNGS.join(', ')})`);
  });
  if (files.length === 0) throw new Error('no tests found');
  const rungOf = (file: string): string => file.split('/')[1] ?? '';
  const needsServers = (file: string): boolean => RUNGS_ON_SERVERS.includes(rungOf(file));
  const bringsServers = (file: string): boolean => rungOf(file) === RUNG_ON_OWN_SERVERS;
  return {
    fast: files.filter((file) => !needsServers(file) && !bringsServers(file)),
    onServers: files.filter(needsServers),
    onOwnServers: files.filter(bringsServers),
  };
}

/** Runs a program in the foreground; true if it succeeded. It goes when we are told to go. */
async function succeeds(command: string, args: readonly string[], stopping: AbortSignal): Promise<boolean> {
  if (stopping.aborted) return false;
  const child = spawn(...tiedToUs(command, args), { cwd: ROOT, stdio: ['ignore', 'inherit', 'inherit'] });
  const stop = (): void => {
    child.kill('SIGTERM');
  };
  stopping.addEventListener('abort', stop);
  const [code] = (await once(child, 'exit')) as [number | null];
  stopping.removeEventListener('abort', stop);
  return code === 0;
}

await runProgram('test', async () => {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      'no-check': { type: 'boolean' },
      'environment-servers': { type: 'boolean' },
      name: { type: 'string' },
      long: { type: 'boolean' },
      help: { type: 'boolean' },
    },
  });
  if (values.help === true) {
    console.log(HELP);
    return;
  }
  const { fast, onServers, onOwnServers } = select(positionals);
  if (values.long === true) process.env.PUNCTUAL_TEST_LONG = '1';
  if (values['environment-servers'] !== true) {
    // Tests make and break streams and keyspaces: never on servers that only happen to be in the developer's shell.
    delete process.env.PUNCTUAL_CASSANDRA_CONTACT_POINTS;
    delete process.env.PUNCTUAL_NATS_SERVERS;
  }
  const stop = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => stop.abort());

  const checked = values['no-check'] === true || (await succeeds('npm', ['run', '--silent', 'check'], stop.signal));
  const run = (): Promise<boolean> =>
    runTestFiles(
      [
        { files: fast, concurrency: 2 },
        // These share their servers and two cores: one file after the other.
        { files: onServers, concurrency: 1 },
        { files: onOwnServers, concurrency: 1 },
      ],
      { timeoutMs: TEST_LIMIT_MS, namePattern: values.name, stopping: stop.signal },
    );
  const passed = onServers.length > 0 ? await withTemporaryServers(SERVERS, run) : await run();
  process.exitCode = checked && passed ? 0 : 1;
});

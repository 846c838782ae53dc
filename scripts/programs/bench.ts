// scripts/bench: what the product reaches on this machine.

import { parseArgs } from 'node:util';
import { benchLag, type LagResult } from '../benchmarks/lag.ts';
import { withStage } from '../benchmarks/stage.ts';
import { showProgress } from '../embedded/progress.ts';
import { withTemporaryServers } from '../embedded/temporary-servers.ts';
import { runProgram } from '../lib/run-program.ts';

const HELP = `usage: scripts/bench lag [--json]

Runs a scenario on services of its own, through REST and JetStream, and prints what it reached.

  lag      start lag on an idle machine, by the worker's clock at handler start: 300 jobs posted ahead and due at random
           moments over 60 s, then 100 jobs with delay_s 1 (about 2 minutes)

  --json   the result as one line of JSON on standard output; progress goes to standard error

It starts an empty Cassandra and NATS for the run, unless PUNCTUAL_CASSANDRA_CONTACT_POINTS and PUNCTUAL_NATS_SERVERS
name servers to be used: then in a keyspace of its own, dropped at the end.
`;

const SERVERS = { purpose: 'bench', heapMb: 1_024, commitlogSync: 'periodic', progress: showProgress } as const;

function print(result: LagResult, asJson: boolean): void {
  if (asJson) {
    process.stdout.write(`${JSON.stringify(result)}\n`);
    return;
  }
  const row = (what: string, { p50_ms, p99_ms, max_ms, jobs }: LagResult['delay_s_1']): string =>
    `${what.padEnd(24)} ${String(jobs).padStart(5)} ${String(p50_ms).padStart(8)} ${String(p99_ms).padStart(8)} ${String(max_ms).padStart(8)}`;
  const lines = [
    `${'start lag'.padEnd(24)} ${'jobs'.padStart(5)} ${'p50 ms'.padStart(8)} ${'p99 ms'.padStart(8)} ${'max ms'.padStart(8)}`,
    row('due ahead', result),
    row('delay_s 1', result.delay_s_1),
    ...Object.entries(result.peak_rss_mb).map(([service, mb]) => `${service} at most ${mb} MB`),
  ];
  process.stdout.write(`${lines.join('\n')}\n`);
}

await runProgram('bench', async () => {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { json: { type: 'boolean' }, help: { type: 'boolean' } },
  });
  if (values.help === true) {
    console.log(HELP);
    return;
  }
  if (positionals.length !== 1 || positionals[0] !== 'lag') {
    console.error(HELP);
    process.exitCode = 2;
    return;
  }
  await withTemporaryServers(SERVERS, async () => {
    print(await withStage(showProgress, benchLag), values.json === true);
    return true;
  });
});

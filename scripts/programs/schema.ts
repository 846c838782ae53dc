// scripts/schema: the keyspace's schema.

import { parseArgs } from 'node:util';
import { ConfigError, loadConfig } from '../../services/core/runtime/config.ts';
import { runProgram } from '../lib/run-program.ts';
import { applySchema, printSchema, readStatus, type SchemaTarget } from '../migrator/migrator.ts';

const HELP = `usage: scripts/schema apply | status | print [--json]

  apply    creates the keyspace if there is none, and applies the versions of schema/cassandra that it lacks: under a
           lock, one statement at a time, each when all nodes agree on the one before. Safe to repeat and to interrupt
  status   says which versions the keyspace holds; exit code 1 if one is missing or differs
  print    prints all statements, to be applied by hand

  PUNCTUAL_CASSANDRA_REPLICATION_FACTOR   copies of each row in a keyspace that apply creates (1; production needs 3)

and the variables that say where Cassandra is, as for the services: PUNCTUAL_CASSANDRA_CONTACT_POINTS, _KEYSPACE,
_LOCAL_DATACENTER, _USERNAME, _PASSWORD, _TLS, _TLS_CA_FILE, _TLS_CERT_FILE, _TLS_KEY_FILE.
`;

function readTarget(): SchemaTarget {
  const factor = process.env['PUNCTUAL_CASSANDRA_REPLICATION_FACTOR'] ?? '1';
  if (!/^[1-9]$/.test(factor)) throw new Error(`PUNCTUAL_CASSANDRA_REPLICATION_FACTOR=${factor}: must be 1 to 9`);
  try {
    return { ...loadConfig('api').config.cassandra, replicationFactor: Number(factor) };
  } catch (error) {
    if (error instanceof ConfigError) throw new Error([error.message, ...error.faults].join('\n  '), { cause: error });
    throw error;
  }
}

async function apply(target: SchemaTarget, json: boolean): Promise<void> {
  const say = json ? () => undefined : (message: string) => process.stderr.write(`• ${message}\n`);
  if (target.replicationFactor === 1) {
    process.stderr.write('! one copy of each row: for development only (PUNCTUAL_CASSANDRA_REPLICATION_FACTOR)\n');
  }
  const applied = await applySchema(target, { onProgress: say });
  const { keyspace } = target;
  if (json) process.stdout.write(`${JSON.stringify({ keyspace, applied })}\n`);
  else process.stdout.write(`${keyspace}: ${applied === 0 ? 'nothing to do' : `${applied} versions applied`}\n`);
}

async function status(target: SchemaTarget, json: boolean): Promise<void> {
  const versions = await readStatus(target);
  if (json) process.stdout.write(`${JSON.stringify({ keyspace: target.keyspace, versions })}\n`);
  else {
    for (const { name, state, appliedAt } of versions) {
      process.stdout.write(
        `${name.padEnd(24)} ${state}${appliedAt === undefined ? '' : ` ${appliedAt.toISOString()}`}\n`,
      );
    }
  }
  if (versions.some(({ state }) => state === 'pending' || state === 'different')) process.exitCode = 1;
}

await runProgram('schema', async () => {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { json: { type: 'boolean', default: false }, help: { type: 'boolean', short: 'h', default: false } },
  });
  const [command] = positionals;
  if (values.help) process.stdout.write(HELP);
  else if (command === 'apply' && positionals.length === 1) await apply(readTarget(), values.json);
  else if (command === 'status' && positionals.length === 1) await status(readTarget(), values.json);
  else if (command === 'print' && positionals.length === 1) process.stdout.write(printSchema(readTarget()));
  else {
    process.stderr.write(HELP);
    process.exitCode = 2;
  }
});

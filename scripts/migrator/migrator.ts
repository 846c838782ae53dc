// Brings a keyspace to the newest version of schema/cassandra: one migrator at a time, one statement at a time.

import { createHash, randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { types, type Client } from 'cassandra-driver';
import { describeCause, toStoreError } from '../../services/core/storage/errors.ts';
import { createDriver, type CassandraConfig } from '../../services/core/storage/session.ts';
import { loadTemplate, loadVersions, type SchemaVersion } from './versions.ts';

export interface SchemaTarget extends CassandraConfig {
  readonly replicationFactor: number;
}

export interface VersionState {
  readonly number: number;
  readonly name: string;
  /** newer: this checkout has no such version. different: its statements are not those that were applied. */
  readonly state: 'applied' | 'pending' | 'newer' | 'different';
  readonly appliedAt: Date | undefined;
}

export interface ApplyOptions {
  readonly versions?: readonly SchemaVersion[];
  readonly onProgress?: (message: string) => void;
}

const STATEMENT_TIMEOUT_MS = 30_000;
/**
 * A schema statement answers only when all nodes agree. Six migrators at once on three loaded nodes take longer than the driver's
 * 10 s.
 */
const AGREEMENT_MAX_S = 60;
/** Renewed before each statement, and longer than one may take; a migrator that died lets the next one in after so long. */
const LOCK_TTL_S = 180;
const LOCK_POLL_MS = 500;
/** Migrators that contend for the lock make each other's rounds time out. */
const LOCK_TRIES_MAX = 10;
const LOCK_WAIT_MAX_MS = 2 * LOCK_TTL_S * 1_000;

const PLAIN = { prepare: true, isIdempotent: true, consistency: types.consistencies.localQuorum };
const CONDITIONAL = {
  prepare: true,
  consistency: types.consistencies.localQuorum,
  serialConsistency: types.consistencies.localSerial,
};

/** Returns how many versions it applied. Throws when an applied version has other statements, or nodes do not agree. */
export async function applySchema(target: SchemaTarget, options: ApplyOptions = {}): Promise<number> {
  const versions = options.versions ?? loadVersions();
  const progress = options.onProgress ?? (() => undefined);
  await prepareKeyspace(target);
  return withClient(target, target.keyspace, async (client) => {
    const lock = await acquireLock(client, progress);
    try {
      const pending = pendingVersions(versions, await readApplied(client));
      for (const version of pending) {
        progress(`applying ${version.name} (${version.statements.length} statements)`);
        for (const statement of version.statements) {
          await lock.renew();
          await executeSchema(client, statement);
        }
        await recordVersion(client, version);
      }
      // Where it fails, it lapses.
      await lock.release().catch(() => undefined);
      return pending.length;
    } catch (error) {
      // A statement without an answer may still run: nobody may send its like before the lock has lapsed.
      if (!(error instanceof OpenStatementError)) await lock.release().catch(() => undefined);
      throw error;
    }
  });
}

/** What every version's state is; an absent keyspace has all of them pending. */
export async function readStatus(target: SchemaTarget, versions = loadVersions()): Promise<readonly VersionState[]> {
  const applied = await withClient(target, undefined, async (client) => {
    const table = await client.metadata.getTable(target.keyspace, 'schema_migrations').catch(() => null);
    // The driver's types promise a table; where there is none it answers null.
    return (table as unknown) === null ? [] : readApplied(client, `${target.keyspace}.`);
  });
  const states = versions.map((version): VersionState => {
    const found = applied.find(({ number }) => number === version.number);
    const state = found === undefined ? 'pending' : found.checksum === version.checksum ? 'applied' : 'different';
    return { number: version.number, name: version.name, state, appliedAt: found?.appliedAt };
  });
  const newer = applied.filter(({ number }) => number > versions.length);
  return [
    ...states,
    ...newer.map(({ number, name, appliedAt }) => ({ number, name, state: 'newer' as const, appliedAt })),
  ];
}

/** Everything apply would send to an empty cluster, in order. */
export function printSchema(target: Pick<SchemaTarget, 'keyspace' | 'localDatacenter' | 'replicationFactor'>): string {
  const statements = [
    ...keyspaceStatements(target),
    `USE ${target.keyspace}`,
    ...bookkeepingStatements(target.keyspace),
    ...loadVersions().flatMap((version) => [
      ...version.statements,
      'INSERT INTO schema_migrations (scope, version, name, checksum, applied_at) ' +
        `VALUES ('cassandra', ${version.number}, '${version.name}', '${version.checksum}', toTimestamp(now()))`,
    ]),
  ];
  return statements.map((statement) => `${statement};\n`).join('');
}

/** Removes the keyspace with all it holds: for tests. */
export async function dropKeyspace(target: CassandraConfig): Promise<void> {
  await withClient(target, undefined, (client) => executeSchema(client, `DROP KEYSPACE IF EXISTS ${target.keyspace}`));
}

/** Keyspace, lock and list must be there before there can be a lock. All of them can be created twice at once. */
async function prepareKeyspace(target: SchemaTarget): Promise<void> {
  await withClient(target, undefined, async (client) => {
    for (const statement of keyspaceStatements(target)) await executeSchema(client, statement);
  });
  await withClient(target, target.keyspace, async (client) => {
    for (const statement of bookkeepingStatements(target.keyspace)) await executeSchema(client, statement);
  });
}

function keyspaceStatements(
  target: Pick<SchemaTarget, 'keyspace' | 'localDatacenter' | 'replicationFactor'>,
): readonly string[] {
  return loadTemplate('keyspace.cql', {
    keyspace: target.keyspace,
    data_center: target.localDatacenter,
    replication_factor: String(target.replicationFactor),
  });
}

function bookkeepingStatements(keyspace: string): readonly string[] {
  return loadTemplate('bookkeeping.cql', {
    schema_lock_id: fixedTableId(keyspace, 'schema_lock'),
    schema_migrations_id: fixedTableId(keyspace, 'schema_migrations'),
  });
}

/** Two nodes asked at once to create a table choose two ids for it and later lose the rows of one (CASSANDRA-10699). */
function fixedTableId(keyspace: string, table: string): string {
  const hash = createHash('sha256').update(`punctual ${keyspace}.${table}`).digest('hex');
  return `${hash.slice(0, 8)}-${hash.slice(8, 12)}-5${hash.slice(13, 16)}-8${hash.slice(17, 20)}-${hash.slice(20, 32)}`;
}

/** Nobody knows whether the statement is done, or not all nodes do. */
class OpenStatementError extends Error {}

async function executeSchema(client: Client, statement: string): Promise<void> {
  const { info } = await client.execute(statement).catch((cause: unknown) => {
    const Kind = toStoreError(cause, 'write').kind === 'unknown' ? OpenStatementError : Error;
    throw new Kind(`${cause instanceof Error ? cause.message : String(cause)}\n  in: ${statement}`, { cause });
  });
  // The driver fills it in after waiting, but leaves it out of its types.
  if (!(info as { isSchemaInAgreement?: boolean }).isSchemaInAgreement) {
    throw new OpenStatementError(
      `the nodes do not agree on the schema after: ${statement.slice(0, 60)} ...\n` +
        'See nodetool describecluster; when all nodes are up and agree, apply again: it goes on where it stopped.',
    );
  }
}

interface AppliedVersion {
  readonly number: number;
  readonly name: string;
  readonly checksum: string;
  readonly appliedAt: Date;
}

async function readApplied(client: Client, prefix = ''): Promise<readonly AppliedVersion[]> {
  const result = await client.execute(
    `SELECT version, name, checksum, applied_at FROM ${prefix}schema_migrations WHERE scope = 'cassandra'`,
    [],
    PLAIN,
  );
  return result.rows.map((row) => ({
    number: row.get('version') as number,
    name: row.get('name') as string,
    checksum: row.get('checksum') as string,
    appliedAt: row.get('applied_at') as Date,
  }));
}

function pendingVersions(
  versions: readonly SchemaVersion[],
  applied: readonly AppliedVersion[],
): readonly SchemaVersion[] {
  const checksums = new Map(applied.map(({ number, checksum }) => [number, checksum]));
  for (const version of versions) {
    const checksum = checksums.get(version.number);
    if (checksum === undefined || checksum === version.checksum) continue;
    throw new Error(
      `${version.name}.cql is not what was applied here: its checksum is ${version.checksum.slice(0, 12)}, that of the ` +
        `applied version ${checksum.slice(0, 12)}. A version that was applied never changes: restore the file and put the ` +
        `change into a new version ${String(versions.length + 1).padStart(3, '0')}-name.cql.`,
    );
  }
  return versions.filter(({ number }) => !checksums.has(number));
}

async function recordVersion(client: Client, version: SchemaVersion): Promise<void> {
  await client.execute(
    `INSERT INTO schema_migrations (scope, version, name, checksum, applied_at) VALUES ('cassandra', ?, ?, ?, ?)`,
    [version.number, version.name, version.checksum, new Date()],
    PLAIN,
  );
}

interface Lock {
  /** Throws when the lock was lost. */
  renew(): Promise<void>;
  release(): Promise<void>;
}

async function acquireLock(client: Client, progress: (message: string) => void): Promise<Lock> {
  const owner = `${hostname()} process ${process.pid} ${randomUUID()}`;
  const giveUpAt = performance.now() + LOCK_WAIT_MAX_MS;
  let said: string | undefined;
  for (;;) {
    const holder = await tryLock(client, owner);
    if (holder === owner) break;
    if (performance.now() > giveUpAt) throw new Error(`the schema lock is held by ${holder}`);
    if (holder !== said) progress(`waiting for the migrator that holds the lock: ${holder}`);
    said = holder;
    await sleep(LOCK_POLL_MS * (0.5 + Math.random()));
  }
  return {
    async renew() {
      const result = await changeLock(
        client,
        `UPDATE schema_lock USING TTL ${LOCK_TTL_S} SET owner = ?, acquired_at = ? WHERE name = 'schema' IF owner = ?`,
        [owner, new Date(), owner],
      );
      if (!result.wasApplied()) throw new Error('the schema lock was lost to another migrator; apply again');
    },
    async release() {
      await changeLock(client, `DELETE FROM schema_lock WHERE name = 'schema' IF owner = ?`, [owner]);
    },
  };
}

/** Who holds the lock now: we, if it was free. A repeat after a lost answer finds our own name in it. */
async function tryLock(client: Client, owner: string): Promise<string> {
  const result = await changeLock(
    client,
    `INSERT INTO schema_lock (name, owner, acquired_at) VALUES ('schema', ?, ?) IF NOT EXISTS USING TTL ${LOCK_TTL_S}`,
    [owner, new Date()],
  );
  return result.wasApplied() ? owner : (result.first().get('owner') as string);
}

/** Repeated where its answer was lost: each of the lock's statements names its owner, and ends as the first one did. */
async function changeLock(client: Client, statement: string, values: readonly unknown[]): Promise<types.ResultSet> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await client.execute(statement, [...values], CONDITIONAL);
    } catch (error) {
      if (tries === LOCK_TRIES_MAX || toStoreError(error, 'write').kind === 'invalid') throw error;
      await sleep(LOCK_POLL_MS * Math.random() * tries);
    }
  }
}

async function withClient<Result>(
  target: CassandraConfig,
  keyspace: string | undefined,
  body: (client: Client) => Promise<Result>,
): Promise<Result> {
  const { client } = createDriver(target, {
    readTimeoutMs: STATEMENT_TIMEOUT_MS,
    schemaAgreementMaxS: AGREEMENT_MAX_S,
    withoutMetadata: true,
    ...(keyspace === undefined ? {} : { keyspace }),
  });
  try {
    await connect(client, target);
    return await body(client);
  } finally {
    await client.shutdown();
  }
}

async function connect(client: Client, target: CassandraConfig): Promise<void> {
  try {
    await client.connect();
  } catch (cause) {
    throw new Error(
      `Cassandra does not answer at ${target.contactPoints.join(', ')} (PUNCTUAL_CASSANDRA_CONTACT_POINTS): ${describeCause(cause)}`,
      { cause },
    );
  }
}

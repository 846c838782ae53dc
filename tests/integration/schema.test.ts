import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from 'cassandra-driver';
import { applySchema, printSchema, readStatus, type SchemaTarget } from '../../scripts/migrator/migrator.ts';
import { loadVersions, SCHEMA_DIR, splitStatements, type SchemaVersion } from '../../scripts/migrator/versions.ts';
import { systemClock } from '../../services/core/runtime/system-clock.ts';
import { openSession } from '../../services/core/storage/session.ts';
import { testDriver, testKeyspace } from '../support/cassandra.ts';
import { RecordingTelemetry } from '../support/bus.ts';

/** A schema of two small tables: most of these tests are about how versions are applied, not which. */
function version(number: number, ...statements: readonly string[]): SchemaVersion {
  return { number, name: `00${number}-test`, statements, checksum: `of ${statements.join(';')}` };
}

const FIRST = version(1, 'CREATE TABLE IF NOT EXISTS one (a int PRIMARY KEY)');
const SECOND = version(
  2,
  'ALTER TABLE one ADD IF NOT EXISTS b int',
  'CREATE TABLE IF NOT EXISTS two (a int PRIMARY KEY)',
);

async function states(target: SchemaTarget, versions: readonly SchemaVersion[]): Promise<readonly string[]> {
  return (await readStatus(target, versions)).map(({ state }) => state);
}

describe('scripts/schema', () => {
  it('applies what is missing, once', async (test) => {
    const target = testKeyspace(test);
    assert.deepEqual(await states(target, [FIRST, SECOND]), ['pending', 'pending']);
    assert.equal(await applySchema(target, { versions: [FIRST] }), 1);
    assert.deepEqual(await states(target, [FIRST, SECOND]), ['applied', 'pending']);
    assert.equal(await applySchema(target, { versions: [FIRST, SECOND] }), 1);
    assert.equal(await applySchema(target, { versions: [FIRST, SECOND] }), 0);
    assert.deepEqual(await states(target, [FIRST, SECOND]), ['applied', 'applied']);
    assert.deepEqual(await states(target, [FIRST]), ['applied', 'newer']);
  });

  it('R079 is safe to run six times at once, on an empty cluster too', async (test) => {
    const target = testKeyspace(test);
    const applied = await Promise.all([1, 2, 3, 4, 5, 6].map(() => applySchema(target, { versions: [FIRST, SECOND] })));
    assert.deepEqual(applied.toSorted(), [0, 0, 0, 0, 0, 2]);
    const client = await testDriver(test, target);
    assert.equal((await client.execute('SELECT * FROM schema_lock')).rowLength, 0);
  });

  it('goes on after a migrator that died in the middle of a version', async (test) => {
    const target = testKeyspace(test);
    const broken = version(2, SECOND.statements[0]!, 'CREATE TABLE nonsense');
    await assert.rejects(applySchema(target, { versions: [FIRST, broken] }), /nonsense/);
    assert.deepEqual(await states(target, [FIRST, SECOND]), ['applied', 'pending']);
    assert.equal(await applySchema(target, { versions: [FIRST, SECOND] }), 1);
  });

  it('waits for the holder of the lock, and takes it over when that one is gone', async (test) => {
    const target = testKeyspace(test);
    await applySchema(target, { versions: [] });
    const client = await testDriver(test, target);
    await client.execute(
      `INSERT INTO schema_lock (name, owner) VALUES ('schema', 'one that died') IF NOT EXISTS USING TTL 3`,
    );
    const said: string[] = [];
    const applying = applySchema(target, { versions: [FIRST], onProgress: (message) => said.push(message) });
    await sleep(1_500);
    assert.deepEqual(said, ['waiting for the migrator that holds the lock: one that died']);
    assert.equal(await applying, 1);
  });

  it('refuses a version that was applied with other statements, and applies none after it', async (test) => {
    const target = testKeyspace(test);
    await applySchema(target, { versions: [FIRST] });
    const changed = version(1, 'CREATE TABLE IF NOT EXISTS one (b int PRIMARY KEY)');
    await assert.rejects(
      applySchema(target, { versions: [changed, SECOND] }),
      /001-test\.cql is not what was applied here.*new version 003-name\.cql/,
    );
    assert.deepEqual(await states(target, [changed, SECOND]), ['different', 'pending']);
  });

  it('holds current.cql to the sum of the versions', async (test) => {
    const [versions, current] = [testKeyspace(test), testKeyspace(test)];
    await applySchema(versions);
    const statements = splitStatements(readFileSync(join(SCHEMA_DIR, 'current.cql'), 'utf8'));
    await applySchema(current, { versions: [{ number: 1, name: '001-current', statements, checksum: 'current' }] });
    assert.deepEqual(await structure(test, versions), await structure(test, current));
  });

  it('prints what it would apply', () => {
    const printed = printSchema({ keyspace: 'punctual', localDatacenter: 'dc1', replicationFactor: 3 });
    assert.match(printed, /^CREATE KEYSPACE IF NOT EXISTS punctual WITH replication = \{[^}]*'dc1': 3\}/);
    for (const { statements } of loadVersions()) {
      for (const statement of statements) assert.ok(printed.includes(`${statement};\n`), statement);
    }
    assert.doesNotMatch(printed, /\{\{/);
  });
});

describe('a service', () => {
  const open = async (target: SchemaTarget) =>
    openSession(target, {
      telemetry: new RecordingTelemetry(),
      clock: systemClock,
      onConnectFailure: ({ error }) => assert.fail(error),
    });

  it('R079 refuses to start without a keyspace, a schema or its version, and names the command', async (test) => {
    const target = testKeyspace(test);
    const command = new RegExp(`PUNCTUAL_CASSANDRA_KEYSPACE=${target.keyspace} ./scripts/schema apply`);
    await assert.rejects(open(target), (error: Error) => {
      assert.equal(error.name, 'SchemaError');
      assert.match(error.message, /does not exist/);
      assert.match(error.message, command);
      return true;
    });
    await applySchema(target, { versions: [] });
    await assert.rejects(open(target), /holds no schema/);
    await assert.rejects(open(target), command);
  });

  it('starts on its version and on a newer one', async (test) => {
    const target = testKeyspace(test);
    const versions = loadVersions();
    await applySchema(target, { versions });
    await (await open(target)).close();
    const next = { ...FIRST, number: versions.length + 1 };
    await applySchema(target, { versions: [...versions, next] });
    await (await open(target)).close();
  });
});

/** What the server says of a keyspace's tables and types, without their ids and the keyspace's name. */
async function structure(test: TestContext, target: SchemaTarget): Promise<unknown> {
  const client = await testDriver(test, target);
  const select = async (columns: string, table: string): Promise<unknown> => {
    const rows = await rowsOf(client, `SELECT ${columns} FROM system_schema.${table} WHERE keyspace_name = ?`, target);
    return JSON.parse(JSON.stringify(rows));
  };
  return {
    tables: await select('table_name, compaction, gc_grace_seconds, default_time_to_live', 'tables'),
    columns: await select('table_name, column_name, kind, position, clustering_order, type', 'columns'),
    types: await select('type_name, field_names, field_types', 'types'),
  };
}

async function rowsOf(client: Client, query: string, target: SchemaTarget): Promise<unknown[]> {
  const { rows } = await client.execute(query, [target.keyspace], { prepare: true, fetchSize: 5_000 });
  return rows.map((row) => row.keys().map((name) => row.get(name) as unknown));
}

// A keyspace of the test's own on the shared Cassandra.

import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import type { Client } from 'cassandra-driver';
import { applySchema, dropKeyspace, type SchemaTarget } from '../../scripts/migrator/migrator.ts';
import { systemClock } from '../../services/core/runtime/system-clock.ts';
import { createDriver, openSession, type Session } from '../../services/core/storage/session.ts';
import type { Telemetry } from '../../services/core/ports/telemetry.ts';
import { type Cleanup, sharedServers } from './servers.ts';

const silent: Telemetry = { count: () => {}, observe: () => {}, gauge: () => {}, dropGauge: () => {} };

/** Where a keyspace of the test's own would be; it is dropped after the test, whether it was created or not. */
export function testKeyspace(test: Cleanup): SchemaTarget {
  const { cassandraContactPoints, cassandraDataCenter } = sharedServers();
  const target: SchemaTarget = {
    contactPoints: cassandraContactPoints,
    localDatacenter: cassandraDataCenter,
    keyspace: `t_${randomBytes(6).toString('hex')}`,
    replicationFactor: 1,
  };
  test.after(() => dropKeyspace(target));
  return target;
}

/** A session on a keyspace with the whole schema. */
export async function testSession(
  test: Cleanup,
  telemetry = silent,
): Promise<{ session: Session; target: SchemaTarget }> {
  const target = testKeyspace(test);
  await applySchema(target);
  const session = await openSession(target, { telemetry, clock: systemClock });
  test.after(() => session.close());
  return { session, target };
}

/** The bare driver, to look at what was stored. */
export async function testDriver(test: Cleanup, target: SchemaTarget): Promise<Client> {
  const { client } = createDriver(target, { keyspace: target.keyspace });
  await client.connect();
  test.after(() => client.shutdown());
  return client;
}

/** The most tombstones that a read of the table has met. Cassandra counts 1 for a range of rows that has never had any. */
export async function mostTombstonesMet(driver: Client, keyspace: string, table: string): Promise<number> {
  const { rows } = await driver.execute(
    'SELECT count, max FROM system_views.tombstones_per_read WHERE keyspace_name = ? AND table_name = ?',
    [keyspace, table],
    { prepare: true },
  );
  const [row] = rows;
  assert.ok(row !== undefined && Number(row.get('count')) > 0, `no reads of ${keyspace}.${table} were counted`);
  return Number(row.get('max'));
}

// A keyspace of the test's own on the shared Cassandra.

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

// /readyz asks for the schema: a service that is connected to an emptied Cassandra cannot do its work.

import assert from 'node:assert/strict';
import { describe, it, type TestContext } from 'node:test';
import { applySchema, dropKeyspace } from '../../scripts/migrator/migrator.ts';
import { startCluster } from '../support/cluster.ts';
import { createJob, until } from '../support/rest.ts';

interface Readiness {
  readonly ready: boolean;
  readonly checks: readonly { readonly name: string; readonly ok: boolean; readonly detail: string }[];
}

async function readinessOf(url: string): Promise<Readiness & { readonly status: number }> {
  const response = await fetch(`${url}/readyz`);
  return { status: response.status, ...((await response.json()) as Readiness) };
}

describe('/readyz', () => {
  it('is 503 without a schema, naming the command that makes one, and 200 once it is there again', async (test: TestContext) => {
    const cluster = await startCluster(test);
    const urls = cluster.all().map(({ metricsUrl }) => metricsUrl);
    await createJob(cluster.apiUrl, { queue: 'any' });
    for (const url of [cluster.apiUrl, ...urls]) assert.equal((await readinessOf(url)).status, 200, url);

    await dropKeyspace(cluster.keyspace);
    for (const url of [cluster.apiUrl, ...urls]) {
      const { status, ready, checks } = await readinessOf(url);
      assert.deepEqual([status, ready], [503, false], url);
      const cassandra = checks.find(({ name }) => name === 'cassandra');
      assert.equal(cassandra?.ok, false);
      assert.match(cassandra.detail, /\.\/scripts\/schema apply/);
    }

    await applySchema(cluster.keyspace);
    await until('all are ready again', 30_000, async () => {
      const all = await Promise.all(urls.map(readinessOf));
      return all.every(({ ready }) => ready) || undefined;
    });
    await createJob(cluster.apiUrl, { queue: 'any' });
  });
});

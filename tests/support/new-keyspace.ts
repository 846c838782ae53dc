// Everything starts at once where there is no keyspace yet (R079): one schema comes of it, on all three Cassandra nodes, and nothing
// that is written then vanishes with a restart.

import assert from 'node:assert/strict';
import { showProgress, withProgress } from '../../scripts/embedded/progress.ts';
import { applySchema } from '../../scripts/migrator/migrator.ts';
import { loadVersions } from '../../scripts/migrator/versions.ts';
import { startCluster } from './cluster.ts';
import type { Stage } from './faults-stage.ts';
import { createJob, getJob, untilStatus } from './rest.ts';
import { newKeyspace, untilRingIsWhole } from './three-nodes.ts';
import { startWorker } from './worker-process.ts';

const QUEUE = 'first';
const AT_ONCE = 6;
const RUN_WITHIN_MS = 30_000;

export async function assertOneSchema({ nodes, cleanup }: Stage): Promise<void> {
  const keyspace = newKeyspace();
  const servers = { ...nodes.servers, keyspace };
  const each = Array.from({ length: AT_ONCE }, (_, index) => index);
  await Promise.all(each.map(() => assert.rejects(startCluster(cleanup, { servers }), /scripts\/schema apply/)));

  const { cassandraContactPoints: contactPoints, cassandraDataCenter: localDatacenter, replicas } = servers;
  const target = { contactPoints, localDatacenter, keyspace, replicationFactor: replicas };
  const applied = await withProgress(showProgress, 'Making one schema six times at once', () =>
    Promise.all(each.map(() => applySchema(target))),
  );
  assert.deepEqual(
    applied.toSorted((one, other) => one - other),
    [0, 0, 0, 0, 0, loadVersions().length],
  );

  const cluster = await startCluster(cleanup, { apis: 2, dispatchers: 2, reapers: 2, servers });
  startWorker(cleanup, cluster, { queue: QUEUE });
  const first = await createJob(cluster.apiUrl, { queue: QUEUE });
  await untilStatus(cluster.apiUrl, first, 'succeeded', RUN_WITHIN_MS);
  for (const node of nodes.cassandra) {
    await node.process.stop();
    await node.restart();
    await untilRingIsWhole(nodes.servers);
    assert.equal((await getJob(cluster.apiUrl, first)).status, 'succeeded');
    await untilStatus(cluster.apiUrl, await createJob(cluster.apiUrl, { queue: QUEUE }), 'succeeded', RUN_WITHIN_MS);
  }
  await Promise.all(cluster.all().map((service) => service.stop()));
}

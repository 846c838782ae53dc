// One of three Cassandra nodes is dead, and a third of all rows of a keyspace had its only copy there: whatever lies elsewhere
// goes on.

import assert from 'node:assert/strict';
import { types } from 'cassandra-driver';
import { DATA_CENTER } from '../../scripts/embedded/cassandra.ts';
import { createDriver } from '../../services/core/storage/session.ts';
import { type Cluster, startCluster } from './cluster.ts';
import type { Stage } from './faults-stage.ts';
import { type Answer, call, createJob, inParallel, until, untilStatus } from './rest.ts';
import { assertAllSucceed } from './steady-load.ts';
import { type ClusterServers, untilRingIsWhole } from './three-nodes.ts';
import { startWorker } from './worker-process.ts';

const QUEUE = 'one-copy';
const POSTS = 120;
const POSTS_AT_ONCE = 8;
const FOUND_DEAD_WITHIN_MS = 60_000;
const RUN_WITHIN_MS = 30_000;
/** What was refused on its way comes again with the second look, two minutes at most. */
const CAUGHT_UP_WITHIN_MS = 180_000;

/** Kills the last node, and starts it again; what has its copies on all nodes is for others to look at. */
export async function assertTheRestGoesOn({ nodes, cleanup }: Stage): Promise<void> {
  const cluster = await startCluster(cleanup, { servers: nodes.oneCopy });
  const worker = startWorker(cleanup, cluster, { queue: QUEUE });
  await untilStatus(cluster.apiUrl, await createJob(cluster.apiUrl, { queue: QUEUE }), 'succeeded', RUN_WITHIN_MS);
  const [victim, ...survivors] = nodes.cassandra.toReversed();
  await victim!.process.kill('SIGKILL');
  for (const { contactPoint } of survivors) await untilFoundDead(nodes.servers, contactPoint);

  const plain = await postJobs(cluster, () => ({ queue: QUEUE }));
  const keyed = await postJobs(cluster, (index) => ({ queue: QUEUE, idempotency_key: `order-${index}` }));
  for (const answer of [...plain, ...keyed]) assertTakenOrPutOff(answer);
  const [taken, keyedTaken] = [idsOf(plain), idsOf(keyed)];
  console.log(`  of ${POSTS} creates without a key ${taken.length} are accepted, with one ${keyedTaken.length}`);
  // A place has both of a job's rows alive with 4/9, and three are tried: 83 of 100. A keyed job has one place, and a third row.
  assert.ok(taken.length > POSTS / 2, `${taken.length} of ${POSTS} jobs without a key`);
  assert.ok(keyedTaken.length > 0 && keyedTaken.length < taken.length, `${keyedTaken.length} of ${POSTS} keyed jobs`);

  const accepted = new Set([...taken, ...keyedTaken]);
  await until('most of what was accepted has run', RUN_WITHIN_MS, async () => {
    const ran = worker.events.filter(({ event, job_id: jobId }) => event === 'finish' && accepted.has(jobId));
    return ran.length > accepted.size / 2 || undefined;
  });

  await victim!.restart();
  await untilRingIsWhole(nodes.servers);
  const again = await postJobs(cluster, (index) => ({ queue: QUEUE, idempotency_key: `order-${index}` }));
  for (const [index, { status, body }] of again.entries()) {
    const first = keyed[index]!;
    assert.equal(status, first.status === 201 ? 200 : 201, JSON.stringify(body));
    if (first.status === 201) assert.equal(body.job_id, first.body.job_id);
  }
  await assertAllSucceed(cluster.apiUrl, [...accepted, ...idsOf(again)], CAUGHT_UP_WITHIN_MS);
}

function postJobs({ apiUrl }: Cluster, jobOf: (index: number) => object): Promise<readonly Answer[]> {
  const indexes = Array.from({ length: POSTS }, (_, index) => index);
  return inParallel(indexes, POSTS_AT_ONCE, (index) => call('POST', `${apiUrl}/jobs`, jobOf(index)));
}

function idsOf(answers: readonly Answer[]): readonly string[] {
  return answers.filter(({ status }) => status === 201).map(({ body }) => body.job_id);
}

function assertTakenOrPutOff({ status, headers, body }: Answer): void {
  if (status === 201) return;
  assert.equal(status, 503, JSON.stringify(body));
  assert.ok(Number(headers.get('retry-after')) > 0, 'it says when to come again');
}

/** Before a node has found out about another, its requests wait for that one, and nobody knows what became of them. */
async function untilFoundDead({ keyspace = '' }: ClusterServers, contactPoint: string): Promise<void> {
  await until(`${contactPoint} has found the node dead`, FOUND_DEAD_WITHIN_MS, async () => {
    const { client } = createDriver({ contactPoints: [contactPoint], localDatacenter: DATA_CENTER });
    try {
      await client.connect();
      const consistency = types.consistencies.all;
      await client.execute(`SELECT * FROM ${keyspace}.schema_migrations WHERE scope = 'cassandra'`, [], {
        consistency,
      });
      return undefined;
    } catch (error) {
      return (error as { code?: unknown }).code === types.responseErrorCodes.unavailableException || undefined;
    } finally {
      await client.shutdown();
    }
  });
}

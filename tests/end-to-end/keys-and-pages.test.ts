// One key, one job; one minute, all its jobs.

import assert from 'node:assert/strict';
import { describe, it, type TestContext } from 'node:test';
import { mostTombstonesMet, testDriver } from '../support/cassandra.ts';
import { startCluster } from '../support/cluster.ts';
import { call, getJob, inParallel, until, untilStatus } from '../support/rest.ts';
import { startWorker } from '../support/worker-process.ts';

describe('idempotency keys', () => {
  it('R049 50 parallel POSTs with one key over two api processes: one job, 50 equal answers; other content 422', async (test: TestContext) => {
    const cluster = await startCluster(test, { apis: 2 });
    const post = (index: number, payload: unknown): ReturnType<typeof call> =>
      call(
        'POST',
        `${cluster.apis[index % 2]?.url}/jobs`,
        { queue: 'keyed', delay_s: 600, payload },
        { 'idempotency-key': 'order-4711' },
      );
    const answers = await Promise.all(Array.from({ length: 50 }, (_, index) => post(index, { order: 4711 })));
    assert.ok(answers.every((answer) => answer.status === 200 || answer.status === 201));
    const bodies = new Set(answers.map((answer) => JSON.stringify(answer.body)));
    assert.equal(bodies.size, 1, [...bodies].slice(0, 2).join('\n'));
    for (const answer of answers) {
      assert.equal(answer.headers.get('idempotency-replayed'), answer.status === 200 ? 'true' : null);
    }
    const other = await post(0, { order: 4712 });
    assert.deepEqual([other.status, other.body.code], [422, 'idempotency_key_reused']);
    const found = await call('GET', `${cluster.apiUrl}/jobs?idempotency_key=order-4711`);
    assert.equal(found.body.job_id, answers[0]?.body.job_id);
  });
});

/** Enough to create them all ahead of their time. */
const CROWD_LEAD_MS = 25_000;
const BATCH_JOBS = 500;

describe('one minute of one shard', () => {
  it('R081 12,001 jobs due in one (shard, minute): all start, once each, and R077 leave no rows’ tombstones behind', async (test: TestContext) => {
    const count = 12_001;
    const cluster = await startCluster(test, { environment: { PUNCTUAL_WRITE_SHARDS: '1' } });
    const worker = startWorker(test, cluster, { queue: 'crowd', concurrency: 100 });
    const runAt = new Date(Math.ceil((Date.now() + CROWD_LEAD_MS) / 1_000) * 1_000).toISOString();
    const jobs = Array.from({ length: count }, () => ({ queue: 'crowd', run_at: runAt }));
    const batches = Array.from({ length: Math.ceil(count / BATCH_JOBS) }, (_, index) =>
      jobs.slice(index * BATCH_JOBS, (index + 1) * BATCH_JOBS),
    );
    const answers = await inParallel(batches, 4, async (batch) => {
      const { body } = await call('POST', `${cluster.apiUrl}/jobs/batch`, { jobs: batch });
      return body.results.map(({ status, job_id: jobId }) => {
        assert.equal(status, 201);
        return jobId;
      });
    });
    const ids = answers.flat();
    assert.ok(Date.now() < Date.parse(runAt), 'the jobs were not all posted ahead of their time');
    const starts = (): string[] =>
      worker.events.filter((event) => event.event === 'start').map((event) => event.job_id);
    await until(`${count} starts`, 200_000, () => Promise.resolve(starts().length >= count || undefined));
    assert.equal(new Set(starts()).size, count);
    assert.equal(starts().length, count);
    assert.deepEqual(new Set(starts()), new Set(ids));
    await untilStatus(cluster.apiUrl, ids.at(-1) ?? '', 'succeeded', 10_000);
    const sample = await inParallel(
      ids.filter((_, index) => index % 100 === 0),
      20,
      (id) => getJob(cluster.apiUrl, id),
    );
    assert.ok(sample.every((job) => job.attempts.length === 1));
    const driver = await testDriver(test, cluster.keyspace);
    const { keyspace } = cluster.keyspace;
    assert.ok((await mostTombstonesMet(driver, keyspace, 'due')) <= 1, 'reads of due rows meet tombstones');
    assert.ok((await mostTombstonesMet(driver, keyspace, 'deadlines')) <= 1, 'reads of deadline rows meet tombstones');
    for (const service of cluster.all()) {
      const peak = service.peakRssMb();
      test.diagnostic(`${service.name}: ${peak.toFixed()} MB`);
      assert.ok(peak < 400, `${service.name} reached ${peak.toFixed()} MB`);
    }
  });
});

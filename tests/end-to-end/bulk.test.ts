// Dead letters in bulk, on real processes: what dies in the middle leaves nothing undone and does nothing twice.

import assert from 'node:assert/strict';
import { describe, it, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { PunctualClient } from '../../services/client/client.ts';
import { startCluster } from '../support/cluster.ts';
import { getJob, inParallel, until } from '../support/rest.ts';

/** Set for a longer run by hand. */
const JOBS = Number(process.env.BULK_JOBS ?? 500);
const RATE_PER_S = Math.max(50, JOBS / 20);
const QUEUE = 'mortal';
const BATCH = 500;

async function createAll(client: PunctualClient): Promise<readonly string[]> {
  const ids: string[] = [];
  for (let start = 0; start < JOBS; start += BATCH) {
    const jobs = Array.from({ length: Math.min(BATCH, JOBS - start) }, (_, index) => ({
      queue: QUEUE,
      payload: { index: start + index },
      max_attempts: 1,
      labels: { customer: (start + index) % 4 === 0 ? 'other' : 'ours' },
    }));
    const results = await client.createJobs(jobs);
    ids.push(...results.map((result) => (result.ok ? result.value.job_id : assert.fail(result.error.message))));
  }
  return ids;
}

/** Takes jobs and lets each fail for good, until so many did. */
async function failAll(client: PunctualClient, count: number): Promise<void> {
  let failed = 0;
  while (failed < count) {
    const leases = await Promise.all(
      [1, 2, 3, 4].map((index) => client.lease(QUEUE, { worker: `w${index}`, max: 100, wait_s: 2 })),
    );
    for (const jobs of leases.filter((each) => each.length > 0)) {
      const reports = jobs.map(
        ({ job_id, attempt }) => ({ job_id, attempt, ok: false, error: 'the relay answered 451' }) as const,
      );
      const results = await client.completeJobs(reports);
      failed += results.filter((result) => result.ok).length;
    }
  }
}

describe('dead letters', () => {
  it('replayed by filter while the reaper is killed -9: each exactly once', async (test: TestContext) => {
    const cluster = await startCluster(test);
    const client = new PunctualClient({ apiUrl: cluster.apiUrl, timeoutMs: 60_000 });
    const ids = await createAll(client);
    const from = new Date(Date.now() - 60_000).toISOString();
    await failAll(client, JOBS);
    const to = new Date(Date.now() + 3_600_000).toISOString();
    const filter = { queue: QUEUE, from, to, label: 'customer=ours', error: 'answered 451' };
    const ours = (index: number): boolean => index % 4 !== 0;
    const expected = ids.filter((_, index) => ours(index)).length;

    assert.equal((await client.dryRun({ verb: 'replay', filter })).matched, expected);
    const { operation_id: operationId } = await client.startOperation({
      verb: 'replay',
      filter,
      rate_per_s: RATE_PER_S,
    });

    // What is replayed dies again: were the operation to meet it once more, it would be replayed once more.
    const failing = failAll(client, expected);
    const [reaper] = cluster.reapers;
    for (const part of [0.2, 0.5]) {
      await until('a part of it', 60_000, async () =>
        (await client.getOperation(operationId)).changed >= expected * part ? true : undefined,
      );
      await reaper?.kill();
      await sleep(1_000);
      await reaper?.restart();
    }
    const done = await until('the end of the operation', 120_000, async () => {
      const operation = await client.getOperation(operationId);
      return operation.status === 'done' ? operation : undefined;
    });
    assert.deepEqual([done.changed, done.failed], [expected, 0]);
    await failing;
    await sleep(2_000);
    const attempts = await inParallel(ids, 16, async (id) => {
      const job = await getJob(cluster.apiUrl, id);
      assert.equal(job.status, 'dead');
      return job.attempts.length;
    });
    assert.deepEqual(
      attempts,
      ids.map((_, index) => (ours(index) ? 2 : 1)),
    );
    test.diagnostic(`${expected} of ${JOBS} dead jobs replayed at ${RATE_PER_S}/s`);
  });
});

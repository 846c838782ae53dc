// Jobs that are over, or wait elsewhere, are not counted as ready, though no worker ever asks for their messages.

import assert from 'node:assert/strict';
import { describe, it, type TestContext } from 'node:test';
import { PunctualClient } from '../../services/client/client.ts';
import { startCluster } from '../support/cluster.ts';
import { call, inParallel, until } from '../support/rest.ts';

/** Set for a longer run by hand. */
const JOBS = Number(process.env.STALE_JOBS ?? 1_000);
const BATCH = 500;
const QUEUE = 'idle';
const WITHIN_MS = 20_000 + JOBS / 2;

async function createAll(client: PunctualClient, count: number): Promise<readonly string[]> {
  const ids: string[] = [];
  while (ids.length < count) {
    const jobs = Array.from({ length: Math.min(BATCH, count - ids.length) }, () => ({ queue: QUEUE }));
    const results = await client.createJobs(jobs);
    ids.push(...results.map((result) => (result.ok ? result.value.job_id : assert.fail(result.error.message))));
  }
  return ids;
}

/** Waits until so many are counted as ready and as held; returns how long that took. */
async function countsBecome(
  client: PunctualClient,
  expected: { readonly ready: number; readonly held: number },
  withinMs = WITHIN_MS,
): Promise<number> {
  const startedAt = performance.now();
  await until(`${QUEUE} ${JSON.stringify(expected)}`, withinMs, async () => {
    const { ready, held } = (await client.getQueue(QUEUE)).counts;
    const sum = Object.values(ready ?? {}).reduce((jobs, more) => jobs + more, 0);
    return sum === expected.ready && held === expected.held ? true : undefined;
  });
  return performance.now() - startedAt;
}

describe('in a queue without workers', () => {
  it('cancelled jobs are no longer ready, one by one or in bulk, and make room for others', async (test: TestContext) => {
    const cluster = await startCluster(test);
    const client = new PunctualClient({ apiUrl: cluster.apiUrl, timeoutMs: 60_000 });
    let created = JOBS;
    const create = async (): Promise<number> => {
      const { status } = await call('POST', `${cluster.apiUrl}/jobs`, { queue: QUEUE });
      if (status === 201) created += 1;
      return status;
    };
    await client.setQueue(QUEUE, { max_waiting: JOBS });
    const from = new Date(Date.now() - 60_000).toISOString();
    const ids = await createAll(client, JOBS);
    await countsBecome(client, { ready: JOBS, held: 0 });
    // How many wait is known a moment later, and one or two more may be let in.
    await until('the queue takes no more', 10_000, async () => ((await create()) === 429 ? true : undefined));

    const single = ids.slice(0, 100);
    await inParallel(single, 16, (jobId) => client.cancelJob(jobId));
    const afterSingleMs = await countsBecome(client, { ready: created - single.length, held: 0 });
    await until('the queue takes one more', 5_000, async () => ((await create()) === 201 ? true : undefined));

    const to = new Date(Date.now() + 60_000).toISOString();
    const { operation_id: operationId } = await client.startOperation({
      verb: 'cancel',
      filter: { queue: QUEUE, from, to },
      rate_per_s: 1_000,
    });
    await until('the end of the operation', 60_000 + JOBS * 2, async () => {
      const { status, changed } = await client.getOperation(operationId);
      return status === 'done' && changed === created - single.length ? true : undefined;
    });
    const afterBulkMs = await countsBecome(client, { ready: 0, held: 0 });
    assert.equal((await client.getQueue(QUEUE)).counts.oldest_ready_age_s, null);
    assert.equal(await create(), 201);
    test.diagnostic(
      `${JOBS} jobs: ready is right ${afterSingleMs.toFixed(0)} ms after ${single.length} calls, ` +
        `${afterBulkMs.toFixed(0)} ms after the operation was seen to end`,
    );
  });

  it('a job that is taken back because of a pause is held, and not ready as well', async (test: TestContext) => {
    const cluster = await startCluster(test);
    const client = new PunctualClient({ apiUrl: cluster.apiUrl });
    const ids = await createAll(client, 20);
    await countsBecome(client, { ready: ids.length, held: 0 });
    await client.pauseQueue(QUEUE);
    // By workers whose messages are lost to them: those stay in the stream.
    const claimed = await client.claimJobs(
      ids.map((jobId) => ({ job_id: jobId, attempt: 1 })),
      'w',
    );
    assert.ok(claimed.every((result) => !result.ok && result.error.code === 'queue_paused'));
    await countsBecome(client, { ready: 0, held: ids.length });
    await client.resumeQueue(QUEUE);
    await countsBecome(client, { ready: ids.length, held: 0 });
    const leased = await client.lease(QUEUE, { worker: 'w', max: 100, wait_s: 5 });
    assert.deepEqual(leased.map(({ job_id: jobId }) => jobId).sort(), [...ids].sort());
  });
});

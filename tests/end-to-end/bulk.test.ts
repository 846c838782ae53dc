// Dead letters in bulk, on real processes: what dies in the middle leaves nothing undone and does nothing twice.

import assert from 'node:assert/strict';
import { describe, it, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { PunctualClient } from '../../services/client/client.ts';
import type { DeadLetterFilter } from '../../services/client/types.ts';
import { startCluster } from '../support/cluster.ts';
import { until } from '../support/rest.ts';

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
  const failSome = async (worker: string): Promise<void> => {
    while (failed < count) {
      const jobs = await client.lease(QUEUE, { worker, max: 100, wait_s: 2 });
      if (jobs.length === 0) continue;
      const error = 'the relay answered 451';
      const reports = jobs.map(({ job_id, attempt }) => ({ job_id, attempt, ok: false, error }) as const);
      const results = await client.completeJobs(reports);
      failed += results.filter((result) => result.ok).length;
    }
  };
  await Promise.all(['w1', 'w2', 'w3', 'w4'].map(failSome));
}

async function attemptsOfDead(client: PunctualClient, window: DeadLetterFilter): Promise<ReadonlyMap<string, number>> {
  const attempts = new Map<string, number>();
  let token: string | null = null;
  do {
    const more: { page_token?: string } = token === null ? {} : { page_token: token };
    const page = await client.listDeadLetters({ ...window, page_size: 500, ...more });
    for (const letter of page.dead_letters) attempts.set(letter.job_id, letter.attempts.length);
    token = page.next_page_token;
  } while (token !== null);
  return attempts;
}

/** Two jobs that wait, a third that waited; one that runs and one that could. */
async function fillOthers(client: PunctualClient): Promise<void> {
  await client.createJob({ queue: 'later', delay_s: 86_400 });
  await client.createJob({ queue: 'later', delay_s: 1_800 });
  await client.cancelJob((await client.createJob({ queue: 'later', delay_s: 7_200 })).job_id);
  await client.createJob({ queue: 'busy', lease_s: 900, timeout_s: 900 });
  assert.equal((await client.lease('busy', { worker: 'w', max: 1, wait_s: 10 })).length, 1);
  await client.createJob({ queue: 'busy' });
}

interface Counts {
  readonly waiting: number;
  readonly ready: number;
  readonly running: number;
  readonly dead: number;
}

async function countsBecome(client: PunctualClient, queue: string, expected: Counts): Promise<void> {
  await until(`${queue} ${JSON.stringify(expected)}`, 40_000, async () => {
    const { waiting, ready, running, dead } = (await client.getQueue(queue)).counts;
    const found = { waiting, ready: Object.values(ready ?? {}).reduce((sum, jobs) => sum + jobs, 0), running, dead };
    return isDeepStrictEqual(found, expected) ? true : undefined;
  });
}

describe('dead letters', () => {
  it('replayed by filter while the reaper is killed -9: each exactly once', async (test: TestContext) => {
    const cluster = await startCluster(test);
    const client = new PunctualClient({ apiUrl: cluster.apiUrl, timeoutMs: 60_000 });
    await fillOthers(client);
    const ids = await createAll(client);
    const from = new Date(Date.now() - 60_000).toISOString();
    await failAll(client, JOBS);
    const to = new Date(Date.now() + 3_600_000).toISOString();
    const filter = { queue: QUEUE, from, to, label: 'customer=ours', error: 'answered 451' };
    const ours = (index: number): boolean => index % 4 !== 0;
    const expected = ids.filter((_, index) => ours(index)).length;

    // A dry run stops counting after some seconds.
    const { matched, complete } = await client.dryRun({ verb: 'replay', filter });
    assert.ok(complete ? matched === expected : matched < expected, `${matched} of ${expected}`);
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
    // All are dead again, and each letter tells its job's attempts.
    const attempts = await attemptsOfDead(client, { queue: QUEUE, from, to });
    assert.deepEqual(
      ids.map((id) => attempts.get(id)),
      ids.map((_, index) => (ours(index) ? 2 : 1)),
    );
    // Nothing moves any more: within a census the counters of the queues are exact.
    await countsBecome(client, QUEUE, { waiting: 0, ready: 0, running: 0, dead: JOBS });
    await countsBecome(client, 'later', { waiting: 2, ready: 0, running: 0, dead: 0 });
    await countsBecome(client, 'busy', { waiting: 0, ready: 1, running: 1, dead: 0 });
    // None of them was ever configured; the jobs of the third all wait for later.
    const { queues } = await client.listQueues();
    assert.deepEqual(
      queues.map(({ queue, revision, counts }) => [queue, revision, counts.dead]),
      [
        ['busy', 0, 0],
        [QUEUE, 0, JOBS],
      ],
    );
    test.diagnostic(`${expected} of ${JOBS} dead jobs replayed at ${RATE_PER_S}/s`);
  });

  it('gives each job the payload and the queue of the operation, once, also across kills of the reaper', async (test: TestContext) => {
    const cluster = await startCluster(test);
    const client = new PunctualClient({ apiUrl: cluster.apiUrl, timeoutMs: 60_000 });
    const ids = await createAll(client);
    const from = new Date(Date.now() - 60_000).toISOString();
    await failAll(client, JOBS);
    const filter = { queue: QUEUE, from, to: new Date(Date.now() + 3_600_000).toISOString() };
    const change = { queue: 'mended', payload: { relay: 'second' } };
    const wanted = { verb: 'replay', filter, ...change, rate_per_s: RATE_PER_S } as const;
    const { operation_id: operationId } = await client.startOperation(wanted);

    const received: string[] = [];
    const working = (async (): Promise<void> => {
      while (received.length < JOBS) {
        const jobs = await client.lease('mended', { worker: 'w', max: 100, wait_s: 2 });
        for (const { payload } of jobs) assert.deepEqual(payload, change.payload);
        received.push(...jobs.map(({ job_id }) => job_id));
        if (jobs.length > 0)
          await client.completeJobs(jobs.map(({ job_id, attempt }) => ({ job_id, attempt, ok: true })));
      }
    })();
    const [reaper] = cluster.reapers;
    await until('a part of it', 60_000, async () =>
      (await client.getOperation(operationId)).changed >= JOBS * 0.3 ? true : undefined,
    );
    await reaper?.kill();
    await sleep(1_000);
    await reaper?.restart();
    const done = await until('the end of the operation', 120_000, async () => {
      const operation = await client.getOperation(operationId);
      return operation.status === 'done' ? operation : undefined;
    });
    assert.partialDeepStrictEqual(done, { changed: JOBS, failed: 0, ...change });
    await working;
    assert.deepEqual(received.toSorted(), ids.toSorted());
    await sleep(2_000);
    assert.deepEqual(await client.lease('mended', { worker: 'w', max: 1, wait_s: 1 }), []);
    assert.deepEqual(await client.lease(QUEUE, { worker: 'w', max: 1, wait_s: 1 }), []);
  });
});

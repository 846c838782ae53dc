// A queue with max_running on real processes: never more than so many at once, whoever dies.

import assert from 'node:assert/strict';
import { describe, it, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { PunctualClient } from '../../services/client/client.ts';
import type { ClaimedJob, Job } from '../../services/client/types.ts';
import { startCluster } from '../support/cluster.ts';
import { inParallel, until } from '../support/rest.ts';
import { startWorker } from '../support/worker-process.ts';

const JOBS = 200;
const MAX_RUNNING = 3;
const QUEUE = 'narrow';

/** How many attempts ran at the same time, at the most, by the history of their jobs. */
function mostAtOnce(jobs: readonly Job[]): number {
  const attempts = jobs.flatMap(({ attempts: all }) => all);
  const moments = attempts.flatMap(({ started_at: startedAt, ended_at: endedAt }) => [
    { at: startedAt === null ? 0 : Date.parse(startedAt), step: 1 },
    { at: endedAt === null ? Infinity : Date.parse(endedAt), step: -1 },
  ]);
  // What ends in the millisecond in which another starts has made room for it.
  moments.sort((one, other) => one.at - other.at || one.step - other.step);
  let running = 0;
  let most = 0;
  for (const { step } of moments) {
    running += step;
    most = Math.max(most, running);
  }
  return most;
}

describe('a queue with max_running', () => {
  it('never runs more at once, with two of four workers and a dispatcher killed, and all are done', async (test: TestContext) => {
    const cluster = await startCluster(test, { dispatchers: 2 });
    const client = new PunctualClient({ apiUrl: cluster.apiUrl });
    await client.setQueue(QUEUE, { max_running: MAX_RUNNING });
    const workers = [1, 2, 3, 4].map((index) => startWorker(test, cluster, { queue: QUEUE, name: `w${index}` }));
    const results = await client.createJobs(
      Array.from({ length: JOBS }, () => ({ queue: QUEUE, payload: { work_ms: 50 }, lease_s: 5 })),
    );
    const ids = results.map((result) => (result.ok ? result.value.job_id : assert.fail(result.error.message)));
    const startedBy = (some: typeof workers): number =>
      some.reduce((sum, { events }) => sum + events.filter(({ event }) => event === 'start').length, 0);
    for (const [index, count] of [30, 60].entries()) {
      await until(`${count} starts`, 60_000, async () => (startedBy(workers) >= count ? true : undefined));
      await workers[index]?.kill();
    }
    await cluster.dispatchers[0]?.kill();
    await until('all done', 120_000, async () => {
      const { counts } = await client.getQueue(QUEUE);
      const finished = startedBy(workers) >= JOBS && counts.running === 0;
      return finished && (await lastDone(client, ids)) ? true : undefined;
    });
    const jobs = await inParallel(ids, 16, (id) => client.getJob(id));
    assert.deepEqual([...new Set(jobs.map(({ status }) => status))], ['succeeded']);
    const most = mostAtOnce(jobs);
    assert.ok(most <= MAX_RUNNING, `${most} ran at once`);
    assert.equal(most, MAX_RUNNING);
    const attempts = jobs.reduce((sum, job) => sum + job.attempts.length, 0);
    test.diagnostic(`${JOBS} jobs in ${attempts} attempts, ${most} at once at the most`);
  });
});

describe('a queue that is given max_running while its jobs run', () => {
  it('starts nothing within seconds, until fewer run', async (test: TestContext) => {
    const cluster = await startCluster(test, { dispatchers: 2 });
    const client = new PunctualClient({ apiUrl: cluster.apiUrl });
    const create = (count: number) =>
      client.createJobs(Array.from({ length: count }, () => ({ queue: QUEUE, lease_s: 120, timeout_s: 120 })));
    const start = (wait_s: number) => client.lease(QUEUE, { worker: 'w', max: 100, wait_s });
    await create(5);
    const running: ClaimedJob[] = [];
    await until('all run', 20_000, async () => {
      running.push(...(await start(2)));
      return running.length === 5 ? true : undefined;
    });
    await client.setQueue(QUEUE, { max_running: 2 });
    await sleep(15_000);
    await create(4);
    const complete = async ({ job_id, attempt }: ClaimedJob): Promise<void> => {
      const [result] = await client.completeJobs([{ job_id, attempt, ok: true }]);
      assert.ok(result?.ok);
    };
    assert.deepEqual(await start(8), []);
    for (const job of running.splice(0, 3)) await complete(job);
    assert.deepEqual(await start(5), []);
    for (const job of running.splice(0, 1)) await complete(job);
    await until('one more', 20_000, async () => {
      running.push(...(await start(5)));
      return running.length === 2 ? true : undefined;
    });
    assert.deepEqual(await start(5), []);
  });
});

async function lastDone(client: PunctualClient, ids: readonly string[]): Promise<boolean> {
  for (const id of ids.toReversed()) if ((await client.getJob(id)).finished_at === null) return false;
  return true;
}

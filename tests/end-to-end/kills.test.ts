// kill -9 of everything that can die, under load: every 201 ends succeeded.

import assert from 'node:assert/strict';
import { describe, it, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { type ServiceProcess, startCluster } from '../support/cluster.ts';
import { call, createJob, getJob, until, untilStatus } from '../support/rest.ts';
import { assertAllSucceed, postSteadily } from '../support/steady-load.ts';
import { startLagsMs, startWorker } from '../support/worker-process.ts';

const JOBS_PER_S = 100;
/** Where lag is judged: all of the cluster, its worker and this test share two cores, and a backlog is no takeover. */
const JOBS_PER_S_FOR_LAG = 30;

describe('kill -9', () => {
  it('of a worker in mid-job: the next attempt runs within lease + 3 s, the old report gets 409', async (test: TestContext) => {
    const cluster = await startCluster(test);
    const api = cluster.apiUrl;
    const first = startWorker(test, cluster, { queue: 'mortal', name: 'first' });
    await untilStatus(api, await createJob(api, { queue: 'mortal' }), 'succeeded', 10_000);

    const id = await createJob(api, { queue: 'mortal', lease_s: 5, payload: { work_ms: 4_000 } });
    await untilStatus(api, id, 'running', 3_000);
    await first.kill();
    const killedAt = Date.now();
    startWorker(test, cluster, { queue: 'mortal', name: 'second' });
    const again = await until('a second attempt', 10_000, async () => {
      const job = await getJob(api, id);
      return job.attempts.length === 2 ? job : undefined;
    });
    const second = again.attempts[1];
    const waitedMs = Date.parse(second?.started_at ?? '') - killedAt;
    assert.ok(waitedMs <= 5_000 + 3_000, `the second attempt came after ${waitedMs} ms`);
    assert.equal(second?.worker, 'second');

    const late = await call('POST', `${api}/jobs/${id}/complete`, { attempt: 1, ok: true });
    assert.deepEqual([late.status, late.body.code], [409, 'lease_lost']);
    const job = await untilStatus(api, id, 'succeeded', 10_000);
    assert.deepEqual(
      job.attempts.map((attempt) => attempt.outcome),
      ['lease_expired', 'succeeded'],
    );
  });

  it('of dispatcher, reaper and api, one at a time and together, under 100 jobs/s: every 201 succeeds', async (test: TestContext) => {
    const cluster = await startCluster(test, { apis: 2 });
    const [api, other] = cluster.apis as [ServiceProcess, ServiceProcess];
    const worker = startWorker(test, cluster, { queue: 'steady' });
    await untilStatus(api.url, await createJob(api.url, { queue: 'steady' }), 'succeeded', 10_000);
    const load = postSteadily(cluster, { queue: 'steady', jobsPerS: JOBS_PER_S });
    await sleep(2_000);
    const victims = [...cluster.dispatchers, ...cluster.reapers, other];
    for (const service of victims) {
      await service.kill();
      await sleep(1_000);
      await service.restart();
      await sleep(1_500);
    }
    await Promise.all(victims.map((service) => service.kill()));
    await sleep(500);
    await Promise.all(victims.map((service) => service.restart()));
    await sleep(2_000);
    await load.stop();
    assert.ok(load.accepted.length > 500, `only ${load.accepted.length} jobs were accepted`);
    // A job born enqueued whose api died before it was published waits for the second look, two minutes at most.
    await assertAllSucceed(api.url, load.accepted, 150_000);
    const starts = new Set(worker.events.filter((event) => event.event === 'start').map((event) => event.job_id));
    for (const id of load.accepted) assert.ok(starts.has(id));
    for (const service of cluster.all()) {
      const peak = service.peakRssMb();
      test.diagnostic(`${service.name}: ${peak.toFixed()} MB`);
      assert.ok(peak < 400, `${service.name} reached ${peak.toFixed()} MB`);
    }
  });

  it('of one of two dispatchers: the other takes over by itself, lag stays under 10 s', async (test: TestContext) => {
    const cluster = await startCluster(test, { dispatchers: 2 });
    const api = cluster.apiUrl;
    const worker = startWorker(test, cluster, { queue: 'steady' });
    await untilStatus(api, await createJob(api, { queue: 'steady' }), 'succeeded', 10_000);
    const load = postSteadily(cluster, { queue: 'steady', jobsPerS: JOBS_PER_S_FOR_LAG });
    await sleep(2_000);
    await cluster.dispatchers[0]?.kill();
    await sleep(15_000);
    await load.stop();
    await assertAllSucceed(api, load.accepted, 30_000);
    const lags = startLagsMs(worker.events);
    test.diagnostic(`start lag ms: p50 ${lags[lags.length >> 1]}, max ${lags.at(-1)}`);
    assert.ok((lags.at(-1) ?? 0) < 10_000, `the longest start lag was ${lags.at(-1)} ms`);
  });
});

// NATS loses everything and comes back empty: jobs are late, never lost, and nobody has to do anything.

import assert from 'node:assert/strict';
import { describe, it, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { startCluster } from '../support/cluster.ts';
import { call, createJob, inParallel, untilStatus } from '../support/rest.ts';
import { startPrivateNats } from '../support/servers.ts';
import { assertAllSucceed, postSteadily } from '../support/steady-load.ts';
import { startWorker } from '../support/worker-process.ts';

const JOBS_PER_S = 40;
const WAITING_JOBS = 200;

describe('a nats-server that was killed and comes back empty', () => {
  it('after 30 s under load: POST stays 201, and every job succeeds within 180 s of its start', async (test: TestContext) => {
    const nats = await startPrivateNats(test);
    const cluster = await startCluster(test, { natsServers: [nats.contactPoint] });
    const [api] = cluster.apis;
    assert.ok(api);
    startWorker(test, cluster, { queue: 'steady' });
    await untilStatus(api.url, await createJob(api.url, { queue: 'steady' }), 'succeeded', 10_000);

    // Enqueued and published, and nobody works them before the messages are gone.
    const waiting = await inParallel(Array.from({ length: WAITING_JOBS }), 20, () =>
      createJob(api.url, { queue: 'waiting', delay_s: 1 }),
    );
    const load = postSteadily(cluster, { queue: 'steady', jobsPerS: JOBS_PER_S });
    await sleep(5_000);
    await nats.process.kill('SIGKILL');
    nats.wipe();
    await sleep(3_000);
    const lease = await call('POST', `${api.url}/queues/steady/lease`, { worker: 'x', max: 1, wait_s: 0 });
    assert.deepEqual([lease.status, lease.body.code], [503, 'ready_stream_unavailable']);
    assert.equal((await fetch(`${api.url}/readyz`)).status, 200);
    await sleep(27_000);

    await nats.restart();
    const backAt = Date.now();
    startWorker(test, cluster, { queue: 'waiting' });
    await sleep(5_000);
    await load.stop();
    assert.deepEqual([...load.refused], [], 'every POST was answered with 201');
    const all = [...load.accepted, ...waiting];
    assert.ok(all.length > 1_000, `only ${all.length} jobs were accepted`);
    await assertAllSucceed(api.url, all, 180_000 - (Date.now() - backAt));
    test.diagnostic(`${all.length} jobs had succeeded ${((Date.now() - backAt) / 1_000).toFixed()} s after the start`);
  });
});

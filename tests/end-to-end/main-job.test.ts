// The main job, from POST to its end, on real processes: what the README promises first.

import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import { type Cluster, startCluster } from '../support/cluster.ts';
import { call, createJob, getJob, inParallel, until, untilStatus } from '../support/rest.ts';
import { suiteCleanup } from '../support/suite-cleanup.ts';
import { startWorker, type WorkerProcess } from '../support/worker-process.ts';

describe('the main job', () => {
  const cleanup = suiteCleanup();
  let cluster: Cluster;
  let worker: WorkerProcess;
  let api: string;

  before(async () => {
    cluster = await startCluster(cleanup);
    api = cluster.apiUrl;
    worker = startWorker(cleanup, cluster, { queue: 'main' });
    // The first job warms everything up, so that the times below are those of a service at work.
    await untilStatus(api, await createJob(api, { queue: 'main' }), 'succeeded', 10_000);
  });

  it('runs a job due now, and keeps its history', async () => {
    const { status, headers, body } = await call('POST', `${api}/jobs`, { queue: 'main', payload: { n: 1 } });
    assert.equal(status, 201);
    assert.equal(headers.get('location'), `/jobs/${body.job_id}`);
    const job = await untilStatus(api, body.job_id, 'succeeded', 3_000);
    assert.deepEqual(job.payload, { n: 1 });
    assert.equal(job.attempts.length, 1);
    assert.equal(job.attempts[0]?.outcome, 'succeeded');
    assert.equal(job.attempts[0].worker, 'worker');
  });

  it('runs a job after its delay and one at its time, never before', async () => {
    const runAt = new Date(Date.now() + 3_000).toISOString();
    const ids = [
      await createJob(api, { queue: 'main', delay_s: 1 }),
      await createJob(api, { queue: 'main', run_at: runAt }),
    ];
    for (const id of ids) {
      const job = await untilStatus(api, id, 'succeeded', 6_000);
      const lagMs = Date.parse(job.attempts[0]?.started_at ?? '') - Date.parse(job.scheduled_for);
      assert.ok(lagMs >= 0 && lagMs < 1_000, `start lag ${lagMs} ms`);
    }
  });

  it('retries a failing job with backoff until it succeeds', async () => {
    const id = await createJob(api, {
      queue: 'main',
      payload: { fail_until_attempt: 3 },
      retry: { kind: 'exponential', base_s: 1, factor: 2, cap_s: 10, jitter: 'none' },
    });
    const job = await untilStatus(api, id, 'succeeded', 10_000);
    assert.deepEqual(
      job.attempts.map((attempt) => attempt.outcome),
      ['failed', 'failed', 'succeeded'],
    );
    const waits = job.attempts
      .slice(1)
      .map((attempt, index) => Date.parse(attempt.started_at) - Date.parse(job.attempts[index]?.ended_at ?? ''));
    const [first = 0, second = 0] = waits;
    assert.ok(first >= 990 && first < 2_000, `first wait ${first} ms`);
    assert.ok(second >= 1_990 && second < 3_000, `second wait ${second} ms`);
  });

  it('ends as dead when the tries are used up, and at once when a failure is not retryable', async () => {
    const retry = { kind: 'fixed', base_s: 0.2, jitter: 'none' };
    const tired = await createJob(api, { queue: 'main', payload: { fail: true }, max_attempts: 3, retry });
    const hopeless = await createJob(api, { queue: 'main', payload: { fail: true, fail_retryable: false } });
    const dead = await untilStatus(api, tired, 'dead', 10_000);
    assert.equal(dead.attempts.length, 3);
    assert.equal((await untilStatus(api, hopeless, 'dead', 5_000)).attempts.length, 1);
  });

  it('cancels a job that waits; it never starts, and cancelling again is the same answer', async () => {
    const id = await createJob(api, { queue: 'main', delay_s: 2 });
    const cancelled = await call('DELETE', `${api}/jobs/${id}`);
    assert.equal(cancelled.status, 200);
    assert.equal(cancelled.body.status, 'cancelled');
    assert.equal((await call('DELETE', `${api}/jobs/${id}`)).status, 200);
    // A job due later than the cancelled one starts: the cancelled one's moment has passed.
    await untilStatus(api, await createJob(api, { queue: 'main', delay_s: 3 }), 'succeeded', 6_000);
    assert.equal((await getJob(api, id)).status, 'cancelled');
    assert.ok(!worker.events.some((event) => event.job_id === id));
  });

  it('refuses to cancel a running or finished job, and changes nothing', async () => {
    const id = await createJob(api, { queue: 'main', payload: { work_ms: 1_500 } });
    await untilStatus(api, id, 'running', 3_000);
    const running = await call('DELETE', `${api}/jobs/${id}`);
    assert.deepEqual([running.status, running.body.code], [409, 'job_running']);
    await untilStatus(api, id, 'succeeded', 5_000);
    const finished = await call('DELETE', `${api}/jobs/${id}`);
    assert.deepEqual([finished.status, finished.body.code], [409, 'job_finished']);
  });

  it('runs a burst of 200 due at one moment, each once', async () => {
    const runAt = new Date(Date.now() + 2_000).toISOString();
    const ids = await inParallel(Array.from({ length: 200 }), 20, () =>
      createJob(api, { queue: 'main', run_at: runAt }),
    );
    await until('200 jobs succeeded', 15_000, async () => {
      const jobs = await inParallel(ids, 20, (id) => getJob(api, id));
      return jobs.every((job) => job.status === 'succeeded') || undefined;
    });
    const starts = worker.events.filter((event) => event.event === 'start' && ids.includes(event.job_id));
    assert.equal(starts.length, 200);
  });

  it('keeps a payload character by character', async () => {
    const payload = '{"id":9007199254740993,"x":1.10,"s":"a\\u0000b"}';
    const { body } = await call('POST', `${api}/jobs`, `{"queue":"aside","payload":${payload}}`);
    const text = await (await fetch(`${api}/jobs/${body.job_id}`)).text();
    assert.ok(text.includes(`"payload":${payload}`), text);
  });

  it('stays below 400 MB in every service', () => {
    for (const service of cluster.all()) {
      const peak = service.peakRssMb();
      assert.ok(peak < 400, `${service.name} reached ${peak.toFixed()} MB`);
    }
  });
});

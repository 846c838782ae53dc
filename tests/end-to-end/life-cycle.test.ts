// The rest of the one-off life cycle on real processes, driven by REST alone: every worker here is this test.

import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Cluster, startCluster } from '../support/cluster.ts';
import { type Answer, call, createJob, getJob, until, untilStatus } from '../support/rest.ts';
import { suiteCleanup } from '../support/suite-cleanup.ts';

interface Leased {
  readonly job_id: string;
  readonly attempt: number;
  readonly priority: string;
}

describe('the one-off life cycle', () => {
  const cleanup = suiteCleanup();
  let cluster: Cluster;
  let api: string;
  let queues = 0;

  before(async () => {
    cluster = await startCluster(cleanup);
    api = cluster.apiUrl;
    await leaseOne(newQueue(), {}).catch(() => undefined);
  });

  function newQueue(): string {
    queues += 1;
    return `cycle-${queues}`;
  }

  async function lease(queue: string, body: object = {}): Promise<readonly Leased[]> {
    const answer = await call('POST', `${api}/queues/${queue}/lease`, { max: 10, wait_s: 5, worker: 'w', ...body });
    assert.equal(answer.status, 200, JSON.stringify(answer.body));
    return answer.body as unknown as readonly Leased[];
  }

  /** Creates a job in the queue and leases it. */
  async function leaseOne(queue: string, job: object): Promise<Leased> {
    const id = await createJob(api, { queue, ...job });
    return leaseAgain(queue, id);
  }

  async function leaseAgain(queue: string, id: string, withinMs = 10_000): Promise<Leased> {
    return until(`${id} leased`, withinMs, async () => (await lease(queue)).find((each) => each.job_id === id));
  }

  function report(kind: string, { job_id, attempt }: Leased, body: object = {}): Promise<Answer> {
    return call('POST', `${api}/jobs/${job_id}/${kind}`, { attempt, ...body });
  }

  it('leases high priority before low, and what nobody has yet as []', async () => {
    const queue = newQueue();
    assert.deepEqual(await lease(queue, { wait_s: 0 }), []);
    for (const priority of ['low', 'normal', 'high']) await createJob(api, { queue, priority });
    const leased = await until('three jobs leased', 5_000, async () => {
      const jobs = await lease(queue, { wait_s: 1 });
      return jobs.length === 3 ? jobs : undefined;
    });
    assert.deepEqual(
      leased.map((job) => job.priority),
      ['high', 'normal', 'low'],
    );
  });

  it('asks a running job to stop: the heartbeat tells, a failure then ends it as cancelled', async () => {
    const queue = newQueue();
    const job = await leaseOne(queue, { max_attempts: 5 });
    const asked = await call('POST', `${api}/jobs/${job.job_id}/cancel`);
    assert.equal(asked.status, 202);
    const beat = await report('heartbeat', job);
    assert.equal((beat.body as unknown as { cancel_requested: boolean }).cancel_requested, true);
    assert.equal((await report('complete', job, { ok: false, error: 'stopped' })).status, 200);
    assert.equal((await getJob(api, job.job_id)).status, 'cancelled');
    assert.deepEqual(await lease(queue, { wait_s: 2 }), []);
  });

  it('ends a cancelled job by its own word, by a snooze, and by success as succeeded', async () => {
    const queue = newQueue();
    const endings: readonly (readonly [object, string])[] = [
      [{ cancelled: true }, 'cancelled'],
      [{ snooze_s: 60 }, 'cancelled'],
      [{ ok: true }, 'succeeded'],
    ];
    for (const [body, status] of endings) {
      const job = await leaseOne(queue, {});
      assert.equal((await call('POST', `${api}/jobs/${job.job_id}/cancel`)).status, 202);
      assert.equal((await report('complete', job, body)).status, 200);
      assert.equal((await getJob(api, job.job_id)).status, status, JSON.stringify(body));
    }
  });

  it('ends a cancelled job whose worker went silent as cancelled, with no further attempt', async () => {
    const queue = newQueue();
    const job = await leaseOne(queue, { lease_s: 5 });
    assert.equal((await call('POST', `${api}/jobs/${job.job_id}/cancel`)).status, 202);
    const ended = await untilStatus(api, job.job_id, 'cancelled', 10_000);
    assert.equal(ended.attempts.length, 1);
  });

  it('R036 ends an attempt at its time limit whatever its heartbeats, and gives the job to the next', async () => {
    const queue = newQueue();
    const job = await leaseOne(queue, { timeout_s: 5, lease_s: 5 });
    const startedAt = Date.now();
    const refused = await until('a heartbeat refused', 7_000, async () => {
      await sleep(900);
      const beat = await report('heartbeat', job);
      return beat.status === 200 ? undefined : beat;
    });
    assert.equal(refused.status, 409);
    assert.equal(refused.body.code, 'attempt_timed_out');
    const next = await leaseAgain(queue, job.job_id, 3_000);
    assert.equal(next.attempt, 2);
    assert.ok(Date.now() - startedAt <= 8_000, `${Date.now() - startedAt} ms`);
    const late = await report('complete', job, { ok: true });
    assert.equal(late.status, 409);
    assert.equal((await report('complete', next, { ok: true })).status, 200);
  });

  it('counts exactly max_attempts tries, however often it is snoozed and released in between', async () => {
    const queue = newQueue();
    const retry = { kind: 'fixed', base_s: 0.1, jitter: 'none' };
    let job = await leaseOne(queue, { max_attempts: 2, retry });
    assert.equal((await report('release', job)).status, 200);
    job = await leaseAgain(queue, job.job_id);
    assert.equal((await report('complete', job, { snooze_s: 1 })).status, 200);
    job = await leaseAgain(queue, job.job_id);
    assert.equal((await report('complete', job, { ok: false, error: 'one' })).status, 200);
    job = await leaseAgain(queue, job.job_id);
    assert.equal(job.attempt, 4);
    assert.equal((await report('complete', job, { ok: false, error: 'two' })).status, 200);
    const dead = await getJob(api, job.job_id);
    assert.equal(dead.status, 'dead');
    assert.deepEqual(
      dead.attempts.map((attempt) => attempt.outcome),
      ['released', 'snoozed', 'failed', 'failed'],
    );
  });

  it('replays a dead job with as many tries again, and takes it off the dead letters', async () => {
    const queue = newQueue();
    const job = await leaseOne(queue, { max_attempts: 1 });
    await report('complete', job, { ok: false, error: 'no' });
    const window = `queue=${queue}&from=${new Date(Date.now() - 60_000).toISOString()}&to=${new Date(Date.now() + 60_000).toISOString()}`;
    const letters = await call('GET', `${api}/dead-letters?${window}`);
    assert.equal(letters.status, 200, JSON.stringify(letters.body));
    assert.ok(JSON.stringify(letters.body).includes(job.job_id));
    assert.equal((await call('POST', `${api}/jobs/${job.job_id}/replay`)).status, 200);
    const again = await leaseAgain(queue, job.job_id);
    assert.equal(again.attempt, 2);
    assert.equal((await report('complete', again, { ok: true })).status, 200);
    assert.equal((await report('complete', again, { ok: true })).status, 200, 'a report repeated is 200 again');
    assert.ok(!JSON.stringify((await call('GET', `${api}/dead-letters?${window}`)).body).includes(job.job_id));
  });

  it('changes a job only while it waits for its time, and runs it now when asked', async () => {
    const queue = newQueue();
    const id = await createJob(api, { queue, delay_s: 600, labels: { a: '1' }, payload: { n: 1 } });
    const merge = { 'content-type': 'application/merge-patch+json' };
    const patched = await call(
      'PATCH',
      `${api}/jobs/${id}`,
      { payload: { n: 2 }, labels: null, max_attempts: 7 },
      merge,
    );
    assert.equal(patched.status, 200, JSON.stringify(patched.body));
    const job = (await getJob(api, id)) as unknown as Record<string, unknown>;
    assert.deepEqual(
      [job['payload'], job['labels'], job['max_attempts'], job['status']],
      [{ n: 2 }, {}, 7, 'scheduled'],
    );
    assert.equal((await call('POST', `${api}/jobs/${id}/run`)).status, 200);
    const leased = await leaseAgain(queue, id, 5_000);
    assert.equal((await call('PATCH', `${api}/jobs/${id}`, { max_attempts: 9 }, merge)).status, 409);
    assert.equal((await report('complete', leased, { ok: true })).status, 200);
    assert.equal((await call('POST', `${api}/jobs/${id}/run`)).status, 409);
  });

  it('moves a job to another time, and its first time passes unused', async () => {
    const queue = newQueue();
    const id = await createJob(api, { queue, delay_s: 2 });
    const later = new Date(Date.now() + 5_000).toISOString();
    assert.equal((await call('PATCH', `${api}/jobs/${id}`, { run_at: later })).status, 200);
    assert.deepEqual(await lease(queue, { wait_s: 3 }), []);
    await leaseAgain(queue, id, 6_000);
    assert.ok(Date.now() >= Date.parse(later));
  });

  it('does not start a job past its expires_at', async () => {
    const queue = newQueue();
    const id = await createJob(api, { queue, expires_at: new Date(Date.now() + 1_500).toISOString() });
    await sleep(2_000);
    assert.deepEqual(await lease(queue, { wait_s: 1 }), []);
    const job = (await getJob(api, id)) as unknown as Record<string, unknown>;
    assert.deepEqual([job['status'], job['reason']], ['cancelled', 'expired']);
  });

  it('answers a repeated keyed batch exactly, item by item', async () => {
    const queue = newQueue();
    const batch = {
      jobs: [
        { queue, delay_s: 600 },
        { queue, delay_s: -1 },
        { queue, payload: [3] },
      ],
    };
    const post = (): Promise<Answer> =>
      call('POST', `${api}/jobs/batch`, batch, { 'idempotency-key': `batch-${queue}` });
    const results = (answer: Answer): readonly { status: number; job_id?: string }[] =>
      (answer.body as unknown as { results: { status: number; job_id?: string }[] }).results;
    const first = results(await post());
    assert.deepEqual(
      first.map((item) => item.status),
      [201, 400, 201],
    );
    const second = results(await post());
    assert.deepEqual(
      second.map((item) => item.job_id ?? null),
      first.map((item) => item.job_id ?? null),
    );
    const found = await call('GET', `${api}/jobs?idempotency_key=batch-${queue}/2`);
    assert.equal(found.body.job_id, first[2]?.job_id);
    const other = await call(
      'POST',
      `${api}/jobs/batch`,
      { jobs: [{ queue }] },
      { 'idempotency-key': `batch-${queue}` },
    );
    assert.deepEqual([other.status, other.body.code], [422, 'idempotency_key_reused']);
  });

  it('lists the jobs of a window by their time, page by page', async () => {
    const queue = newQueue();
    const from = new Date(Date.now() + 3_600_000);
    const ids: string[] = [];
    for (let index = 0; index < 7; index += 1) {
      const runAt = new Date(from.getTime() + index * 20_000).toISOString();
      ids.push(await createJob(api, { queue, run_at: runAt, labels: { parity: String(index % 2) } }));
    }
    const list = async (more: string): Promise<string[]> => {
      const window = `queue=${queue}&from=${from.toISOString()}&to=${new Date(from.getTime() + 600_000).toISOString()}`;
      const found: string[] = [];
      let token = '';
      for (let pages = 0; pages < 50; pages += 1) {
        const answer = await call('GET', `${api}/jobs?${window}${more}${token === '' ? '' : `&page_token=${token}`}`);
        assert.equal(answer.status, 200, JSON.stringify(answer.body));
        const page = answer.body as unknown as { jobs: { job_id: string }[]; next_page_token: string | null };
        found.push(...page.jobs.map((job) => job.job_id));
        if (page.next_page_token === null) return found;
        token = encodeURIComponent(page.next_page_token);
      }
      throw new Error('the list does not end');
    };
    assert.deepEqual(await list('&page_size=3'), ids);
    assert.deepEqual(
      await list('&page_size=2&label=parity=1'),
      ids.filter((_, index) => index % 2 === 1),
    );
    assert.equal((await call('DELETE', `${api}/jobs/${ids[0] ?? ''}`)).status, 200);
    assert.deepEqual(await list('&status=cancelled'), [ids[0]]);
  });

  it('R028 refuses the report of a worker that was slow, not dead, and keeps one end', async () => {
    const queue = newQueue();
    const slow = await leaseOne(queue, { lease_s: 5 });
    const next = await leaseAgain(queue, slow.job_id, 10_000);
    assert.equal((await report('complete', next, { ok: true })).status, 200);
    const late = await report('complete', slow, { ok: true });
    assert.equal(late.status, 409);
    const job = await getJob(api, slow.job_id);
    assert.equal(job.status, 'succeeded');
    assert.deepEqual(
      job.attempts.map((attempt) => attempt.outcome),
      ['lease_expired', 'succeeded'],
    );
  });

  it('R034 leaves a long job alone while it heartbeats, and not when it does not', async () => {
    const queue = newQueue();
    const retry = { kind: 'fixed', base_s: 0.1, jitter: 'none' };
    const alive = await leaseOne(queue, { lease_s: 5, timeout_s: 60 });
    const silent = await leaseOne(queue, { lease_s: 5, max_attempts: 1, retry });
    assert.equal((await report('heartbeat', silent)).status, 200);
    for (let beats = 0; beats < 8; beats += 1) {
      await sleep(1_500);
      assert.equal((await report('heartbeat', alive)).status, 200);
    }
    assert.equal((await report('complete', alive, { ok: true })).status, 200);
    assert.equal((await getJob(api, alive.job_id)).attempts.length, 1);
    const dead = await getJob(api, silent.job_id);
    assert.deepEqual([dead.status, dead.attempts.length], ['dead', 1]);
  });
});

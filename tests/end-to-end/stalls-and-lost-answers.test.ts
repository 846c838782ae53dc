// Real services whose process is stopped, or whose answer from Cassandra is lost, at the very moment where it hurts.

import assert from 'node:assert/strict';
import { describe, it, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { type CassandraProxy, type Interference, startCassandraProxy } from '../support/cassandra-proxy.ts';
import { type ServiceProcess, startCluster } from '../support/cluster.ts';
import { call, createJob, getJob, until, untilStatus } from '../support/rest.ts';
import { startWorker } from '../support/worker-process.ts';

/** For a busy machine. */
const SLACK_MS = 20_000;
const DUE_ROW = /INSERT INTO due /;
const KEY = /INSERT INTO job_keys /;
const CREATE = /INSERT INTO jobs /;
const ENQUEUE = /UPDATE jobs SET status = 'enqueued'/;
const CLAIM = /UPDATE jobs SET status = 'running'/;
const SUCCEED = /UPDATE jobs SET status = 'succeeded'/;
const READ_JOBS = /SELECT .* FROM jobs /;
const END_ATTEMPT = /UPDATE jobs SET status = \?, run_at/;

/**
 * How long an api is stopped: more than 20 s after its due row was chosen, or after the minute of the row ended, when its
 * readers may be past it. With PUNCTUAL_TEST_STOPPED_S=200 in the environment the row's second look is over as well, so that
 * nothing but the rules of core/timers is left to find the job; that is too long for every run.
 */
const STOPPED_MS = Number(process.env['PUNCTUAL_TEST_STOPPED_S'] ?? '22') * 1_000;
/** Nobody listens there. Without NATS an api sends no hint of a due row: only the row tells. */
const WITHOUT_NATS = { PUNCTUAL_NATS_SERVERS: '127.0.0.1:9' };

/** Interferes once, with the first request of the statement that carries the text; tells when it has. */
function strike(proxy: CassandraProxy, statement: RegExp, text: string, interference: Interference): () => boolean {
  let struck = false;
  const stop = proxy.onRequest((request) => {
    if (!request.cql.some((each) => statement.test(each)) || !request.carries(text)) return undefined;
    struck = true;
    stop();
    return interference;
  });
  return () => struck;
}

describe('an api that is stopped between a due row and its job', () => {
  it('runs what it answers 201 when it goes on', async (test: TestContext) => {
    const proxy = await startCassandraProxy(test);
    const cluster = await startCluster(test);
    const throughProxy = { PUNCTUAL_CASSANDRA_CONTACT_POINTS: proxy.contactPoint };
    const [late, slow, direct] = await Promise.all([
      cluster.addApi({ ...throughProxy, ...WITHOUT_NATS }),
      cluster.addApi({ ...throughProxy, ...WITHOUT_NATS }),
      cluster.addApi(throughProxy),
    ]);
    const workers = ['late', 'slow', 'direct'].map((queue) => startWorker(test, cluster, { queue }));

    const runs = await Promise.all([
      // As the answer to its due row comes, until the row's minute is over: the row is written again, 10 s ahead (rule 2).
      stopAndGoOn(proxy, late, {
        job: { queue: 'late', delay_s: 1 },
        at: 'answer to the due row',
        until: Math.max(endOfMinute(Date.now() + 2_000) + 21_000, Date.now() + STOPPED_MS),
        runsWithinMs: 10_000,
      }),
      // As it sends the job, which lands when it goes on: there is one more deadline row, 60 s ahead (rule 3).
      stopAndGoOn(proxy, slow, {
        job: { queue: 'slow', delay_s: 1 },
        at: 'sending the job',
        until: Date.now() + STOPPED_MS,
        runsWithinMs: 60_000,
      }),
      // Due now, and published by the api itself.
      stopAndGoOn(proxy, direct, {
        job: { queue: 'direct' },
        at: 'answer to the due row',
        until: Date.now() + STOPPED_MS,
        runsWithinMs: 0,
      }),
    ]);
    for (const run of runs) test.diagnostic(JSON.stringify(run));
    for (const { events } of workers) assert.equal(events.filter(({ event }) => event === 'start').length, 1);
  });
});

describe('a lost answer of Cassandra', () => {
  // A request waits for an answer for 4 s, then the row is read: it bears our mark, or the operation is sent again.
  for (const answer of ['lost', 'cut'] as const) {
    it(`R073 (${answer}) to a conditional write makes nothing happen twice and nothing fail`, async (test: TestContext) => {
      const proxy = await startCassandraProxy(test);
      const environment = { PUNCTUAL_CASSANDRA_CONTACT_POINTS: proxy.contactPoint };
      const { apiUrl } = await startCluster(test, { environment });
      const loses = (statement: RegExp, text: string): (() => boolean) => strike(proxy, statement, text, { answer });

      const create = async (): Promise<void> => {
        const isLost = loses(CREATE, 'created');
        const { status, body } = await call('POST', `${apiUrl}/jobs`, { queue: 'created', delay_s: 3_600 });
        assert.equal(status, 201, JSON.stringify(body));
        assert.ok(isLost());
        assert.equal((await getJob(apiUrl, body.job_id)).status, 'scheduled');
        assert.deepEqual(await idsOf(apiUrl, 'created'), [body.job_id]);
      };
      const createKeyed = async (): Promise<void> => {
        // The only key of this test: its row holds a hash of it.
        const isLost = loses(KEY, '');
        const job = { queue: 'keyed', delay_s: 3_600, idempotency_key: 'keyed' };
        const answers = await Promise.all([1, 2].map(() => call('POST', `${apiUrl}/jobs`, job)));
        assert.deepEqual(answers.map(({ status }) => status).toSorted(), [200, 201]);
        assert.ok(isLost());
        assert.deepEqual(await idsOf(apiUrl, 'keyed'), [answers[0]?.body.job_id]);
      };
      const enqueue = async (): Promise<void> => {
        // The only job of this test that the dispatcher enqueues.
        const isLost = loses(ENQUEUE, '');
        const id = await createJob(apiUrl, { queue: 'enqueued', delay_s: 1 });
        assert.equal((await lease(apiUrl, 'enqueued', 10)).job_id, id);
        assert.ok(isLost());
        assert.equal((await complete(apiUrl, id)).status, 200);
        await assertOneAttempt(apiUrl, id);
      };
      const claim = async (): Promise<void> => {
        const id = await createJob(apiUrl, { queue: 'claimed' });
        const isLost = loses(CLAIM, id);
        const claimed = await lease(apiUrl, 'claimed', 5, 'claim-1');
        assert.ok(isLost());
        assert.equal(claimed.attempt, 1);
        assert.deepEqual(await lease(apiUrl, 'claimed', 5, 'claim-1'), claimed, 'had our answer been lost as well');
        assert.equal((await complete(apiUrl, id)).status, 200);
        await assertOneAttempt(apiUrl, id);
      };
      const succeed = async (): Promise<void> => {
        const id = await createJob(apiUrl, { queue: 'completed' });
        await lease(apiUrl, 'completed', 5);
        const isLost = loses(SUCCEED, id);
        assert.equal((await complete(apiUrl, id)).status, 200);
        assert.ok(isLost());
        await assertOneAttempt(apiUrl, id);
        const again = await complete(apiUrl, id);
        assert.deepEqual([again.status, again.body.replayed], [200, true]);
      };
      const fail = async (): Promise<void> => {
        const id = await createJob(apiUrl, { queue: 'failed' });
        await lease(apiUrl, 'failed', 5);
        const isLost = loses(END_ATTEMPT, id);
        const report = { attempt: 1, ok: false, error: 'boom', retry_after_s: 3_600 };
        const { status, body } = await call('POST', `${apiUrl}/jobs/${id}/complete`, report);
        assert.equal(status, 200, JSON.stringify(body));
        assert.ok(isLost());
        const { tries, attempts, status: after } = await getJob(apiUrl, id);
        assert.deepEqual([after, tries, attempts.length], ['scheduled', 1, 1]);
      };
      // A cut connection takes all answers with it that are on their way: one after the other then.
      const steps = [create, createKeyed, enqueue, claim, succeed, fail];
      if (answer === 'lost') await Promise.all(steps.map((step) => step()));
      else for (const step of steps) await step();
    });
  }
});

describe('a connection to Cassandra that ends under a read', () => {
  it('R073 keeps the caller waiting until there is one again, and fails nothing', async (test: TestContext) => {
    const proxy = await startCassandraProxy(test);
    const environment = { PUNCTUAL_CASSANDRA_CONTACT_POINTS: proxy.contactPoint };
    const { apiUrl } = await startCluster(test, { environment });
    const id = await createJob(apiUrl, { queue: 'read', delay_s: 3_600 });
    for (let cuts = 0; cuts < 5; cuts += 1) {
      const isCut = strike(proxy, READ_JOBS, '', { answer: 'cut' });
      assert.equal((await getJob(apiUrl, id)).status, 'scheduled');
      assert.ok(isCut());
    }
  });
});

/** Of the jobs that are due in about an hour. */
async function idsOf(apiUrl: string, queue: string): Promise<readonly string[]> {
  const at = (minutes: number): string => new Date(Date.now() + minutes * 60_000).toISOString();
  const window = { queue, from: at(55), to: at(65) };
  const ids: string[] = [];
  let token: string | null = '';
  while (token !== null) {
    const query = new URLSearchParams(token === '' ? window : { ...window, page_token: token });
    const { status, body } = await call('GET', `${apiUrl}/jobs?${query.toString()}`);
    assert.equal(status, 200, JSON.stringify(body));
    ids.push(...body.jobs.map((job) => job.job_id));
    token = body.next_page_token;
  }
  return ids;
}

async function lease(apiUrl: string, queue: string, waitS: number, claimId?: string): Promise<Claimed> {
  const request = { worker: 'w', wait_s: waitS, claim_id: claimId };
  const { status, body } = await call('POST', `${apiUrl}/queues/${queue}/lease`, request);
  assert.equal(status, 200, JSON.stringify(body));
  const [job] = body as unknown as readonly Claimed[];
  assert.ok(job !== undefined, `nothing to lease from ${queue}`);
  return job;
}

interface Claimed {
  readonly job_id: string;
  readonly attempt: number;
}

function complete(apiUrl: string, jobId: string): ReturnType<typeof call> {
  return call('POST', `${apiUrl}/jobs/${jobId}/complete`, { attempt: 1, ok: true });
}

async function assertOneAttempt(apiUrl: string, jobId: string): Promise<void> {
  const { status, attempts } = await getJob(apiUrl, jobId);
  assert.equal(status, 'succeeded');
  assert.deepEqual(
    attempts.map(({ outcome }) => outcome),
    ['succeeded'],
  );
}

interface Stall {
  readonly job: { readonly queue: string; readonly delay_s?: number };
  readonly at: 'answer to the due row' | 'sending the job';
  readonly until: number;
  readonly runsWithinMs: number;
}

/** Posts the job, stops the api at the moment, lets it go on, and follows the job to its end. */
async function stopAndGoOn(proxy: CassandraProxy, api: ServiceProcess, stall: Stall): Promise<object> {
  const { job, at, until: goesOnAt, runsWithinMs } = stall;
  let goOn = (): void => undefined;
  const goesOn = new Promise<void>((resolve) => (goOn = resolve));
  const stop = (): void => api.signal('SIGSTOP');
  const isStopped =
    at === 'sending the job'
      ? strike(proxy, CREATE, job.queue, { beforeSend: () => (stop(), goesOn) })
      : strike(proxy, DUE_ROW, job.queue, { beforeAnswer: stop });
  const answering = call('POST', `${api.url}/jobs`, job);
  await until(`${job.queue} is stopped`, 10_000, async () => isStopped() || undefined);
  const stoppedAt = Date.now();
  await sleep(goesOnAt - stoppedAt);
  const wentOnAt = Date.now();
  api.signal('SIGCONT');
  goOn();
  const { status, body } = await answering;
  assert.equal(status, 201, JSON.stringify(body));
  const { attempts } = await untilStatus(api.url, body.job_id, 'succeeded', runsWithinMs + SLACK_MS);
  assert.equal(attempts.length, 1);
  const startedMs = Date.parse(attempts[0]?.started_at ?? '') - wentOnAt;
  return { queue: job.queue, stopped_ms: wentOnAt - stoppedAt, started_after_ms: startedMs };
}

function endOfMinute(at: number): number {
  return Math.floor(at / 60_000) * 60_000 + 60_000;
}

import assert from 'node:assert/strict';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, describe, it } from 'node:test';
import { PunctualClient, RefusedError, UnansweredError } from '../../services/client/index.ts';
import { MergingCalls } from '../../services/client/merging-calls.ts';

interface Reply {
  readonly status: number;
  readonly body: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

const REFUSED = (status: number, code: string, retryable: boolean): Reply => ({
  status,
  body: { title: code, status, code, retryable, detail: 'because' },
});

describe('the client', () => {
  const requests: { method: string; url: string; headers: IncomingMessage['headers']; body: unknown }[] = [];
  const replies: Reply[] = [];
  const server = createServer((request, response) => {
    void (async () => {
      let text = '';
      for await (const chunk of request) text += String(chunk);
      const { method = '', url = '', headers } = request;
      requests.push({ method, url, headers, body: text === '' ? undefined : JSON.parse(text) });
      const { status, body, headers: more } = replies.shift() ?? REFUSED(500, 'no_reply_planned', false);
      response.writeHead(status, { 'content-type': 'application/json', ...more }).end(JSON.stringify(body));
    })();
  });
  let client: PunctualClient;
  let url: string;
  /** Where nobody listens. */
  let deaf: string;

  before(async () => {
    url = await listen(server);
    client = new PunctualClient({ apiUrl: url, apiKey: 'secret' });
    const closed = createServer();
    deaf = await listen(closed);
    await new Promise((resolve) => closed.close(resolve));
  });
  after(() => {
    close(server);
  });

  function plan(...planned: readonly Reply[]): void {
    requests.length = 0;
    replies.splice(0, replies.length, ...planned);
  }

  it('creates a job', async () => {
    plan({ status: 201, body: { job_id: 'j_1', status: 'scheduled' } });
    const job = await client.createJob({ queue: 'mail', payload: { a: 1 }, delay_s: 5 });
    assert.equal(job.job_id, 'j_1');
    assert.equal(job.replayed, false);
    const request = requests[0]!;
    assert.equal(`${request.method} ${request.url}`, 'POST /jobs');
    assert.deepEqual(request.body, { queue: 'mail', payload: { a: 1 }, delay_s: 5 });
    assert.equal(request.headers.authorization, 'Bearer secret');
    assert.equal(request.headers['idempotency-key'], undefined);
  });

  it('repeats a keyed create whatever happened, and tells a replay', async () => {
    plan(REFUSED(503, 'outcome_unknown', true), {
      status: 200,
      body: { job_id: 'j_1' },
      headers: { 'idempotency-replayed': 'true' },
    });
    const job = await client.createJob({ queue: 'mail' }, { idempotencyKey: 'k' });
    assert.equal(job.replayed, true);
    assert.deepEqual(
      requests.map(({ headers }) => headers['idempotency-key']),
      ['k', 'k'],
    );
  });

  it('repeats a create without a key only when nothing was written', async () => {
    plan(REFUSED(503, 'store_unavailable', true), { status: 201, body: { job_id: 'j_1' } });
    assert.equal((await client.createJob({ queue: 'mail' })).job_id, 'j_1');
    plan(REFUSED(503, 'outcome_unknown', true));
    await assert.rejects(client.createJob({ queue: 'mail' }), { code: 'outcome_unknown' });
    assert.equal(requests.length, 1);
  });

  it('throws what the API refused, in its words', async () => {
    plan(REFUSED(422, 'idempotency_key_reused', false));
    await assert.rejects(client.createJob({ queue: 'mail' }, { idempotencyKey: 'k' }), (error) => {
      assert.ok(error instanceof RefusedError);
      assert.equal(error.message, '422 idempotency_key_reused: because');
      assert.equal(error.retryable, false);
      return true;
    });
    assert.equal(requests.length, 1);
  });

  it('waits as long as it is asked to', async () => {
    plan({ ...REFUSED(429, 'too_many_requests', true), headers: { 'retry-after': '1' } }, { status: 200, body: {} });
    const start = performance.now();
    await client.getJob('j_1');
    assert.ok(performance.now() - start >= 990);
  });

  it('goes to the next address when one does not answer', async () => {
    const several = new PunctualClient({ apiUrl: [deaf, `${url}/`] });
    plan({ status: 201, body: { job_id: 'j_1' } }, { status: 200, body: {} });
    await several.createJob({ queue: 'mail' });
    await several.getJob('s_1_00@2026-11-15T06:00:00Z');
    assert.equal(requests[1]?.url, '/jobs/s_1_00%402026-11-15T06%3A00%3A00Z');
  });

  it('says when nobody answers', async () => {
    const nowhere = new PunctualClient({ apiUrl: deaf, retries: 1 });
    await assert.rejects(nowhere.getJob('j_1'), (error) => error instanceof UnansweredError && !error.sent);
    const mute = createServer(() => undefined);
    const muteUrl = await listen(mute);
    const waiting = new PunctualClient({ apiUrl: muteUrl, timeoutMs: 50, retries: 0 });
    await assert.rejects(waiting.getJob('j_1'), (error) => error instanceof UnansweredError && error.sent);
    close(mute);
  });

  it('gives each item of a batch its own result', async () => {
    const error = { title: 'x', status: 409, code: 'lease_lost', retryable: false };
    plan({
      status: 200,
      body: {
        results: [
          { status: 200, job_id: 'j_1', payload: [1] },
          { status: 409, job_id: 'j_2', error },
        ],
      },
    });
    const items = [
      { job_id: 'j_1', attempt: 1 },
      { job_id: 'j_2', attempt: 1 },
    ];
    const [first, second] = await client.claimJobs(items, 'w');
    assert.ok(first?.ok && first.value.payloadText === '[1]');
    assert.ok(second?.ok === false && second.error.code === 'lease_lost');
    assert.deepEqual(requests[0]?.body, { items, worker: 'w' });
  });

  it('calls every verb of a job where the API has it', async () => {
    const job = { job_id: 'j_1', payload: { x: 1 } };
    const called = async (call: () => Promise<unknown>): Promise<unknown[]> => {
      await call();
      const { method, url: path, body } = requests.shift()!;
      return body === undefined ? [method, path] : [method, path, body];
    };
    plan(...Array.from({ length: 7 }, () => ({ status: 200, body: job })));
    assert.deepEqual(await called(() => client.changeJob('j_1', { payload: null })), [
      'PATCH',
      '/jobs/j_1',
      { payload: null },
    ]);
    assert.deepEqual(await called(() => client.runJob('j_1')), ['POST', '/jobs/j_1/run']);
    assert.deepEqual(await called(() => client.replayJob('j_1')), ['POST', '/jobs/j_1/replay']);
    assert.deepEqual(await called(() => client.requestCancel('j_1')), ['POST', '/jobs/j_1/cancel']);
    assert.deepEqual(await called(() => client.release('j_1', 3)), ['POST', '/jobs/j_1/release', { attempt: 3 }]);
    assert.deepEqual(await called(() => client.findJobByKey('a&b/0')), ['GET', '/jobs?idempotency_key=a%26b%2F0']);
    assert.deepEqual(await called(() => client.complete('j_1', 1, { snooze_s: 5 })), [
      'POST',
      '/jobs/j_1/complete',
      { attempt: 1, snooze_s: 5 },
    ]);
    plan({ status: 202, body: job });
    assert.equal((await client.requestCancel('j_1')).requested, true);
  });

  it('keeps the payload of a job as it was written, beside its value', async () => {
    const raw = '{"job_id":"j_1","payload":{"id":9007199254740993,"x":1.10}}';
    const exact = createServer((_, response) => void response.end(raw));
    const job = await new PunctualClient({ apiUrl: await listen(exact) }).getJob('j_1');
    assert.equal(job.payloadText, '{"id":9007199254740993,"x":1.10}');
    close(exact);
  });

  it('asks for lists by query, page by page', async () => {
    const window = { queue: 'mail', from: '2026-11-15T06:00:00Z', to: '2026-11-15T07:00:00Z' };
    plan({ status: 200, body: { jobs: [], next_page_token: 't.1' } }, { status: 200, body: { dead_letters: [] } });
    assert.equal((await client.listJobs({ ...window, status: 'dead', page_size: 7 })).next_page_token, 't.1');
    await client.listDeadLetters({ ...window, page_token: 't.1' });
    const encoded = 'queue=mail&from=2026-11-15T06%3A00%3A00Z&to=2026-11-15T07%3A00%3A00Z';
    assert.deepEqual(
      requests.map(({ url: path }) => path),
      [`/jobs?${encoded}&status=dead&page_size=7`, `/dead-letters?${encoded}&page_token=t.1`],
    );
  });

  it('leases with a mark of its own, so that a repeat after a lost answer finds the same jobs', async () => {
    plan(REFUSED(503, 'outcome_unknown', true), { status: 200, body: [{ job_id: 'j_1', payload: [1, 2] }] });
    const [job] = await client.lease('mail', { worker: 'w', max: 2 });
    assert.equal(job?.payloadText, '[1,2]');
    const [first, second] = requests.map(({ body }) => body as { readonly claim_id: string });
    assert.equal(requests[0]?.url, '/queues/mail/lease');
    assert.match(first!.claim_id, /^[0-9a-f-]{36}$/);
    assert.deepEqual(first, second);
  });

  it('waits for a lease longer than for other calls, until it is told to stop', async () => {
    const slow = createServer((_, response) => void setTimeout(() => response.end('[]'), 150));
    const patient = new PunctualClient({ apiUrl: await listen(slow), timeoutMs: 50, retries: 3 });
    assert.deepEqual(await patient.lease('mail', { worker: 'w', wait_s: 1 }), []);
    const stop = new AbortController();
    setTimeout(() => stop.abort(), 20);
    const started = performance.now();
    await assert.rejects(patient.lease('mail', { worker: 'w', wait_s: 20 }, stop.signal), UnansweredError);
    assert.ok(performance.now() - started < 120);
    close(slow);
  });
});

async function listen(server: Server): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

function close(server: Server): void {
  server.closeAllConnections();
  server.close();
}

describe('merging calls', () => {
  it('has one call under way, and sends what came meanwhile together', async () => {
    const calls: number[][] = [];
    const answer: (() => void)[] = [];
    const merging = new MergingCalls<number, number>(3, async (items) => {
      calls.push([...items]);
      await new Promise<void>((resolve) => answer.push(resolve));
      return items.map((item) => item * 10);
    });
    const results = [1, 2, 3, 4, 5].map((item) => merging.submit(item));
    await new Promise((resolve) => setImmediate(resolve));
    assert.deepEqual(calls, [[1, 2, 3]]);
    results.push(merging.submit(6));
    while (answer.length > 0) {
      answer.shift()?.();
      await new Promise((resolve) => setImmediate(resolve));
    }
    assert.deepEqual(calls, [
      [1, 2, 3],
      [4, 5, 6],
    ]);
    assert.deepEqual(await Promise.all(results), [10, 20, 30, 40, 50, 60]);
  });

  it('fails the items of a call that fails, and no others', async () => {
    const merging = new MergingCalls<number, number>(1, async ([item = 0]) => {
      if (item === 1) throw new Error('no');
      return [item];
    });
    const results = await Promise.allSettled([merging.submit(1), merging.submit(2)]);
    assert.deepEqual(
      results.map(({ status }) => status),
      ['rejected', 'fulfilled'],
    );
  });
});

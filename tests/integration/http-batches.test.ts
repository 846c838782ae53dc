import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ok, refused } from '../../services/core/contract/problems.ts';
import { HOUR_MS } from '../../services/core/domain/limits.ts';
import { FAKE_START } from '../support/fake-clock.ts';
import { type HttpApi, type Sent, serveApi } from '../support/http-api.ts';
import { jobRow, newCohort } from '../support/job-row.ts';

const after = (ms: number): string => new Date(FAKE_START + ms).toISOString();
const KEYED = { 'idempotency-key': 'import-7' };

type Result = Readonly<Record<string, unknown>> & {
  readonly status: number;
  readonly error?: { readonly code: string; readonly detail: string; readonly errors?: readonly object[] };
};

async function resultsOf(api: HttpApi, sent: Sent): Promise<readonly Result[]> {
  const answer = await api.call('POST', '/jobs/batch', sent);
  assert.equal(answer.status, 200, answer.text);
  return answer.body['results'] as readonly Result[];
}

describe('POST /jobs/batch', () => {
  it('answers each job for itself, in order, whatever the others are', async (test) => {
    const api = await serveApi(test);
    const results = await resultsOf(api, {
      body: {
        jobs: [
          { queue: 'mails', delay_s: 5 },
          { queue: 'Mails' },
          7,
          { queue: 'mails', run_at: after(0), delay_s: 1 },
          { queue: 'mails', payload: 'x'.repeat(65_535) },
          { queue: 'mails', retry: { base_s: 7_200 }, dealy_s: 3 },
          { queue: 'mails', run_at: after(-2 * HOUR_MS) },
          { queue: 'bills', run_at: after(HOUR_MS) },
        ],
      },
    });
    assert.deepEqual(
      results.map(({ status, error }) => [status, error?.detail]),
      [
        [201, undefined],
        [400, 'jobs[1].queue: must be 1 to 64 of a-z, 0-9, _ and -, beginning with a letter or digit'],
        [400, 'jobs[2]: must be an object, not a whole number'],
        [400, 'jobs[3].run_at: and delay_s exclude each other: give one of them, or neither for now'],
        [400, 'jobs[4].payload: is 65537 bytes of JSON text, and may be 65536; pass what is larger by reference'],
        [400, 'jobs[5].dealy_s: is not a field here: did you mean delay_s?'],
        [400, `jobs[6].run_at: lies more than 1 hour in the past: it is ${after(0)} now`],
        [201, undefined],
      ],
    );
    const [first] = results;
    assert.deepEqual(first, {
      status: 201,
      job_id: first?.['job_id'],
      href: `/jobs/${String(first?.['job_id'])}`,
      run_at: after(5_000),
      replayed: false,
    });
    assert.equal((await api.call('GET', first.href)).status, 200);
    assert.deepEqual(
      api.asked.batches[0]?.jobs.map((job) => job.ok),
      [true, false, false, false, false, false, false, true],
    );
  });

  it('R083 keeps the payload of each job character by character', async (test) => {
    const api = await serveApi(test);
    const payloads = ['{"id":9007199254740993,"x":1.10}', '{ "jobs":[{"payload":-0}] }', String.raw`"a\u0000b"`];
    const jobs = payloads.map((payload) => `{"payload": ${payload} ,"queue":"q"}`);
    await resultsOf(api, { body: `{ "jobs" : [${jobs.join(' , ')}]}` });
    const asked = api.asked.batches[0]?.jobs.map((job) => (job.ok ? job.value.payload : null));
    assert.deepEqual(asked, payloads);
  });

  it('takes 1,000 jobs and 8 MiB, and no more', async (test) => {
    const api = await serveApi(test);
    const jobs = (count: number, payload = ''): string =>
      `{"jobs":[${Array.from({ length: count }, () => `{"queue":"q","payload":"${payload}"}`).join()}]}`;
    assert.equal((await resultsOf(api, { body: jobs(1_000) })).length, 1_000);
    for (const body of [jobs(1_001), '{"jobs":[]}', '{}', '{"jobs":{}}', '{"jobs":[],"items":[]}']) {
      const { status, body: problem } = await api.call('POST', '/jobs/batch', { body });
      assert.equal(status, 400, body.slice(0, 40));
      assert.match(String(problem['detail']), /^(jobs|items)/);
    }
    assert.equal((await resultsOf(api, { body: jobs(100, 'x'.repeat(60_000)) })).length, 100);
    assert.equal((await api.call('POST', '/jobs/batch', { body: jobs(140, 'x'.repeat(60_000)) })).status, 413);
  });

  it('refuses an item with = in the name of a label, and takes the others', async (test) => {
    const api = await serveApi(test);
    const jobs = [
      { queue: 'q', labels: { 'a=b': 'c' } },
      { queue: 'q', labels: { a: 'b=c' } },
    ];
    const { body } = await api.call('POST', '/jobs/batch', { body: { jobs } });
    const [refusal, taken] = body['results'] as Record<string, unknown>[];
    assert.match(JSON.stringify(refusal), /"status":400.*jobs\[0\]\.labels\.a=b.* without =/);
    assert.equal(taken?.['status'], 201);
  });

  it('R099 takes __proto__ for an unknown field in an item, and keeps it in a payload', async (test) => {
    const api = await serveApi(test);
    const results = await resultsOf(api, {
      body: '{"jobs":[{"queue":"q","__proto__":{"priority":"high"}},{"queue":"q","payload":{"__proto__":1}}]}',
    });
    assert.deepEqual(
      results.map(({ status }) => status),
      [400, 201],
    );
  });

  it('R051 tells of each job whether it is new', async (test) => {
    const api = await serveApi(test);
    const job = jobRow(newCohort(), 0, { status: 'succeeded' });
    api.override({ createJobs: async ({ jobs }) => ok(jobs.map((_, index) => ok({ job, replayed: index > 0 }))) });
    const results = await resultsOf(api, { body: { jobs: [{ queue: 'q' }, { queue: 'q' }] }, headers: KEYED });
    assert.deepEqual(
      results.map(({ status, replayed }) => [status, replayed]),
      [
        [201, false],
        [200, true],
      ],
    );
  });

  it('tells a store that is away by job, with the time to wait', async (test) => {
    const api = await serveApi(test);
    const problem = { code: 'store_unavailable', detail: 'Not now.', retryAfterS: 3 } as const;
    api.override({ createJobs: async ({ jobs }) => ok(jobs.map(() => refused(problem))) });
    assert.partialDeepStrictEqual(await resultsOf(api, { body: { jobs: [{ queue: 'q' }] } }), [
      { status: 503, error: { code: 'store_unavailable', retryable: true, retry_after_s: 3 } },
    ]);
  });
});

describe("a batch's idempotency key", () => {
  it('covers the whole call, by its content whatever the layout', async (test) => {
    const api = await serveApi(test);
    for (const body of [
      '{"jobs":[{"queue":"q","payload":{"a":1.10,"b":2}}]}',
      '{ "jobs" : [ {"payload":{"b":2,"a":1.10},"queue":"q"} ] }',
      '{"jobs":[{"queue":"q","payload":{"a":1.1,"b":2}}]}',
    ]) {
      await resultsOf(api, { body, headers: KEYED });
    }
    const [first, same, other] = api.asked.batches;
    assert.equal(first?.idempotencyKey, 'import-7');
    assert.match(first.requestHash ?? '', /^[0-9a-f]{64}$/);
    assert.equal(first.requestHash, same?.requestHash);
    assert.notEqual(first.requestHash, other?.requestHash);
    assert.partialDeepStrictEqual(first.jobs, [{ ok: true, value: { idempotencyKey: null, requestHash: null } }]);
  });

  it('is refused whole when it was used with other content', async (test) => {
    const api = await serveApi(test);
    api.override({ createJobs: async () => refused({ code: 'idempotency_key_reused', detail: 'Use a new key.' }) });
    const { status } = await api.call('POST', '/jobs/batch', { body: { jobs: [{ queue: 'q' }] }, headers: KEYED });
    assert.equal(status, 422);
  });

  it('leaves no room for keys of the jobs; without it they may have their own, as if each had come alone', async (test) => {
    const api = await serveApi(test);
    const item = '{"queue":"q", "idempotency_key":"own", "payload":{"x":1.10}}';
    const [result] = await resultsOf(api, { body: `{"jobs":[${item}]}`, headers: KEYED });
    assert.equal(
      result?.error?.detail,
      'jobs[0].idempotency_key: cannot go with the header Idempotency-Key, which covers the whole call',
    );
    await resultsOf(api, { body: `{"jobs":[{"queue":"other"}, ${item}]}` });
    await api.call('POST', '/jobs', { body: item });
    const [keyless, own] = api.asked.batches[1]?.jobs.map((job) => (job.ok ? job.value : undefined)) ?? [];
    assert.equal(keyless?.requestHash, null);
    assert.equal(own?.idempotencyKey, 'own');
    assert.equal(own.requestHash, api.asked.created[0]?.requestHash);
    assert.equal(api.asked.batches[1]?.idempotencyKey, null);
  });

  it('still finds its jobs when the call is repeated long after their times', async (test) => {
    const api = await serveApi(test);
    const jobs = [{ queue: 'q', run_at: after(0) }, { queue: 'q', expires_at: after(HOUR_MS) }, { queue: 'q' }];
    const sent = { body: { jobs }, headers: KEYED };
    await resultsOf(api, sent);
    await api.clock.advance(2 * HOUR_MS);
    const asked: string[] = [];
    const known = jobRow(newCohort(), 0);
    api.override({
      findJobByKey: async (_, key) => {
        asked.push(key);
        return key === 'import-7/0' ? ok(known) : refused({ code: 'job_not_found', detail: 'No such key.' });
      },
    });
    const results = await resultsOf(api, sent);
    assert.deepEqual(asked, ['import-7/0', 'import-7/1']);
    assert.deepEqual(
      results.map(({ status }) => status),
      [201, 400, 201],
    );
  });

  it('finds job i under <key>/<i>, as long as the longest key allows', async (test) => {
    const api = await serveApi(test);
    const asked: string[] = [];
    api.override({
      findJobByKey: async (_, key) => {
        asked.push(key);
        return refused({ code: 'job_not_found', detail: 'No such key.' });
      },
    });
    const longest = `${'k'.repeat(128)}/999`;
    assert.equal((await api.call('GET', '/jobs?idempotency_key=import-7/0')).status, 404);
    assert.equal((await api.call('GET', `/jobs?idempotency_key=${longest}`)).status, 404);
    assert.equal((await api.call('GET', `/jobs?idempotency_key=${longest}9`)).status, 400);
    assert.deepEqual(asked, ['import-7/0', longest]);
  });
});

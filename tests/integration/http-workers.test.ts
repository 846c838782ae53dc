import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ok, refused } from '../../services/core/contract/problems.ts';
import { FAKE_START } from '../support/fake-clock.ts';
import { type HttpApi, serveApi } from '../support/http-api.ts';
import { jobRow, newCohort } from '../support/job-row.ts';

const ID = 'j_0123456789abc_00';
const at = (ms: number): string => new Date(FAKE_START + ms).toISOString();

type Result = Readonly<Record<string, unknown>> & { readonly status: number; readonly error?: Record<string, unknown> };

async function resultsOf(api: HttpApi, path: string, body: object | string): Promise<readonly Result[]> {
  const answer = await api.call('POST', path, { body });
  assert.equal(answer.status, 200, answer.text);
  return answer.body['results'] as readonly Result[];
}

describe('a claim', () => {
  it('answers what a worker needs, the payload as it was written', async (test) => {
    const api = await serveApi(test);
    const payload = '{"id":9007199254740993,"x":1.10,"s":"a\\u0000b"}';
    const row = jobRow(newCohort(), 3, { payload, labels: { region: 'eu' }, leaseS: 30 });
    api.jobs.set(row.jobId, row);
    const path = `/jobs/${row.jobId}/claim`;
    const { status, body, text } = await api.call('POST', path, { body: { attempt: 2, worker: 'w-1', claim_id: 'c' } });
    assert.equal(status, 200);
    assert.ok(text.endsWith(`"payload":${payload}}`));
    assert.partialDeepStrictEqual(body, {
      job_id: row.jobId,
      attempt: 2,
      lease_until: at(30_000),
      heartbeat_s: 10,
      queue: 'mail',
      priority: 'normal',
      scheduled_for: '2026-11-15T06:00:00.123Z',
      idempotency_key: row.jobId,
      max_attempts: 5,
      timeout_s: 60,
      labels: { region: 'eu' },
      traceparent: null,
    });
    assert.deepEqual(api.asked.claimed, [{ jobId: row.jobId, attempt: 2, claimId: 'c' }]);
  });

  it("hands on the creator's idempotency key, if there is one", async (test) => {
    const api = await serveApi(test);
    const row = jobRow(newCohort(), 0, { idempotencyKey: 'invoice-1' });
    api.jobs.set(row.jobId, row);
    const { body } = await api.call('POST', `/jobs/${row.jobId}/claim`, { body: { attempt: 1, worker: 'w' } });
    assert.equal(body['idempotency_key'], 'invoice-1');
  });

  it('tells a loser where the job is', async (test) => {
    const api = await serveApi(test);
    const members = { current_attempt: 2, job_status: 'running' };
    api.override({ claimJobs: async () => [refused({ code: 'lease_lost', detail: 'Leave it.', members })] });
    const { status, body } = await api.call('POST', `/jobs/${ID}/claim`, { body: { attempt: 1, worker: 'w' } });
    assert.equal(status, 409);
    assert.partialDeepStrictEqual(body, { code: 'lease_lost', current_attempt: 2, job_status: 'running' });
  });

  it('names its worker and its attempt', async (test) => {
    const api = await serveApi(test);
    for (const body of [
      {},
      { attempt: 1 },
      { worker: 'w' },
      { attempt: 0, worker: 'w' },
      { attempt: '1', worker: 'w' },
      { attempt: 1.5, worker: 'w' },
      { attempt: 1, worker: '' },
      { attempt: 1, worker: 'a\u0000b' },
      { attempt: 1, worker: 'w'.repeat(129) },
      { attempt: 1, worker: 'w', claim_id: '' },
      { attempt: 1, worker: 'w', claim_id: 'c'.repeat(65) },
      { attempt: 1, worker: 'w', job_id: ID },
    ]) {
      assert.equal((await api.call('POST', `/jobs/${ID}/claim`, { body })).status, 400, JSON.stringify(body));
    }
  });
});

describe('a batch of worker calls', () => {
  it('answers each item for itself, in order, whatever the others are', async (test) => {
    const api = await serveApi(test);
    const rows = [0, 1].map((member) => jobRow('j_0123456789abc', member, { payload: `{"n":${member}.0}` }));
    for (const row of rows) api.jobs.set(row.jobId, row);
    const results = await resultsOf(api, '/jobs/claim', {
      worker: 'w',
      items: [
        { job_id: rows[1]?.jobId, attempt: 1 },
        { job_id: 'no id', attempt: 1 },
        { job_id: rows[0]?.jobId, attempt: '1' },
        7,
        { job_id: 'j_zzzzzzzzzzzzz_00', attempt: 1 },
        { job_id: rows[0]?.jobId, attempt: 3, claim_id: 'c' },
      ],
    });
    assert.deepEqual(
      results.map(({ status, job_id: jobId, error }) => [status, jobId, error?.['code']]),
      [
        [200, rows[1]?.jobId, undefined],
        [404, 'no id', 'job_not_found'],
        [400, rows[0]?.jobId, 'invalid_request'],
        [400, '', 'invalid_request'],
        [404, 'j_zzzzzzzzzzzzz_00', 'job_not_found'],
        [200, rows[0]?.jobId, undefined],
      ],
    );
    assert.deepEqual(results[2]?.error?.['errors'], [
      { field: 'items[2].attempt', message: 'must be a whole number, not text' },
    ]);
    assert.deepEqual(results[3]?.error?.['errors'], [
      { field: 'items[3]', message: 'must be an object, not a whole number' },
    ]);
    assert.deepEqual(
      api.asked.claimed.map(({ jobId, claimId }) => [jobId, claimId]),
      [
        [rows[1]?.jobId, null],
        ['j_zzzzzzzzzzzzz_00', null],
        [rows[0]?.jobId, 'c'],
      ],
    );
  });

  it('keeps the payloads of all items as they were written', async (test) => {
    const api = await serveApi(test);
    const rows = [0, 1].map((member) => jobRow('j_0123456789abc', member, { payload: `{"n":${member}.0}` }));
    for (const row of rows) api.jobs.set(row.jobId, row);
    const items = rows.map(({ jobId }) => ({ job_id: jobId, attempt: 1 }));
    const { text } = await api.call('POST', '/jobs/claim', { body: { worker: 'w', items } });
    assert.match(text, /"payload":\{"n":0\.0\}.*"payload":\{"n":1\.0\}/);
  });

  it('does not ask the use-case when no item can be understood', async (test) => {
    const api = await serveApi(test);
    api.override({ heartbeatJobs: async () => Promise.reject(new Error('asked')) });
    const [result] = await resultsOf(api, '/jobs/heartbeat', { items: [{ job_id: ID }] });
    assert.equal(result?.status, 400);
  });

  it('is refused as a whole when it is none, is empty, or has more than 100 items', async (test) => {
    const api = await serveApi(test);
    const item = { job_id: ID, attempt: 1 };
    for (const [body, field] of [
      [{}, 'items'],
      [{ items: [] }, 'items'],
      [{ items: {} }, 'items'],
      [{ items: Array.from({ length: 101 }, () => item) }, 'items'],
      [{ items: [item], more: 1 }, 'more'],
    ] as const) {
      const { status, body: problem } = await api.call('POST', '/jobs/heartbeat', { body });
      assert.equal(status, 400, JSON.stringify(body));
      assert.partialDeepStrictEqual(problem['errors'], [{ field }]);
    }
    const most = await resultsOf(api, '/jobs/heartbeat', { items: Array.from({ length: 100 }, () => item) });
    assert.equal(most.length, 100);
  });

  it('tells a store that is away by item, with the time to wait', async (test) => {
    const api = await serveApi(test);
    const problem = { code: 'store_unavailable', detail: 'Not now.', retryAfterS: 3 } as const;
    api.override({ claimJobs: async (items) => items.map(() => refused(problem)) });
    const results = await resultsOf(api, '/jobs/claim', { worker: 'w', items: [{ job_id: ID, attempt: 1 }] });
    assert.partialDeepStrictEqual(results, [
      { status: 503, job_id: ID, error: { code: 'store_unavailable', retryable: true, retry_after_s: 3 } },
    ]);
  });
});

describe('a heartbeat', () => {
  it('answers the lease, the time limit, and whether somebody wants the job cancelled', async (test) => {
    const api = await serveApi(test);
    const { body } = await api.call('POST', `/jobs/${ID}/heartbeat`, {
      body: '{"attempt":1,"progress":{"percent":50.0}}',
    });
    assert.deepEqual(body, { lease_until: at(30_000), deadline: at(60_000), cancel_requested: false });
    assert.deepEqual(api.asked.heartbeats, [{ jobId: ID, attempt: 1, progress: '{"percent":50.0}' }]);
  });

  it('takes progress up to 1,024 bytes', async (test) => {
    const api = await serveApi(test);
    const progress = 'x'.repeat(1_022);
    assert.equal((await api.call('POST', `/jobs/${ID}/heartbeat`, { body: { attempt: 1, progress } })).status, 200);
    const longer = { attempt: 1, progress: `${progress}y` };
    assert.equal((await api.call('POST', `/jobs/${ID}/heartbeat`, { body: longer })).status, 400);
  });
});

describe('a report', () => {
  const report = (api: HttpApi, body: object | string) => api.call('POST', `/jobs/${ID}/complete`, { body });

  it('is of success, with a result kept as it was written', async (test) => {
    const api = await serveApi(test);
    const { status, body } = await report(api, '{"attempt":3,"ok":true,"result":{"sum":1.10}}');
    assert.equal(status, 200);
    assert.deepEqual(body, { outcome: 'succeeded', job_status: 'succeeded', replayed: false });
    await report(api, { attempt: 3, ok: true });
    assert.deepEqual(api.asked.reports, [
      { jobId: ID, attempt: 3, kind: 'succeeded', result: '{"sum":1.10}' },
      { jobId: ID, attempt: 3, kind: 'succeeded', result: null },
    ]);
  });

  it('is of failure, retryable unless it says otherwise', async (test) => {
    const api = await serveApi(test);
    await report(api, { attempt: 1, ok: false, error: 'no relay' });
    await report(api, { attempt: 1, ok: false, error: 'no address', retryable: false, retry_after_s: 0.25 });
    assert.deepEqual(api.asked.reports, [
      { jobId: ID, attempt: 1, kind: 'failed', error: 'no relay', retryable: true, retryAfterMs: null },
      { jobId: ID, attempt: 1, kind: 'failed', error: 'no address', retryable: false, retryAfterMs: 250 },
    ]);
  });

  it('has its error text cut to 2,048 bytes at a character, and halves of characters replaced', async (test) => {
    const api = await serveApi(test);
    await report(api, { attempt: 1, ok: false, error: 'e'.repeat(5_000) });
    await report(api, { attempt: 1, ok: false, error: `x${'é'.repeat(2_000)}` });
    await report(api, { attempt: 1, ok: false, error: `xxx${'😀'.repeat(1_000)}` });
    await report(api, '{"attempt":1,"ok":false,"error":"\\ud800"}');
    const errors = api.asked.reports.map((asked) => (asked.kind === 'failed' ? asked.error : ''));
    assert.deepEqual(errors, ['e'.repeat(2_048), `x${'é'.repeat(1_023)}`, `xxx${'😀'.repeat(511)}`, '\ufffd']);
  });

  it('R091 may have NUL in its error and its result, which are no names', async (test) => {
    const api = await serveApi(test);
    assert.equal((await report(api, String.raw`{"attempt":1,"ok":false,"error":"a\u0000b"}`)).status, 200);
    assert.equal((await report(api, String.raw`{"attempt":1,"ok":true,"result":"a\u0000b"}`)).status, 200);
    assert.partialDeepStrictEqual(api.asked.reports, [{ error: 'a\u0000b' }, { result: String.raw`"a\u0000b"` }]);
  });

  it('says in one way how the attempt ended, and nothing that goes with another', async (test) => {
    const api = await serveApi(test);
    for (const [body, fault] of [
      [{ attempt: 1 }, 'ok: is required, or one of snooze_s and cancelled in its place'],
      [{ attempt: 1, ok: 'true' }, 'ok: must be true or false, not text'],
      [{ attempt: 1, ok: false }, 'error: is required with ok: false'],
      [{ attempt: 1, ok: false, error: '' }, 'error: must be text that is not empty'],
      [{ attempt: 1, ok: false, error: 'e', result: 1 }, 'result: goes with ok: true'],
      [{ attempt: 1, ok: true, error: 'e' }, 'error: goes with ok: false'],
      [{ attempt: 1, ok: true, retryable: false }, 'retryable: goes with ok: false'],
      [{ attempt: 1, ok: true, retry_after_s: 1 }, 'retry_after_s: goes with ok: false'],
      [{ attempt: 1, ok: false, error: 'e', retry_after_s: -1 }, 'retry_after_s: must be from 0 to 31536000'],
      [{ attempt: 1, ok: true, snooze_s: 5 }, 'snooze_s: cannot go with ok: an attempt ends in one way'],
      [
        { attempt: 1, ok: false, error: 'e', cancelled: true },
        'cancelled: cannot go with ok: an attempt ends in one way',
      ],
      [{ attempt: 1, snooze_s: 5, cancelled: true }, 'cancelled: cannot go with snooze_s: an attempt ends in one way'],
      [{ attempt: 1, snooze_s: -1 }, 'snooze_s: must be from 0 to 31536000'],
      [{ attempt: 1, snooze_s: null }, 'snooze_s: must be a number, not null'],
      [{ attempt: 1, snooze_s: 5, error: 'e' }, 'error: goes with ok: false'],
      [{ attempt: 1, snooze_s: 5, result: 1 }, 'result: goes with ok: true'],
      [{ attempt: 1, cancelled: true, retryable: false }, 'retryable: goes with ok: false'],
      [{ attempt: 1, cancelled: false }, 'cancelled: can only be true; say with ok how the attempt ended'],
      [{ attempt: 1, ok: true, result: 'r'.repeat(4_095) }, 'result: may be at most 4096 bytes of JSON text'],
    ] as const) {
      const { status, body: problem } = await report(api, body);
      assert.equal(status, 400, JSON.stringify(body));
      assert.equal(problem['detail'], fault);
    }
    assert.equal((await report(api, { attempt: 1, ok: true, result: 'r'.repeat(4_094) })).status, 200);
  });

  it('is answered item by item in a batch, results kept apart', async (test) => {
    const api = await serveApi(test);
    api.override({
      completeJobs: async (reports) => {
        api.asked.reports.push(...reports);
        return reports.map(() => ok({ outcome: 'succeeded', status: 'succeeded', replayed: true }));
      },
    });
    const results = await resultsOf(
      api,
      '/jobs/complete',
      `{"items":[{"job_id":"${ID}","attempt":1,"ok":true,"result":1.0},
        {"job_id":"${ID}","attempt":2,"ok":false},
        {"job_id":"${ID}","attempt":3,"ok":true,"result":{"result":3.0}}]}`,
    );
    assert.deepEqual(
      results.map(({ status, replayed, error }) => [status, replayed, error?.['detail']]),
      [
        [200, true, undefined],
        [400, undefined, 'items[1].error: is required with ok: false'],
        [200, true, undefined],
      ],
    );
    assert.partialDeepStrictEqual(api.asked.reports, [{ result: '1.0' }, { attempt: 3, result: '{"result":3.0}' }]);
  });
});

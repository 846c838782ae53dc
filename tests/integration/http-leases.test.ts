import assert from 'node:assert/strict';
import { once } from 'node:events';
import { request as httpRequest } from 'node:http';
import { describe, it } from 'node:test';
import type { LeaseRequest } from '../../services/api/use-cases/types.ts';
import { ok, refused } from '../../services/core/contract/problems.ts';
import { FAKE_START } from '../support/fake-clock.ts';
import { type HttpApi, serveApi } from '../support/http-api.ts';
import { jobRow, newCohort } from '../support/job-row.ts';

const ID = 'j_0123456789abc_00';
const lease = (api: HttpApi, body: object, queue = 'mail') => api.call('POST', `/queues/${queue}/lease`, { body });

describe('POST /queues/{queue}/lease', () => {
  it('answers a bare array of jobs with their payloads as they were written', async (test) => {
    const api = await serveApi(test);
    const payload = String.raw`{"id":9007199254740993,"x":1.10,"s":"a\u0000b"}`;
    const row = jobRow(newCohort(), 3, { payload, labels: { region: 'eu' } });
    api.jobs.set(row.jobId, row);
    const { status, text } = await lease(api, { worker: 'w', max: 5 });
    assert.equal(status, 200);
    assert.ok(text.startsWith(`[{"job_id":"${row.jobId}","attempt":1,`), text);
    assert.ok(text.endsWith(`"payload":${payload}}]`), text);
    assert.partialDeepStrictEqual(JSON.parse(text), [
      { lease_until: new Date(FAKE_START + 30_000).toISOString(), heartbeat_s: 10, idempotency_key: row.jobId },
    ]);
    assert.equal((await lease(api, { worker: 'w' }, 'empty')).text, '[]');
  });

  it('fills in what is left out, and takes high before normal before low however they are named', async (test) => {
    const api = await serveApi(test);
    await lease(api, { worker: 'w' });
    await lease(api, { worker: 'w', max: 100, wait_s: 0.25, priorities: ['low', 'high'], claim_id: 'c' });
    const [preset, asked] = api.asked.leases.map(({ signal: _, ...request }) => request);
    assert.deepEqual(preset, {
      queue: 'mail',
      priorities: ['high', 'normal', 'low'],
      max: 1,
      waitMs: 5_000,
      worker: 'w',
      claimId: null,
    });
    assert.deepEqual(asked, {
      queue: 'mail',
      priorities: ['high', 'low'],
      max: 100,
      waitMs: 250,
      worker: 'w',
      claimId: 'c',
    });
  });

  it('says what is wrong', async (test) => {
    const api = await serveApi(test);
    for (const [body, detail] of [
      [{}, 'worker: is required'],
      [{ worker: '' }, /^worker: /],
      [{ worker: 'w', max: 0 }, 'max: must be from 1 to 100'],
      [{ worker: 'w', max: 101 }, 'max: must be from 1 to 100'],
      [{ worker: 'w', max: 1.5 }, 'max: must be a whole number, not a fraction'],
      [{ worker: 'w', wait_s: 21 }, 'wait_s: must be from 0 to 20'],
      [{ worker: 'w', wait_s: -1 }, 'wait_s: must be from 0 to 20'],
      [{ worker: 'w', priorities: [] }, /^priorities: must have /],
      [{ worker: 'w', priorities: ['high', 'high'] }, 'priorities: must not name anything twice'],
      [{ worker: 'w', priorities: ['urgent'] }, 'priorities[0]: must be one of high, normal, low'],
      [{ worker: 'w', claim_id: 'c'.repeat(65) }, /^claim_id: /],
      [{ worker: 'w\u0000' }, /^worker: /],
      [{ worker: 'w', queue: 'mail' }, /^queue: is not a field here/],
    ] as const) {
      const { status, body: problem } = await lease(api, body);
      assert.equal(status, 400, JSON.stringify(body));
      if (typeof detail === 'string') assert.equal(problem['detail'], detail);
      else assert.match(String(problem['detail']), detail);
    }
    assert.equal((await lease(api, { worker: 'w' }, 'Mail')).status, 400);
    assert.deepEqual(api.asked.leases, []);
  });

  it('is refused with the time to wait while the ready stream is away', async (test) => {
    const api = await serveApi(test);
    const problem = { code: 'ready_stream_unavailable', detail: 'NATS is away.', retryAfterS: 2 } as const;
    api.override({ leaseJobs: async () => refused(problem) });
    const { status, headers } = await lease(api, { worker: 'w' });
    assert.deepEqual([status, headers['retry-after']], [503, '2']);
  });

  it('waits no longer when the caller hangs up, also at once', async (test) => {
    const api = await serveApi(test);
    const asked = Promise.withResolvers<LeaseRequest>();
    const aborted = Promise.withResolvers<undefined>();
    api.override({
      leaseJobs: async (request) => {
        request.signal.addEventListener('abort', () => aborted.resolve(undefined));
        asked.resolve(request);
        await aborted.promise;
        return ok([]);
      },
    });
    const call = httpRequest(`${api.url}/queues/mail/lease`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
    });
    call.on('error', () => undefined);
    call.end(JSON.stringify({ worker: 'w', wait_s: 20 }));
    assert.equal((await asked.promise).signal.aborted, false);
    call.destroy();
    await aborted.promise;
    assert.deepEqual(api.errors, []);
  });

  it('answers what it has when the process is told to stop, also when it was told before', async (test) => {
    const api = await serveApi(test);
    const asked = Promise.withResolvers<undefined>();
    api.override({
      leaseJobs: async ({ signal }) => {
        asked.resolve(undefined);
        if (!signal.aborted) await once(signal, 'abort');
        return ok([]);
      },
    });
    const waiting = lease(api, { worker: 'w', wait_s: 20 });
    await asked.promise;
    api.stop();
    assert.equal((await waiting).text, '[]');
    assert.equal((await lease(api, { worker: 'w', wait_s: 20 })).text, '[]');
  });
});

describe('a release', () => {
  it('gives one attempt back, or up to 100, each for itself', async (test) => {
    const api = await serveApi(test);
    const single = await api.call('POST', `/jobs/${ID}/release`, { body: { attempt: 2 } });
    assert.deepEqual(single.body, { outcome: 'released', job_status: 'enqueued', replayed: false });
    const items = [
      { job_id: ID, attempt: 3 },
      { job_id: 'none', attempt: 1 },
      { job_id: ID, attempt: 0 },
    ];
    const { body } = await api.call('POST', '/jobs/release', { body: { items } });
    const results = body['results'] as readonly { readonly status: number }[];
    assert.deepEqual(
      results.map(({ status }) => status),
      [200, 404, 400],
    );
    assert.deepEqual(api.asked.released, [
      { jobId: ID, attempt: 2 },
      { jobId: ID, attempt: 3 },
    ]);
  });

  it('R028 of an attempt that was lost is refused, and tells the current one', async (test) => {
    const api = await serveApi(test);
    const members = { current_attempt: 2, job_status: 'running' };
    api.override({ releaseJobs: async () => [refused({ code: 'lease_lost', detail: 'Leave it.', members })] });
    const { status, body } = await api.call('POST', `/jobs/${ID}/release`, { body: { attempt: 1 } });
    assert.equal(status, 409);
    assert.partialDeepStrictEqual(body, { code: 'lease_lost', ...members });
  });

  it('names its attempt and nothing else', async (test) => {
    const api = await serveApi(test);
    for (const body of [{}, { attempt: '1' }, { attempt: 1, ok: true }]) {
      assert.equal((await api.call('POST', `/jobs/${ID}/release`, { body })).status, 400, JSON.stringify(body));
    }
  });
});

describe('a report of another end', () => {
  it('puts the job off, or says that the worker stopped', async (test) => {
    const api = await serveApi(test);
    const items = [
      { job_id: ID, attempt: 1, snooze_s: 0.25 },
      { job_id: ID, attempt: 2, cancelled: true },
    ];
    const { body } = await api.call('POST', '/jobs/complete', { body: { items } });
    assert.partialDeepStrictEqual(body['results'], [{ outcome: 'snoozed' }, { outcome: 'cancelled' }]);
    assert.equal((await api.call('POST', `/jobs/${ID}/complete`, { body: { attempt: 3, snooze_s: 60 } })).status, 200);
    assert.deepEqual(api.asked.reports, [
      { jobId: ID, attempt: 1, kind: 'snoozed', delayMs: 250 },
      { jobId: ID, attempt: 2, kind: 'cancelled' },
      { jobId: ID, attempt: 3, kind: 'snoozed', delayMs: 60_000 },
    ]);
  });
});

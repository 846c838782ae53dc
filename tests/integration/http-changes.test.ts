import assert from 'node:assert/strict';
import { describe, it, type TestContext } from 'node:test';
import { refused } from '../../services/core/contract/problems.ts';
import { DAY_MS, HOUR_MS } from '../../services/core/domain/limits.ts';
import { FAKE_START } from '../support/fake-clock.ts';
import { type HttpApi, type Received, type Sent, serveApi } from '../support/http-api.ts';
import { jobRow, newCohort } from '../support/job-row.ts';

const after = (ms: number): string => new Date(FAKE_START + ms).toISOString();
const MERGE = { 'content-type': 'application/merge-patch+json' };
const ID = 'j_0123456789abc_00';

interface Patched {
  readonly api: HttpApi;
  readonly patch: (body: object | string, headers?: Sent['headers']) => Promise<Received>;
}

async function scheduled(test: TestContext, overrides: Parameters<typeof jobRow>[2] = {}): Promise<Patched> {
  const api = await serveApi(test);
  const row = jobRow(newCohort(), 0, { runAt: FAKE_START + HOUR_MS, ...overrides });
  api.jobs.set(row.jobId, row);
  return { api, patch: (body, headers = MERGE) => api.call('PATCH', `/jobs/${row.jobId}`, { body, headers }) };
}

describe('PATCH /jobs/{job_id}', () => {
  it('changes what it names, in both media types', async (test) => {
    const { api, patch } = await scheduled(test);
    const body = {
      run_at: after(2 * HOUR_MS),
      max_attempts: 7,
      timeout_s: 30,
      priority: 'low',
      expires_at: after(DAY_MS),
    };
    for (const headers of [MERGE, { 'content-type': 'application/json' }]) {
      const { status, body: job } = await patch(body, headers);
      assert.equal(status, 200);
      assert.equal(job['queue'], 'mail');
    }
    const change = {
      when: { at: FAKE_START + 2 * HOUR_MS },
      maxAttempts: 7,
      timeoutS: 30,
      priority: 'low',
      expiresAt: FAKE_START + DAY_MS,
    };
    assert.deepEqual(api.asked.changes, [change, change]);
    await patch({ delay_s: 1.5 });
    assert.deepEqual(api.asked.changes[2], { when: { delayMs: 1_500 } });
    const { status, body: problem } = await patch(body, { 'content-type': 'application/json-patch+json' });
    assert.equal(status, 415);
    assert.match(String(problem['detail']), /it must be application\/merge-patch\+json or application\/json/);
  });

  it('removes by null, or sets the default', async (test) => {
    const { api, patch } = await scheduled(test, { labels: { a: '1' }, expiresAt: FAKE_START + DAY_MS });
    const names = ['payload', 'labels', 'max_attempts', 'timeout_s', 'retry', 'priority', 'expires_at'];
    const { status } = await patch(Object.fromEntries(names.map((name) => [name, null])));
    assert.equal(status, 200);
    assert.deepEqual(api.asked.changes, [
      {
        payload: null,
        labels: {},
        maxAttempts: 5,
        timeoutS: 60,
        retry: { kind: 'exponential', baseS: 1, factor: 2, capS: 3_600, jitter: 'equal' },
        priority: 'normal',
        expiresAt: null,
      },
    ]);
  });

  it('merges labels and retry member by member with what the job has', async (test) => {
    const { api, patch } = await scheduled(test, {
      labels: { keep: '1', change: '2', remove: '3' },
      retry: { kind: 'fixed', baseS: 10, factor: 1, capS: 20, jitter: 'none' },
    });
    await patch({
      labels: { change: 'two', remove: null, absent: null, add: '4' },
      retry: { cap_s: 15, jitter: null },
    });
    assert.deepEqual(api.asked.changes, [
      {
        labels: { keep: '1', change: 'two', add: '4' },
        retry: { kind: 'fixed', baseS: 10, factor: 1, capS: 15, jitter: 'equal' },
      },
    ]);
  });

  it('R083 keeps a new payload character by character', async (test) => {
    const { api, patch } = await scheduled(test);
    const payload = String.raw`{"id":9007199254740993,"x":1.10,"s":"a\u0000b"}`;
    await patch(`{"payload": ${payload} }`);
    assert.deepEqual(api.asked.changes, [{ payload: { text: payload, bytes: Buffer.byteLength(payload) } }]);
  });

  it('says what is wrong with each field, and how it would be right', async (test) => {
    const { api, patch } = await scheduled(test, {
      labels: Object.fromEntries(Array.from({ length: 16 }, (_, index) => [`k${index}`, 'v'])),
      retry: { kind: 'fixed', baseS: 10, factor: 1, capS: 20, jitter: 'none' },
    });
    for (const [body, detail] of [
      [{}, 'The body names nothing to change.'],
      [{ queue: 'other' }, /^queue: is not a field here \(the fields are run_at, delay_s, payload, /],
      [{ run_at: null }, 'run_at: must be text in RFC 3339, such as "2027-01-31T06:00:00Z", not null'],
      [{ run_at: after(0), delay_s: 1 }, /^run_at: and delay_s exclude each other/],
      [{ run_at: after(-HOUR_MS - 1) }, /^run_at: lies more than 1 hour in the past/],
      [{ run_at: after(366 * DAY_MS) }, 'run_at: may be at most 365 days ahead'],
      [{ delay_s: 366 * 86_400 }, 'delay_s: may be at most 365 days ahead'],
      [{ max_attempts: 0 }, 'max_attempts: must be from 1 to 1000'],
      [{ max_attempts: '3' }, 'max_attempts: must be a whole number or null, not text'],
      [{ timeout_s: 86_401 }, 'timeout_s: must be from 1 to 86400'],
      [{ priority: 'urgent' }, 'priority: must be one of high, normal, low'],
      [{ retry: { kind: 'linear' } }, 'retry.kind: must be one of exponential, fixed'],
      [{ retry: { cap_s: 5 } }, 'retry.cap_s: is 5 s, less than base_s, which is 10 s'],
      [{ retry: 5 }, 'retry: must be an object or null, not a whole number'],
      [{ labels: { more: 'v' } }, 'labels: would be more than 16 with those that the job has'],
      [
        { labels: { k0: null, 'a=b': 'v' } },
        'labels.a=b: is a key, and keys must be without =, which ends the name in a filter; null removes it',
      ],
      [{ labels: { k0: 5 } }, 'labels.k0: must be text or null, not a whole number'],
      [{ expires_at: after(HOUR_MS) }, /^expires_at: must lie after the time at which the job is due/],
      [{ expires_at: after(3 * HOUR_MS), delay_s: 4 * 3_600 }, /^expires_at: must lie after/],
      [{ expires_at: 1_767_225_600 }, /^expires_at: must be text in RFC 3339, such as .* or null, not a whole number/],
      [{ payload: 'x'.repeat(65_535) }, /^payload: is 65537 bytes/],
    ] as const) {
      const { status, body: problem } = await patch(body);
      assert.equal(status, 400, JSON.stringify(body));
      if (typeof detail === 'string') assert.equal(problem['detail'], detail);
      else assert.match(String(problem['detail']), detail);
    }
    assert.deepEqual(api.asked.changes, []);
    assert.equal((await patch({ labels: { k0: null, more: 'v' } })).status, 200);
  });

  it('leaves a label with = in its name as it was, and removes it', async (test) => {
    const { api, patch } = await scheduled(test, { labels: { 'a=b': 'old', keep: '1' } });
    assert.equal((await patch({ labels: { more: '2' } })).status, 200);
    assert.equal((await patch({ labels: { 'a=b': null } })).status, 200);
    assert.deepEqual(api.asked.changes, [
      { labels: { 'a=b': 'old', keep: '1', more: '2' } },
      { labels: { keep: '1' } },
    ]);
  });

  it('R099 takes __proto__ for an unknown field', async (test) => {
    const { patch } = await scheduled(test);
    for (const body of ['{"__proto__":{"priority":"high"}}', '{"retry":{"__proto__":{"base_s":1}}}']) {
      assert.equal((await patch(body)).status, 400, body);
    }
    assert.equal((await patch('{"labels":{"__proto__":"x"}}')).status, 400);
  });

  it('R085 counts delays beyond 2^31 ms to the millisecond', async (test) => {
    const { api, patch } = await scheduled(test);
    await patch({ delay_s: 2_147_483.648 });
    assert.deepEqual(api.asked.changes, [{ when: { delayMs: 2_147_483_648 } }]);
    await api.call('POST', `/jobs/${ID}/complete`, { body: { attempt: 1, snooze_s: 2_147_483.648 } });
    assert.partialDeepStrictEqual(api.asked.reports, [{ kind: 'snoozed', delayMs: 2_147_483_648 }]);
  });

  it('R087 takes no number for a time', async (test) => {
    const { api, patch } = await scheduled(test);
    for (const field of ['run_at', 'expires_at']) {
      for (const time of [1767225600, 1767225600000, 1767225600000000, '1767225600', '1767225600000']) {
        assert.equal((await patch({ [field]: time })).status, 400, `${field} ${time}`);
        assert.equal((await api.call('POST', '/jobs', { body: { queue: 'q', [field]: time } })).status, 400);
      }
    }
  });

  it('R091 refuses NUL in labels, and keeps it in a payload', async (test) => {
    const { api, patch } = await scheduled(test);
    assert.equal((await patch(String.raw`{"labels":{"k":"a\u0000b"}}`)).status, 400);
    assert.equal((await patch(String.raw`{"labels":{"a\u0000b":null}}`)).status, 400);
    assert.equal((await patch(String.raw`{"payload":"a\u0000b"}`)).status, 200);
    assert.partialDeepStrictEqual(api.asked.changes, [{ payload: { text: String.raw`"a\u0000b"` } }]);
  });

  it('moves no expired time by a later run_at alone', async (test) => {
    const { patch } = await scheduled(test, { expiresAt: FAKE_START + 2 * HOUR_MS });
    assert.equal((await patch({ run_at: after(3 * HOUR_MS) })).status, 400);
    assert.equal((await patch({ run_at: after(3 * HOUR_MS), expires_at: after(4 * HOUR_MS) })).status, 200);
    assert.equal((await patch({ run_at: after(3 * HOUR_MS), expires_at: null })).status, 200);
    assert.equal((await patch({ priority: 'high' })).status, 200);
  });

  it('is refused once the job is no longer scheduled, with its state', async (test) => {
    const { api, patch } = await scheduled(test);
    const members = { job_status: 'enqueued' };
    api.override({ changeJob: async () => refused({ code: 'job_not_changeable', detail: 'Too late.', members }) });
    const { status, body } = await patch({ delay_s: 5 });
    assert.equal(status, 409);
    assert.partialDeepStrictEqual(body, { code: 'job_not_changeable', job_status: 'enqueued', status: 409 });
  });
});

describe('POST /jobs/{job_id}/replay with a body', () => {
  it('hands on another payload as it was written, and another queue', async (test) => {
    const api = await serveApi(test);
    const row = jobRow(newCohort(), 0, { status: 'dead' });
    api.jobs.set(row.jobId, row);
    const path = `/jobs/${row.jobId}/replay`;
    for (const body of ['{"payload": {"x": 1.10}, "queue": "slow"}', '{"payload":null}', '{}']) {
      assert.equal((await api.call('POST', path, { body })).status, 200, body);
    }
    assert.equal((await api.call('POST', path)).status, 200);
    assert.deepEqual(api.asked.replays, [
      { payload: { text: '{"x": 1.10}', bytes: 11 }, queue: 'slow' },
      { payload: null },
      {},
      {},
    ]);
  });

  it('refuses what it does not know, and payloads that are too large', async (test) => {
    const api = await serveApi(test);
    const row = jobRow(newCohort(), 0, { status: 'dead' });
    api.jobs.set(row.jobId, row);
    for (const [body, detail] of [
      [{ queue: 'Mail' }, 'queue: must be 1 to 64 of a-z'],
      [{ queu: 'mail' }, 'queu: is not a field here: did you mean queue?'],
      [{ payload: 'x'.repeat(65_535) }, 'payload: is 65537 bytes of JSON text, and may be 65536'],
    ] as const) {
      const answer = await api.call('POST', `/jobs/${row.jobId}/replay`, { body });
      assert.equal(answer.status, 400);
      assert.ok(String(answer.body['detail']).startsWith(detail), String(answer.body['detail']));
    }
    assert.deepEqual(api.asked.replays, []);
  });
});

describe('POST /jobs/{job_id}/cancel, /run and /replay', () => {
  it('answer the job, and 202 where its worker has yet to stop', async (test) => {
    const api = await serveApi(test);
    const waiting = jobRow(newCohort(), 0);
    const running = jobRow(newCohort(), 0, { status: 'running', attempt: 1, cancelRequested: true });
    for (const row of [waiting, running]) api.jobs.set(row.jobId, row);
    assert.equal((await api.call('POST', `/jobs/${waiting.jobId}/cancel`)).status, 200);
    const { status, body } = await api.call('POST', `/jobs/${running.jobId}/cancel`);
    assert.equal(status, 202);
    assert.partialDeepStrictEqual(body, { status: 'running', cancel_requested: true });
    for (const verb of ['run', 'replay']) {
      const answer = await api.call('POST', `/jobs/${waiting.jobId}/${verb}`);
      assert.equal(answer.status, 200);
      assert.equal(answer.body['job_id'], waiting.jobId);
    }
  });

  it('know no job by a text that is no id, and refuse in the form of all refusals', async (test) => {
    const api = await serveApi(test);
    const finished = { code: 'job_finished', detail: 'It is.', members: { job_status: 'dead' } } as const;
    const refuse = async () => refused(finished);
    api.override({ requestCancel: refuse, runJobNow: refuse, replayJob: refuse });
    for (const verb of ['cancel', 'run', 'replay']) {
      assert.equal((await api.call('POST', `/jobs/x/${verb}`)).status, 404);
      const { status, body } = await api.call('POST', `/jobs/${ID}/${verb}`);
      assert.equal(status, 409);
      assert.equal(body['job_status'], 'dead');
      assert.equal((await api.call('GET', `/jobs/${ID}/${verb}`)).status, 405);
      assert.equal((await api.call('POST', `/jobs/${ID}/${verb}?force=1`)).status, 400);
    }
  });
});

describe('jitter_s and expires_at of a new job', () => {
  const create = async (api: HttpApi, body: object) => api.call('POST', '/jobs', { body: { queue: 'q', ...body } });

  it('are handed on to the millisecond', async (test) => {
    const api = await serveApi(test);
    assert.equal((await create(api, { jitter_s: 0.25, expires_at: after(HOUR_MS) })).status, 201);
    assert.partialDeepStrictEqual(api.asked.created, [{ jitterMs: 250, expiresAt: FAKE_START + HOUR_MS }]);
    assert.equal((await create(api, { jitter_s: 86_400 })).status, 201);
  });

  it('let no job expire before it is due', async (test) => {
    const api = await serveApi(test);
    for (const [body, due] of [
      [{ expires_at: after(0) }, 0],
      [{ expires_at: after(-HOUR_MS) }, 0],
      [{ delay_s: 60, expires_at: after(60_000) }, 60_000],
      [{ run_at: after(HOUR_MS), expires_at: after(HOUR_MS) }, HOUR_MS],
      // A time that has passed counts as now.
      [{ run_at: after(-1_800_000), expires_at: after(-60_000) }, 0],
      [{ run_at: after(HOUR_MS), jitter_s: 60, expires_at: after(HOUR_MS + 60_000) }, HOUR_MS + 60_000],
    ] as const) {
      const { status, body: problem } = await create(api, body);
      assert.equal(status, 400, JSON.stringify(body));
      const detail = `expires_at: must lie after the time at which the job is due, jitter_s included: ${after(due)}`;
      assert.equal(problem['detail'], detail);
    }
    const fits = { run_at: after(HOUR_MS), jitter_s: 60, expires_at: after(HOUR_MS + 60_001) };
    assert.equal((await create(api, fits)).status, 201);
  });

  it('R089 refuse leap seconds there too', async (test) => {
    const api = await serveApi(test);
    const { status, body } = await create(api, { expires_at: '2026-12-31T23:59:60Z' });
    assert.equal(status, 400);
    assert.match(String(body['detail']), /^expires_at: is a leap second/);
  });
});

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { refused, ok } from '../../services/core/contract/problems.ts';
import { DAY_MS, HOUR_MS, SECOND_MS } from '../../services/core/domain/limits.ts';
import { FAKE_START } from '../support/fake-clock.ts';
import { createJobRequest } from '../support/create-job-request.ts';
import { type HttpApi, type Sent, serveApi } from '../support/http-api.ts';
import { fullJobRow, jobRow, newCohort } from '../support/job-row.ts';

const after = (ms: number): string => new Date(FAKE_START + ms).toISOString();

/** The field errors of a refusal, as `field: message`. */
async function faultsOf(api: HttpApi, body: object | string): Promise<readonly string[]> {
  const { status, body: problem } = await api.call('POST', '/jobs', { body });
  assert.equal(status, 400, JSON.stringify(problem));
  assert.equal(problem['code'], 'invalid_request');
  const errors = problem['errors'] as readonly { readonly field: string; readonly message: string }[];
  return errors.map(({ field, message }) => `${field}: ${message}`);
}

describe('POST /jobs', () => {
  it('answers 201, where the job is, and the job', async (test) => {
    const api = await serveApi(test);
    const { status, headers, body } = await api.call('POST', '/jobs', { body: { queue: 'mails' } });
    assert.equal(status, 201);
    assert.equal(headers.location, body['href']);
    assert.equal(body['href'], `/jobs/${String(body['job_id'])}`);
    assert.equal(headers['content-type'], 'application/json');
    assert.equal(headers['x-powered-by'], undefined);
    assert.equal(headers.etag, undefined);
    assert.equal((await api.call('GET', headers.location ?? '')).status, 200);
  });

  it('fills in the defaults', async (test) => {
    const api = await serveApi(test);
    await api.call('POST', '/jobs', { body: { queue: 'mails' } });
    assert.deepEqual(api.asked.created, [createJobRequest({ requestHash: null, queue: 'mails' })]);
  });

  it('takes every field to its limit', async (test) => {
    const api = await serveApi(test);
    const labels = Object.fromEntries(
      Array.from({ length: 16 }, (_, i) => [`${'k'.repeat(61)}${10 + i}`, 'v'.repeat(128)]),
    );
    const body = {
      queue: `q${'_-'.repeat(31)}9`,
      run_at: after(365 * DAY_MS),
      priority: 'high',
      max_attempts: 1_000,
      timeout_s: 86_400,
      lease_s: 900,
      retry: { kind: 'fixed', base_s: 0.1, factor: 1, cap_s: 31_536_000, jitter: 'none' },
      labels,
      idempotency_key: '~'.repeat(128),
    };
    const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
    assert.equal((await api.call('POST', '/jobs', { body, headers: { traceparent } })).status, 201);
    assert.partialDeepStrictEqual(api.asked.created[0], {
      when: { at: FAKE_START + 365 * DAY_MS },
      priority: 'high',
      maxAttempts: 1_000,
      timeoutS: 86_400,
      leaseS: 900,
      retry: { kind: 'fixed', baseS: 0.1, factor: 1, capS: 31_536_000, jitter: 'none' },
      labels,
      idempotencyKey: '~'.repeat(128),
      traceparent,
    });
  });

  it('leaves out a trace context that is malformed', async (test) => {
    const api = await serveApi(test);
    await api.call('POST', '/jobs', { body: { queue: 'q' }, headers: { traceparent: '00-xyz-1-01' } });
    assert.equal(api.asked.created[0]?.traceparent, null);
  });

  it('R085 counts delays beyond 2^31 ms to the millisecond', async (test) => {
    const api = await serveApi(test);
    await api.call('POST', '/jobs', { body: { queue: 'q', delay_s: 2_147_483.648 } });
    await api.call('POST', '/jobs', { body: { queue: 'q', delay_s: 365 * 86_400 } });
    assert.deepEqual(
      api.asked.created.map(({ when }) => when),
      [{ delayMs: 2_147_483_648 }, { delayMs: 365 * DAY_MS }],
    );
  });

  it('takes times of the last hour, and refuses older ones and those beyond the horizon', async (test) => {
    const api = await serveApi(test, { horizonDays: 30 });
    for (const run_at of [after(-HOUR_MS), after(0), after(30 * DAY_MS)]) {
      assert.equal((await api.call('POST', '/jobs', { body: { queue: 'q', run_at } })).status, 201, run_at);
    }
    assert.deepEqual(await faultsOf(api, { queue: 'q', run_at: after(-HOUR_MS - 1) }), [
      `run_at: lies more than 1 hour in the past: it is ${after(0)} now`,
    ]);
    const beyond = after(30 * DAY_MS + 1);
    assert.deepEqual(await faultsOf(api, { queue: 'q', run_at: beyond }), ['run_at: may be at most 30 days ahead']);
    const tooLong = 30 * 86_400 + 0.001;
    assert.deepEqual(await faultsOf(api, { queue: 'q', delay_s: tooLong }), ['delay_s: may be at most 30 days ahead']);
    for (const run_at of ['0000-01-01T00:00:00Z', '9999-12-31T23:59:59Z', '1970-01-21T10:53:45Z']) {
      assert.equal((await faultsOf(api, { queue: 'q', run_at })).length, 1, run_at);
    }
  });

  it('R087 takes no number for a time, since it could be seconds or milliseconds', async (test) => {
    const api = await serveApi(test);
    for (const run_at of [1767225600, 1767225600000, 1767225600000000, 1.5, -1, 0]) {
      const [fault] = await faultsOf(api, { queue: 'q', run_at });
      assert.match(fault ?? '', /^run_at: must be text in RFC 3339, such as "2027-01-31T06:00:00Z", not a/);
    }
    const [fault] = await faultsOf(api, { queue: 'q', run_at: '1767225600' });
    assert.match(fault ?? '', /^run_at: must be RFC 3339/);
  });

  it('R089 refuses leap seconds', async (test) => {
    const api = await serveApi(test);
    for (const run_at of ['2016-12-31T23:59:60Z', '2026-12-31T23:59:60Z', '2027-01-01T00:59:60+01:00']) {
      const [fault] = await faultsOf(api, { queue: 'q', run_at });
      assert.match(fault ?? '', /^run_at: is a leap second/);
    }
  });

  it('says what excludes what, and where a repeating job belongs', async (test) => {
    const api = await serveApi(test);
    assert.deepEqual(await faultsOf(api, { queue: 'q', run_at: after(0), delay_s: 1 }), [
      'run_at: and delay_s exclude each other: give one of them, or neither for now',
    ]);
    assert.deepEqual(await faultsOf(api, { queue: 'q', cron: '* * * * *' }), [
      'cron: is not a field of a job: for one that repeats use POST /schedules',
    ]);
    assert.deepEqual(await faultsOf(api, { queue: 'q', retry: { base_s: 7_200 } }), [
      'retry.cap_s: is 3600 s, less than base_s, which is 7200 s',
    ]);
  });

  it('tells everything that is wrong at once, each with its field and what is right', async (test) => {
    const api = await serveApi(test);
    const faults = await faultsOf(api, {
      queue: 'Mails',
      max_attempt: 3,
      delay_s: '5',
      priority: 'urgent',
      max_attempts: 1_001,
      timeout_s: 1.5,
      lease_s: 4,
      retry: { kind: 'linear', base_s: 0 },
      labels: { region: 7, '': 'x' },
      idempotency_key: '',
    });
    assert.deepEqual([...faults].sort(), [
      'delay_s: must be a number, not text',
      'idempotency_key: must be 1 to 128 printable ASCII characters',
      'labels.: is a key, and keys must be from 1 to 63 characters long, without =, which ends the name in a filter',
      'labels.region: must be text, not a whole number',
      'lease_s: must be from 5 to 900',
      'max_attempt: is not a field here: did you mean max_attempts?',
      'max_attempts: must be from 1 to 1000',
      'priority: must be one of high, normal, low',
      'queue: must be 1 to 64 of a-z, 0-9, _ and -, beginning with a letter or digit',
      'retry.base_s: must be from 0.001 to 31536000',
      'retry.kind: must be one of exponential, fixed',
      'timeout_s: must be a whole number, not a fraction',
    ]);
  });

  it('sums up the first faults, and says how many more there are', async (test) => {
    const api = await serveApi(test);
    const detailOf = async (body: object): Promise<unknown> =>
      (await api.call('POST', '/jobs', { body })).body['detail'];
    const many = Object.fromEntries(Array.from({ length: 30 }, (_, index) => [`field_${index}`, 7]));
    assert.match(
      String(await detailOf({ queue: 'q', ...many })),
      /^(field_\d+: is not a field here [^;]*; ){3}and 27 more$/,
    );
    const three = await detailOf({ queue: 'q', delay_s: '5', lease_s: 4, timeout_s: 0 });
    assert.doesNotMatch(String(three), /more/);
    assert.match(String(await detailOf({ queue: '', delay_s: '5', lease_s: 4, timeout_s: 0 })), /; and 1 more$/);
  });

  it('takes a number beyond all doubles for none, and tells apart what values and what keys may hold', async (test) => {
    const api = await serveApi(test);
    for (const [body, fault] of [
      ['{"queue":"q","delay_s":1e400}', 'delay_s: must be a number, not one beyond all that can be told'],
      ['{"queue":"q","labels":{"a":"b\\n"}}', 'labels.a: must be text without control characters'],
      [
        '{"queue":"q","labels":{"a=b":"c=d"}}',
        'labels.a=b: is a key, and keys must be from 1 to 63 characters long, without =, which ends the name in a filter',
      ],
      [
        '{"queue":"q","labels":{"__proto__":"b"}}',
        'labels.__proto__: is a key, and keys must be text without control characters, and not __proto__',
      ],
    ] as const) {
      assert.equal((await api.call('POST', '/jobs', { body })).body['detail'], fault);
    }
  });

  it('refuses what is out of range or of another type, one by one', async (test) => {
    const api = await serveApi(test);
    const wrong: readonly object[] = [
      {},
      { queue: null },
      { queue: '' },
      { queue: '-a' },
      { queue: 'ä' },
      { queue: 'a'.repeat(65) },
      { queue: 'a.b' },
      { queue: ['q'] },
      { queue: 'q', run_at: null },
      { queue: 'q', delay_s: -1 },
      { queue: 'q', delay_s: true },
      { queue: 'q', max_attempts: 0 },
      { queue: 'q', timeout_s: 0 },
      { queue: 'q', timeout_s: 86_401 },
      { queue: 'q', lease_s: 901 },
      { queue: 'q', retry: 'fixed' },
      { queue: 'q', retry: { jitter: true } },
      { queue: 'q', retry: { cap_s: 0 } },
      { queue: 'q', labels: [] },
      { queue: 'q', labels: { ['k'.repeat(64)]: 'v' } },
      { queue: 'q', labels: { k: 'v'.repeat(129) } },
      { queue: 'q', labels: { k: null } },
      { queue: 'q', labels: Object.fromEntries(Array.from({ length: 17 }, (_, index) => [`k${index}`, 'v'])) },
      { queue: 'q', idempotency_key: 'a'.repeat(129) },
      { queue: 'q', idempotency_key: 'schlüssel' },
      { queue: 'q', idempotency_key: 5 },
      { queue: 'q', target: 'https://example.org' },
      { queue: 'q', jitter_s: -1 },
      { queue: 'q', jitter_s: 86_401 },
      { queue: 'q', expires_at: 1_767_225_600_000 },
    ];
    for (const body of wrong) assert.equal((await faultsOf(api, body)).length, 1, JSON.stringify(body));
    assert.equal((await faultsOf(api, '{"queue":"q","delay_s":1e400}')).length, 1);
    assert.deepEqual(api.asked.created, []);
  });

  it('R091 refuses NUL, other control characters and half surrogates in names, keys and labels', async (test) => {
    const api = await serveApi(test);
    for (const body of [
      String.raw`{"queue":"a\u0000b"}`,
      String.raw`{"queue":"q","idempotency_key":"a\u0000b"}`,
      String.raw`{"queue":"q","idempotency_key":"a\nb"}`,
      String.raw`{"queue":"q","labels":{"a\u0000b":"v"}}`,
      String.raw`{"queue":"q","labels":{"k":"a\u0000b"}}`,
      String.raw`{"queue":"q","labels":{"k":"\ud800"}}`,
      String.raw`{"queue":"q","labels":{"\udc00":"v"}}`,
      String.raw`{"queue":"q\n"}`,
    ]) {
      assert.equal((await faultsOf(api, body)).length, 1, body);
    }
  });

  it('R099 takes __proto__ and constructor for unknown fields, and keeps them as data in the payload', async (test) => {
    const api = await serveApi(test);
    const hostile = '{"__proto__":{"priority":99},"constructor":{"prototype":{"x":1}}}';
    for (const [body, fields] of [
      [`{"queue":"q","__proto__":{"priority":"high"},"constructor":{}}`, ['__proto__', 'constructor']],
      [`{"queue":"q","retry":${hostile}}`, ['retry.__proto__', 'retry.constructor']],
      [`{"queue":"q","labels":{"__proto__":"x"}}`, ['labels.__proto__']],
    ] as const) {
      const faults = await faultsOf(api, body);
      assert.deepEqual(
        faults.map((fault) => fault.split(': ')[0]),
        fields,
      );
    }
    const { status, text } = await api.call('POST', '/jobs', { body: `{"queue":"q","payload":${hostile}}` });
    assert.equal(status, 201);
    assert.ok(text.includes(`"payload":${hostile}`));
    assert.equal(({} as Record<string, unknown>)['x'], undefined);
  });

  it('R083 keeps the payload character by character on its way in and out', async (test) => {
    const api = await serveApi(test);
    for (const payload of [
      String.raw`{"id":9007199254740993,"x":1.10,"s":"a\u0000b"}`,
      '{"id":9007199254740993,"x":12345678901234567890,"y":1e400,"z":-0}',
      String.raw`{ "b" : 1,"a":[ ],"ü":"\u00fc\ud83d\ude00\ud800" }`,
      'null',
      '-0',
      '"text"',
      '[1,\n2]',
    ]) {
      const created = await api.call('POST', '/jobs', { body: `{"queue":"q", "payload": ${payload} }` });
      assert.equal(created.status, 201, payload);
      const { text } = await api.call('GET', String(created.body['href']));
      assert.ok(text.includes(`"payload":${payload},"result":`), text);
      assert.equal(api.asked.created.at(-1)?.payload, payload);
      assert.equal(api.asked.created.at(-1)?.payloadBytes, Buffer.byteLength(payload));
    }
  });

  it('counts the payload in bytes of its own text', async (test) => {
    const api = await serveApi(test);
    const fits = `"${'é'.repeat(32_767)}"`;
    assert.equal(Buffer.byteLength(fits), 65_536);
    assert.equal((await api.call('POST', '/jobs', { body: `{"queue":"q","payload":${fits}}` })).status, 201);
    assert.deepEqual(
      await faultsOf(api, `{"queue":"q","payload":${fits} ,"labels":{}, "delay_s": 0}`.replace('"é', '"aé')),
      ['payload: is 65537 bytes of JSON text, and may be 65536; pass what is larger by reference'],
    );
  });

  it('takes a payload nested deeper than calls can be, keyed or not', async (test) => {
    const api = await serveApi(test);
    const payload = '['.repeat(32_000) + ']'.repeat(32_000);
    for (const more of ['', ',"idempotency_key":"k"']) {
      const { status } = await api.call('POST', '/jobs', { body: `{"queue":"q","payload":${payload}${more}}` });
      assert.equal(status, 201);
    }
  });

  it('refuses a key that stands twice, outside the payload', async (test) => {
    const api = await serveApi(test);
    assert.deepEqual(await faultsOf(api, '{"queue":"a","queue":"b"}'), [
      'queue: stands twice; each key may stand once',
    ]);
    const inside = await api.call('POST', '/jobs', { body: '{"queue":"a","payload":{"a":1,"a":2}}' });
    assert.equal(inside.status, 201);
  });
});

describe('an idempotency key', () => {
  const key = 'invoice-4711';

  it('may stand in the header or in the body, and counts once', async (test) => {
    const api = await serveApi(test);
    await api.call('POST', '/jobs', { body: { queue: 'q' }, headers: { 'idempotency-key': key } });
    await api.call('POST', '/jobs', { body: { queue: 'q', idempotency_key: key } });
    await api.call('POST', '/jobs', {
      body: { queue: 'q', idempotency_key: key },
      headers: { 'idempotency-key': key },
    });
    const [inHeader, inBody, inBoth] = api.asked.created;
    assert.equal(inHeader?.idempotencyKey, key);
    assert.equal(inBody?.idempotencyKey, key);
    assert.match(inHeader.requestHash ?? '', /^[0-9a-f]{64}$/);
    assert.equal(inHeader.requestHash, inBody.requestHash);
    assert.equal(inHeader.requestHash, inBoth?.requestHash);
  });

  it('is refused when header and body differ, when it stands twice, and when it is none', async (test) => {
    const api = await serveApi(test);
    for (const [headers, body] of [
      [{ 'idempotency-key': 'other' }, { queue: 'q', idempotency_key: key }],
      [{ 'idempotency-key': ['a', 'b'] }, { queue: 'q' }],
      [{ 'idempotency-key': 'a'.repeat(129) }, { queue: 'q' }],
      [{ 'idempotency-key': '' }, { queue: 'q' }],
    ] satisfies [Sent['headers'], object][]) {
      const { status, body: problem } = await api.call('POST', '/jobs', { body, headers });
      assert.equal(status, 400, JSON.stringify(headers));
      assert.match(String(problem['detail']), /^(idempotency_key|Idempotency-Key): /);
    }
  });

  it('goes with the content: the same whatever its layout, another when a number is written another way', async (test) => {
    const api = await serveApi(test);
    for (const body of [
      `{"queue":"q","delay_s":5,"payload":{"x":1.10,"a":"ü"},"idempotency_key":"${key}"}`,
      `{ "idempotency_key":"${key}", "payload" : {"a":"\\u00fc", "x":1.10},"delay_s":5,"queue":"q"}`,
      `{"queue":"q","delay_s":5,"payload":{"x":1.1,"a":"ü"},"idempotency_key":"${key}"}`,
    ]) {
      await api.call('POST', '/jobs', { body });
      await api.clock.advance(SECOND_MS);
    }
    const [first, same, other] = api.asked.created.map(({ requestHash }) => requestHash);
    assert.equal(first, same);
    assert.notEqual(first, other);
  });

  it('R051 tells a replay from a new job', async (test) => {
    const api = await serveApi(test);
    const job = jobRow(newCohort(), 0, { status: 'succeeded' });
    api.override({ createJob: async () => ok({ job, replayed: true }) });
    const { status, headers, body } = await api.call('POST', '/jobs', { body: { queue: 'q', idempotency_key: key } });
    assert.equal(status, 200);
    assert.equal(headers['idempotency-replayed'], 'true');
    assert.equal(headers.location, undefined);
    assert.equal(body['status'], 'succeeded');
  });

  it('is answered 422 when it was used with other content', async (test) => {
    const api = await serveApi(test);
    const problem = { code: 'idempotency_key_reused', detail: 'Use a new key.', members: { job_id: 'j_x' } } as const;
    api.override({ createJob: async () => refused(problem) });
    const { status, body } = await api.call('POST', '/jobs', { body: { queue: 'q', idempotency_key: key } });
    assert.equal(status, 422);
    assert.partialDeepStrictEqual(body, { code: 'idempotency_key_reused', job_id: 'j_x', retryable: false });
  });

  it('still finds its job when the request is repeated more than an hour after run_at', async (test) => {
    const api = await serveApi(test);
    const sent = { body: { queue: 'q', run_at: after(0), idempotency_key: key } };
    assert.equal((await api.call('POST', '/jobs', sent)).status, 201);
    await api.clock.advance(2 * HOUR_MS);
    await api.call('POST', '/jobs', sent);
    assert.equal(api.asked.created.length, 2);
    const { status } = await api.call('POST', '/jobs', { body: { ...sent.body, idempotency_key: 'another' } });
    assert.equal(status, 400);
    assert.equal(api.asked.created.length, 2);
    api.override({ findJobByKey: async () => refused({ code: 'store_unavailable', detail: 'Not now.' }) });
    assert.equal((await api.call('POST', '/jobs', sent)).status, 503);
  });

  it('finds its job by GET', async (test) => {
    const api = await serveApi(test);
    const created = await api.call('POST', '/jobs', { body: { queue: 'q', idempotency_key: 'a key&more=1' } });
    const found = await api.call('GET', '/jobs?idempotency_key=a%20key%26more%3D1');
    assert.equal(found.status, 200);
    assert.equal(found.body['job_id'], created.body['job_id']);
    assert.equal((await api.call('GET', '/jobs?idempotency_key=none')).status, 404);
    for (const query of [
      '',
      '?idempotency_key=',
      '?idempotency_key=a&idempotency_key=b',
      '?queue=q',
      '?idempotency_key=a&x=1',
    ]) {
      assert.equal((await api.call('GET', `/jobs${query}`)).status, 400, query);
    }
  });
});

describe('GET and DELETE /jobs/{job_id}', () => {
  it('show every field, the attempts in order, and a query that finds the row', async (test) => {
    const api = await serveApi(test);
    const row = {
      ...fullJobRow(newCohort(), 5),
      payload: '{"x":1.10}',
      progress: '{"percent":50.0}',
      result: '{"ok":1.0}',
    };
    api.jobs.set(row.jobId, row);
    const { status, body, text } = await api.call('GET', `/jobs/${row.jobId}`);
    assert.equal(status, 200);
    assert.deepEqual(body['attempts'], [
      {
        attempt: 1,
        worker: 'worker-1',
        started_at: '2026-11-15T06:00:01.001Z',
        ended_at: '2026-11-15T06:00:01.006Z',
        outcome: 'failed',
        error: 'boom',
      },
      {
        attempt: 2,
        worker: 'worker-2',
        started_at: '2026-11-15T06:00:01.011Z',
        ended_at: '2026-11-15T06:00:01.016Z',
        outcome: 'lease_expired',
        error: null,
      },
    ]);
    assert.equal(
      body['cql'],
      `SELECT * FROM punctual.jobs WHERE cohort = '${row.cohort}' AND job_id = '${row.jobId}';`,
    );
    assert.partialDeepStrictEqual(body, {
      cohort: row.cohort,
      shard: 3,
      reason: 'attempts',
      last_error: 'boom\nand more',
    });
    assert.deepEqual(Object.entries(body['labels'] as object), Object.entries(row.labels));
    assert.ok(text.endsWith(`"payload":${row.payload},"result":{"ok":1.0},"progress":{"percent":50.0}}`));
    assert.equal(
      (await api.call('HEAD', `/jobs/${row.jobId}`)).headers['content-length'],
      String(Buffer.byteLength(text)),
    );
  });

  it('take the id of an occurrence raw and percent-encoded', async (test) => {
    const api = await serveApi(test);
    const jobId = 's_0123456789abc_00@2026-11-15T06:00:00Z';
    api.jobs.set(jobId, { ...jobRow(newCohort(), 0), jobId, cohort: 's_0123456789abc@2026-11-15T06:00:00Z' });
    for (const path of [jobId, encodeURIComponent(jobId), jobId.replace('@', '%40')]) {
      const { status, body } = await api.call('GET', `/jobs/${path}`);
      assert.equal(status, 200, path);
      assert.equal(body['job_id'], jobId);
      assert.equal((await api.call('GET', String(body['href']))).status, 200);
    }
  });

  it('know no job by a text that is no id, and do not ask for it', async (test) => {
    const api = await serveApi(test);
    const ask = async () => Promise.reject(new Error('asked'));
    api.override({ getJob: ask, cancelJob: ask });
    for (const id of [
      'x',
      'j_0123456789abc',
      'J_0123456789ABC_00',
      'j_0123456789abc_00x',
      "j_0123456789abc_00'",
      '%00',
      'claim',
    ]) {
      for (const method of ['GET', 'DELETE']) {
        const { status, body } = await api.call(method, `/jobs/${id}`);
        assert.equal(status, 404, id);
        assert.equal(body['code'], 'job_not_found');
      }
    }
    assert.equal((await api.call('GET', '/jobs/%zz')).status, 400);
  });

  it('refuse query parameters they do not know', async (test) => {
    const api = await serveApi(test);
    const { status, body } = await api.call('DELETE', '/jobs/j_0123456789abc_00?force=true');
    assert.equal(status, 400);
    assert.equal(body['detail'], 'force: is not known here');
  });

  it('tell by job_status why a job cannot be cancelled, beside the HTTP status', async (test) => {
    const api = await serveApi(test);
    const refusal = { code: 'job_running', detail: 'The job is running.', members: { job_status: 'running' } } as const;
    api.override({ cancelJob: async () => refused(refusal) });
    const { status, body } = await api.call('DELETE', '/jobs/j_0123456789abc_00');
    assert.equal(status, 409);
    assert.deepEqual(body, {
      type: '/problems#job_running',
      title: 'The job is running',
      status: 409,
      detail: 'The job is running.',
      instance: '/jobs/j_0123456789abc_00',
      code: 'job_running',
      retryable: false,
      job_status: 'running',
    });
  });
});

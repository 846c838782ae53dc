import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { gzipSync } from 'node:zlib';
import { refused } from '../../services/core/contract/problems.ts';
import { type HttpApi, type Sent, serveApi } from '../support/http-api.ts';

const ID = 'j_0123456789abc_00';
const GZIP = { 'content-encoding': 'gzip' };

/** Posts a job, and returns status and code of the refusal. */
async function refusalOf(api: HttpApi, sent: Sent, path = '/jobs'): Promise<readonly [number, unknown]> {
  const { status, headers, body } = await api.call('POST', path, sent);
  assert.equal(headers['content-type'], 'application/problem+json');
  return [status, body['code']];
}

describe('a body that cannot be taken', () => {
  it('R097 is refused in the form of all refusals, whatever is wrong with it', async (test) => {
    const api = await serveApi(test);
    const json = '{"queue":"q"}';
    const cases: readonly (readonly [Sent, number, string])[] = [
      [{ body: `{"queue":"q","payload":"${'x'.repeat(101_000)}"}` }, 413, 'body_too_large'],
      [{ body: '{"a": ' }, 400, 'invalid_json'],
      [{ body: "{'queue':'q'}" }, 400, 'invalid_json'],
      [{ body: '{"queue":"q",}' }, 400, 'invalid_json'],
      [{ body: '{"queue":"q"} {}' }, 400, 'invalid_json'],
      [{ body: '{"queue":"q" /* c */}' }, 400, 'invalid_json'],
      [{ body: '\ufeff{"queue":"q"}' }, 400, 'invalid_json'],
      [{ body: '{"queue":NaN}' }, 400, 'invalid_json'],
      [{ body: '' }, 400, 'invalid_json'],
      [{ body: ' \n' }, 400, 'invalid_json'],
      [{ headers: { 'content-type': 'application/json' } }, 400, 'invalid_json'],
      [{ body: '5' }, 400, 'invalid_request'],
      [{ body: 'null' }, 400, 'invalid_request'],
      [{ body: '[]' }, 400, 'invalid_request'],
      [{ body: '"queue"' }, 400, 'invalid_request'],
      [{ body: Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x7d]) }, 400, 'invalid_json'],
      [{ body: Buffer.from('{"queue":"q","payload":"\xe9"}', 'latin1') }, 400, 'invalid_json'],
      [{ body: Buffer.from([0x7b, 0x22, 0xed, 0xa0, 0x80, 0x22, 0x3a, 0x31, 0x7d]) }, 400, 'invalid_json'],
      [
        { body: json, headers: { 'content-type': 'application/json; charset=iso-8859-1' } },
        415,
        'unsupported_media_type',
      ],
      [{ body: json, headers: { 'content-type': 'text/plain' } }, 415, 'unsupported_media_type'],
      [{ body: json, headers: { 'content-type': 'application/x-www-form-urlencoded' } }, 415, 'unsupported_media_type'],
      [{ body: json, headers: { 'content-type': 'json' } }, 415, 'unsupported_media_type'],
      [{ body: json, headers: { 'content-type': '' } }, 415, 'unsupported_media_type'],
      [{ body: json, headers: { 'content-encoding': 'zstd9' } }, 415, 'unsupported_media_type'],
      [{ body: json, headers: GZIP }, 400, 'invalid_request'],
      [{ body: gzipSync(json).subarray(0, 20), headers: GZIP }, 400, 'invalid_request'],
      [{ body: gzipSync(`{"payload":"${'x'.repeat(5_000_000)}"}`), headers: GZIP }, 413, 'body_too_large'],
    ];
    for (const [sent, status, code] of cases) {
      const shown = JSON.stringify(sent).slice(0, 100);
      assert.deepEqual(await refusalOf(api, sent), [status, code], shown);
    }
    assert.deepEqual(api.asked.created, []);
    assert.deepEqual(api.errors, []);
  });

  it('R097 is refused so on every route that takes one', async (test) => {
    const api = await serveApi(test);
    const routes = [
      ['POST', '/jobs/batch', 8 * 1024 * 1024],
      ['PATCH', `/jobs/${ID}`, 96 * 1024],
      ['POST', '/queues/q/lease', 64 * 1024],
      ['POST', '/jobs/release', 1024 * 1024],
      ['POST', `/jobs/${ID}/release`, 64 * 1024],
      ['POST', `/jobs/${ID}/complete`, 64 * 1024],
    ] as const;
    for (const [method, path, maxBytes] of routes) {
      for (const [sent, status] of [
        [{ body: '{"a": ' }, 400],
        [{ body: '5' }, 400],
        [{ body: '' }, 400],
        [{ body: '{}', headers: { 'content-type': 'application/json; charset=iso-8859-1' } }, 415],
        [{ body: '{}', headers: { 'content-type': 'text/plain' } }, 415],
        [{ body: `{${' '.repeat(maxBytes - 1)}}` }, 413],
        [{ body: gzipSync(`{${' '.repeat(maxBytes)}}`), headers: GZIP }, 413],
      ] satisfies [Sent, number][]) {
        const answer = await api.call(method, path, sent);
        assert.equal(answer.status, status, `${method} ${path}`);
        assert.equal(answer.headers['content-type'], 'application/problem+json');
      }
    }
    assert.deepEqual(api.errors, []);
  });

  it('has the limit of its route', async (test) => {
    const api = await serveApi(test);
    const padded = (bytes: number): Sent => ({ body: `{"items":[]${' '.repeat(bytes - 12)}}` });
    assert.deepEqual(await refusalOf(api, padded(96 * 1024 + 1)), [413, 'body_too_large']);
    assert.deepEqual(await refusalOf(api, padded(96 * 1024)), [400, 'invalid_request']);
    assert.deepEqual(await refusalOf(api, padded(1024 * 1024), '/jobs/heartbeat'), [400, 'invalid_request']);
    assert.deepEqual(await refusalOf(api, padded(1024 * 1024 + 1), '/jobs/heartbeat'), [413, 'body_too_large']);
    assert.deepEqual(await refusalOf(api, padded(64 * 1024 + 1), `/jobs/${ID}/claim`), [413, 'body_too_large']);
  });

  it('may be compressed, and its Content-Type may say utf-8 in any way', async (test) => {
    const api = await serveApi(test);
    const json = '{"queue":"q","payload":1.10}';
    for (const sent of [
      { body: gzipSync(json), headers: GZIP },
      { body: json, headers: { 'content-type': 'application/json; charset=UTF-8' } },
      { body: json, headers: { 'content-type': 'Application/JSON;charset="utf-8"' } },
    ]) {
      assert.equal((await api.call('POST', '/jobs', sent)).status, 201);
      assert.equal(api.asked.created.at(-1)?.payload, '1.10');
    }
  });

  it('with thousands of unknown fields or items is refused cheaply', async (test) => {
    const api = await serveApi(test);
    const fields = Array.from({ length: 8_000 }, (_, index) => `"k${index}":0`).join();
    assert.deepEqual(await refusalOf(api, { body: `{${fields}}` }), [400, 'invalid_request']);
    const few = Array.from({ length: 900 }, (_, index) => `"k${index}":0`).join();
    const { body } = await api.call('POST', '/jobs', { body: `{${few}}` });
    assert.equal((body['errors'] as object[]).length, 20);
    const items = Array.from({ length: 400_000 }, () => '0').join();
    assert.deepEqual(await refusalOf(api, { body: `{"items":[${items}]}` }, '/jobs/heartbeat'), [
      400,
      'invalid_request',
    ]);
  });
});

describe('a path or method that is not there', () => {
  it('is refused in the form of all refusals', async (test) => {
    const api = await serveApi(test);
    for (const [method, path] of [
      ['GET', '/'],
      ['GET', '/job'],
      ['POST', '/calendars'],
      ['GET', '/JOBS'],
      ['GET', '/limits/'],
      ['GET', '//'],
      ['GET', '/%'],
      ['GET', '/jobs//claim'],
      ['GET', '/__proto__'],
      ['GET', `/jobs/${ID}/attempts`],
    ] as const) {
      const { status, body } = await api.call(method, path);
      assert.equal(status, 404, path);
      assert.partialDeepStrictEqual(body, { code: 'not_found', instance: path, type: '/problems#not_found' });
    }
  });

  it('names the methods that there are', async (test) => {
    const api = await serveApi(test);
    for (const [method, path, allow] of [
      ['PUT', '/jobs', 'GET, HEAD, POST'],
      ['PUT', `/jobs/${ID}`, 'DELETE, GET, HEAD, PATCH'],
      ['GET', '/queues/q/lease', 'POST'],
      ['PATCH', '/dead-letters', 'GET, HEAD'],
      ['GET', `/jobs/${ID}/claim`, 'POST'],
      ['POST', '/queues/q', 'GET, HEAD, PATCH, PUT'],
      ['OPTIONS', '/limits', 'GET, HEAD'],
    ] as const) {
      const { status, headers, body } = await api.call(method, path);
      assert.equal(status, 405, `${method} ${path}`);
      assert.equal(headers.allow, allow);
      assert.equal(body['code'], 'method_not_allowed');
    }
  });
});

describe('a refusal', () => {
  it('of 429 and 503 says when to come again, and of 5xx where to find it in the log', async (test) => {
    const api = await serveApi(test);
    const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
    for (const [code, status, retryAfterS, told] of [
      ['too_many_requests', 429, undefined, '1'],
      ['store_unavailable', 503, 5, '5'],
      ['outcome_unknown', 503, undefined, '1'],
      ['ready_stream_unavailable', 503, 2, '2'],
    ] as const) {
      const problem = { code, detail: 'Not now.', ...(retryAfterS === undefined ? {} : { retryAfterS }) };
      api.override({ createJob: async () => refused(problem) });
      const answer = await api.call('POST', '/jobs', { body: { queue: 'q' }, headers: { traceparent } });
      assert.equal(answer.status, status);
      assert.equal(answer.headers['retry-after'], told);
      assert.equal(answer.body['retryable'], true);
      assert.equal(answer.body['trace_id'], status === 503 ? '0af7651916cd43dd8448eb211c80319c' : undefined);
    }
  });

  it('for a fault of ours tells nothing of it but the trace, which is logged', async (test) => {
    const api = await serveApi(test);
    api.override({
      getJob: async () => Promise.reject(new Error('secret host 10.0.0.1', { cause: new Error('why') })),
    });
    const { status, body, text } = await api.call('GET', `/jobs/${ID}`);
    assert.equal(status, 500);
    assert.equal(body['code'], 'internal_error');
    assert.doesNotMatch(text, /secret|at .*\.ts/);
    assert.match(String(body['trace_id']), /^[0-9a-f]{32}$/);
    assert.partialDeepStrictEqual(api.errors, [
      { trace_id: body['trace_id'], method: 'GET', path: `/jobs/${ID}`, error: 'secret host 10.0.0.1: why' },
    ]);
  });
});

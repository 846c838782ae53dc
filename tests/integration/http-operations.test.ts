import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ok, refused } from '../../services/core/contract/problems.ts';
import { DAY_MS, PAYLOAD_MAX_BYTES } from '../../services/core/domain/limits.ts';
import { bulkOperation } from '../support/bulk-operation.ts';
import { FAKE_START } from '../support/fake-clock.ts';
import { type HttpApi, serveApi } from '../support/http-api.ts';
import { jobRow, newCohort } from '../support/job-row.ts';

const at = (ms: number): string => new Date(FAKE_START + ms).toISOString();

const FILTER = { queue: 'mail', from: at(0), to: at(DAY_MS) };
const NO_FILTER = { status: null, label: null, error: null };

async function post(api: HttpApi, path: string, body: object, headers: Record<string, string> = {}) {
  return api.call('POST', path, { body, headers });
}

async function detailOf(api: HttpApi, path: string, body: object): Promise<string> {
  const answer = await post(api, path, body);
  assert.equal(answer.status, 400, JSON.stringify(answer.body));
  return String(answer.body['detail']);
}

describe('POST /operations', () => {
  it('starts an operation and says where it is', async (test) => {
    const api = await serveApi(test);
    const filter = { ...FILTER, status: 'scheduled', label: 'path=/a=b', error: '451' };
    const { status, headers, body } = await post(api, '/operations', { verb: 'cancel', filter, rate_per_s: 2.5 });
    assert.equal(status, 202);
    assert.equal(headers['location'], body['href']);
    assert.match(String(body['href']), /^\/operations\/o_[0-9a-z]{13}$/);
    assert.partialDeepStrictEqual(body, { verb: 'cancel', status: 'running', filter, rate_per_s: 2.5, progress: 0 });
    assert.partialDeepStrictEqual(api.asked.operations, [
      {
        verb: 'cancel',
        filter: {
          queue: 'mail',
          from: FAKE_START,
          to: FAKE_START + DAY_MS,
          status: 'scheduled',
          label: { name: 'path', value: '/a=b' },
          error: '451',
        },
        newTime: null,
        ratePerS: 2.5,
        key: null,
        owner: 'default',
      },
    ]);
  });

  it('reschedules to a time, or by a shift', async (test) => {
    const api = await serveApi(test);
    const verb = 'reschedule';
    const to = await post(api, '/operations', { verb, filter: FILTER, run_at: at(5_000) });
    assert.partialDeepStrictEqual(to.body, { run_at: at(5_000), shift_s: null });
    const by = await post(api, '/operations', { verb, filter: FILTER, shift_s: -90.5 });
    assert.partialDeepStrictEqual(by.body, { run_at: null, shift_s: -90.5 });
    assert.deepEqual(
      api.asked.operations.map(({ newTime }) => newTime),
      [{ at: FAKE_START + 5_000 }, { shiftMs: -90_500 }],
    );
  });

  it('replays with another payload, kept as it was written, and to another queue', async (test) => {
    const api = await serveApi(test);
    const body = `{"verb":"replay","filter":${JSON.stringify(FILTER)},"queue":"mended","payload":{"n": 1.0}}`;
    const kept = { payload: '{"n": 1.0}', payloadBytes: 10 };
    const started = await api.call('POST', '/operations', { body });
    assert.match(started.text, /"payload":\{"n": 1\.0\}/);
    assert.partialDeepStrictEqual(started.body, { queue: 'mended', payload_bytes: 10, filter: { queue: 'mail' } });
    const none = await post(api, '/operations', { verb: 'replay', filter: FILTER, payload: null });
    assert.partialDeepStrictEqual(none.body, { queue: null, payload_bytes: 0, payload: null });
    const letters = await post(api, '/dead-letters/replay', { ...FILTER, to_queue: 'mended', payload: [1] });
    assert.partialDeepStrictEqual(letters.body, { queue: 'mended', payload: [1], filter: { queue: 'mail' } });
    const same = await post(api, '/dead-letters/replay', FILTER);
    assert.partialDeepStrictEqual(same.body, { queue: null, payload_bytes: null, payload: null });
    assert.deepEqual(
      api.asked.operations.map(({ replayChanges }) => replayChanges),
      [
        { ...kept, queue: 'mended' },
        { payload: null, payloadBytes: 0 },
        { payload: '[1]', payloadBytes: 3, queue: 'mended' },
        null,
      ],
    );
    const counted = await post(api, '/operations', { verb: 'replay', filter: FILTER, queue: 'mended', dry_run: true });
    assert.partialDeepStrictEqual(counted.body, { dry_run: true, queue: 'mended', payload_bytes: null, payload: null });
    api.override({ getOperation: async () => ok(bulkOperation({ replayChanges: kept })) });
    assert.match((await api.call('GET', '/operations/x')).text, /"payload":\{"n": 1\.0\}/);
    api.override({
      listOperations: async () => ok({ operations: [bulkOperation({ replayChanges: kept })], next: null }),
    });
    const [listed] = (await api.call('GET', '/operations')).body['operations'] as Record<string, unknown>[];
    assert.deepEqual([listed?.['payload_bytes'], 'payload' in (listed ?? {})], [10, false]);
  });

  it('takes the largest payload, and names one that is larger, also where it only counts', async (test) => {
    const api = await serveApi(test);
    for (const dry_run of [false, true]) {
      for (const [path, request] of [
        ['/operations', { verb: 'replay', filter: FILTER, dry_run }],
        ['/dead-letters/replay', { ...FILTER, dry_run }],
      ] as const) {
        const largest = await post(api, path, { ...request, payload: 'x'.repeat(PAYLOAD_MAX_BYTES - 2) });
        assert.equal(largest.status, dry_run ? 200 : 202);
        const told = await detailOf(api, path, { ...request, payload: 'x'.repeat(PAYLOAD_MAX_BYTES - 1) });
        assert.match(told, /^payload: is 65537 bytes of JSON text, and may be 65536/);
      }
    }
  });

  it('only counts and shows with dry_run', async (test) => {
    const api = await serveApi(test);
    const row = jobRow(newCohort(), 0);
    api.jobs.set(row.jobId, row);
    const { status, headers, body } = await post(api, '/operations', { verb: 'run', filter: FILTER, dry_run: true });
    assert.equal(status, 200);
    assert.equal(headers['location'], undefined);
    assert.partialDeepStrictEqual(body, {
      dry_run: true,
      verb: 'run',
      filter: { ...FILTER, ...NO_FILTER },
      matched: 1,
      refused: 0,
      complete: true,
      reached: null,
    });
    const [sample] = body['samples'] as Record<string, unknown>[];
    assert.equal(sample?.['job_id'], row.jobId);
    assert.ok(!('payload' in sample));
    assert.deepEqual(api.asked.operations, []);
    assert.partialDeepStrictEqual(api.asked.dryRuns, [{ verb: 'run', createdAt: FAKE_START }]);
    api.override({ dryRun: async () => ok({ matched: 9, refused: 1, reached: FAKE_START + 7, samples: [] }) });
    const cut = await post(api, '/operations', { verb: 'run', filter: FILTER, dry_run: true });
    assert.partialDeepStrictEqual(cut.body, { matched: 9, refused: 1, complete: false, reached: at(7) });
  });

  it('hands on its key, and tells a repeat', async (test) => {
    const api = await serveApi(test);
    const key = { 'idempotency-key': 'nightly' };
    const body = { verb: 'cancel', filter: FILTER };
    await post(api, '/operations', body, key);
    await post(api, '/operations', { filter: FILTER, verb: 'cancel' }, key);
    await post(api, '/dead-letters/replay', FILTER, key);
    const keys = api.asked.operations.map((request) => request.key);
    assert.deepEqual(
      keys.map((each) => [each?.text, each?.route]),
      [
        ['nightly', 'POST /operations'],
        ['nightly', 'POST /operations'],
        ['nightly', 'POST /dead-letters/replay'],
      ],
    );
    assert.equal(keys[0]?.requestHash, keys[1]?.requestHash);
    api.override({ startOperation: async () => ok({ operation: bulkOperation(), replayed: true }) });
    const again = await post(api, '/operations', body, key);
    assert.deepEqual([again.status, again.headers['idempotency-replayed']], [202, 'true']);
  });

  it('says which field is wrong, and what would be right', async (test) => {
    const api = await serveApi(test);
    for (const [body, detail] of [
      [{}, 'verb: is required; filter: is required'],
      [{ verb: 'delete', filter: FILTER }, 'verb: must be one of cancel, reschedule, run, replay, discard'],
      [{ verb: 'cancel', filter: {} }, 'filter.queue: is required; filter.from: is required; filter.to: is required'],
      [{ verb: 'cancel', filter: { ...FILTER, queue: 'Mail' } }, 'filter.queue: must be 1 to 64 of a-z'],
      [{ verb: 'cancel', filter: { ...FILTER, from: 'yesterday' } }, 'filter.from: must be RFC 3339 with an offset'],
      [{ verb: 'cancel', filter: { ...FILTER, to: FILTER.from } }, 'filter.to: must lie after from'],
      [
        { verb: 'cancel', filter: { ...FILTER, to: at(7 * DAY_MS + 1) } },
        'filter.to: may lie at most 7 days after from; take one window after the other',
      ],
      [
        { verb: 'replay', filter: { ...FILTER, to: at(31 * DAY_MS + 1) } },
        'filter.to: may lie at most 31 days after from; take one window after the other',
      ],
      [
        { verb: 'run', filter: { ...FILTER, status: 'running' } },
        'filter.status: must be one of scheduled: run changes no others',
      ],
      [{ verb: 'cancel', filter: { ...FILTER, label: 'region' } }, "filter.label: must be a label's name, =, and its"],
      [{ verb: 'cancel', filter: { ...FILTER, error: 'a\nb' } }, 'filter.error: must be text without control'],
      [
        { verb: 'cancel', filter: { ...FILTER, lable: 'a=b' } },
        'filter.lable: is not a field here: did you mean label?',
      ],
      [{ verb: 'cancel', filter: FILTER, run_at: at(0) }, 'run_at: goes with the verb reschedule'],
      [
        { verb: 'cancel', filter: FILTER, queue: 'mended' },
        'queue: goes with the verb replay; the jobs are chosen by filter.queue',
      ],
      [{ verb: 'discard', filter: FILTER, payload: null }, 'payload: goes with the verb replay'],
      [{ verb: 'replay', filter: FILTER, queue: 'Mended' }, 'queue: must be 1 to 64 of a-z'],
      [{ verb: 'replay', filter: FILTER, queue: null }, 'queue: must be text, not null'],
      [{ verb: 'replay', filter: FILTER, to_queue: 'mended' }, 'to_queue: is not a field here'],
      [{ verb: 'replay', filter: FILTER, queue: 'Mended', dry_run: true }, 'queue: must be 1 to 64 of a-z'],
      [{ verb: 'reschedule', filter: FILTER }, 'run_at: is required for reschedule, or shift_s in its place'],
      [{ verb: 'reschedule', filter: FILTER, shift_s: 0 }, 'shift_s: must not be 0, which would move nothing'],
      [
        { verb: 'reschedule', filter: FILTER, shift_s: 5, run_at: at(0) },
        'shift_s: and run_at exclude each other: give one of them',
      ],
      [{ verb: 'reschedule', filter: FILTER, run_at: at(-2 * 3_600_000) }, 'run_at: lies more than 1 hour in the past'],
      [{ verb: 'reschedule', filter: FILTER, run_at: at(366 * DAY_MS) }, 'run_at: may be at most 365 days ahead'],
      [{ verb: 'cancel', filter: FILTER, rate_per_s: 0 }, 'rate_per_s: must be from 1 to 1000'],
      [{ verb: 'cancel', filter: FILTER, rate_per_s: 1_001 }, 'rate_per_s: must be from 1 to 1000'],
      [{ verb: 'cancel', filter: FILTER, dry_run: 'yes' }, 'dry_run: must be true or false, not text'],
    ] as const) {
      const told = await detailOf(api, '/operations', body);
      assert.ok(told.startsWith(detail), told);
    }
    assert.deepEqual([api.asked.operations, api.asked.dryRuns], [[], []]);
  });
});

describe('POST /dead-letters/replay and /discard', () => {
  it('start the operation of their verb, with the filter in the body itself', async (test) => {
    const api = await serveApi(test);
    for (const verb of ['replay', 'discard']) {
      const body = { ...FILTER, to: at(31 * DAY_MS), label: 'a=b', error: 'boom', rate_per_s: 50 };
      const answer = await post(api, `/dead-letters/${verb}`, body);
      assert.equal(answer.status, 202);
      assert.partialDeepStrictEqual(answer.body, { verb, rate_per_s: 50, filter: { label: 'a=b', error: 'boom' } });
      const counted = await post(api, `/dead-letters/${verb}`, { ...FILTER, dry_run: true });
      assert.partialDeepStrictEqual([counted.status, counted.body], [200, { verb, matched: 0 }]);
    }
    assert.match(await detailOf(api, '/dead-letters/replay', {}), /^queue: is required; from: is required; to: is/);
    assert.match(
      await detailOf(api, '/dead-letters/discard', { ...FILTER, to: at(32 * DAY_MS) }),
      /^to: may lie at most 31 days/,
    );
    assert.match(
      await detailOf(api, '/dead-letters/replay', { ...FILTER, to_queue: 'Mended' }),
      /^to_queue: must be 1 to/,
    );
    for (const more of [{ to_queue: 'mended' }, { payload: 1 }]) {
      const told = await detailOf(api, '/dead-letters/discard', { ...FILTER, ...more });
      assert.match(told, /^(to_queue|payload): is not a field here/);
    }
    assert.match(
      await detailOf(api, '/dead-letters/replay', { ...FILTER, status: 'dead' }),
      /^status: is not a field here/,
    );
  });
});

describe('GET /operations', () => {
  it('tells how far one is', async (test) => {
    const api = await serveApi(test);
    const filter = { ...bulkOperation().filter, from: FAKE_START, to: FAKE_START + 1_000 };
    const position = { at: FAKE_START + 250, jobId: 'j_0123456789abc_00' };
    const half = bulkOperation({ filter, position, changed: 7, failed: 1, lastError: 'j_1: no' });
    const past = { ...half, position: { ...position, at: FAKE_START + 60_000 } };
    const done = { ...half, status: 'done', finishedAt: FAKE_START + 9 } as const;
    for (const [operation, progress] of [
      [half, 0.25],
      [past, 1],
      [done, 1],
      [bulkOperation(), 0],
    ] as const) {
      api.override({ getOperation: async () => ok(operation) });
      const { status, body } = await api.call('GET', `/operations/${operation.operationId}`);
      assert.equal(status, 200);
      assert.equal(body['progress'], progress);
    }
    api.override({ getOperation: async () => ok(half) });
    const { body } = await api.call('GET', '/operations/x');
    assert.partialDeepStrictEqual(body, { changed: 7, failed: 1, last_error: 'j_1: no', reached: at(250) });
  });

  it('lists page after page, with tokens that are good for it alone', async (test) => {
    const api = await serveApi(test);
    const operations = [bulkOperation({ createdAt: FAKE_START + 1 }), bulkOperation()];
    const asked: unknown[] = [];
    api.override({
      listOperations: async (request) => {
        asked.push(request);
        const [first] = operations;
        const next = request.after === null ? { at: first!.createdAt, operationId: first!.operationId } : null;
        return ok({ operations: request.after === null ? [first!] : [operations[1]!], next });
      },
    });
    const first = await api.call('GET', '/operations?page_size=1');
    const token = String(first.body['next_page_token']);
    const second = await api.call('GET', `/operations?page_size=1&page_token=${token}`);
    assert.equal(second.body['next_page_token'], null);
    assert.deepEqual(asked, [
      { pageSize: 1, after: null },
      { pageSize: 1, after: { at: FAKE_START + 1, operationId: operations[0]!.operationId } },
    ]);
    const list = `/dead-letters?queue=mail&from=${at(0)}&to=${at(1)}&page_token=${token}`;
    assert.equal((await api.call('GET', list)).status, 400);
  });

  it('passes on that there is none, or that it has ended', async (test) => {
    const api = await serveApi(test);
    const none = async () => refused({ code: 'operation_not_found', detail: 'There is no operation.' });
    api.override({ getOperation: none, stopOperation: none });
    assert.equal((await api.call('GET', '/operations/o_1')).status, 404);
    assert.equal((await api.call('POST', '/operations/o_1/stop')).status, 404);
    api.override({ stopOperation: async () => refused({ code: 'operation_finished', detail: 'It is done.' }) });
    assert.equal((await api.call('POST', '/operations/o_1/stop')).status, 409);
  });
});

describe('POST /operations/{operation_id}/stop', () => {
  it('answers with the operation as it stops', async (test) => {
    const api = await serveApi(test);
    const { status, body } = await api.call('POST', '/operations/o_0123456789abc/stop');
    assert.deepEqual([status, body['status'], body['operation_id']], [202, 'stopping', 'o_0123456789abc']);
  });
});

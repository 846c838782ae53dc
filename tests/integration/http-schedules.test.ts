// Schedules over HTTP, down to the stores in memory; the clock stands at 2026-11-15T06:00:00Z.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { PunctualClient } from '../../services/client/index.ts';
import { runCli } from '../../services/cli/cli.ts';
import { type HttpApi, type Received, type Sent, serveApi } from '../support/http-api.ts';

const NIGHTLY = { queue: 'reports', cron: '30 2 * * *', time_zone: 'Europe/Berlin' };
const NEXT = '2026-11-16T01:30:00.000Z';

async function refusalOf(api: HttpApi, body: object, path = '/schedules', method = 'POST'): Promise<string> {
  const answer = await api.call(method, path, { body });
  assert.equal(answer.status, 400, answer.text);
  return (answer.body['errors'] as { field: string; message: string }[])
    .map(({ field, message }) => `${field}: ${message}`)
    .join('; ');
}

async function made(api: HttpApi, body: object = NIGHTLY): Promise<string> {
  const answer = await api.call('POST', '/schedules', { body });
  assert.equal(answer.status, 201, answer.text);
  return answer.body['schedule_id'] as string;
}

async function listed(api: HttpApi, query = ''): Promise<readonly Record<string, unknown>[]> {
  const schedules: Record<string, unknown>[] = [];
  for (let token: string | null = ''; token !== null;) {
    const more = token === '' ? '' : `&page_token=${token}`;
    const { status, body, text }: Received = await api.call('GET', `/schedules?page_size=7${query}${more}`);
    assert.equal(status, 200, text);
    schedules.push(...(body['schedules'] as Record<string, unknown>[]));
    token = body['next_page_token'] as string | null;
  }
  return schedules;
}

describe('POST /schedules', () => {
  it('answers 201, where it is, its revision, and all of it', async (test) => {
    const api = await serveApi(test);
    const answer = await api.call('POST', '/schedules', {
      body: `{"queue":"reports","cron":"30 2 * * *","time_zone":"Europe/Berlin","payload":{"n":9007199254740993,"x":1.10},"labels":{"team":"billing"}}`,
    });
    assert.equal(answer.status, 201, answer.text);
    assert.equal(answer.headers.location, answer.body['href']);
    assert.equal(answer.headers.etag, '"1"');
    assert.match(answer.text, /"payload":\{"n":9007199254740993,"x":1\.10\}/);
    assert.partialDeepStrictEqual(answer.body, {
      status: 'active',
      next_run_at: NEXT,
      on_overlap: 'skip',
      on_missed: 'run_once',
      missed_limit: 100,
      max_attempts: 5,
      runs: 0,
      revision: 1,
    });
    const read = await api.call('GET', String(answer.body['href']));
    assert.equal(read.text, answer.text);
    assert.deepEqual(
      [...api.stores.due.all()].map(({ jobId, runAt }) => [jobId, new Date(runAt).toISOString()]),
      [[answer.body['schedule_id'], NEXT]],
    );
    assert.deepEqual(
      [...api.stores.auditEntries.values()].map(({ verb }) => verb),
      ['schedule.create'],
    );
  });

  it('counts an interval from a whole second, from now on or from start_at', async (test) => {
    const api = await serveApi(test);
    const { body } = await api.call('POST', '/schedules', { body: { queue: 'q', every_s: 90 } });
    assert.equal(Date.parse(String(body['next_run_at'])) - Date.parse(String(body['start_at'])), 90_000);
    const later = { queue: 'q', every_s: 90, start_at: '2026-12-01T00:00:00Z' };
    assert.equal(
      (await api.call('POST', '/schedules', { body: later })).body['next_run_at'],
      '2026-12-01T00:00:00.000Z',
    );
  });

  it('R014, R016, R022, R026: refuses what never fires or means something else, and makes nothing', async (test) => {
    const api = await serveApi(test);
    const refused = (fields: object): Promise<string> => refusalOf(api, { ...NIGHTLY, ...fields });
    for (const cron of ['', '*', '* * * *', '   '])
      assert.match(await refused({ cron }), /^cron: (is empty|has \d field)/);
    for (const cron of ['0 0 30 2 *', '0 0 31 4 *', '0 0 31 2,4,6 *'])
      assert.match(await refused({ cron }), /^cron: never fires/);
    for (const cron of ['*/90 * * * *', '0 */25 * * *', '*/60 * * * *'])
      assert.match(await refused({ cron }), /wider than the field/);
    for (const zone of ['Mars/Phobos', '', 'local', 'UTC+5', 'GMT+5', 'PST', 'EST', 'IST', 'europe/berlin']) {
      assert.match(await refused({ time_zone: zone }), /^time_zone: /, zone);
    }
    assert.equal(
      (await api.call('POST', '/schedules', { body: { ...NIGHTLY, time_zone: 'Europe/Kiev' } })).status,
      201,
    );
    assert.equal(api.stores.scheduleTables.rows.size, 1);
  });

  it('refuses times that clocks skip on each of their dates, wherever a definition is accepted', async (test) => {
    const api = await serveApi(test);
    const lost = { ...NIGHTLY, cron: '30 2 * 3 7L', on_dst_gap: 'skip' };
    const never = /^cron: never fires: .* clocks in Europe\/Berlin skip its times/;
    assert.match(await refusalOf(api, lost), never);
    assert.match(await refusalOf(api, lost, '/schedules/preview'), never);
    assert.match(await refusalOf(api, lost, '/schedules/nightly', 'PUT'), never);
    const batch = await api.call('POST', '/schedules/batch', { body: { schedules: [lost] } });
    assert.match(batch.text, /"schedules\[0\]\.cron".*never fires/);
    const path = `/schedules/${await made(api, { ...lost, on_dst_gap: 'run_after' })}`;
    assert.match(await refusalOf(api, { on_dst_gap: 'skip' }, path, 'PATCH'), never);
    assert.equal(api.stores.scheduleTables.rows.size, 1);
  });

  it('takes an H of which some places never come, under any id', async (test) => {
    const api = await serveApi(test);
    const partly = { ...NIGHTLY, cron: '0 0 31 H(2-11) *' };
    for (let count = 0; count < 20; count++) {
      await made(api, partly);
      const named = await api.call('PUT', `/schedules/monthly-${count}`, { body: partly });
      assert.equal(named.status, 201, named.text);
      const headers = { 'idempotency-key': `monthly-${count}` };
      const keyed = await api.call('POST', '/schedules', { body: partly, headers });
      assert.equal(keyed.status, 201, keyed.text);
    }
    assert.equal((await api.call('POST', '/schedules/preview', { body: partly })).status, 200);
    assert.match(await refusalOf(api, { ...NIGHTLY, cron: '0 0 H(30-31) 2 *' }), /^cron: never fires/);
  });

  it('says what goes with what', async (test) => {
    const api = await serveApi(test);
    assert.match(await refusalOf(api, { queue: 'q' }), /^cron: is required, or every_s/);
    assert.match(await refusalOf(api, { ...NIGHTLY, every_s: 5 }), /^cron: and every_s exclude/);
    assert.match(await refusalOf(api, { queue: 'q', cron: '* * * * *' }), /^time_zone: is required/);
    assert.match(await refusalOf(api, { queue: 'q', every_s: 5, time_zone: 'UTC' }), /^time_zone: goes with cron/);
    assert.match(
      await refusalOf(api, { queue: 'q', every_s: 5, start_at: '2026-12-01T00:00:00.5Z' }),
      /^start_at: must be a whole second/,
    );
    assert.match(
      await refusalOf(api, { ...NIGHTLY, start_at: '2026-12-02T00:00:00Z', end_at: '2026-12-01T00:00:00Z' }),
      /^end_at: must not lie before/,
    );
    assert.match(await refusalOf(api, { ...NIGHTLY, end_at: '2026-11-15T12:00:00Z' }), /^end_at: leaves no slot/);
    assert.match(await refusalOf(api, { ...NIGHTLY, run_at: '2026-12-01T00:00:00Z' }), /^run_at: is not a field here/);
    assert.match(await refusalOf(api, { ...NIGHTLY, retry: { base_s: 10, cap_s: 1 } }), /^retry\.cap_s/);
    assert.match(
      await refusalOf(api, { ...NIGHTLY, every_s: 0, on_overlap: 'forbid' }),
      /every_s: .*on_overlap: must be one of/,
    );
    assert.equal(api.stores.scheduleTables.rows.size, 0);
  });

  it('is repeatable under an idempotency key', async (test) => {
    const api = await serveApi(test);
    const headers = { 'idempotency-key': 'k1' };
    const first = await api.call('POST', '/schedules', { body: NIGHTLY, headers });
    const again = await api.call('POST', '/schedules', { body: NIGHTLY, headers });
    assert.deepEqual([first.status, again.status, again.headers['idempotency-replayed']], [201, 200, 'true']);
    assert.equal(again.body['schedule_id'], first.body['schedule_id']);
    const other = await api.call('POST', '/schedules', { body: { ...NIGHTLY, queue: 'other' }, headers });
    assert.equal(other.status, 422);
    assert.equal(other.body['schedule_id'], first.body['schedule_id']);
  });
});

describe('POST /schedules/batch', () => {
  it('takes each for itself, and is exact when repeated under a key', async (test) => {
    const api = await serveApi(test);
    const schedules = [NIGHTLY, { ...NIGHTLY, cron: '61 * * * *' }, { queue: 'q', every_s: 60 }];
    const call = () =>
      api.call('POST', '/schedules/batch', { body: { schedules }, headers: { 'idempotency-key': 'b' } });
    const [first, again] = [await call(), await call()];
    const results = first.body['results'] as Record<string, unknown>[];
    assert.deepEqual(
      results.map(({ status }) => status),
      [201, 400, 201],
    );
    assert.match(JSON.stringify(results[1]), /schedules\[1\]\.cron/);
    const repeated = again.body['results'] as Record<string, unknown>[];
    assert.deepEqual(
      repeated.map(({ status }) => status),
      [200, 400, 200],
    );
    assert.deepEqual(
      repeated.map((each) => each['schedule_id']),
      results.map((each) => each['schedule_id']),
    );
    assert.equal(api.stores.scheduleTables.rows.size, 2);
  });
});

describe('PUT /schedules/{name}', () => {
  it('R044: the same 20 times leaves one schedule, unchanged', async (test) => {
    const api = await serveApi(test);
    const first = await api.call('PUT', '/schedules/nightly', { body: NIGHTLY });
    assert.equal(first.status, 201);
    for (let call = 1; call < 20; call += 1) {
      const again = await api.call('PUT', '/schedules/nightly', { body: NIGHTLY });
      assert.deepEqual([again.status, again.headers.etag], [200, '"1"']);
      assert.equal(again.body['schedule_id'], first.body['schedule_id']);
    }
    assert.equal(api.stores.scheduleTables.rows.size, 1);
    assert.equal([...api.stores.due.all()].length, 1);
  });

  it('R044: 20 at once make one schedule', async (test) => {
    const api = await serveApi(test);
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => api.call('PUT', '/schedules/nightly', { body: NIGHTLY })),
    );
    assert.equal(new Set(answers.map(({ body }) => body['schedule_id'])).size, 1);
    assert.equal(answers.filter(({ status }) => status === 201).length, 1);
    assert.equal(api.stores.scheduleTables.rows.size, 1);
  });

  it('R044: deleted and put again it is one new schedule', async (test) => {
    const api = await serveApi(test);
    const first = await api.call('PUT', '/schedules/nightly', { body: NIGHTLY });
    assert.equal((await api.call('DELETE', '/schedules/nightly')).status, 200);
    assert.equal((await api.call('GET', '/schedules/nightly')).status, 404);
    const second = await api.call('PUT', '/schedules/nightly', { body: NIGHTLY });
    assert.equal(second.status, 201);
    assert.notEqual(second.body['schedule_id'], first.body['schedule_id']);
    assert.equal(api.stores.scheduleTables.rows.size, 1);
    assert.equal((await listed(api)).length, 1);
  });

  it('changes it where the content is another, and keeps what an interval is counted from', async (test) => {
    const api = await serveApi(test);
    const { body: before } = await api.call('PUT', '/schedules/often', {
      body: { queue: 'q', every_s: 60, payload: { a: 1, b: 2 } },
    });
    await api.clock.advance(30_000);
    const same = await api.call('PUT', '/schedules/often', {
      body: '{ "payload": {"b": 2, "a": 1}, "every_s": 60, "queue": "q" }',
    });
    assert.deepEqual([same.status, same.body['revision']], [200, 1]);
    const changed = await api.call('PUT', '/schedules/often', { body: { queue: 'q', every_s: 60, payload: { a: 2 } } });
    assert.deepEqual(
      [changed.body['revision'], changed.body['start_at'], changed.body['next_run_at']],
      [2, before['start_at'], before['next_run_at']],
    );
    assert.match(
      await refusalOf(api, NIGHTLY, `/schedules/${String(before['schedule_id'])}`, 'PUT'),
      /^schedule: is the id/,
    );
    for (const name of ['batch', 'preview', 'pause', 'resume']) {
      assert.match(await refusalOf(api, NIGHTLY, `/schedules/${name}`, 'PUT'), /^schedule: is no name/);
    }
  });

  it('minds If-Match', async (test) => {
    const api = await serveApi(test);
    const stale = { body: NIGHTLY, headers: { 'if-match': '"7"' } };
    assert.equal((await api.call('PUT', '/schedules/nightly', stale)).status, 412);
    await api.call('PUT', '/schedules/nightly', { body: NIGHTLY });
    const other = await api.call('PUT', '/schedules/nightly', { ...stale, body: { ...NIGHTLY, cron: '0 3 * * *' } });
    assert.deepEqual([other.status, other.body['code'], other.body['revision']], [412, 'changed_meanwhile', 1]);
    const right = { body: { ...NIGHTLY, cron: '0 3 * * *' }, headers: { 'if-match': '"1"' } };
    assert.equal((await api.call('PUT', '/schedules/nightly', right)).headers.etag, '"2"');
  });
});

describe('PATCH /schedules/{schedule}', () => {
  it('merges, and holds the result to the rules of a new schedule', async (test) => {
    const api = await serveApi(test);
    const path = `/schedules/${await made(api, { ...NIGHTLY, labels: { a: '1', b: '2' }, payload: { keep: 1 } })}`;
    const patched = await api.call('PATCH', path, {
      body: { cron: '0 4 * * *', labels: { a: null, c: '3' }, max_attempts: 9 },
    });
    assert.equal(patched.status, 200, patched.text);
    assert.partialDeepStrictEqual(patched.body, {
      cron: '0 4 * * *',
      next_run_at: '2026-11-16T03:00:00.000Z',
      max_attempts: 9,
      payload: { keep: 1 },
      revision: 2,
    });
    assert.deepEqual(patched.body['labels'], { b: '2', c: '3' });
    const label = { 'x=y': 'z' };
    assert.match(
      await refusalOf(api, { labels: label }, path, 'PATCH'),
      /^labels\.x=y: is a key, and keys must be without =/,
    );
    assert.match(
      await refusalOf(api, { ...NIGHTLY, labels: label }),
      /^labels\.x=y: is a key, .* characters long, without =/,
    );
    assert.match(await refusalOf(api, { every_s: 60 }, path, 'PATCH'), /^cron: and every_s exclude/);
    assert.match(await refusalOf(api, { time_zone: null }, path, 'PATCH'), /^time_zone: is required/);
    assert.match(await refusalOf(api, { end_at: '2026-11-15T07:00:00Z' }, path, 'PATCH'), /^end_at: leaves no slot/);
    const interval = { cron: null, time_zone: null, every_s: 60 };
    assert.equal((await api.call('PATCH', path, { body: interval })).body['every_s'], 60);
    assert.equal((await api.call('GET', path)).body['revision'], 3);
  });
});

describe('a schedule', () => {
  it('is paused with a reason, until a time or until it is resumed', async (test) => {
    const api = await serveApi(test);
    const path = `/schedules/${await made(api)}`;
    const paused = await api.call('POST', `${path}/pause`, {
      body: { reason: 'holidays', until: '2026-11-20T00:00:00Z' },
    });
    assert.partialDeepStrictEqual(paused.body, {
      status: 'paused',
      paused_reason: 'holidays',
      paused_until: '2026-11-20T00:00:00.000Z',
      next_run_at: '2026-11-20T01:30:00.000Z',
      revision: 2,
    });
    assert.equal((await api.call('POST', `${path}/skip-next`)).body['code'], 'schedule_paused');
    const endless = await api.call('POST', `${path}/pause`);
    assert.deepEqual([endless.body['next_run_at'], endless.body['revision']], [null, 3]);
    assert.equal((await api.call('POST', `${path}/pause`)).body['revision'], 3);
    assert.match(await refusalOf(api, { until: '2026-11-15T05:00:00Z' }, `${path}/pause`), /^until: must lie ahead/);
    await api.clock.advance(1_000);
    const resumed = await api.call('POST', `${path}/resume`);
    assert.deepEqual(
      [resumed.body['status'], resumed.body['next_run_at'], resumed.body['revision']],
      ['active', NEXT, 4],
    );
    assert.equal((await api.call('POST', `${path}/resume`)).body['revision'], 4);
  });

  it('leaves its next slot out, once', async (test) => {
    const api = await serveApi(test);
    const path = `/schedules/${await made(api)}`;
    const skipped = await api.call('POST', `${path}/skip-next`);
    assert.deepEqual([skipped.body['skip_slot'], skipped.body['next_run_at']], [NEXT, '2026-11-17T01:30:00.000Z']);
    assert.equal((await api.call('POST', `${path}/skip-next`)).body['revision'], 2);
  });

  it('runs now and backfills beside its slots, exactly once under a key', async (test) => {
    const api = await serveApi(test);
    const scheduleId = await made(api, { ...NIGHTLY, payload: { a: 1 } });
    // Creates that come at one moment wait for each other's group, and this clock stands still by itself.
    const call = async (verb: string, sent: Sent): Promise<Received> => {
      await api.clock.advance(1_000);
      return api.call('POST', `/schedules/${scheduleId}/${verb}`, sent);
    };
    const run = () => call('run', { headers: { 'idempotency-key': 'r1' } });
    const [first, again] = [await run(), await run()];
    assert.deepEqual([first.status, again.status], [201, 200]);
    assert.equal(again.body['job_id'], first.body['job_id']);
    assert.deepEqual([first.body['schedule_id'], first.body['payload']], [scheduleId, { a: 1 }]);

    const range = { from: '2026-11-12T00:00:00Z', to: '2026-11-15T00:00:00Z' };
    const backfill = (body: object, key: string) => call('backfill', { body, headers: { 'idempotency-key': key } });
    const slots = ['2026-11-12T01:30:00.000Z', '2026-11-13T01:30:00.000Z', '2026-11-14T01:30:00.000Z'];
    const dry = await backfill({ ...range, dry_run: true }, 'b1');
    assert.deepEqual(
      dry.body['results'],
      slots.map((slot) => ({ slot })),
    );
    const done = [await backfill(range, 'b1'), await backfill(range, 'b1')].map(
      ({ body }) => body['results'] as Record<string, unknown>[],
    );
    assert.deepEqual(
      done[0]!.map(({ slot }) => slot),
      slots,
    );
    assert.deepEqual(
      done[0]!.map((each) => each['job_id']),
      done[1]!.map((each) => each['job_id']),
    );
    const jobs = [...api.stores.rows.values()];
    assert.equal(jobs.length, 4);
    assert.deepEqual(
      jobs.slice(1).map(({ scheduledFor }) => new Date(scheduledFor).toISOString()),
      slots,
    );
    assert.ok(jobs.every((job) => job.scheduleId === scheduleId));
    assert.equal((await backfill({ ...range, to: '2026-11-16T00:00:00Z' }, 'b2')).status, 400);
    const every = `/schedules/${await made(api, { queue: 'q', cron: '* * * * *', time_zone: 'UTC' })}/backfill`;
    assert.match(
      await refusalOf(api, { from: '2026-11-01T00:00:00Z', to: '2026-11-15T00:00:00Z' }, every),
      /^to: leaves more than 1000 slots/,
    );
  });

  it('is previewed before and after it is made', async (test) => {
    const api = await serveApi(test);
    const { body } = await api.call('POST', '/schedules/preview?count=2&after=2027-03-27T00:00:00Z', { body: NIGHTLY });
    assert.equal(body['meaning'], 'at 02:30, every day, Europe/Berlin time');
    assert.partialDeepStrictEqual(body['slots'], [
      { slot: '2027-03-27T01:30:00.000Z', local: 'Sat 2027-03-27 02:30 +01:00', runs: true },
      { slot: '2027-03-28T01:00:00.000Z', local: 'Sun 2027-03-28 03:00 +02:00', runs: true },
    ]);
    assert.partialDeepStrictEqual((body['clock_changes'] as object[])[0], {
      at: '2027-03-28T01:00:00.000Z',
      effect: 'moved_after_gap',
    });
    assert.equal(api.stores.scheduleTables.rows.size, 0);
    assert.match(await refusalOf(api, { ...NIGHTLY, cron: '0 0 30 2 *' }, '/schedules/preview'), /never fires/);
    const path = `/schedules/${await made(api, { ...NIGHTLY, max_runs: 2 })}`;
    await api.call('POST', `${path}/skip-next`);
    const stored = await api.call('POST', `${path}/preview`);
    const reasons = (stored.body['slots'] as Record<string, unknown>[]).map(({ runs, reason }) => [runs, reason]);
    assert.deepEqual(reasons, [
      [false, 'skipped_by_request'],
      [true, null],
      [true, null],
    ]);
    const hashed = await api.call('POST', '/schedules/preview', { body: { ...NIGHTLY, cron: 'H * * * *' } });
    assert.match(String(hashed.body['note']), /example/);
  });

  it('is deleted, with its occurrences that wait when that is asked for', async (test) => {
    const api = await serveApi(test);
    const path = `/schedules/${await made(api)}`;
    const deleted = await api.call('DELETE', `${path}?cancel_pending=true`);
    assert.partialDeepStrictEqual(deleted.body, { deleted: true, cancelled: [] });
    for (const [method, verb] of [
      ['DELETE', ''],
      ['GET', ''],
      ['POST', '/run'],
      ['POST', '/pause'],
      ['GET', '/runs'],
    ] as const) {
      const gone = await api.call(method, `${path}${verb}`);
      assert.deepEqual([gone.status, gone.body['code']], [404, 'schedule_not_found'], `${method} ${verb}`);
    }
    assert.deepEqual(await listed(api), []);
  });

  it('tells its slots, the latest first, month by month', async (test) => {
    const api = await serveApi(test);
    const scheduleId = await made(api);
    const slots = ['2026-10-30T00:00:00Z', '2026-10-31T00:00:00Z', '2026-11-01T00:00:00Z', '2026-11-02T00:00:00Z'].map(
      Date.parse,
    );
    await api.stores.scheduleRuns.write(
      slots.map((slot, index) => ({
        ...{ scheduleId, slot, slotUntil: null, jobId: `${scheduleId}@${new Date(slot).toISOString().slice(0, 19)}Z` },
        ...{ outcome: index === 1 ? 'missed' : 'fired', reason: index === 1 ? 'missed' : null, decidedAt: slot + 5 },
      })),
    );
    const page = await api.call('GET', `/schedules/${scheduleId}/runs?page_size=3`);
    const told = (body: Received['body']) =>
      (body['runs'] as Record<string, unknown>[]).map(({ slot, outcome }) => [slot, outcome]);
    assert.deepEqual(told(page.body), [
      ['2026-11-02T00:00:00.000Z', 'fired'],
      ['2026-11-01T00:00:00.000Z', 'fired'],
      ['2026-10-31T00:00:00.000Z', 'missed'],
    ]);
    const rest = await api.call(
      'GET',
      `/schedules/${scheduleId}/runs?page_size=3&page_token=${String(page.body['next_page_token'])}`,
    );
    assert.deepEqual([told(rest.body), rest.body['next_page_token']], [[['2026-10-30T00:00:00.000Z', 'fired']], null]);
  });
});

describe('GET /schedules', () => {
  it('lists all, page by page, by queue, label and pause', async (test) => {
    const api = await serveApi(test);
    const schedules = Array.from({ length: 40 }, (_, index) => ({
      ...{ queue: index % 2 === 0 ? 'even' : 'odd', cron: `${index} * * * *`, time_zone: 'UTC' },
      labels: { third: String(index % 3 === 0) },
    }));
    const { body } = await api.call('POST', '/schedules/batch', { body: { schedules } });
    const ids = (body['results'] as { schedule_id: string }[]).map((each) => each.schedule_id);
    const idsOf = async (query = ''): Promise<string[]> =>
      (await listed(api, query)).map((each) => String(each['schedule_id'])).toSorted();
    assert.deepEqual(await idsOf(), ids.toSorted());
    assert.equal((await idsOf('&queue=odd')).length, 20);
    assert.equal((await idsOf('&queue=odd&label=third=true')).length, 7);
    await api.call('POST', `/schedules/${ids[0]!}/pause`);
    assert.deepEqual(await idsOf('&paused=true'), [ids[0]]);
    assert.equal((await idsOf('&paused=false')).length, 39);
    await api.call('PATCH', `/schedules/${ids[1]!}`, { body: { queue: 'even' } });
    assert.equal((await idsOf('&queue=even')).length, 21);
    assert.equal((await idsOf('&queue=odd')).length, 19);
    assert.equal((await api.call('GET', '/schedules?page_token=abc')).status, 400);
  });
});

describe('POST /schedules/pause and /resume', () => {
  it('count first, then change what a label names, and find it done when repeated', async (test) => {
    const api = await serveApi(test);
    for (const team of ['a', 'a', 'b']) await made(api, { ...NIGHTLY, labels: { team } });
    const call = async (verb: string, body: object) => (await api.call('POST', `/schedules/${verb}`, { body })).body;
    const done = (matched: number, changed: number) => ({ matched, changed, next_page_token: null });
    assert.deepEqual(await call('pause', { label: 'team=a', dry_run: true }), done(2, 2));
    assert.equal((await listed(api, '&paused=true')).length, 0);
    assert.deepEqual(await call('pause', { label: 'team=a', reason: 'incident' }), done(2, 2));
    assert.deepEqual(await call('pause', { label: 'team=a', reason: 'incident' }), done(2, 0));
    assert.equal((await listed(api, '&paused=true')).length, 2);
    await api.clock.advance(1_000);
    assert.deepEqual(await call('resume', { queue: 'reports' }), done(3, 2));
    assert.match(await refusalOf(api, {}, '/schedules/pause'), /^label: is required, or queue/);
  });
});

describe('the client and punctual schedule', () => {
  it('make, change, show and delete', async (test) => {
    const api = await serveApi(test);
    const client = new PunctualClient({ apiUrl: api.url, retries: 0 });
    const schedule = await client.putSchedule('nightly', NIGHTLY);
    assert.deepEqual([schedule.created, schedule.next_run_at], [true, NEXT]);
    await client.pauseSchedule('nightly', { reason: 'x' }, { ifRevision: 1 });
    await assert.rejects(client.resumeSchedule('nightly', { ifRevision: 1 }), /revision 2/);
    assert.equal((await client.listSchedules({ paused: true })).schedules.length, 1);
    const cli = async (...words: string[]): Promise<string> => {
      let output = '';
      const write = (text: string): void => void (output += text);
      await runCli(['schedule', ...words, '--api', api.url], { output: { write }, errors: { write } });
      return output;
    };
    assert.match(await cli('get', 'nightly'), /30 2 \* \* \* in Europe\/Berlin\nstatus +paused/);
    assert.match(await cli('resume', 'nightly'), /^resumed/);
    assert.match(await cli('create', 'q', '--every', '60', '--label', 'team=a'), /^created[^]*every 60 s/);
    assert.match(await cli('list', '--label', 'team=a'), /every 60 s +active/);
    assert.match(await cli('pause', '--label', 'team=a', '--dry-run'), /matched +1\nwould_change +1/);
    assert.match(await cli('preview', 'nightly', '--count', '1'), /at 02:30, every day/);
    assert.match(await cli('runs', 'nightly'), /no slots/);
    assert.match(
      await cli('create', 'q', '--cron', '99 * * * *', '--time-zone', 'PST'),
      /cron: minute: 99[^]*time_zone: PST/,
    );
    assert.match(await cli('delete', 'nightly'), /^deleted/);
  });
});

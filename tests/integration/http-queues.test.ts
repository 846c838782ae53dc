// The settings of queues over HTTP and the command line, down to the store in memory.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { runCli } from '../../services/cli/cli.ts';
import { PunctualClient, RefusedError } from '../../services/client/index.ts';
import { shardOf } from '../../services/core/domain/ids.ts';
import { FAKE_START } from '../support/fake-clock.ts';
import { type HttpApi, serveApi } from '../support/http-api.ts';

const DEFAULTS = {
  rate_per_s: null,
  burst: null,
  ramp_s: null,
  max_running: null,
  ready_max: null,
  max_waiting: null,
  max_attempts: null,
  timeout_s: null,
  lease_s: null,
  retry: null,
  retention_days: null,
  dead_retention_days: null,
  paused: false,
  pause: null,
  resumed_at: null,
};
const UNTIL = '2026-11-15T07:00:00.000Z';

function audited({ stores }: HttpApi): unknown[] {
  return [...stores.auditEntries.values()].map(({ verb, subject, detail }) => ({ verb, subject, detail }));
}

async function whileTimePasses<T>({ clock }: HttpApi, answer: Promise<T>): Promise<T> {
  const state = { pending: true };
  const ended = answer.finally(() => (state.pending = false));
  while (state.pending) {
    await sleep(5);
    await clock.advance(100);
  }
  return ended;
}

describe('the settings of a queue', () => {
  it('are the defaults until somebody sets them', async (test) => {
    const api = await serveApi(test);
    const { body, headers } = await api.call('GET', '/queues/mails');
    const { ready, counts, ...settings } = body;
    assert.deepEqual(settings, { queue: 'mails', ...DEFAULTS, revision: 0, created_at: null, updated_at: null });
    assert.ok(Array.isArray(ready));
    const none = {
      waiting: 0,
      held: 0,
      running: 0,
      dead: null,
      oldest_ready_age_s: null,
      start_lag: null,
      counted_at: null,
    };
    assert.deepEqual(counts, { ...none, ready: { high: 0, normal: 0, low: 0 } });
    assert.equal(headers.etag, '"0"');
  });

  it('are set as a whole, changed in part, and taken away', async (test) => {
    const api = await serveApi(test);
    const put = await api.call('PUT', '/queues/mails', {
      body: { rate_per_s: 50, burst: 10, max_attempts: 8, retry: { kind: 'fixed', base_s: 5, cap_s: 60 } },
    });
    assert.equal(put.status, 200);
    assert.partialDeepStrictEqual(put.body, {
      rate_per_s: 50,
      burst: 10,
      max_attempts: 8,
      retry: { kind: 'fixed', base_s: 5, factor: 2, cap_s: 60, jitter: 'equal' },
      revision: 1,
    });
    const patch = await api.call('PATCH', '/queues/mails', {
      body: { rate_per_s: 0.5, burst: null, retry: { base_s: 7 } },
      headers: { 'content-type': 'application/merge-patch+json' },
    });
    assert.partialDeepStrictEqual(patch.body, {
      rate_per_s: 0.5,
      burst: null,
      max_attempts: 8,
      retry: { kind: 'fixed', base_s: 7, cap_s: 60 },
      revision: 2,
    });
    assert.equal(patch.headers.etag, '"2"');
    const again = await api.call('PUT', '/queues/mails', { body: {} });
    assert.partialDeepStrictEqual(again.body, { ...DEFAULTS, revision: 3 });
  });

  it('say how long what has ended is kept, from one day to thirty', async (test) => {
    const api = await serveApi(test);
    const kept = async (): Promise<unknown> => {
      const { body } = await api.call('GET', '/queues/mails');
      return [body['retention_days'], body['dead_retention_days']];
    };
    await api.call('PUT', '/queues/mails', { body: { retention_days: 1, dead_retention_days: 30 } });
    assert.deepEqual(await kept(), [1, 30]);
    await api.call('PATCH', '/queues/mails', { body: { retention_days: 3 } });
    assert.deepEqual(await kept(), [3, 30]);
    await api.call('PATCH', '/queues/mails', { body: { dead_retention_days: null } });
    assert.deepEqual(await kept(), [3, null]);
  });

  it('change for whoever read them last, and nothing changes where nothing is asked for', async (test) => {
    const api = await serveApi(test);
    const change = (revision: number, body: object) =>
      api.call('PATCH', '/queues/mails', { body, headers: { 'if-match': `"${revision}"` } });
    assert.equal((await change(0, { rate_per_s: 3 })).status, 200);
    const late = await change(0, { rate_per_s: 4 });
    assert.equal(late.status, 412);
    assert.partialDeepStrictEqual(late.body, { code: 'changed_meanwhile', revision: 1 });
    assert.partialDeepStrictEqual((await change(1, { rate_per_s: 3 })).body, { revision: 1 });
    for (const wrong of ['1', '*', 'W/"1"', '"x"']) {
      const answer = await api.call('PUT', '/queues/mails', { body: {}, headers: { 'if-match': wrong } });
      assert.equal(answer.status, 400, wrong);
    }
  });

  it('are refused with the field and what is right', async (test) => {
    const api = await serveApi(test);
    for (const [body, field] of [
      [{ rate_per_s: 0 }, 'rate_per_s'],
      [{ rate_per_s: '50' }, 'rate_per_s'],
      [{ burst: 5 }, 'burst'],
      [{ ramp_s: 60 }, 'ramp_s'],
      [{ max_running: 0 }, 'max_running'],
      [{ max_running: 1.5 }, 'max_running'],
      [{ ready_max: 100_001 }, 'ready_max'],
      [{ lease_s: 4 }, 'lease_s'],
      [{ retry: { base_s: 10, cap_s: 5 } }, 'retry.cap_s'],
      [{ retention_days: 0 }, 'retention_days'],
      [{ retention_days: 31 }, 'retention_days'],
      [{ retention_days: 1.5 }, 'retention_days'],
      [{ dead_retention_days: 0 }, 'dead_retention_days'],
      [{ dead_retention_days: 31 }, 'dead_retention_days'],
      [{ rate: 3 }, 'rate'],
    ] as const) {
      const { status, body: problem } = await api.call('PUT', '/queues/mails', { body });
      assert.equal(status, 400, field);
      const [error] = problem['errors'] as readonly { readonly field: string }[];
      assert.equal(error?.field, field);
    }
    assert.equal((await api.call('PATCH', '/queues/mails', { body: {} })).status, 400);
    assert.equal((await api.call('PUT', '/queues/Mails', { body: {} })).status, 400);
    assert.partialDeepStrictEqual((await api.call('GET', '/queues/mails')).body, { revision: 0 });
  });

  it('fill in what a job leaves out', async (test) => {
    const api = await serveApi(test);
    await api.call('PUT', '/queues/mails', {
      body: { max_attempts: 8, timeout_s: 7, lease_s: 6, retry: { kind: 'fixed', base_s: 9 } },
    });
    await api.call('POST', '/jobs', { body: { queue: 'mails' } });
    await api.call('POST', '/jobs', { body: { queue: 'mails', max_attempts: 2, retry: { base_s: 1 } } });
    await api.call('POST', '/jobs', { body: { queue: 'others' } });
    const retry = { kind: 'fixed', baseS: 9, factor: 2, capS: 3_600, jitter: 'equal' };
    assert.partialDeepStrictEqual(api.asked.created, [
      { maxAttempts: 8, timeoutS: 7, leaseS: 6, retry },
      { maxAttempts: 2, timeoutS: 7, retry: { ...retry, baseS: 1 } },
      { maxAttempts: 5, timeoutS: 60, leaseS: 30, retry: { kind: 'exponential' } },
    ]);
  });

  it('are listed page by page', async (test) => {
    const api = await serveApi(test);
    for (const queue of ['c', 'a', 'b']) await api.call('PUT', `/queues/${queue}`, { body: { max_attempts: 1 } });
    const names = ({ body }: { readonly body: Readonly<Record<string, unknown>> }): unknown[] =>
      (body['queues'] as readonly { readonly queue: string }[]).map(({ queue }) => queue);
    const first = await api.call('GET', '/queues?page_size=2');
    assert.deepEqual(names(first), ['a', 'b']);
    assert.equal(api.events.filter((event) => event === 'queue.depths').length, 1);
    const token = String(first.body['next_page_token']);
    const second = await api.call('GET', `/queues?page_token=${token}`);
    assert.deepEqual([names(second), second.body['next_page_token']], [['c'], null]);
    assert.equal((await api.call('GET', '/queues?page_token=x')).status, 400);
  });
});

describe('queues that nobody configured', () => {
  it('are listed among the others, with the defaults, while the counters know of jobs in them', async (test) => {
    const api = await serveApi(test);
    for (const queue of ['b', 'd']) await api.call('PUT', `/queues/${queue}`, { body: { max_attempts: 1 } });
    const none = { countedAt: FAKE_START, dueSoon: [0, 0, 0], running: 0, dead: null };
    const marks = [0, 1, 2, 3].map((shard) => ({ ...none, shard, queue: '', dead: 0 }));
    await api.clock.until(
      api.stores.queueCounts.writeShard([
        ...marks,
        { ...none, shard: shardOf('dying', 4), queue: 'dying', dead: 7 },
        { ...none, shard: 0, queue: 'a', running: 1 },
        { ...none, shard: 1, queue: 'c', dueSoon: [0, 2, 0] },
        { ...none, shard: shardOf('mended', 4), queue: 'mended', dead: 0 },
      ]),
    );
    const listed: [unknown, unknown, unknown][] = [];
    let token: string | null = null;
    do {
      const { body } = await api.call('GET', `/queues?page_size=2${token === null ? '' : `&page_token=${token}`}`);
      for (const each of body['queues'] as Record<string, unknown>[]) {
        listed.push([each['queue'], each['revision'], (each['counts'] as Record<string, unknown>)['dead']]);
      }
      token = body['next_page_token'] as string | null;
    } while (token !== null);
    assert.deepEqual(listed, [
      ['a', 0, 0],
      ['b', 1, 0],
      ['c', 0, 0],
      ['d', 1, 0],
      ['dying', 0, 7],
    ]);
  });
});

describe('a pause', () => {
  it('lasts until somebody resumes the queue, and survives a change of its settings', async (test) => {
    const api = await serveApi(test);
    const paused = await api.call('POST', '/queues/mails/pause', { body: { reason: 'the provider is down' } });
    const pause = { at: '2026-11-15T06:00:00.000Z', reason: 'the provider is down', until: null };
    assert.partialDeepStrictEqual(paused.body, { paused: true, pause, revision: 1 });
    assert.partialDeepStrictEqual((await api.call('PUT', '/queues/mails', { body: { rate_per_s: 5 } })).body, {
      paused: true,
      pause,
    });
    const resumed = await api.call('POST', '/queues/mails/resume');
    assert.partialDeepStrictEqual(resumed.body, { paused: false, pause: null, rate_per_s: 5, revision: 3 });
    assert.equal(resumed.body['resumed_at'], '2026-11-15T06:00:00.000Z');
    assert.partialDeepStrictEqual((await api.call('POST', '/queues/mails/resume')).body, { revision: 3 });
  });

  it('ends by itself when it has an end', async (test) => {
    const api = await serveApi(test);
    assert.partialDeepStrictEqual((await api.call('POST', '/queues/mails/pause', { body: { until: UNTIL } })).body, {
      pause: { until: UNTIL },
    });
    await api.clock.advance(3_600_000);
    assert.partialDeepStrictEqual((await api.call('GET', '/queues/mails')).body, { paused: false, pause: null });
  });

  it('is refused with an end that has passed or is too far', async (test) => {
    const api = await serveApi(test);
    for (const until of ['2026-11-15T06:00:00Z', '2027-12-01T00:00:00Z', 'tomorrow']) {
      const { status, body } = await api.call('POST', '/queues/mails/pause', { body: { until } });
      assert.equal(status, 400, until);
      assert.match(String(body['detail']), /^until: /);
    }
    assert.equal((await api.call('POST', '/queues/mails/pause', { body: { reason: 'x'.repeat(257) } })).status, 400);
  });
});

describe('the audit log', () => {
  it('tells every change of a queue, with what was and what is', async (test) => {
    const api = await serveApi(test);
    await api.call('PUT', '/queues/mails', { body: { rate_per_s: 50 } });
    await api.call('PATCH', '/queues/mails', { body: { rate_per_s: 20 } });
    await api.call('POST', '/queues/mails/pause', { body: { reason: 'x' } });
    await api.call('POST', '/queues/mails/resume');
    await api.call('PUT', '/queues/mails', { body: { rate_per_s: -1 } });
    const pause = { at: api.clock.now(), reason: 'x', until: null };
    const subject = 'mails';
    assert.deepEqual(audited(api), [
      { verb: 'queue.set', subject, detail: { revision: 1, before: { ratePerS: null }, after: { ratePerS: 50 } } },
      { verb: 'queue.set', subject, detail: { revision: 2, before: { ratePerS: 50 }, after: { ratePerS: 20 } } },
      { verb: 'queue.pause', subject, detail: { revision: 3, before: { pause: null }, after: { pause } } },
      {
        verb: 'queue.resume',
        subject,
        detail: {
          revision: 4,
          before: { pause, resumedAt: null },
          after: { pause: null, resumedAt: api.clock.now() },
        },
      },
    ]);
  });

  it('is tried again, and a change stands without it', async (test) => {
    const api = await serveApi(test);
    api.stores.failNext('audit.write', { kind: 'request_lost' });
    await whileTimePasses(api, api.call('PUT', '/queues/mails', { body: { rate_per_s: 50 } }));
    assert.equal(audited(api).length, 1);
    for (let tries = 0; tries < 3; tries += 1) api.stores.failNext('audit.write', { kind: 'unavailable' });
    const unrecorded = await whileTimePasses(api, api.call('PUT', '/queues/mails', { body: { rate_per_s: 60 } }));
    assert.equal(unrecorded.status, 200);
    assert.equal(audited(api).length, 1);
  });
});

describe('a change that the store does not answer', () => {
  it('is told as such, and can be repeated', async (test) => {
    const api = await serveApi(test);
    api.stores.failNext('queues.change', { kind: 'answer_lost' });
    const unclear = await api.call('PUT', '/queues/mails', { body: { rate_per_s: 50 } });
    assert.partialDeepStrictEqual([unclear.status, unclear.body], [503, { code: 'outcome_unknown' }]);
    assert.partialDeepStrictEqual((await api.call('PUT', '/queues/mails', { body: { rate_per_s: 50 } })).body, {
      rate_per_s: 50,
      revision: 1,
    });
  });
});

describe('the client', () => {
  it('reads, sets, pauses and resumes queues', async (test) => {
    const api = await serveApi(test);
    const client = new PunctualClient({ apiUrl: api.url });
    assert.equal((await client.setQueue('mails', { rate_per_s: 50 })).rate_per_s, 50);
    assert.equal((await client.changeQueue('mails', { burst: 5 }, { ifRevision: 1 })).revision, 2);
    await assert.rejects(client.changeQueue('mails', { burst: 6 }, { ifRevision: 1 }), RefusedError);
    assert.equal((await client.pauseQueue('mails', { reason: 'x' })).pause?.reason, 'x');
    assert.equal((await client.resumeQueue('mails')).paused, false);
    assert.equal((await client.getQueue('mails')).burst, 5);
    assert.deepEqual(
      (await client.listQueues()).queues.map(({ queue }) => queue),
      ['mails'],
    );
  });
});

describe('punctual queue', () => {
  async function run(api: HttpApi, ...words: readonly string[]): Promise<{ code: number; text: string }> {
    let text = '';
    const write = (more: string): void => void (text += more);
    const code = await runCli(['queue', ...words, '--api', api.url], { output: { write }, errors: { write } });
    return { code, text };
  }

  it('takes no rate away that others stand on, and says how to go on', async (test) => {
    const api = await serveApi(test);
    await run(api, 'set', 'mails', '--rate', '50', '--burst', '10', '--ramp', '60');
    const { code, text } = await run(api, 'set', 'mails', '--rate', 'default');
    assert.equal(code, 1);
    assert.match(text, /burst: needs rate_per_s.*give this its default \(null\) as well.*ramp_s: needs rate_per_s/);
    const all = await run(api, 'set', 'mails', '--rate', 'default', '--burst', 'default', '--ramp', 'default');
    assert.match(all.text, /rate_per_s +unlimited/);
  });

  it('sets, shows, lists, pauses and resumes', async (test) => {
    const api = await serveApi(test);
    assert.match((await run(api, 'set', 'mails', '--rate', '50', '--max-attempts', '3')).text, /rate_per_s +50/);
    assert.match((await run(api, 'set', 'mails', '--rate', 'default')).text, /rate_per_s +unlimited/);
    const kept = await run(api, 'set', 'mails', '--retention-days', '2', '--dead-retention-days', '9');
    assert.match(kept.text, /^retention_days +2\ndead_retention_days +9$/m);
    assert.match((await run(api, 'pause', 'mails', '--reason', 'why not', '--until', UNTIL)).text, /why not/);
    assert.match((await run(api, 'list')).text, /mails .*why not/);
    assert.match((await run(api, 'resume', 'mails')).text, /^resumed\n/);
    assert.match((await run(api, 'get', 'mails')).text, /max_attempts +3[^]*q_mails_p_high/);
    assert.partialDeepStrictEqual(JSON.parse((await run(api, 'get', 'mails', '--json')).text), { max_attempts: 3 });
  });

  it('says what is wrong', async (test) => {
    const api = await serveApi(test);
    assert.deepEqual((await run(api, 'set', 'mails')).code, 2);
    assert.match((await run(api, 'set', 'mails', '--rate', 'fast')).text, /--rate takes a number from 0: fast/);
    const refused = await run(api, 'set', 'mails', '--rate', '0');
    assert.deepEqual([refused.code, /rate_per_s: must be from 0.001/.test(refused.text)], [1, true], refused.text);
    assert.match((await run(api, 'stop', 'mails')).text, /no command queue stop/);
  });
});

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { describe, it } from 'node:test';
import { PROBLEMS, refused } from '../../services/core/contract/problems.ts';
import { serveApi } from '../support/http-api.ts';

describe('the api about itself', () => {
  it('lists its limits, those of this installation among them', async (test) => {
    const api = await serveApi(test, { horizonDays: 30 });
    const { body } = await api.call('GET', '/limits');
    assert.partialDeepStrictEqual(body, {
      payload_max_bytes: 65_536,
      horizon_days: 30,
      max_attempts_default: 5,
      retry_default: { kind: 'exponential', base_s: 1, factor: 2, cap_s: 3_600, jitter: 'equal' },
      priorities: ['high', 'normal', 'low'],
      job_batch_max_items: 1_000,
      batch_body_max_bytes: 8_388_608,
      lease_wait_max_s: 20,
      page_size_max: 500,
      list_window_max_s: 86_400,
      queue_name_pattern: '^[a-z0-9][a-z0-9_-]{0,63}$',
    });
  });

  it('has the limits that its page names, each with its value', async (test) => {
    const api = await serveApi(test);
    const { body } = await api.call('GET', '/limits');
    const page = readFileSync(resolve(import.meta.dirname, '../../schema/http/README.md'), 'utf8');
    const limits = page.slice(page.indexOf('## Limits'), page.indexOf('**Payloads larger'));
    const rows = [...limits.matchAll(/^\| `(\w+)` \| (.+?) \| .*\|$/gm)];
    const written = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value));
    assert.deepEqual(
      rows.map(([, name, value]) => [name, value?.replaceAll('`', '')]),
      Object.entries(body).map(([name, value]) => [name, written(value)]),
    );
  });

  it('lists its error codes, where the type of each refusal points to', async (test) => {
    const api = await serveApi(test);
    const { body } = await api.call('GET', '/problems');
    const rows = body['problems'] as readonly { readonly code: string; readonly status: number }[];
    assert.deepEqual(
      rows.map(({ code }) => code),
      Object.keys(PROBLEMS),
    );
    const refusal = await api.call('GET', '/nothing');
    assert.equal(refusal.body['type'], '/problems#not_found');
  });

  it('is healthy while it lives, and ready while it can accept jobs', async (test) => {
    const api = await serveApi(test);
    assert.deepEqual((await api.call('GET', '/healthz')).body, { status: 'ok' });
    assert.equal((await api.call('GET', '/readyz')).status, 200);
    const checks = [{ name: 'cassandra', ok: false, required: true, detail: 'no host answers' }];
    api.readiness = { ready: false, checks };
    const { status, body } = await api.call('GET', '/readyz');
    assert.equal(status, 503);
    assert.deepEqual(body, { ready: false, checks });
  });

  it('names the consumers of a queue', async (test) => {
    const api = await serveApi(test);
    const { body } = await api.call('GET', '/queues/mails');
    assert.partialDeepStrictEqual(body, {
      queue: 'mails',
      ready: [{ priority: 'high', stream: 'READY_0', subject: 'ready.mails.high', consumer: 'q_mails_p_high' }],
    });
    for (const name of ['Mails', 'a.b', '*', '%3E', 'a%20b', 'a%00']) {
      assert.equal((await api.call('GET', `/queues/${name}`)).status, 400, name);
    }
    api.override({ describeQueue: async () => refused({ code: 'ready_stream_unavailable', detail: 'NATS is away.' }) });
    assert.equal((await api.call('GET', '/queues/mails')).status, 503);
  });

  it('measures requests by the pattern of their path', async (test) => {
    const api = await serveApi(test);
    await api.call('POST', '/jobs', { body: { queue: 'q' } });
    await api.call('GET', '/jobs/j_0123456789abc_00');
    await api.call('GET', '/jobs/j_0123456789abc_01');
    await api.call('GET', '/nothing/at/all');
    await api.call('PUT', '/jobs');
    const text = await api.telemetry.render();
    const counts = [...text.matchAll(/^punctual_http_request_duration_seconds_count(\{.*\}) (\d+)$/gm)];
    assert.deepEqual(counts.map(([, labels, count]) => `${labels} ${count}`).sort(), [
      '{route="/jobs",method="POST",status="201"} 1',
      '{route="/jobs",method="PUT",status="405"} 1',
      '{route="/jobs/:job_id",method="GET",status="404"} 2',
      '{route="unknown",method="GET",status="404"} 1',
    ]);
  });
});

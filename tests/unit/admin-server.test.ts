import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { describe, it, type TestContext } from 'node:test';
import { type AdminServer, startAdminServer } from '../../services/core/runtime/admin-server.ts';
import { type ReadyCheck, readinessOf } from '../../services/core/runtime/readiness.ts';
import { FakeClock } from '../support/fake-clock.ts';

interface Page {
  readonly status: number | undefined;
  readonly type: string | undefined;
  readonly text: string;
}

async function start(test: TestContext, metrics: () => Promise<string>): Promise<AdminServer> {
  const readiness = async () => ({ ready: false, checks: [] });
  const server = await startAdminServer({ address: { host: '127.0.0.1', port: 0 }, metrics, readiness });
  test.after(() => server.close());
  return server;
}

/** Asks for the path as it is, which fetch does not do. */
async function get({ address }: AdminServer, path: string): Promise<Page> {
  const sent = request({ ...address, path, agent: false });
  sent.end();
  const [response] = (await once(sent, 'response')) as [IncomingMessage];
  let text = '';
  for await (const chunk of response) text += String(chunk);
  return { status: response.statusCode, type: response.headers['content-type'], text };
}

describe('the metrics port', () => {
  it('has three pages, and bears any other path', async (test) => {
    const server = await start(test, async () => 'a_total 1\n');
    const metrics = await get(server, '/metrics?name=a');
    assert.deepEqual(metrics, { status: 200, type: 'text/plain; version=0.0.4; charset=utf-8', text: 'a_total 1\n' });
    assert.equal((await get(server, '/healthz')).status, 200);
    assert.deepEqual(JSON.parse((await get(server, '/readyz')).text), { ready: false, checks: [] });
    for (const path of ['/', '//', '/metrics/', '/%', '/__proto__', '/constructor', '/?/metrics', '*']) {
      assert.equal((await get(server, path)).status, 404, path);
    }
    assert.equal((await get(server, '/healthz')).status, 200);
  });

  it('tells when metrics cannot be read', async (test) => {
    const server = await start(test, () => Promise.reject(new Error('no reader')));
    const { status, text } = await get(server, '/metrics');
    assert.equal(status, 500);
    assert.equal(text, '{"error":"no reader"}\n');
  });
});

describe('readiness', () => {
  const check = (name: string, required: boolean, problem: ReadyCheck['problem']): ReadyCheck => ({
    name,
    required,
    problem,
  });

  it('is there when all that is required is well', async () => {
    const clock = new FakeClock();
    const wanted = check('nats', false, () => 'no connection');
    const needed = check('cassandra', true, () => null);
    assert.equal((await readinessOf([wanted, needed], clock)).ready, true);
    assert.deepEqual(await readinessOf([wanted, { ...wanted, required: true }], clock), {
      ready: false,
      checks: [
        { name: 'nats', ok: false, required: false, detail: 'no connection' },
        { name: 'nats', ok: false, required: true, detail: 'no connection' },
      ],
    });
  });

  it('takes a check that throws, or does not answer within 2 s, for failed', async () => {
    const clock = new FakeClock();
    const throwing = check('bus', true, () => Promise.reject(new Error('broken')));
    const hanging = check('store', true, () => new Promise(() => undefined));
    const { ready, checks } = await clock.until(readinessOf([throwing, hanging], clock));
    assert.equal(ready, false);
    assert.deepEqual(
      checks.map(({ detail }) => detail),
      ['broken', 'no answer within 2000 ms'],
    );
  });
});

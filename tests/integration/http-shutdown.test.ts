import assert from 'node:assert/strict';
import { once } from 'node:events';
import { Agent, type IncomingMessage, request } from 'node:http';
import { describe, it, type TestContext } from 'node:test';
import { serveApi } from '../../services/api/serve.ts';
import type { UseCases } from '../../services/api/use-cases/types.ts';
import { refused } from '../../services/core/contract/problems.ts';
import { loadConfig } from '../../services/core/runtime/config.ts';
import { Lifecycle } from '../../services/core/runtime/lifecycle.ts';
import { systemClock } from '../../services/core/runtime/system-clock.ts';
import { systemRandom } from '../../services/core/runtime/system-random.ts';
import { createTelemetry } from '../../services/core/telemetry/prometheus-telemetry.ts';

interface Served {
  readonly url: string;
  readonly lifecycle: Lifecycle;
  readonly exits: number[];
  /** Lets the job reads that wait be answered. */
  readonly release: () => void;
  readonly waiting: () => number;
}

async function serve(test: TestContext): Promise<Served> {
  const exits: number[] = [];
  let url = '';
  const quiet = (): void => undefined;
  const log = {
    debug: quiet,
    info: (message: string, fields?: Readonly<Record<string, unknown>>) => {
      if (message === 'listening') url = String(fields?.['url']);
    },
    warn: quiet,
    error: quiet,
  };
  const lifecycle = new Lifecycle({ clock: systemClock, log, graceMs: 10_000, exit: (code) => exits.push(code) });
  const gate = Promise.withResolvers<undefined>();
  let waiting = 0;
  const getJob: UseCases['getJob'] = async () => {
    waiting += 1;
    await gate.promise;
    return refused({ code: 'job_not_found', detail: 'There is no such job.' });
  };
  const context = {
    config: loadConfig('api', { PUNCTUAL_API_PORT: '0' }).config,
    clock: systemClock,
    random: systemRandom,
    log,
    telemetry: createTelemetry(),
    stopping: lifecycle.stopping,
    onStop: (part: string, stop: () => Promise<void>) => {
      lifecycle.onStop(part, stop);
    },
    addReadyCheck: quiet,
    readiness: async () => ({ ready: true, checks: [] }),
  };
  await serveApi(context, { useCases: { getJob } as unknown as UseCases, schemaVersion: '1' });
  test.after(async () => {
    gate.resolve(undefined);
    await lifecycle.stop('the test is over', 0);
  });
  return { url, lifecycle, exits, release: () => gate.resolve(undefined), waiting: () => waiting };
}

async function get(url: string, agent: Agent): Promise<IncomingMessage> {
  const sent = request(url, { agent });
  sent.end();
  const [response] = (await once(sent, 'response')) as [IncomingMessage];
  response.resume();
  await once(response, 'end');
  return response;
}

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await systemClock.sleep(5);
}

describe('the end of the api', () => {
  it('answers what it had accepted, and then closes the connection', async (test) => {
    const { url, lifecycle, exits, release, waiting } = await serve(test);
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    test.after(() => agent.destroy());
    assert.equal((await get(`${url}/healthz`, agent)).headers.connection, 'keep-alive');
    const accepted = get(`${url}/jobs/j_0123456789abc_00`, agent);
    await until(() => waiting() === 1);
    const stopped = lifecycle.stop('SIGTERM', 0);
    await assert.rejects(get(`${url}/healthz`, new Agent()), { code: 'ECONNREFUSED' });
    assert.deepEqual(exits, []);
    release();
    const answer = await accepted;
    assert.equal(answer.statusCode, 404);
    assert.equal(answer.headers.connection, 'close');
    await stopped;
    assert.deepEqual(exits, [0]);
  });

  it('does not wait for connections that are idle', async (test) => {
    const { url, lifecycle, exits } = await serve(test);
    const agent = new Agent({ keepAlive: true });
    test.after(() => agent.destroy());
    await get(`${url}/healthz`, agent);
    await lifecycle.stop('SIGTERM', 0);
    assert.deepEqual(exits, [0]);
  });
});

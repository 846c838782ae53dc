import assert from 'node:assert/strict';
import { once } from 'node:events';
import { Agent, type IncomingMessage, request } from 'node:http';
import { connect } from 'node:net';
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

/** Sends the bytes as they are, and reads until the connection ends. */
async function sendRaw(url: string, bytes: string): Promise<string> {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  socket.write(bytes);
  const chunks: Buffer[] = [];
  for await (const chunk of socket) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}

describe('R097 what is no request', () => {
  it('is refused in the form of all refusals, before anything routes it', async (test) => {
    const { url } = await serve(test);
    const post = 'POST /jobs HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n';
    for (const [bytes, detail] of [
      ['GARBAGE\r\n\r\n', /^This is not a request in HTTP\/1\.1: /],
      ['FOO /jobs HTTP/1.1\r\nhost: x\r\n\r\n', /Invalid method/],
      ['GET /healthz HTTP/1.1\r\nhost: x\r\nx: a\x00b\r\n\r\n', /Invalid header value/],
      [`GET /jobs?${'q'.repeat(20_000)} HTTP/1.1\r\nhost: x\r\n\r\n`, /^The path with its query, and the headers, may/],
      [`GET /jobs HTTP/1.1\r\nhost: x\r\nx: ${'a'.repeat(20_000)}\r\n\r\n`, /may be at most 16384 bytes together/],
      [`${post}content-length: -5\r\n\r\n`, /Content-Length/],
      [`${post}content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n`, /Content-Length/],
      [`${post}transfer-encoding: chunked\r\n\r\nZZ\r\n\r\n`, /chunk size/],
    ] as const) {
      const [head = '', body = ''] = (await sendRaw(url, bytes)).split('\r\n\r\n');
      assert.match(head, /^HTTP\/1\.1 400 Bad Request\r\n/, bytes.slice(0, 80));
      assert.match(head, /content-type: application\/problem\+json/);
      const problem = JSON.parse(body) as { readonly code: string; readonly status: number; readonly detail: string };
      assert.deepEqual([problem.code, problem.status], ['invalid_request', 400]);
      assert.match(problem.detail, detail);
    }
  });

  it('is answered also when it expects what nobody knows', async (test) => {
    const { url } = await serve(test);
    const received = await sendRaw(url, 'GET /healthz HTTP/1.1\r\nhost: x\r\nexpect: tea\r\nconnection: close\r\n\r\n');
    assert.match(received, /^HTTP\/1\.1 200 OK\r\n[^]*\{"status":"ok"\}$/);
  });
});

import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { describe, it, type TestContext } from 'node:test';

const PROGRAM = join(import.meta.dirname, '../support/idle-service.ts');

class Running {
  readonly #child: ChildProcess;
  readonly #exited: Promise<unknown[]>;
  out = '';
  err = '';

  constructor(test: TestContext, environment: Readonly<Record<string, string>> = {}, args: readonly string[] = []) {
    const env = { PUNCTUAL_METRICS_PORT: '0', ...environment };
    this.#child = spawn(process.execPath, [PROGRAM, ...args], { env, stdio: ['ignore', 'pipe', 'pipe'] });
    this.#child.stdout?.on('data', (data: Buffer) => (this.out += data.toString()));
    this.#child.stderr?.on('data', (data: Buffer) => (this.err += data.toString()));
    this.#exited = once(this.#child, 'close');
    test.after(() => this.#child.kill('SIGKILL'));
  }

  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  async exitCode(): Promise<unknown> {
    const [code] = await this.#exited;
    return code;
  }

  /** Waits for a line of the log that says this, and returns it. */
  async said(message: string): Promise<Record<string, unknown>> {
    for (;;) {
      const line = this.lines().find((candidate) => candidate['message'] === message);
      if (line !== undefined) return line;
      await Promise.race([once(this.#child.stdout ?? this.#child, 'data'), this.#endedWithout(message)]);
    }
  }

  lines(): Record<string, unknown>[] {
    const whole = this.out.slice(0, this.out.lastIndexOf('\n') + 1);
    return whole
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as Record<string, unknown>);
  }

  async #endedWithout(message: string): Promise<never> {
    await this.#exited;
    throw new Error(`ended without saying "${message}":\n${this.out}${this.err}`);
  }
}

describe('the process of a service', () => {
  it('tells its variables for --help', async (test) => {
    const running = new Running(test, {}, ['--help']);
    assert.equal(await running.exitCode(), 0);
    assert.match(running.out, /^Punctual reaper\./);
  });

  it('refuses other arguments, and a wrong configuration with all its faults', async (test) => {
    const argument = new Running(test, {}, ['--port=1']);
    assert.equal(await argument.exitCode(), 2);
    assert.equal(argument.err, 'punctual reaper: takes no argument --port=1; see --help\n');
    const faults = new Running(test, { PUNCTUAL_METRICS_PORT: 'x', PUNCTUAL_NATS_REPLICAS: '4' });
    assert.equal(await faults.exitCode(), 2);
    assert.deepEqual(faults.err.split('\n'), [
      'punctual reaper: the configuration has 2 faults',
      '  PUNCTUAL_NATS_REPLICAS=4: must be one of 1, 3, 5',
      '  PUNCTUAL_METRICS_PORT=x: must be a whole number from 0 to 65535',
      '',
    ]);
  });

  it('serves its metrics and its health, and stops its parts in reverse order on SIGTERM', async (test) => {
    const running = new Running(test);
    const { url } = await running.said('metrics');
    await running.said('started');
    const base = String(url).replace('/metrics', '');
    const metrics = await (await fetch(`${base}/metrics`)).text();
    assert.match(metrics, /^punctual_build_info\{version="\d+\.\d+\.\d+",tzdata="20\d\d[a-z]",schema="7"\} 1$/m);
    assert.match(metrics, /^punctual_event_loop_delay_seconds\{quantile="0\.99"\} /m);
    assert.match(metrics, /^punctual_process_resident_memory_bytes \d+$/m);
    assert.equal((await fetch(`${base}/healthz`)).status, 200);
    const ready = await fetch(`${base}/readyz`);
    assert.equal(ready.status, 200);
    assert.deepEqual(await ready.json(), {
      ready: true,
      checks: [
        { name: 'process', ok: true, required: true, detail: 'ok' },
        { name: 'nats', ok: false, required: false, detail: 'no connection' },
      ],
    });
    assert.equal((await fetch(`${base}/other`)).status, 404);
    running.signal('SIGTERM');
    assert.equal(await running.exitCode(), 0);
    const said = running.lines().map(({ message }) => message);
    assert.deepEqual(said.slice(-4), ['stopping', 'last part stopped', 'first part stopped', 'stopped']);
  });

  it('is alive but not ready while it dials, and can be stopped then', async (test) => {
    const running = new Running(test, { PUNCTUAL_TEST_BEHAVIOUR: 'dials' });
    const { url } = await running.said('metrics');
    const ready = await fetch(String(url).replace('metrics', 'readyz'));
    assert.equal(ready.status, 503);
    assert.partialDeepStrictEqual(await ready.json(), { checks: [{ name: 'process', detail: 'starting' }] });
    assert.equal((await fetch(String(url).replace('metrics', 'healthz'))).status, 200);
    running.signal('SIGINT');
    assert.equal(await running.exitCode(), 0);
    assert.equal(running.err, '');
  });

  it('tells in one line why it cannot start, undoes what it had started, and fails', async (test) => {
    const running = new Running(test, { PUNCTUAL_TEST_BEHAVIOUR: 'fails' });
    assert.equal(await running.exitCode(), 1);
    assert.equal(running.err, 'punctual reaper cannot start: the schema is too old: version 0\n');
    await running.said('first part stopped');
  });

  it('names the variable when its port is taken', async (test) => {
    const taken = createServer();
    test.after(() => taken.close());
    taken.listen(0, '127.0.0.1');
    await once(taken, 'listening');
    const { port } = taken.address() as AddressInfo;
    const running = new Running(test, { PUNCTUAL_METRICS_PORT: String(port) });
    assert.equal(await running.exitCode(), 1);
    assert.match(
      running.err,
      /^punctual reaper cannot start: 127\.0\.0\.1:\d+ is in use by another process; set PUNCTUAL_METRICS_HOST or PUNCTUAL_METRICS_PORT to another/,
    );
  });

  it('ends at once at the second signal, and when the grace period is over', async (test) => {
    const patient = { PUNCTUAL_TEST_BEHAVIOUR: 'hangs' };
    const twice = new Running(test, patient);
    await twice.said('started');
    twice.signal('SIGTERM');
    await twice.said('stopping');
    twice.signal('SIGTERM');
    assert.equal(await twice.exitCode(), 1);
    const once = new Running(test, { ...patient, PUNCTUAL_SHUTDOWN_GRACE_MS: '50' });
    await once.said('started');
    once.signal('SIGTERM');
    assert.equal(await once.exitCode(), 1);
    await once.said('the work in hand did not end in time');
  });

  it('ends with its log written when an error reaches nobody', async (test) => {
    const running = new Running(test, { PUNCTUAL_TEST_BEHAVIOUR: 'rejects' });
    assert.equal(await running.exitCode(), 1);
    const line = await running.said('an error that nobody caught');
    assert.equal(line['error'], 'nobody waits for this');
    assert.match(String(line['stack']), /idle-service\.ts/);
  });
});

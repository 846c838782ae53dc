import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Log } from '../../services/core/ports/telemetry.ts';
import { Lifecycle } from '../../services/core/runtime/lifecycle.ts';
import { FakeClock } from '../support/fake-clock.ts';

function begin() {
  const clock = new FakeClock();
  const exits: number[] = [];
  const said: string[] = [];
  const say = (message: string): void => void said.push(message);
  const log: Log = { debug: say, info: say, warn: say, error: say };
  const lifecycle = new Lifecycle({ clock, log, graceMs: 5_000, exit: (code) => exits.push(code) });
  return { clock, exits, said, lifecycle };
}

describe('the end of a process', () => {
  it('stops what was started last first, and only then what it builds on', async () => {
    const { clock, exits, lifecycle } = begin();
    const stopped: string[] = [];
    for (const part of ['store', 'bus', 'server']) {
      lifecycle.onStop(part, async () => {
        await clock.sleep(100);
        stopped.push(part);
      });
    }
    const stop = lifecycle.stop('SIGTERM', 0);
    assert.equal(lifecycle.stopping.aborted, true);
    await clock.advance(150);
    assert.deepEqual(stopped, ['server']);
    await clock.until(stop);
    assert.deepEqual(stopped, ['server', 'bus', 'store']);
    assert.deepEqual(exits, [0]);
  });

  it('goes on when a part fails to stop', async () => {
    const { exits, said, lifecycle } = begin();
    const stopped: string[] = [];
    lifecycle.onStop('store', async () => void stopped.push('store'));
    lifecycle.onStop('bus', () => Promise.reject(new Error('no answer')));
    await lifecycle.stop('SIGTERM', 0);
    assert.deepEqual(stopped, ['store']);
    assert.deepEqual(exits, [0]);
    assert.ok(said.includes('a part did not stop as it should'));
  });

  it('does not wait longer than the grace period', async () => {
    const { clock, exits, lifecycle } = begin();
    lifecycle.onStop('server', () => new Promise(() => undefined));
    const stop = lifecycle.stop('SIGTERM', 0);
    await clock.advance(4_999);
    assert.deepEqual(exits, []);
    await clock.until(stop);
    assert.deepEqual(exits, [1]);
  });

  it('happens once', async () => {
    const { exits, lifecycle } = begin();
    await Promise.all([lifecycle.stop('SIGTERM', 0), lifecycle.stop('could not start', 1)]);
    assert.deepEqual(exits, [0]);
  });
});

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Random } from '../../services/core/ports/random.ts';
import type { Log } from '../../services/core/ports/telemetry.ts';
import { startLoop } from '../../services/core/runtime/loop.ts';
import { FakeClock, FAKE_START } from '../support/fake-clock.ts';

const noJitter: Random = { bytes: () => new Uint8Array(), fraction: () => 0, token: () => '' };

function start(
  runOnce: (now: number) => Promise<unknown>,
  options: { clock?: FakeClock; random?: Random; everyMs?: number } = {},
) {
  const errors: unknown[] = [];
  const quiet = (): void => undefined;
  const log: Log = { debug: quiet, info: quiet, warn: quiet, error: (_, fields) => errors.push(fields) };
  const { clock = new FakeClock(), random = noJitter, everyMs = 1_000 } = options;
  const loop = startLoop({ name: 'duty', everyMs, runOnce, clock, random, log });
  return { clock, loop, errors };
}

describe('a loop', () => {
  it('runs its duty at once and then at every period', async () => {
    const runs: number[] = [];
    const { clock, loop } = start(async (now) => runs.push(now - FAKE_START));
    await clock.advance(3_500);
    await loop.stop();
    assert.deepEqual(runs, [0, 1_000, 2_000, 3_000]);
  });

  it('never runs twice at once: a duty longer than the period is followed by the next when it ends', async () => {
    const runs: number[] = [];
    const clock = new FakeClock();
    const duty = async (now: number): Promise<void> => {
      runs.push(now - FAKE_START);
      await clock.sleep(2_500);
    };
    const { loop } = start(duty, { clock });
    await clock.advance(6_000);
    await clock.until(loop.stop());
    assert.deepEqual(runs, [0, 2_500, 5_000]);
  });

  it('starts a little early by chance, so that processes do not stay in step', async () => {
    const runs: number[] = [];
    const random = { ...noJitter, fraction: () => 0.5 };
    const { clock, loop } = start(async (now) => runs.push(now - FAKE_START), { random });
    await clock.advance(2_000);
    await loop.stop();
    assert.deepEqual(runs, [0, 950, 1_900]);
  });

  it('outlives the errors of its duty, with growing pauses up to 5 s, and goes on as before after one success', async () => {
    const runs: number[] = [];
    const { clock, loop, errors } = start(async (now) => {
      runs.push(now - FAKE_START);
      if (runs.length <= 5) throw new Error('not yet', { cause: new Error('the store is away') });
    });
    await clock.advance(23_500);
    await loop.stop();
    assert.deepEqual(runs, [0, 2_000, 6_000, 11_000, 16_000, 21_000, 22_000, 23_000]);
    assert.equal(errors.length, 5);
    assert.partialDeepStrictEqual(errors[1], { duty: 'duty', failures: 2, error: 'not yet: the store is away' });
  });

  it('can be woken, also while it runs', async () => {
    const runs: number[] = [];
    const clock = new FakeClock();
    const duty = async (now: number): Promise<void> => {
      runs.push(now - FAKE_START);
      await clock.sleep(100);
    };
    const { loop } = start(duty, { clock });
    await clock.advance(50);
    loop.wake();
    await clock.advance(350);
    loop.wake();
    await clock.advance(10);
    await clock.until(loop.stop());
    assert.deepEqual(runs, [0, 100, 400]);
  });

  it('stops after the run in hand', async () => {
    let ended = false;
    const clock = new FakeClock();
    const duty = async (): Promise<void> => {
      await clock.sleep(700);
      ended = true;
    };
    const { loop } = start(duty, { clock });
    await clock.advance(100);
    const stopped = loop.stop();
    assert.equal(ended, false);
    await clock.until(stopped);
    assert.equal(ended, true);
  });

  it('is refused a period that no timer can keep', () => {
    assert.throws(() => start(async () => undefined, { everyMs: 61_000 }), RangeError);
    assert.throws(() => start(async () => undefined, { everyMs: 0 }), RangeError);
  });
});

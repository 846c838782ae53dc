import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { SLEEP_MAX_MS } from '../../services/core/domain/limits.ts';
import { msBetween } from '../../services/core/domain/time.ts';
import { FAKE_START, FakeClock } from '../support/fake-clock.ts';

describe('the fake clock', () => {
  it('fires in due order, each at its time, with what follows from it before the next', async () => {
    const clock = new FakeClock();
    const seen: string[] = [];
    const note = (name: string): void => void seen.push(`${name} ${clock.now() - FAKE_START}`);
    clock.after(30, () => note('later'));
    clock.after(10, () => {
      note('first');
      void clock.sleep(5).then(() => note('its follower'));
    });
    clock.after(10, () => note('second'));
    const cancel = clock.after(20, () => note('called off'));
    cancel();
    await clock.advance(40);
    assert.deepEqual(seen, ['first 10', 'second 10', 'its follower 15', 'later 30']);
    assert.equal(clock.now(), FAKE_START + 40);
  });

  it('steps its two clocks apart, and timers run on the monotonic one', async () => {
    const clock = new FakeClock();
    const start = clock.moment();
    let fired = 0;
    clock.after(1_000, () => (fired += 1));
    clock.step({ wallMs: 200_000 });
    await clock.advance(999);
    assert.equal(fired, 0);
    clock.step({ monotonicMs: 5_000 });
    assert.equal(clock.now() - start.wallMs, 200_999);
    assert.equal(msBetween(start.monotonic, clock.monotonic()), 5_999);
    await clock.advance(0);
    assert.equal(fired, 1);
  });

  it('wakes a sleeper that is called off, and refuses a sleep that Node would cut short', async () => {
    const clock = new FakeClock();
    const abort = new AbortController();
    const sleep = clock.sleep(1_000, abort.signal);
    abort.abort();
    await sleep;
    await clock.sleep(1_000, abort.signal);
    assert.equal(clock.now(), FAKE_START);
    assert.throws(() => clock.after(SLEEP_MAX_MS + 1, () => undefined), RangeError);
    assert.throws(() => clock.after(NaN, () => undefined), RangeError);
  });

  it('says so when nothing can settle what is waited for', async () => {
    const clock = new FakeClock();
    const never = new Promise(() => undefined);
    await assert.rejects(clock.until(never), /no timer is left/);
    void clock.sleep(2_000);
    await assert.rejects(clock.until(never, 1_000), /still pending/);
    assert.equal(await clock.until(clock.sleep(3_000).then(() => 'awake')), 'awake');
  });

  it('shows another machine the same timeline under a wall clock of its own', async () => {
    const clock = new FakeClock();
    const other = clock.skewed(-5_000);
    await clock.until(other.sleep(1_000));
    assert.equal(other.now(), FAKE_START - 4_000);
    assert.equal(other.moment().wallMs, FAKE_START - 4_000);
    assert.equal(msBetween(clock.monotonic(), other.monotonic()), 0);
  });
});

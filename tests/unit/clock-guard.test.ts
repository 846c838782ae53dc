import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { judgeClock, type Skew, skewOf } from '../../services/core/domain/clock-skew.ts';
import { MINUTE_MS, SECOND_MS } from '../../services/core/domain/limits.ts';
import type { ClockSource } from '../../services/core/ports/clock-source.ts';
import type { Clock } from '../../services/core/ports/clock.ts';
import { ClockGuard } from '../../services/core/runtime/clock-guard.ts';
import { systemRandom } from '../../services/core/runtime/system-random.ts';
import { RecordingTelemetry, silentLog } from '../support/bus.ts';
import { FakeClock } from '../support/fake-clock.ts';

function skew(source: string, aheadMs: number, uncertaintyMs = 0): Skew {
  return { source, aheadMs, uncertaintyMs };
}

describe('the skew of a clock', () => {
  it('takes the answer to have been given in the middle of the round trip', async () => {
    const clock = new FakeClock();
    const sentAt = clock.moment();
    const serverAt = clock.now() + 100 - 3_000;
    await clock.advance(200);
    assert.deepEqual(skewOf({ source: 'x', serverAt, sentAt, receivedAt: clock.moment() }), skew('x', 3_000, 100));
  });

  it('is judged by what is certain of it', () => {
    assert.equal(judgeClock([skew('a', 999)]), 'good');
    assert.equal(judgeClock([skew('a', -1_000)]), 'off');
    assert.equal(judgeClock([skew('a', 4_999)]), 'off');
    assert.equal(judgeClock([skew('a', -5_000)]), 'wrong');
    assert.equal(judgeClock([skew('a', 5_500, 600)]), 'off', 'a slow answer proves less');
    assert.equal(judgeClock([]), 'good');
  });

  it('counts against us only when half of the servers say so', () => {
    const others = [skew('a', 0), skew('b', 0), skew('c', 10)];
    assert.equal(judgeClock([...others, skew('d', 60_000)]), 'off');
    assert.equal(judgeClock([skew('a', 6_000), skew('b', 60_000), skew('c', 0), skew('d', 0)]), 'wrong');
    assert.equal(judgeClock([skew('cassandra', 6_000), skew('nats', 0)]), 'wrong');
  });
});

/** Servers on the true time, and a process whose wall clock can be wrong. */
class World {
  readonly time = new FakeClock();
  readonly telemetry = new RecordingTelemetry();
  readonly said: string[] = [];
  aheadMs = 0;
  tripMs = 20;
  natsTripMs = 10;
  answers = true;
  readonly guard: ClockGuard;

  constructor(servers: readonly string[] = ['cassandra 10.0.0.1:9042', 'nats']) {
    const { time } = this;
    const clock: Clock = {
      now: () => time.now() + this.aheadMs,
      monotonic: () => time.monotonic(),
      moment: () => ({ wallMs: time.now() + this.aheadMs, monotonic: time.monotonic() }),
      sleep: (ms, signal) => time.sleep(ms, signal),
      after: (ms, callback) => time.after(ms, callback),
    };
    const say = (message: string): void => void this.said.push(message);
    this.guard = new ClockGuard({
      sources: () => servers.map((name) => this.#source(name)),
      clock,
      random: systemRandom,
      telemetry: this.telemetry,
      log: { ...silentLog, info: say, warn: say, error: say },
    });
  }

  #source(name: string): ClockSource {
    return {
      name,
      now: async () => {
        await this.time.sleep(this.tripMs / 2);
        if (!this.answers) throw new Error('no answer');
        const at = this.time.now();
        await this.time.sleep(name === 'nats' ? this.natsTripMs : this.tripMs / 2);
        return at;
      },
    };
  }
}

describe('the clock guard', () => {
  it('trusts a clock that agrees, from the first comparison on', async () => {
    const { time, guard, telemetry, said } = new World();
    assert.equal(guard.trusts(), false, 'nothing is known yet');
    await time.until(guard.start());
    assert.equal(guard.problem(), null);
    await time.advance(5 * MINUTE_MS);
    assert.ok(guard.trusts());
    assert.equal(telemetry.gauges.get('punctual_clock_skew_seconds nats'), 0);
    assert.deepEqual(said, []);
    await time.until(guard.stop());
  });

  it('warns of a second, stops at five, and recovers by itself', async () => {
    const world = new World();
    const { time, guard, telemetry, said } = world;
    world.aheadMs = -1_500;
    await time.until(guard.start());
    assert.ok(guard.trusts());
    assert.equal(telemetry.gauges.get('punctual_clock_skew_seconds nats'), -1.5);
    assert.equal(said.length, 1);

    world.aheadMs = -6_000;
    await time.advance(11 * SECOND_MS);
    assert.equal(
      guard.problem(),
      'the clock of this machine is wrong: 6.0 s behind cassandra 10.0.0.1:9042, 6.0 s behind nats',
    );
    assert.equal(said.length, 2);

    world.aheadMs = 0;
    await time.advance(11 * SECOND_MS);
    assert.equal(guard.problem(), null);
    assert.equal(said.length, 3);
    await time.until(guard.stop());
  });

  it('sees a step at once, without waiting for the next comparison', async () => {
    const world = new World();
    const { time, guard } = world;
    await time.until(guard.start());
    world.aheadMs = 3_600_000;
    assert.equal(guard.trusts(), false);
    await time.advance(2 * SECOND_MS);
    assert.equal(guard.trusts(), false);
    world.aheadMs = 0;
    assert.equal(guard.trusts(), false);
    await time.advance(100);
    assert.ok(guard.trusts());
    await time.until(guard.stop());
  });

  it('sees a step while it compares, between the answer of one server and that of another', async () => {
    const world = new World(['cassandra 1', 'cassandra 2', 'cassandra 3', 'nats']);
    const { time, guard } = world;
    await time.until(guard.start());
    world.natsTripMs = SECOND_MS;
    const compared = guard.check();
    await time.advance(world.natsTripMs / 2);
    world.aheadMs = 30_000;
    await time.until(compared);
    for (let waitedMs = 0; waitedMs < 2 * SECOND_MS; waitedMs += 100) {
      assert.equal(guard.trusts(), false, `${waitedMs} ms later`);
      await time.advance(100);
    }
    await time.until(guard.stop());
  });

  it('does not take a wrong clock for right because its machine was suspended for as long as it was behind', async () => {
    const world = new World();
    const { time, guard } = world;
    await time.until(guard.start());
    world.aheadMs = -30_000;
    await time.advance(11 * SECOND_MS);
    time.step({ wallMs: 28_000 });
    assert.equal(guard.trusts(), false);
    await time.advance(100);
    assert.equal(guard.trusts(), false);
    await time.until(guard.stop());
  });

  it('distrusts a machine that was suspended only until the servers have been asked', async () => {
    const { time, guard } = new World();
    await time.until(guard.start());
    time.step({ wallMs: 3_600_000 });
    assert.equal(guard.trusts(), false);
    await time.advance(100);
    assert.ok(guard.trusts());
    await time.until(guard.stop());
  });

  it('goes by what it knew last while no server answers', async () => {
    const world = new World();
    const { time, guard } = world;
    await time.until(guard.start());
    world.answers = false;
    await time.advance(MINUTE_MS);
    assert.ok(guard.trusts());
    world.aheadMs = 7_000;
    assert.equal(guard.trusts(), false);
    await time.until(guard.stop());
  });

  it('trusts no clock before a server has told its time', async () => {
    const world = new World();
    const { time, guard } = world;
    world.answers = false;
    await time.until(guard.start());
    assert.equal(guard.problem(), 'no server has told its time yet');
    world.answers = true;
    await time.advance(11 * SECOND_MS);
    assert.ok(guard.trusts());
    await time.until(guard.stop());
  });

  it('is not alarmed by slow answers', async () => {
    const world = new World();
    world.tripMs = 4_000;
    await world.time.until(world.guard.start());
    assert.ok(world.guard.trusts());
    assert.deepEqual(world.said, []);
    await world.time.until(world.guard.stop());
  });
});

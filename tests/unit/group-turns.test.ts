import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { GroupTurns } from '../../services/core/runtime/group-turns.ts';
import { FakeClock } from '../support/fake-clock.ts';

/** Callers that come every so many ms: how long each waited, and when each went on. */
async function turnsOf(count: number, everyMs: number): Promise<{ waits: readonly number[]; moments: Set<number> }> {
  const clock = new FakeClock();
  const turns = new GroupTurns(clock, 30);
  const waits: number[] = [];
  const moments = new Set<number>();
  for (let index = 0; index < count; index += 1) {
    const cameAt = clock.now();
    void turns.turn().then(() => {
      waits.push(clock.now() - cameAt);
      moments.add(clock.now());
    });
    await clock.advance(everyMs);
  }
  await clock.advance(100);
  assert.equal(waits.length, count);
  return { waits, moments };
}

describe('turns in groups', () => {
  it('keep nobody waiting where no more than 250 come in a second', async () => {
    const { waits } = await turnsOf(100, 4);
    assert.deepEqual([...new Set(waits)], [0]);
  });

  it('let what comes faster wait for the next group, never longer than 30 ms', async () => {
    const { waits, moments } = await turnsOf(1_000, 1);
    assert.ok(Math.max(...waits) <= 30, String(Math.max(...waits)));
    assert.ok(moments.size <= 60, `${moments.size} groups`);
  });

  it('let the first one after a rest go on at once', async () => {
    const clock = new FakeClock();
    const turns = new GroupTurns(clock, 30);
    for (let time = 0; time < 3; time += 1) {
      const wentOn: string[] = [];
      for (const name of ['first', 'second', 'third']) void turns.turn().then(() => wentOn.push(name));
      await clock.advance(0);
      assert.deepEqual(wentOn, ['first']);
      await clock.advance(30);
      assert.deepEqual(wentOn, ['first', 'second', 'third']);
      await clock.advance(30);
    }
  });
});

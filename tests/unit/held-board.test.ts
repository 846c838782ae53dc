// What dispatchers tell each other of their held jobs: soft, and forgotten within seconds.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { HELD_REPORT_STANDS_MS } from '../../services/core/domain/limits.ts';
import type { HeldDepth } from '../../services/core/ports/held-reports.ts';
import { HeldBoard } from '../../services/core/queues/held-board.ts';
import { coreBench } from '../support/core-bench.ts';
import { FakeClock, FAKE_START } from '../support/fake-clock.ts';

const depth = (overrides: Partial<HeldDepth> = {}): HeldDepth => ({
  queue: 'mail',
  priority: 'normal',
  count: 5,
  oldestAt: FAKE_START,
  ...overrides,
});

describe('the board of held jobs', () => {
  it('sums up what all dispatchers hold, by priority', () => {
    const board = new HeldBoard({ clock: new FakeClock() });
    board.note({ member: 'one', shards: 2, held: [depth(), depth({ priority: 'low', count: 1 })] });
    board.note({
      member: 'two',
      shards: 2,
      held: [depth({ count: 7, oldestAt: FAKE_START - 9 }), depth({ queue: 'x' })],
    });
    assert.deepEqual(board.heldIn('mail'), [
      depth({ count: 12, oldestAt: FAKE_START - 9 }),
      depth({ priority: 'low', count: 1 }),
    ]);
    assert.deepEqual(board.heldIn('other'), []);
    board.note({ member: 'one', shards: 2, held: [] });
    assert.deepEqual(board.heldIn('mail'), [depth({ count: 7, oldestAt: FAKE_START - 9 })]);
  });

  it('forgets a dispatcher that tells nothing any more', async () => {
    const clock = new FakeClock();
    const board = new HeldBoard({ clock });
    board.note({ member: 'one', shards: 2, held: [depth()] });
    await clock.advance(HELD_REPORT_STANDS_MS);
    assert.equal(board.heldIn('mail').length, 1);
    await clock.advance(1);
    assert.deepEqual([board.heldIn('mail'), board.sparedShards('other', 'two')], [[], 0]);
  });

  it('knows whose share of a queue is not used', () => {
    const board = new HeldBoard({ clock: new FakeClock() });
    board.note({ member: 'one', shards: 2, held: [depth()] });
    board.note({ member: 'two', shards: 3, held: [] });
    board.note({ member: 'three', shards: 4, held: [depth({ queue: 'other' })] });
    assert.equal(board.sparedShards('mail', 'one'), 7);
    assert.equal(board.sparedShards('other', 'three'), 5);
    assert.equal(board.sparedShards('third', 'two'), 6);
  });

  it('keeps new jobs from overtaking those of their own or a higher priority', () => {
    const { parts } = coreBench();
    const { gate, heldBoard } = parts;
    const isOpen = (): readonly boolean[] =>
      (['high', 'normal', 'low'] as const).map((priority) => gate.isOpen({ queue: 'mail', priority }));
    assert.deepEqual(isOpen(), [true, true, true]);
    heldBoard.note({ member: 'one', shards: 2, held: [depth()] });
    assert.deepEqual(isOpen(), [true, false, false]);
  });
});

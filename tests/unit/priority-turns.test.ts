import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { PRIORITY_TURNS, priorityOrder, prioritySteps } from '../../services/core/contract/priority-turns.ts';

const PRIORITIES = ['high', 'normal', 'low'];

describe('the turns of priorities', () => {
  it('begin with the first, and once in ten with each of the others', () => {
    const first = Array.from({ length: 2 * PRIORITY_TURNS }, (_, turn) => priorityOrder(PRIORITIES, turn)[0]);
    const count = (priority: string): number => first.filter((each) => each === priority).length;
    assert.deepEqual([count('high'), count('normal'), count('low')], [16, 2, 2]);
    for (const order of Array.from({ length: 10 }, (_, turn) => priorityOrder(PRIORITIES, turn))) {
      assert.deepEqual(order.toSorted(), PRIORITIES.toSorted());
    }
  });

  it('are the same for many at once', () => {
    for (let turn = 0; turn < PRIORITY_TURNS; turn += 1) {
      for (let max = 1; max <= 25; max += 1) {
        const steps = prioritySteps(PRIORITIES, max, turn);
        const shares = { high: 0, normal: 0, low: 0 } as Record<string, number>;
        for (let taken = 0; taken < max; taken += 1) {
          const [first = ''] = priorityOrder(PRIORITIES, turn + taken);
          shares[first] = (shares[first] ?? 0) + 1;
        }
        const favours = steps.slice(0, -PRIORITIES.length);
        const lower = PRIORITIES.slice(1).filter((priority) => shares[priority] !== 0);
        assert.deepEqual(
          favours,
          lower.map((priority) => ({ priority, most: shares[priority] })),
        );
        assert.deepEqual(
          steps.slice(-PRIORITIES.length),
          PRIORITIES.map((priority) => ({ priority, most: max })),
        );
      }
    }
  });

  it('are no turns where there is one priority only', () => {
    for (let turn = 0; turn < PRIORITY_TURNS; turn += 1) {
      assert.deepEqual(priorityOrder(['low'], turn), ['low']);
      assert.deepEqual(prioritySteps(['low'], 3, turn), [{ priority: 'low', most: 3 }]);
    }
    assert.deepEqual(priorityOrder([], 9), []);
  });
});

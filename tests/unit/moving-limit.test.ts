import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import {
  MOVING_ROWS_FIRST,
  MOVING_ROWS_MAX,
  MOVING_ROWS_MIN,
  MOVING_TIME_AIM_MS,
} from '../../services/core/domain/limits.ts';
import { monotonicMs } from '../../services/core/domain/time.ts';
import { MovingLimit } from '../../services/dispatcher/moving-limit.ts';

/** A store that moves so many rows a second: all that are under way arrive together, and as many set out. */
function rowsAfter(limit: MovingLimit, rowsPerS: number, rounds: number, most = Infinity): number {
  let now = 0;
  for (let round = 0; round < rounds; round += 1) {
    const setOutAt = now;
    const rows = Math.min(limit.rows, most);
    const isFull = rows === limit.rows;
    now += (rows / rowsPerS) * 1_000;
    for (let row = 0; row < rows; row += 1) limit.arrived(monotonicMs(setOutAt), monotonicMs(now), isFull);
  }
  return limit.rows;
}

describe('the limit of rows under way', () => {
  it('comes to what the store takes in the time aimed at, from above and from below', () => {
    for (const rowsPerS of [2_000, 5_000, 10_000]) {
      const aim = (rowsPerS * MOVING_TIME_AIM_MS) / 1_000;
      const limit = new MovingLimit();
      const rows = rowsAfter(limit, rowsPerS, 50);
      assert.ok(rows > aim / 2 && rows <= aim * 1.25, `${rows} of ${aim}`);
      assert.ok(rowsAfter(limit, rowsPerS / 2, 50) <= (aim / 2) * 1.25);
    }
  });

  it('stays within its bounds', () => {
    assert.equal(rowsAfter(new MovingLimit(), 1, 50), MOVING_ROWS_MIN);
    assert.equal(rowsAfter(new MovingLimit(), 1_000_000, 50), MOVING_ROWS_MAX);
  });

  it('is lowered once by all that set out before', () => {
    const limit = new MovingLimit();
    const late = MOVING_TIME_AIM_MS + 1;
    for (let row = 0; row < 1_000; row += 1) limit.arrived(monotonicMs(row / 1_000), monotonicMs(late), true);
    assert.ok(limit.rows > MOVING_ROWS_FIRST / 2);
    limit.arrived(monotonicMs(late), monotonicMs(2 * late), true);
    assert.ok(limit.rows < MOVING_ROWS_FIRST / 2 + 1);
  });

  it('is not raised while nobody waits for a place', () => {
    assert.equal(rowsAfter(new MovingLimit(), 10_000, 50, 10), MOVING_ROWS_FIRST);
  });
});

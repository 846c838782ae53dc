import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { bucketOf } from '../../services/core/domain/bucket.ts';
import { DAY_MS, MINUTE_MS } from '../../services/core/domain/limits.ts';
import { farFrom, farRanges, slotEnd, slotsOf } from '../../services/core/domain/queue-counts.ts';

const START = Date.parse('2026-11-15T00:00:00Z');
const now = fc.integer({ min: START, max: START + 3 * DAY_MS });

describe('the slots of times ahead', () => {
  it('hold each time from the minute after the next exactly once, and none before it', () => {
    fc.assert(
      fc.property(now, fc.integer({ min: -5 * MINUTE_MS, max: 370 * DAY_MS }), (at, ahead) => {
        const runAt = at + ahead;
        const held = slotsOf(runAt).filter((slot) =>
          farRanges(at).some(({ grain, from, to }) => grain === slot.grain && slot.start >= from && slot.start < to),
        );
        assert.equal(held.length, runAt >= farFrom(at) ? 1 : 0);
        assert.equal(farFrom(at), bucketOf(at) + 2 * MINUTE_MS);
        for (const slot of slotsOf(runAt)) assert.ok(slot.start <= runAt && runAt < slotEnd(slot));
      }),
    );
  });
});

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import {
  bucketEnd,
  bucketOf,
  dayOf,
  HISTORY_STRIPES,
  historyStripe,
  hourOf,
} from '../../services/core/domain/bucket.ts';
import { memberId } from '../../services/core/domain/ids.ts';

const instants = fc.date({ min: new Date('1970-01-01'), max: new Date('2999-12-31'), noInvalidDate: true }).map(Number);

describe('buckets', () => {
  it('cut time into UTC minutes, hours and days, each instant in one', () => {
    fc.assert(
      fc.property(instants, (at) => {
        const text = new Date(at).toISOString();
        assert.equal(new Date(bucketOf(at)).toISOString(), `${text.slice(0, 16)}:00.000Z`);
        assert.equal(new Date(hourOf(at)).toISOString(), `${text.slice(0, 13)}:00:00.000Z`);
        assert.equal(dayOf(at), text.slice(0, 10));
        // The end is the first instant of the next minute.
        assert.equal(bucketOf(bucketEnd(bucketOf(at)) - 1), bucketOf(at));
        assert.equal(bucketOf(bucketEnd(bucketOf(at))), bucketEnd(bucketOf(at)));
      }),
    );
  });

  it('keep the jobs of one cohort in one stripe of the history', () => {
    const used = new Set<number>();
    for (let index = 0; index < 200; index++) {
      const cohort = `j_${String(index).padStart(13, '0')}`;
      const stripes = new Set([0, 31, 63].map((member) => historyStripe(memberId(cohort, member))));
      assert.equal(stripes.size, 1);
      for (const stripe of stripes) used.add(stripe);
    }
    assert.deepEqual(
      [...used].toSorted(),
      Array.from({ length: HISTORY_STRIPES }, (_, stripe) => stripe),
    );
  });
});

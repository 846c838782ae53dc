// Design section 4: jobs of one (queue, priority, bucket) that arrive within a second share a cohort.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { OpenCohorts, type Place } from '../../services/api/use-cases/open-cohorts.ts';
import { cohortOf, shardOf } from '../../services/core/domain/ids.ts';
import { COHORT_OPEN_MAX_MS, COHORT_SIZE, HOUR_MS } from '../../services/core/domain/limits.ts';
import { FAKE_START, FakeClock } from '../support/fake-clock.ts';
import { scriptedRandom } from '../support/scripted-random.ts';

const SHARDS = 64;

function bench(size = COHORT_SIZE) {
  const clock = new FakeClock();
  const cohorts = new OpenCohorts({ clock, random: scriptedRandom(), shards: SHARDS, size });
  const place = (bucket: number | null = FAKE_START, queue = 'mail'): Place =>
    cohorts.place({ queue, priority: 'normal', bucket });
  return { clock, cohorts, place };
}

describe('an open cohort', () => {
  it('is shared for a second and no longer, by a clock that nobody sets', async () => {
    const { clock, place } = bench();
    const first = place();
    await clock.advance(COHORT_OPEN_MAX_MS);
    clock.step({ wallMs: HOUR_MS });
    assert.equal(place().cohort, first.cohort);
    clock.step({ wallMs: -2 * HOUR_MS, monotonicMs: 1 });
    assert.notEqual(place().cohort, first.cohort);
  });

  it('takes as many as it has room for; the next one goes to another', () => {
    const { place } = bench();
    const places = Array.from({ length: COHORT_SIZE + 1 }, () => place());
    assert.equal(new Set(places.map(({ cohort }) => cohort)).size, 2);
    assert.notEqual(places.at(-1)?.cohort, places.at(-2)?.cohort);
  });

  it('is for one queue, one priority and one minute', () => {
    const { place, cohorts } = bench();
    const others = [place(null), place(FAKE_START + 60_000), place(FAKE_START, 'sms')];
    const low = cohorts.place({ queue: 'mail', priority: 'low', bucket: FAKE_START });
    assert.equal(new Set([place(), place(), low, ...others].map(({ cohort }) => cohort)).size, 5);
  });

  it('of jobs due now is left at its first round, since workers will soon write there; others stay', () => {
    const { place, cohorts } = bench();
    const now = place(null);
    const later = place();
    cohorts.roundStarts(now.cohort);
    cohorts.roundStarts(later.cohort);
    cohorts.roundStarts('j_somebodyelses');
    const next = place(null);
    assert.notEqual(next.cohort, now.cohort);
    assert.equal(place().cohort, later.cohort);
    // A later round of the cohort that was left is none of its successor's.
    cohorts.roundStarts(now.cohort);
    assert.equal(place(null).cohort, next.cohort);
  });

  it('is left when its replicas are away', () => {
    const { place, cohorts } = bench();
    const first = place();
    cohorts.leave(first.cohort);
    const second = place();
    assert.notEqual(second.cohort, first.cohort);
    cohorts.leave(first.cohort);
    assert.equal(place().cohort, second.cohort);
  });

  it('never gives an id twice, nor more members than its size, and says where they live', () => {
    const acts = fc.array(
      fc.record({
        bucket: fc.constantFrom(null, FAKE_START, FAKE_START + 60_000),
        queue: fc.constantFrom('mail', 'sms'),
        afterMs: fc.constantFrom(0, 0, 0, 300, 1_001),
        then: fc.constantFrom('nothing', 'nothing', 'round', 'leave'),
      }),
      { maxLength: 60, size: 'max' },
    );
    fc.assert(
      fc.property(acts, fc.integer({ min: 1, max: 5 }), (taken, size) => {
        const { clock, cohorts, place } = bench(size);
        const places = taken.map(({ bucket, queue, afterMs, then }) => {
          clock.step({ monotonicMs: afterMs });
          const placed = place(bucket, queue);
          if (then === 'round') cohorts.roundStarts(placed.cohort);
          if (then === 'leave') cohorts.leave(placed.cohort);
          return placed;
        });
        assert.equal(new Set(places.map(({ jobId }) => jobId)).size, places.length);
        for (const { jobId, cohort, shard } of places) {
          assert.equal(cohortOf(jobId), cohort);
          assert.equal(shard, shardOf(cohort, SHARDS));
        }
        for (const members of Map.groupBy(places, ({ cohort }) => cohort).values()) assert.ok(members.length <= size);
      }),
    );
  });
});

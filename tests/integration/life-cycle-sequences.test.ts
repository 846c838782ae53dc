// Random sequences of operations on a real Cassandra, whose clock judges leases and time limits; tests/property runs the same
// ones, more of them, on the fake store.

import { before, describe, it } from 'node:test';
import fc from 'fast-check';
import { systemClock } from '../../services/core/runtime/system-clock.ts';
import { createStores, type Stores } from '../../services/core/storage/stores.ts';
import { testSession } from '../support/cassandra.ts';
import { runSequence, sequences } from '../support/life-cycle-model.ts';
import { suiteCleanup } from '../support/suite-cleanup.ts';

describe('the jobs of a cohort on Cassandra', () => {
  const cleanup = suiteCleanup();
  let stores: Stores;
  before(async () => {
    const { session } = await testSession(cleanup);
    stores = createStores(session, { clock: systemClock });
  });

  it('go through any sequence of operations as the model of the life cycle does', async () => {
    const { cohorts, jobs } = stores;
    const store = { apply: cohorts.apply.bind(cohorts), read: jobs.read.bind(jobs) };
    const bench = {
      store,
      clock: systemClock,
      settled: <T>(promise: Promise<T>): Promise<T> => promise,
      pass: () => systemClock.sleep(3),
    };
    await fc.assert(
      fc.asyncProperty(sequences(25), (sequence) => runSequence(sequence, bench)),
      // A sequence costs about 100 round trips, half a second where nothing else runs.
      { numRuns: 12, endOnFailure: true },
    );
  });
});

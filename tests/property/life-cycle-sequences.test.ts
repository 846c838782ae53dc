// Random sequences of operations on the fake store; tests/integration runs the same ones on a real Cassandra.

import { describe, it } from 'node:test';
import fc from 'fast-check';
import { FakeClock } from '../support/fake-clock.ts';
import { runSequence, sequences } from '../support/life-cycle-model.ts';
import { MemoryStores } from '../support/memory-store.ts';

describe('the jobs of a cohort', () => {
  it('go through any sequence of operations as the model of the life cycle does', async () => {
    await fc.assert(
      fc.asyncProperty(sequences(25), async (sequence) => {
        const clock = new FakeClock();
        const { cohorts, jobs } = new MemoryStores({ clock, serverNow: () => clock.now() });
        const store = { apply: cohorts.apply.bind(cohorts), read: jobs.read.bind(jobs) };
        const settled = <T>(promise: Promise<T>): Promise<T> => clock.until(promise);
        await runSequence(sequence, { store, clock, settled, pass: () => clock.advance(5) });
      }),
      // Made smaller, a sequence of 200 moves takes minutes and tells little more.
      { numRuns: 40, endOnFailure: true },
    );
  });
});

// A bulk replay changes each job exactly once and counts it once, whenever its runners are killed, whatever the stores answer, and
// also where two run it at the same time.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { JobStatus } from '../../services/core/domain/job-status.ts';
import { LATE_APPLY_MS, MINUTE_MS } from '../../services/core/domain/limits.ts';
import { bulkBench, type ReaperProcess, startRequest } from '../support/bulk-bench.ts';
import { FAKE_START } from '../support/fake-clock.ts';
import { jobRow } from '../support/job-row.ts';
import type { Fault } from '../support/memory-store.ts';
import { journalOf } from '../support/watched-rounds.ts';

const COHORTS = ['j_0123456789abc', 'j_abcdefghjkmnp', 'j_qrstvwxyz0123'];
const DIED = FAKE_START - MINUTE_MS;

interface Life {
  /** After so many calls to a store the process is killed. */
  readonly calls: number;
  /** So long the next one runs beside it before; 0: it begins after the kill. */
  readonly besideS: number;
}

const lives = fc.array(
  fc.record<Life>({ calls: fc.integer({ min: 1, max: 120 }), besideS: fc.constantFrom(0, 0, 1, 3) }),
  { maxLength: 4 },
);
const faults = fc.array(
  fc.constantFrom<Fault>(
    { kind: 'slow', afterMs: 20 },
    { kind: 'slow', afterMs: 1_500 },
    { kind: 'answer_lost' },
    { kind: 'answer_lost' },
    { kind: 'request_lost' },
    { kind: 'late', afterMs: LATE_APPLY_MS - 1 },
    { kind: 'unavailable' },
    { kind: 'overloaded' },
  ),
  { maxLength: 30, size: 'max' },
);

async function run(terms: {
  readonly jobs: number;
  readonly ratePerS: number;
  readonly lives: readonly Life[];
  readonly faults: readonly Fault[];
  /** Every third job dies again at once, by a clock that is behind. */
  readonly diesAgain: boolean;
}) {
  const left = [...terms.faults];
  const state = { begun: false };
  const bench = bulkBench({
    strikes: ({ method }) => (state.begun && /apply|save|write/.test(method) ? left.shift() : undefined),
  });
  const jobs = Array.from({ length: terms.jobs }, (_, index) =>
    jobRow(COHORTS[index % 3]!, Math.floor(index / 3), {
      shard: 0,
      status: JobStatus.dead,
      attempt: 5,
      // Some at the same instant.
      finishedAt: DIED + Math.floor(index / 2),
      lastError: 'boom',
    }),
  );
  bench.add(...jobs);
  const journal = journalOf(bench.stores);
  const started = await bench.clock.until(bench.keeper.start(startRequest({ ratePerS: terms.ratePerS })));
  assert.ok(started.ok);
  state.begun = true;
  const { operationId } = started.value.operation;

  for (const { calls, besideS } of terms.lives) {
    let made = 0;
    const process: ReaperProcess = bench.startReaper(() => {
      made += 1;
      if (made >= calls) process.kill();
    });
    await bench.run(2);
    if (besideS > 0) bench.startReaper();
    await bench.run(besideS);
    process.kill();
    if (terms.diesAgain) {
      for (const job of jobs.filter((_, index) => index % 3 === 0)) {
        const row = bench.stores.rows.get(job.jobId)!;
        if (row.status === JobStatus.scheduled) bench.add({ ...row, status: JobStatus.dead, finishedAt: FAKE_START });
      }
    }
  }
  bench.startReaper();
  await bench.run(Math.ceil(terms.jobs / terms.ratePerS) + 60);
  const replayed = journal.filter(({ before, after }) => before?.status === 'dead' && after.status === 'scheduled');
  return { operation: bench.find(operationId), replayed: replayed.map(({ after }) => after.jobId) };
}

describe('a bulk replay under kills and faults', () => {
  it('ends, replays each job exactly once, and counts them so', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.record({
          jobs: fc.integer({ min: 1, max: 60 }),
          ratePerS: fc.constantFrom(10, 40, 1_000),
          lives,
          faults,
          diesAgain: fc.boolean(),
        }),
        async (terms) => {
          const { operation, replayed } = await run(terms);
          assert.equal(operation.status, 'done');
          assert.equal(replayed.length, terms.jobs, 'jobs replayed, those that died again included');
          assert.equal(new Set(replayed).size, terms.jobs);
          assert.deepEqual([operation.changed, operation.failed], [terms.jobs, 0]);
        },
      ),
      { numRuns: 60 },
    );
  });
});

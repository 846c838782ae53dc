// A part of the ring without quorum: of calls that are about many jobs, those whose rows lie elsewhere go on at once.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ClaimedJobs } from '../../services/api/use-cases/claimed-jobs.ts';
import { JobClaimer } from '../../services/api/use-cases/claim-jobs.ts';
import { JobLeaser } from '../../services/api/use-cases/lease-jobs.ts';
import { JobReporter } from '../../services/api/use-cases/report-jobs.ts';
import { StartLags } from '../../services/api/use-cases/start-lags.ts';
import type { Result } from '../../services/core/contract/problems.ts';
import { cohortOf } from '../../services/core/domain/ids.ts';
import { JobStatus, PRIORITIES } from '../../services/core/domain/job-status.ts';
import { SECOND_MS } from '../../services/core/domain/limits.ts';
import { coreBench, setQueue } from '../support/core-bench.ts';
import { FAKE_START } from '../support/fake-clock.ts';
import { jobRow, newCohort } from '../support/job-row.ts';
import type { StoreCall } from '../support/memory-store.ts';

const JOBS = [0, 1, 2].map((shard) =>
  jobRow(newCohort(), 0, { status: JobStatus.enqueued, enqueuedAt: FAKE_START, shard }),
);
const IDS = JOBS.map(({ jobId }) => jobId);
/** Its rows, or its shard's, are away. */
const AWAY = JOBS[1]!;

function benchWithout(isAway: (call: StoreCall) => boolean) {
  let awayCalls = 0;
  const core = coreBench({
    strikes: (call) => {
      if (!isAway(call)) return undefined;
      awayCalls += 1;
      return { kind: 'unavailable' };
    },
  });
  const { stores, clock, parts } = core;
  for (const row of JOBS) stores.rows.set(row.jobId, row);
  const claimed = new ClaimedJobs();
  const claimer = new JobClaimer({ ...parts, claimed, startLags: new StartLags(clock) });
  return {
    ...core,
    claimer,
    leaser: new JobLeaser({ ...parts, claimer }),
    reporter: new JobReporter({ ...parts, claimed }),
    /** Also how long it took, and that it met what is away. */
    timed: async <T>(work: Promise<T>): Promise<T> => {
      const from = clock.now();
      const result = await clock.until(work);
      assert.ok(clock.now() - from < SECOND_MS, `it took ${clock.now() - from} ms`);
      assert.ok(awayCalls > 0, 'nothing was away');
      return result;
    },
  };
}

const isReadOfAway = ({ method, args }: StoreCall): boolean =>
  method === 'jobs.read' && (args[0] as readonly string[]).some((jobId) => cohortOf(jobId) === AWAY.cohort);
const isDeadlineOfAway = ({ method, args }: StoreCall): boolean =>
  method === 'timers.writeDeadlines' &&
  (args[0] as readonly { readonly shard: number }[]).some(({ shard }) => shard === AWAY.shard);

const codesOf = (results: readonly Result<unknown>[]): readonly string[] =>
  results.map((result) => (result.ok ? 'ok' : result.problem.code));

describe('claims while a part of the store is away', () => {
  it('are answered for other queues at once without the slots of one', async () => {
    const bench = benchWithout(({ method }) => method === 'slots.read');
    await setQueue(bench, 'limited', { maxRunning: 1 });
    bench.stores.rows.set(AWAY.jobId, { ...AWAY, queue: 'limited' });
    const items = IDS.map((jobId) => ({ jobId, attempt: 1, claimId: null }));
    const results = await bench.timed(bench.claimer.claim(items, 'worker'));
    assert.deepEqual(codesOf(results), ['ok', 'store_unavailable', 'ok']);
    assert.equal(bench.stores.rows.get(AWAY.jobId)?.status, 'enqueued');
  });

  for (const [what, isAway] of [
    ['the rows of one', isReadOfAway],
    ['the deadlines of one shard', isDeadlineOfAway],
  ] as const) {
    it(`are answered for the others at once without ${what}`, async () => {
      const { claimer, timed, stores } = benchWithout(isAway);
      const items = IDS.map((jobId) => ({ jobId, attempt: 1, claimId: null }));
      assert.deepEqual(codesOf(await timed(claimer.claim(items, 'worker'))), ['ok', 'store_unavailable', 'ok']);
      assert.deepEqual(
        IDS.map((jobId) => stores.rows.get(jobId)?.status),
        ['running', 'enqueued', 'running'],
      );
    });

    it(`and leases hand out the others without ${what}, and the message comes again`, async () => {
      const { leaser, timed, connection, clock } = benchWithout(isAway);
      const published = IDS.map((jobId) => {
        const { queue, priority, runAt } = AWAY;
        return { jobId, attempt: 1, queue, priority, runAt };
      });
      await clock.until(connection.queue.ensureQueue(AWAY.queue));
      await clock.until(connection.queue.publish(published));
      const request = {
        queue: AWAY.queue,
        worker: 'worker',
        claimId: 'c',
        max: 10,
        priorities: PRIORITIES,
        signal: new AbortController().signal,
      };
      const leased = await timed(leaser.lease({ ...request, waitMs: 0 }));
      assert.ok(leased.ok);
      assert.deepEqual(leased.value.map(({ job }) => job.jobId).toSorted(), [IDS[0], IDS[2]].toSorted());
      await clock.advance(2 * SECOND_MS);
      const [again] = await clock.until(connection.queue.pull({ ...request, waitMs: 0 }));
      assert.equal(again?.message.jobId, AWAY.jobId);
    });
  }
});

describe('reports while the rows of one job are away', () => {
  it('are taken for the others at once', async () => {
    let isAway = false;
    const { claimer, reporter, timed, clock } = benchWithout((call) => isAway && isReadOfAway(call));
    await clock.until(
      claimer.claim(
        IDS.map((jobId) => ({ jobId, attempt: 1, claimId: null })),
        'worker',
      ),
    );
    isAway = true;
    const reports = IDS.map(
      (jobId) => ({ kind: 'failed', jobId, attempt: 1, error: 'no', retryable: true, retryAfterMs: null }) as const,
    );
    assert.deepEqual(codesOf(await timed(reporter.report(reports))), ['ok', 'store_unavailable', 'ok']);
  });
});

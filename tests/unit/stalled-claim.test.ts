// A claim whose process stood still before it could answer.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { JobClaimer } from '../../services/api/use-cases/claim-jobs.ts';
import { ClaimedJobs } from '../../services/api/use-cases/claimed-jobs.ts';
import { StartLags } from '../../services/api/use-cases/start-lags.ts';
import { JobStatus } from '../../services/core/domain/job-status.ts';
import { SECOND_MS } from '../../services/core/domain/limits.ts';
import { coreBench } from '../support/core-bench.ts';
import { FAKE_START } from '../support/fake-clock.ts';
import { jobRow } from '../support/job-row.ts';

const LEASE_S = 5;

async function claimAfter(stallMs: number): Promise<string | number | undefined> {
  const { stores, clock, parts } = coreBench();
  const job = jobRow('j_0123456789abc', 0, {
    status: JobStatus.enqueued,
    enqueuedAt: FAKE_START,
    leaseS: LEASE_S,
  });
  stores.rows.set(job.jobId, job);
  stores.failNext('cohorts.apply', { kind: 'slow', afterMs: stallMs });
  const claimer = new JobClaimer({ ...parts, claimed: new ClaimedJobs(), startLags: new StartLags(clock) });
  const [result] = await clock.until(claimer.claim([{ jobId: job.jobId, attempt: 1, claimId: 'a' }], 'worker-1'));
  return result?.ok === false ? result.problem.code : result?.value.attempt;
}

describe('a claim repeated by a process that stood still', () => {
  it('gives nothing when its first try ran, lapsed, and was cancelled meanwhile', async () => {
    const { stores, clock, parts } = coreBench();
    const found = jobRow('j_0123456789abc', 0, { status: JobStatus.enqueued, enqueuedAt: FAKE_START });
    const start = { claimId: 'a', worker: 'worker-1', startedAt: FAKE_START };
    const row = { ...found, status: JobStatus.cancelled, attempt: 1, starts: new Map([[1, start]]) };
    stores.rows.set(row.jobId, row);
    const claimer = new JobClaimer({ ...parts, claimed: new ClaimedJobs(), startLags: new StartLags(clock) });
    const item = { jobId: found.jobId, attempt: 1, claimId: 'a' };
    const [result] = await clock.until(
      claimer.claim([item], 'worker-1', { rows: new Map([[found.jobId, found]]), problems: new Map() }),
    );
    assert.equal(result?.ok === false && result.problem.code, 'job_finished');
  });
});

describe('a claim that is answered late', () => {
  it('gives the attempt while its lease stands', async () => {
    assert.equal(await claimAfter((LEASE_S - 1) * SECOND_MS), 1);
  });

  it('gives nothing once the lease may be over: the job may be cancelled by now', async () => {
    assert.equal(await claimAfter((LEASE_S + 1) * SECOND_MS), 'lease_lost');
  });
});

// Design section 6: leases and time limits are judged by Cassandra's clock; the api tells the worker what that clock said.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ClaimedJobs } from '../../services/api/use-cases/claimed-jobs.ts';
import { JobReporter } from '../../services/api/use-cases/report-jobs.ts';
import type { JobRow } from '../../services/core/domain/job.ts';
import { SECOND_MS } from '../../services/core/domain/limits.ts';
import { coreBench } from '../support/core-bench.ts';
import { FAKE_START } from '../support/fake-clock.ts';
import { LEASE_MS, runningJob, TIMEOUT_MS } from '../support/operations.ts';

function bench(overrides: Partial<JobRow> = {}, serverAheadMs = 0) {
  const core = coreBench({ serverAheadMs });
  const job = runningJob('j_0123456789abc', 0, overrides);
  core.stores.rows.set(job.jobId, job);
  const reporter = new JobReporter({ ...core.parts, claimed: new ClaimedJobs() });
  const heartbeat = async (attempt = 1) => {
    const [result] = await core.clock.until(reporter.heartbeat([{ jobId: job.jobId, attempt, progress: null }]));
    return result!.ok ? result!.value : result!.problem.code;
  };
  return { ...core, heartbeat, row: () => core.stores.rows.get(job.jobId)! };
}

const alive = (leaseUntil: number, cancelRequested = false) => ({
  leaseUntil,
  deadline: FAKE_START + TIMEOUT_MS,
  cancelRequested,
});

describe('a heartbeat', () => {
  it('moves the lease on', async () => {
    const { heartbeat, clock, row } = bench();
    clock.step({ wallMs: 10 * SECOND_MS });
    assert.deepEqual(await heartbeat(), alive(FAKE_START + 40 * SECOND_MS));
    assert.deepEqual([row().leaseUntil, row().heard], [FAKE_START + 40 * SECOND_MS, true]);
  });

  it('is accepted right after the claim through a node whose clock is behind, and leaves the later lease alone', async () => {
    for (const heard of [false, true]) {
      const { heartbeat, row } = bench({ heard }, -300);
      assert.deepEqual(await heartbeat(), alive(FAKE_START + LEASE_MS));
      assert.equal(row().leaseUntil, FAKE_START + LEASE_MS);
    }
  });

  it('is accepted right after the claim also where the clock of the api is seconds ahead', async () => {
    const { heartbeat, clock, row } = bench({}, -2.3 * SECOND_MS);
    clock.step({ wallMs: 2 * SECOND_MS });
    assert.deepEqual(await heartbeat(), alive(FAKE_START + LEASE_MS));
    assert.equal(row().leaseUntil, FAKE_START + LEASE_MS);
  });

  it('is refused past the time limit, heard of before or not, and keeps nothing alive', async () => {
    for (const heard of [false, true]) {
      const { heartbeat, clock, row } = bench({ heard, leaseUntil: FAKE_START + TIMEOUT_MS + LEASE_MS });
      clock.step({ wallMs: TIMEOUT_MS });
      assert.equal(await heartbeat(), 'attempt_timed_out');
      assert.equal(row().leaseUntil, FAKE_START + TIMEOUT_MS + LEASE_MS);
    }
  });

  it('tells that a cancellation was asked for', async () => {
    const { heartbeat, clock, row } = bench({ cancelRequested: true });
    clock.step({ wallMs: 10 * SECOND_MS });
    assert.deepEqual(await heartbeat(), alive(FAKE_START + 40 * SECOND_MS, true));
    assert.equal(row().leaseUntil, FAKE_START + 40 * SECOND_MS);
  });

  it('moves the lease of a job that is to stop, also where the clock of the api is behind', async () => {
    const { heartbeat, clock, row } = bench({ cancelRequested: true }, 3 * SECOND_MS);
    clock.step({ wallMs: 500 });
    assert.deepEqual(await heartbeat(), alive(FAKE_START + 500 + LEASE_MS, true));
    assert.equal(row().leaseUntil, FAKE_START + 3_500 + LEASE_MS);
  });

  it('of an attempt that lost the job is refused', async () => {
    const { heartbeat } = bench({ attempt: 2 });
    assert.equal(await heartbeat(1), 'lease_lost');
  });
});

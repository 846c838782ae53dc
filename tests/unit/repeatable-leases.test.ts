// A lease repeated under its claim_id, after its answer was lost, gets the same jobs; whatever it gets, nobody else has it.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { RepeatableLeases } from '../../services/api/use-cases/repeatable-leases.ts';
import type { ClaimedJob, ClaimItem, LeaseRequest } from '../../services/api/use-cases/types.ts';
import { ok, refused, type ProblemCode, type Result } from '../../services/core/contract/problems.ts';
import { jobRow, newCohort } from '../support/job-row.ts';

const REQUEST: LeaseRequest = {
  queue: 'mail',
  priorities: ['normal'],
  max: 2,
  waitMs: 0,
  worker: 'worker-1',
  claimId: 'claim-1',
  signal: new AbortController().signal,
};

/** Hands out new jobs at each lease, and lets them be claimed again unless there is a problem. */
function bench(max = 2) {
  const problems = new Map<string, ProblemCode>();
  const claims: (readonly ClaimItem[])[] = [];
  let gate: Promise<unknown> = Promise.resolve();
  let leases = 0;
  const job = jobRow(newCohort(), 0);
  const claimed = (jobId: string): ClaimedJob => ({
    job: { ...job, jobId },
    attempt: 1,
    leaseUntil: 0,
    heartbeatS: 10,
  });
  const repeatable = new RepeatableLeases({
    leaser: {
      lease: async () => {
        leases += 1;
        const jobs = Array.from({ length: max }, (_, index) => claimed(`job ${leases} ${index}`));
        await gate;
        return ok(jobs);
      },
    },
    claimer: {
      claim: async (items) => {
        claims.push(items);
        return items.map(({ jobId }): Result<ClaimedJob> => {
          const code = problems.get(jobId);
          return code === undefined ? ok(claimed(jobId)) : refused({ code, detail: '' });
        });
      },
    },
  });
  const lease = async (request: Partial<LeaseRequest> = {}): Promise<readonly string[]> => {
    const result = await repeatable.lease({ ...REQUEST, ...request });
    assert.ok(result.ok, JSON.stringify(result));
    return result.value.map(({ job }) => job.jobId);
  };
  return {
    repeatable,
    lease,
    problems,
    claims,
    leases: () => leases,
    hold: () => {
      const { promise, resolve } = Promise.withResolvers<undefined>();
      gate = promise;
      return () => resolve(undefined);
    },
  };
}

describe('a lease repeated with its claim_id', () => {
  it('gets the same jobs, by claims under that id', async () => {
    const { lease, claims } = bench();
    const first = await lease();
    assert.deepEqual(await lease(), first);
    assert.deepEqual(
      claims[0],
      first.map((jobId) => ({ jobId, attempt: 1, claimId: 'claim-1' })),
    );
  });

  it('gets others under another id, in another queue, and without an id', async () => {
    const { lease, leases } = bench();
    const got = [await lease(), await lease({ claimId: 'claim-2' }), await lease({ queue: 'other' })];
    got.push(await lease({ claimId: null }), await lease({ claimId: null }));
    assert.equal(new Set(got.flat()).size, 10);
    assert.equal(leases(), 5);
  });

  it('gets what of it is still its own, and new jobs when nothing is', async () => {
    const { lease, problems } = bench();
    const [one = '', other = ''] = await lease();
    problems.set(one, 'lease_lost');
    assert.deepEqual(await lease(), [other]);
    problems.set(other, 'job_finished');
    const next = await lease();
    assert.equal(next.length, 2);
    assert.ok(!next.includes(one) && !next.includes(other));
    assert.deepEqual(await lease(), next);
  });

  it('is told to come again while the store cannot tell', async () => {
    const { repeatable, lease, problems, leases } = bench();
    const [one = ''] = await lease();
    problems.set(one, 'outcome_unknown');
    const result = await repeatable.lease(REQUEST);
    assert.equal(!result.ok && result.problem.code, 'outcome_unknown');
    assert.equal(leases(), 1);
  });

  it('waits for the call that it repeats', async () => {
    const { lease, leases, hold } = bench();
    const release = hold();
    const both = Promise.all([lease(), lease()]);
    await new Promise(setImmediate);
    assert.equal(leases(), 1);
    release();
    const [first, second] = await both;
    assert.deepEqual(second, first);
  });

  it('is forgotten when many came after it', async () => {
    const { lease } = bench(100);
    const first = await lease();
    for (let index = 0; index < 499; index += 1) await lease({ claimId: `other-${index}` });
    assert.deepEqual(await lease(), first);
    await lease({ claimId: 'one more' });
    assert.notDeepEqual(await lease(), first);
  });
});

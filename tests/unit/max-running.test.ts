// A queue with max_running: the dispatcher hands out no more jobs than may run, and no other job is claimed.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ClaimedJobs } from '../../services/api/use-cases/claimed-jobs.ts';
import { JobClaimer } from '../../services/api/use-cases/claim-jobs.ts';
import { JobStatus } from '../../services/core/domain/job-status.ts';
import { SECOND_MS } from '../../services/core/domain/limits.ts';
import { coreBench, setQueue } from '../support/core-bench.ts';
import { DispatchWorld } from '../support/dispatch-world.ts';
import { FAKE_START } from '../support/fake-clock.ts';
import { jobRow, newCohort } from '../support/job-row.ts';

describe('a queue with max_running', () => {
  it('hands out so many jobs, and the next when one ends', async () => {
    const w = new DispatchWorld({});
    await w.start();
    await w.configure('mail', { maxRunning: 3 });
    w.schedule(50, { queue: 'mail', inMs: 300, together: 1 });
    const calm = w.schedule(2, { queue: 'calm', inMs: 300 });
    await w.run(8);
    assert.equal(w.count('mail', JobStatus.enqueued), 3);
    assert.equal(w.published('calm').length, calm.length);
    for (let worked = 3; worked < 50;) {
      worked += w.work('mail');
      await w.run(1);
      assert.ok(w.count('mail', JobStatus.enqueued) <= 3);
    }
    w.work('mail');
    await w.run(1);
    assert.equal(w.count('mail', JobStatus.succeeded), 50);
  });

  it('goes on with what it has when it is given fewer, and with more when it is given more', async () => {
    const w = new DispatchWorld({});
    await w.start();
    await w.configure('mail', { maxRunning: 5 });
    w.schedule(20, { queue: 'mail', inMs: 300, together: 1 });
    await w.run(3);
    assert.equal(w.count('mail', JobStatus.enqueued), 5);
    await w.configure('mail', { maxRunning: 2 });
    w.work('mail', 4);
    await w.run(3);
    assert.ok(w.count('mail', JobStatus.enqueued) <= 3, String(w.count('mail', JobStatus.enqueued)));
    await w.configure('mail', { maxRunning: 8 });
    await w.run(3);
    assert.equal(w.count('mail', JobStatus.enqueued), 8);
    await w.configure('mail', { maxRunning: null });
    await w.run(3);
    assert.equal(w.count('mail', JobStatus.scheduled), 0);
  });
});

describe('in a queue with max_running', () => {
  async function bench() {
    const core = coreBench();
    const { parts, stores, clock } = core;
    const job = jobRow(newCohort(), 0, { status: JobStatus.enqueued, enqueuedAt: FAKE_START });
    const { jobId, queue } = job;
    stores.rows.set(jobId, job);
    await setQueue(core, queue, { maxRunning: 3 });
    const claimer = new JobClaimer({ ...parts, claimed: new ClaimedJobs() });
    return {
      ...{ core, job, jobId, queue },
      row: () => stores.rows.get(jobId),
      claim: async () => {
        const [result] = await clock.until(claimer.claim([{ jobId, attempt: 1, claimId: null }], 'worker-1'));
        return result?.ok === false ? result.problem.code : result?.value.attempt;
      },
    };
  }

  it('a job is claimed with its slot', async () => {
    const { core, claim, jobId, queue, row } = await bench();
    assert.ok(await core.clock.until(core.parts.slots.take(queue, 3, jobId)));
    assert.equal(await claim(), 1);
    assert.equal(row()?.status, JobStatus.running);
  });

  it('a job without a slot waits again, as one that was handed out before there was a limit', async () => {
    const { core, claim, row } = await bench();
    assert.equal(await claim(), 'queue_at_limit');
    assert.partialDeepStrictEqual(row(), { status: JobStatus.scheduled, attempt: 0 });
    assert.equal(core.stores.due.all().length, 1);
  });

  it('a claim that stalled behind the look at the slots does not win when the job was enqueued again', async () => {
    const { core, job, claim, jobId, queue, row } = await bench();
    assert.ok(await core.clock.until(core.parts.slots.take(queue, 3, jobId)));
    core.stores.failNext('cohorts.apply', { kind: 'slow', afterMs: SECOND_MS });
    core.clock.after(SECOND_MS / 2, () => {
      core.stores.rows.set(jobId, { ...job, enqueuedAt: FAKE_START + 100 });
    });
    assert.equal(await claim(), 'lease_lost');
    assert.equal(row()?.status, JobStatus.enqueued);
  });
});

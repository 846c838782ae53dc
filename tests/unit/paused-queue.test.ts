// A pause stops what is published already: claims are refused and take the job back, leases come back empty, and the reaper
// publishes nothing again.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { JobClaimer } from '../../services/api/use-cases/claim-jobs.ts';
import { ClaimedJobs } from '../../services/api/use-cases/claimed-jobs.ts';
import { JobLeaser } from '../../services/api/use-cases/lease-jobs.ts';
import { StartLags } from '../../services/api/use-cases/start-lags.ts';
import type { LeaseRequest } from '../../services/api/use-cases/types.ts';
import type { JobRow } from '../../services/core/domain/job.ts';
import { JobStatus } from '../../services/core/domain/job-status.ts';
import { MINUTE_MS, QUEUE_SETTINGS_EVERY_MS, SECOND_MS } from '../../services/core/domain/limits.ts';
import type { QueueSettings } from '../../services/core/domain/queue-settings.ts';
import { Settler } from '../../services/reaper/settle.ts';
import { coreBench, setQueue, type CoreBench, type CoreBenchOptions } from '../support/core-bench.ts';
import { DispatchWorld } from '../support/dispatch-world.ts';
import { FAKE_START } from '../support/fake-clock.ts';
import { jobRow } from '../support/job-row.ts';

const COHORT = 'j_0123456789abc';
const PAUSED: Partial<QueueSettings> = { pause: { at: FAKE_START, reason: null, until: null } };
const LEASE: LeaseRequest = {
  queue: 'mail',
  priorities: ['normal'],
  max: 10,
  waitMs: 5 * SECOND_MS,
  worker: 'worker-1',
  claimId: null,
  signal: new AbortController().signal,
};

function claimerOn({ parts }: Pick<CoreBench, 'parts'>): JobClaimer {
  return new JobClaimer({ ...parts, claimed: new ClaimedJobs(), startLags: new StartLags(parts.clock) });
}

/** A job that is published, in a queue that is paused since. */
async function bench(options: CoreBenchOptions = {}, columns: Partial<JobRow> = {}) {
  const core = coreBench(options);
  const job = jobRow(COHORT, 0, { status: JobStatus.enqueued, enqueuedAt: FAKE_START, ...columns });
  const { parts, stores, clock } = core;
  const { jobId, runAt, queue, priority } = job;
  stores.rows.set(jobId, job);
  await parts.queue.publish([{ jobId, attempt: 1, runAt, queue, priority }]);
  await setQueue(core, queue, PAUSED);
  const claimer = claimerOn(core);
  const leaser = new JobLeaser({ ...parts, claimer });
  return {
    ...core,
    jobId,
    row: () => stores.rows.get(jobId),
    claim: async (claimId: string | null = null) => {
      const [result] = await clock.until(claimer.claim([{ jobId, attempt: 1, claimId }], 'worker-1'));
      return result?.ok === false ? result.problem.code : result?.value.attempt;
    },
    lease: (request: Partial<LeaseRequest> = {}) => leaser.lease({ ...LEASE, ...request }),
    settle: (publishedAt: number) =>
      clock.until(
        new Settler(parts).settle([{ jobId, shard: job.shard, table: 'deadlines', at: clock.now(), publishedAt }]),
      ),
  };
}

describe('in a paused queue', () => {
  it('a claim is refused, and its job waits again, due once every dispatcher knows of the pause', async () => {
    const { claim, row, stores } = await bench({}, { runAt: FAKE_START - 1_000, enqueuedAt: FAKE_START - 500 });
    assert.equal(await claim(), 'queue_paused');
    assert.partialDeepStrictEqual(row(), { status: JobStatus.scheduled, attempt: 0, enqueuedAt: null });
    assert.deepEqual(
      stores.due.all().map(({ runAt }) => runAt),
      [FAKE_START + QUEUE_SETTINGS_EVERY_MS],
    );
    // Whoever else has the message hears the same.
    assert.equal(await claim(), 'lease_lost');
  });

  it('a job that a clock ahead of ours called due gets a row behind its time: the one at it was handled already', async () => {
    const runAt = FAKE_START + 2 * QUEUE_SETTINGS_EVERY_MS;
    const { claim, stores } = await bench({}, { runAt, enqueuedAt: runAt + 9 });
    assert.equal(await claim(), 'queue_paused');
    assert.deepEqual(
      stores.due.all().map((row) => row.runAt),
      [runAt + 9 + QUEUE_SETTINGS_EVERY_MS],
    );
  });

  it('a claim that was answered before the pause is answered again', async () => {
    const core = await bench();
    await setQueue(core, 'mail', { pause: null });
    assert.equal(await core.claim('claim-1'), 1);
    await setQueue(core, 'mail', PAUSED);
    assert.equal(await core.claim('claim-1'), 1);
    assert.equal(core.row()?.status, JobStatus.running);
  });

  it('a claim that the store does not answer leaves the job to whoever comes next', async () => {
    const { claim, row } = await bench({
      strikes: ({ method }) => (method === 'cohorts.apply' ? { kind: 'unavailable' } : undefined),
    });
    assert.equal(await claim(), 'store_unavailable');
    assert.equal(row()?.status, JobStatus.enqueued);
  });

  it('a lease waits for the resume without taking anything from the stream', async () => {
    const core = await bench();
    const { clock, bus } = core;
    const empty = core.lease();
    await clock.advance(LEASE.waitMs);
    assert.deepEqual(await empty, { ok: true, value: [] });
    assert.deepEqual(
      [...bus.subjects.values()].flat().map(({ deliveries }) => deliveries),
      [0],
    );
    const resumed = core.lease();
    await clock.advance(SECOND_MS / 2);
    await setQueue(core, 'mail', { pause: null });
    await clock.advance(SECOND_MS);
    const result = await resumed;
    assert.ok(result.ok);
    assert.deepEqual(
      result.value.map(({ job }) => job.jobId),
      [core.jobId],
    );
  });

  it('the reaper takes a job back whose message is gone', async () => {
    const { bus, clock, row, settle } = await bench();
    bus.subjects.clear();
    await clock.advance(MINUTE_MS);
    assert.deepEqual(await settle(FAKE_START), ['settled']);
    assert.equal(row()?.status, JobStatus.scheduled);
    await clock.advance(0);
    assert.equal([...bus.subjects.values()].flat().length, 0);
  });
});

describe('a job that was taken back', () => {
  it('is published again once its queue is resumed', async () => {
    const world = new DispatchWorld();
    await world.start();
    const [job] = world.schedule(1, { queue: 'mail' });
    await world.run(1);
    assert.equal(world.published('mail').length, 1);
    await world.configure('mail', PAUSED);
    const claimer = claimerOn(world.core);
    const items = [{ jobId: job?.jobId ?? '', attempt: 1, claimId: null }];
    const [refusal] = await world.core.clock.until(claimer.claim(items, 'worker-1'));
    assert.ok(refusal?.ok === false && refusal.problem.code === 'queue_paused');
    await world.run(10);
    assert.equal(world.published('mail').length, 1);
    await world.configure('mail', { pause: null, resumedAt: world.now });
    await world.run(1);
    assert.equal(world.published('mail').length, 2);
    const [result] = await world.core.clock.until(claimer.claim(items, 'worker-1'));
    assert.ok(result?.ok);
  });
});

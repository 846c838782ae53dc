// Design sections 4 and 6: a create is never lost once accepted, never doubled, and moves only while it was surely not written.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { JobCreator } from '../../services/api/use-cases/create-job.ts';
import type { CreatedJob, CreateJob } from '../../services/api/use-cases/types.ts';
import type { Result } from '../../services/core/contract/problems.ts';
import { HOUR_MS, UNAVAILABLE_WAIT_MS } from '../../services/core/domain/limits.ts';
import { coreBench, type CoreBenchOptions, jobCreator } from '../support/core-bench.ts';
import { FAKE_START } from '../support/fake-clock.ts';
import { createJobRequest } from '../support/create-job-request.ts';
import { scriptedRandom } from '../support/scripted-random.ts';

const REQUEST = createJobRequest({ when: { delayMs: HOUR_MS } });
const KEYED: CreateJob = { ...REQUEST, idempotencyKey: 'order-17' };

function bench(options: CoreBenchOptions = {}) {
  const core = coreBench(options);
  const { clock, stores } = core;
  /** Each process has its own open cohorts and its own chance. */
  const process = (bytesBefore: number): JobCreator => {
    const random = scriptedRandom();
    for (let drawn = 0; drawn < bytesBefore; drawn++) random.bytes(0);
    return jobCreator(core, random);
  };
  const creators = [process(0), process(1_000)];
  return {
    ...core,
    creators,
    create: (request: CreateJob) => clock.until(creators[0]!.create(request)),
    jobs: () => [...stores.rows.values()],
  };
}

function jobIdOf(result: Result<CreatedJob>): string {
  assert.ok(result.ok, JSON.stringify(result));
  return result.value.job.jobId;
}

const codeOf = (result: Result<CreatedJob>): string | null => (result.ok ? null : result.problem.code);

describe('a create without a key', () => {
  it('goes to another cohort when its own is away: nothing was written there', async () => {
    const { create, stores, jobs } = bench();
    const neighbour = jobIdOf(await create(REQUEST));
    stores.failNext('cohorts.apply', { kind: 'unavailable' });
    const jobId = jobIdOf(await create(REQUEST));
    assert.notEqual(jobId.slice(0, 15), neighbour.slice(0, 15));
    assert.deepEqual(
      jobs()
        .map((job) => job.jobId)
        .toSorted(),
      [neighbour, jobId].toSorted(),
    );
  });

  it('goes elsewhere at once when its timer cannot be written, and waits only in the last place', async () => {
    const awayUntil = FAKE_START + UNAVAILABLE_WAIT_MS / 2;
    const { create, stores, clock } = bench({
      strikes: ({ method }) =>
        method === 'timers.writeDue' && clock.now() < awayUntil ? { kind: 'unavailable' } : undefined,
    });
    jobIdOf(await create(REQUEST));
    const tries = stores.calls
      .filter(({ method }) => method === 'timers.writeDue')
      .map(({ args }) => (args[0] as readonly { jobId: string }[])[0]!.jobId);
    const places = [...new Set(tries)];
    assert.equal(places.length, 3);
    assert.deepEqual(tries.slice(0, 2), places.slice(0, 2));
    assert.ok(clock.now() >= awayUntil && clock.now() < awayUntil + UNAVAILABLE_WAIT_MS / 2);
  });

  it('waits for its time when the clock that called it due was set right before its timer was written', async () => {
    const AHEAD_MS = 30_000;
    const { create, clock, stores, jobs } = bench({
      strikes: ({ method }) => {
        if (method === 'timers.writeDue' && clock.now() > FAKE_START + AHEAD_MS / 2) clock.step({ wallMs: -AHEAD_MS });
        return undefined;
      },
    });
    clock.step({ wallMs: AHEAD_MS });
    jobIdOf(await create(createJobRequest({ when: { delayMs: 0 } })));
    const [job] = jobs();
    assert.equal(job?.status, 'scheduled');
    assert.equal(job.enqueuedAt, null);
    const rows = stores.calls.filter(({ method }) => method === 'timers.writeDue').flatMap(({ args }) => args[0]);
    assert.deepEqual(
      (rows as readonly { runAt: number; direct: boolean }[]).map(({ runAt, direct }) => [runAt - job.runAt, direct]),
      [
        [0, true],
        [0, false],
      ],
    );
  });

  it('is refused when three cohorts are away, and not created later', async () => {
    let isAway = true;
    const { create, clock, jobs } = bench({
      strikes: ({ method }) => (isAway && method === 'cohorts.apply' ? { kind: 'unavailable' } : undefined),
    });
    assert.equal(codeOf(await create(REQUEST)), 'store_unavailable');
    isAway = false;
    await clock.advance(HOUR_MS / 60);
    assert.deepEqual(jobs(), []);
  });

  it('is unknown when its round is, and is tried under no other id', async () => {
    const { create, stores } = bench({
      strikes: ({ method }) => {
        if (method === 'cohorts.apply') return { kind: 'answer_lost' };
        return method === 'jobs.read' ? { kind: 'unavailable' } : undefined;
      },
    });
    assert.equal(codeOf(await create(REQUEST)), 'outcome_unknown');
    const ids = stores.calls
      .filter(({ method }) => method === 'cohorts.apply')
      .map(({ args }) => (args[1] as readonly { jobId: string }[])[0]?.jobId);
    assert.equal(new Set(ids).size, 1);
    assert.equal(stores.rows.size, 1);
  });
});

describe('a create under a key', () => {
  it('is one job for 50 calls at once through two processes, with equal answers', async () => {
    const { creators, clock, jobs } = bench();
    const results = await clock.until(
      Promise.all(Array.from({ length: 50 }, (_, index) => creators[index % 2]!.create(KEYED))),
    );
    assert.equal(new Set(results.map(jobIdOf)).size, 1);
    assert.equal(results.filter((result) => result.ok && !result.value.replayed).length, 1);
    assert.equal(jobs().length, 1);
  });

  it('is refused with other content, whoever comes second', async () => {
    const { create, jobs } = bench();
    const jobId = jobIdOf(await create(KEYED));
    const other = await create({ ...KEYED, requestHash: 'other' });
    assert.equal(codeOf(other), 'idempotency_key_reused');
    assert.ok(!other.ok && other.problem.members?.job_id === jobId);
    assert.equal(jobs().length, 1);
  });

  it('stays with its id when its cohort is away: the repeat completes what the first call began', async () => {
    for (const method of ['timers.writeDue', 'cohorts.apply', 'keys.markWritten'] as const) {
      let isAway = true;
      const { create, jobs, stores } = bench({
        strikes: (call) => (isAway && call.method === method ? { kind: 'unavailable' } : undefined),
      });
      assert.equal(codeOf(await create(KEYED)), 'store_unavailable', method);
      const keyed = [...stores.keyRows.values()][0]?.jobId;
      isAway = false;
      assert.equal(jobIdOf(await create(KEYED)), keyed, method);
      assert.deepEqual(
        jobs().map((job) => job.jobId),
        [keyed],
        method,
      );
      assert.ok(stores.due.all().some((row) => row.jobId === keyed));
    }
  });

  it('is one job with a 201, also when the answer to a write of its key is lost, or the write itself', async () => {
    for (const method of ['keys.claim', 'keys.markWritten'] as const) {
      for (const kind of ['answer_lost', 'request_lost'] as const) {
        const { create, stores, jobs } = bench();
        stores.failNext(method, { kind });
        // The connection that broke is not replaced at once.
        for (let tries = 0; tries < 3; tries += 1) stores.failNext(method, { kind: 'unavailable' });
        const first = await create(KEYED);
        assert.ok(first.ok && !first.value.replayed, `${method} ${kind}`);
        const again = await create(KEYED);
        assert.ok(again.ok && again.value.replayed);
        assert.deepEqual(
          jobs().map((job) => job.jobId),
          [jobIdOf(first)],
        );
      }
    }
  });

  it('is answered from the key, and not created again, when retention took the job', async () => {
    const { create, stores, jobs } = bench();
    const jobId = jobIdOf(await create(KEYED));
    stores.rows.clear();
    const again = await create(KEYED);
    assert.equal(jobIdOf(again), jobId);
    assert.ok(again.ok && again.value.replayed);
    assert.deepEqual(jobs(), []);
  });
});

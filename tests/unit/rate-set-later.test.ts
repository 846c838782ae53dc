// A rate that is set, or lowered, holds back what was published already: claims take back what is more than dispatchers would
// have published under it, and those feed it to the workers again, at the rate.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { JobClaimer } from '../../services/api/use-cases/claim-jobs.ts';
import { ClaimedJobs } from '../../services/api/use-cases/claimed-jobs.ts';
import { JobLeaser } from '../../services/api/use-cases/lease-jobs.ts';
import type { JobRow } from '../../services/core/domain/job.ts';
import { PRIORITIES, type Priority, JobStatus } from '../../services/core/domain/job-status.ts';
import { OVER_RATE_SEEN_MAX_MS, READY_DEPTHS_WAIT_MS, SECOND_MS } from '../../services/core/domain/limits.ts';
import { defaultSettings, readyKeptOf, type QueueSettings } from '../../services/core/domain/queue-settings.ts';
import { coreBench, setQueue, type CoreBench, type CoreBenchOptions } from '../support/core-bench.ts';
import { DispatchWorld } from '../support/dispatch-world.ts';
import { FAKE_START } from '../support/fake-clock.ts';
import { jobRow, newCohort } from '../support/job-row.ts';

const RATED: Partial<QueueSettings> = { ratePerS: 1 };
/** What may stay in the ready stream under that rate. */
const KEPT = readyKeptOf({ ...defaultSettings('mail'), ...RATED }) ?? 0;

function claimerOn({ parts }: Pick<CoreBench, 'parts'>): JobClaimer {
  return new JobClaimer({ ...parts, claimed: new ClaimedJobs() });
}

/** So many published jobs of each priority. */
async function bench(counts: Partial<Record<Priority, number>>, options: CoreBenchOptions = {}) {
  const core = coreBench(options);
  const { parts, stores, clock } = core;
  const publish = async (some: Partial<Record<Priority, number>>): Promise<readonly JobRow[]> => {
    const published = PRIORITIES.toReversed().flatMap((priority) =>
      Array.from({ length: some[priority] ?? 0 }, () =>
        jobRow(newCohort(), 0, { priority, status: JobStatus.enqueued, runAt: FAKE_START, enqueuedAt: FAKE_START }),
      ),
    );
    for (const job of published) stores.rows.set(job.jobId, job);
    await parts.queue.publish(
      published.map(({ jobId, runAt, queue, priority }) => ({ jobId, attempt: 1, runAt, queue, priority })),
    );
    return published;
  };
  const jobs = await publish(counts);
  const claimer = claimerOn(core);
  const codesOf = async (some: readonly JobRow[]): Promise<readonly string[]> => {
    const items = some.map(({ jobId }) => ({ jobId, attempt: 1, claimId: null }));
    const results = await clock.until(claimer.claim(items, 'worker-1'));
    return results.map((result) => (result.ok ? 'started' : result.problem.code));
  };
  const lease = (waitMs: number, max = 5) =>
    new JobLeaser({ ...parts, claimer }).lease({
      ...{ queue: 'mail', priorities: PRIORITIES, max, waitMs, worker: 'worker-1', claimId: null },
      signal: new AbortController().signal,
    });
  return { ...core, jobs, publish, codesOf, lease };
}

function countOf(codes: readonly string[], code: string): number {
  return codes.filter((each) => each === code).length;
}

describe('claims in a queue that was given a rate', () => {
  it('take back as many as are too many but one, over several batches, and start the rest', async () => {
    const { core, codes } = await claimedInBatches(RATED);
    assert.equal(countOf(codes, 'queue_over_rate'), 100 - KEPT - 1);
    assert.equal(countOf(codes, 'started'), KEPT + 1);
    const waiting = core.jobs.filter(({ jobId }) => core.stores.rows.get(jobId)?.status === JobStatus.scheduled);
    assert.equal(waiting.length, 100 - KEPT - 1);
    const due = new Set(core.stores.due.all().map(({ jobId }) => jobId));
    assert.ok(waiting.every(({ jobId }) => due.has(jobId)));
  });

  it('start all of them, and ask nothing, where it has none', async () => {
    const { core, codes } = await claimedInBatches({ maxWaiting: 5 });
    assert.equal(countOf(codes, 'started'), 100);
    assert.ok(!core.events.includes('queue.depths'));
  });

  it('start what dispatchers may have published under its rate', async () => {
    const core = await bench({ normal: KEPT });
    await setQueue(core, 'mail', RATED);
    assert.equal(countOf(await core.codesOf(core.jobs), 'started'), KEPT);
  });

  it('take back the lowest priority of a batch first', async () => {
    const core = await bench({ low: 10, normal: 10, high: 10 });
    await setQueue(core, 'mail', RATED);
    const codes = await core.codesOf(core.jobs);
    const started = core.jobs.filter((_, index) => codes[index] === 'started');
    assert.equal(started.length, KEPT + 1);
    assert.equal(started.filter(({ priority }) => priority === 'high').length, 10);
    assert.equal(started.filter(({ priority }) => priority === 'low').length, 0);
  });

  it('leave the jobs of other queues in the same call alone', async () => {
    const core = await bench({ normal: 100 });
    await setQueue(core, 'mail', RATED);
    const other = jobRow(newCohort(), 0, { queue: 'calm', status: JobStatus.enqueued, enqueuedAt: FAKE_START });
    core.stores.rows.set(other.jobId, other);
    const codes = await core.codesOf([...core.jobs.slice(0, 20), other]);
    assert.deepEqual([countOf(codes, 'queue_over_rate'), codes.at(-1)], [19, 'started']);
  });

  it('start jobs of a high priority, however many there are of a lower one', async () => {
    const core = await bench({ low: 100, high: KEPT });
    await setQueue(core, 'mail', RATED);
    assert.equal(countOf(await core.codesOf(core.jobs.filter(({ priority }) => priority === 'high')), 'started'), KEPT);
    const codes = await core.codesOf(core.jobs.filter(({ priority }) => priority === 'low'));
    assert.equal(countOf(codes, 'started'), KEPT + 1);
  });

  it('do not count what was claimed of a low priority as less of a high one, and as less of its own', async () => {
    const core = await bench({ low: 100, high: KEPT + 8 });
    await setQueue(core, 'mail', RATED);
    const [low, high] = ['low', 'high'].map((priority) => core.jobs.filter((job) => job.priority === priority));
    assert.ok(low !== undefined && high !== undefined);
    assert.equal(countOf(await core.codesOf(low.slice(0, 50)), 'queue_over_rate'), 49);
    assert.equal(countOf(await core.codesOf(high.slice(0, 6)), 'queue_over_rate'), 6);
    assert.equal(countOf(await core.codesOf(high.slice(6)), 'queue_over_rate'), 2);
  });

  it('start a part of the rate while there are too many', async () => {
    const core = await bench({ normal: 100 });
    await setQueue(core, 'mail', { ratePerS: 4 });
    const started: number[] = [];
    for (let each = 0; each < 24; each += 1) {
      const codes = await core.codesOf(core.jobs.slice(2 * each, 2 * each + 2));
      started.push(countOf(codes, 'started'));
      await core.clock.advance(SECOND_MS / 8);
    }
    assert.equal(
      started.reduce((sum, each) => sum + each),
      3,
    );
    assert.deepEqual([started[0], started[8], started[16]], [1, 1, 1]);
  });

  for (const [change, settings] of [
    ['raised', { ratePerS: 1_000 }],
    ['removed', { ratePerS: null }],
  ] as const) {
    it(`start what others publish by a rate that was ${change}, of which they did not hear yet`, async () => {
      const core = await bench({});
      await setQueue(core, 'mail', RATED);
      await core.clock.advance(SECOND_MS);
      const jobs = await publishedBy(core, settings);
      assert.equal(countOf(await core.codesOf(jobs), 'started'), 100);
      assert.equal(core.events.filter((event) => event === 'queues.lastChange').length, 2);
    });
  }

  it('look for such a change once a second at most', async () => {
    const core = await bench({ normal: 100 });
    await setQueue(core, 'mail', RATED);
    await core.clock.advance(SECOND_MS);
    core.begin();
    for (let each = 0; each < 30; each += 1) {
      await core.codesOf(core.jobs.slice(2 * each, 2 * each + 2));
      await core.clock.advance(SECOND_MS / 10);
    }
    assert.equal(core.events.filter((event) => event === 'queues.lastChange').length, 3);
  });

  it('take back what is too many by the settings that they know, where these cannot be read for two seconds', async () => {
    let isAway = false;
    const core = await bench(
      { normal: 100 },
      { strikes: ({ method }) => (isAway && method === 'queues.lastChange' ? { kind: 'unavailable' } : undefined) },
    );
    await setQueue(core, 'mail', RATED);
    isAway = true;
    await core.clock.advance(SECOND_MS);
    assert.equal(countOf(await core.codesOf(core.jobs.slice(0, 10)), 'started'), 10);
    await core.clock.advance(OVER_RATE_SEEN_MAX_MS);
    assert.equal(countOf(await core.codesOf(core.jobs.slice(10, 20)), 'queue_over_rate'), 9);
  });

  it('leave a job where it is that was enqueued again since they looked', async () => {
    const core = await bench({ normal: 1 });
    const [job] = core.jobs as [JobRow];
    const again = { ...job, enqueuedAt: FAKE_START + 1 };
    core.stores.rows.set(job.jobId, again);
    assert.equal((await core.clock.until(core.parts.unqueuer.unqueue(job))).kind, 'lost');
    assert.deepEqual(core.stores.rows.get(job.jobId), again);
    assert.equal((await core.clock.until(core.parts.unqueuer.unqueue(again))).kind, 'applied');
  });

  it('go on while the ready stream does not tell how many there are', async () => {
    const core = await bench({ normal: 100 });
    await setQueue(core, 'mail', RATED);
    core.connection.disconnect();
    assert.equal(countOf(await core.codesOf(core.jobs), 'started'), 100);
  });

  it('wait for a moment only when the stream is slow to tell, and those that come later not at all', async () => {
    const core = await bench(
      { normal: 100 },
      {
        busStrikes: ({ method }) => (method === 'queue.depths' ? { kind: 'slow', afterMs: 3 * SECOND_MS } : undefined),
      },
    );
    await setQueue(core, 'mail', RATED);
    const startedAt = core.clock.now();
    assert.equal(countOf(await core.codesOf(core.jobs.slice(0, 50)), 'started'), 50);
    assert.equal(core.clock.now() - startedAt, READY_DEPTHS_WAIT_MS);
    assert.equal(countOf(await core.codesOf(core.jobs.slice(50)), 'started'), 50);
    assert.equal(core.clock.now() - startedAt, READY_DEPTHS_WAIT_MS);
  });

  /** The settings are changed, and so many jobs published under them, while this process knows the former ones. */
  async function publishedBy(core: Awaited<ReturnType<typeof bench>>, settings: Partial<QueueSettings>) {
    const before = await core.stores.queues.read('mail');
    assert.ok(before !== null);
    const next = { ...before, ...settings, revision: before.revision + 1 };
    assert.ok(await core.stores.queues.change({ next, token: 'changed elsewhere' }));
    return core.publish({ normal: 100 });
  }

  async function claimedInBatches(settings: Partial<QueueSettings>) {
    const core = await bench({ normal: 100 });
    await setQueue(core, 'mail', settings);
    const codes: string[] = [];
    for (let from = 0; from < core.jobs.length; from += 10) {
      codes.push(...(await core.codesOf(core.jobs.slice(from, from + 10))));
    }
    return { core, codes };
  }
});

describe('a lease in a queue that was given a rate', () => {
  it('comes back empty, and quickly, with what it took back acknowledged', async () => {
    const core = await bench({ normal: 100 });
    await setQueue(core, 'mail', RATED);
    await core.clock.until(core.lease(0));
    assert.deepEqual(await core.clock.until(core.lease(0)), { ok: true, value: [] });
    assert.equal([...core.bus.subjects.values()].flat().length, 90);
  });

  it('has a job for a worker that asks for one a second, however many are too many', async () => {
    const core = await bench({ normal: 100 });
    await setQueue(core, 'mail', { ratePerS: 4 });
    for (let each = 0; each < 20; each += 1) {
      const result = await core.clock.until(core.lease(0, 1));
      assert.equal(result.ok && result.value.length, 1, String(each));
      await core.clock.advance(SECOND_MS);
    }
  });

  it('goes on taking back while its caller waits, until it has jobs', async () => {
    const core = await bench({ normal: 100 });
    await setQueue(core, 'mail', RATED);
    await core.clock.until(core.lease(0));
    const result = await core.clock.until(core.lease(5 * SECOND_MS));
    assert.ok(result.ok && result.value.length > 0);
    const left = [...core.bus.subjects.values()].flat().length + result.value.length;
    assert.ok(left <= KEPT && left > KEPT - 5, String(left));
  });
});

describe('an unlimited queue with a flood published, given a rate', () => {
  it('starts no more than the rate and what may stay published, and all of its jobs in the end, once', async () => {
    const ratePerS = 20;
    const w = new DispatchWorld();
    await w.start();
    const jobs = w.schedule(400, { queue: 'mail' });
    await w.run(2);
    assert.equal(w.unclaimed('mail'), 400);
    await w.configure('mail', { ratePerS });
    w.worked.clear();
    const kept = readyKeptOf({ ...defaultSettings('mail'), ratePerS }) ?? 0;
    const leaser = new JobLeaser({ ...w.core.parts, claimer: claimerOn(w.core) });
    const starts: { readonly jobId: string; readonly second: number }[] = [];
    for (let second = 0; second < 20; second += 1) {
      for (let call = 0; call < 10; call += 1) {
        const leased = leaser.lease({
          ...{ queue: 'mail', priorities: PRIORITIES, max: 20, waitMs: 0, worker: 'worker-1', claimId: null },
          signal: new AbortController().signal,
        });
        await w.run(0.1);
        const result = await leased;
        assert.ok(result.ok);
        starts.push(...result.value.map(({ job: { jobId } }) => ({ jobId, second })));
      }
    }
    const within = (from: number, to: number) => starts.filter(({ second }) => second >= from && second < to).length;
    assert.ok(within(0, 10) <= kept + 10 * ratePerS, `${within(0, 10)} in the first 10 s`);
    for (const from of [3, 6, 9]) {
      const started = within(from, from + 3);
      assert.ok(started >= 3 * ratePerS - 10 && started <= 4 * ratePerS, `${started} from second ${from} on`);
    }
    assert.deepEqual(starts.map(({ jobId }) => jobId).toSorted(), jobs.map(({ jobId }) => jobId).toSorted());
  });
});

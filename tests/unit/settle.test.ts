// Design section 8: settle(job, now), what the reaper does about the job that a timer row names.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { JobCanceller } from '../../services/api/use-cases/cancel-job.ts';
import type { JobRow } from '../../services/core/domain/job.ts';
import { JobStatus } from '../../services/core/domain/job-status.ts';
import { HOUR_MS, MINUTE_MS, PUBLISHED_SLACK_MS, SECOND_MS } from '../../services/core/domain/limits.ts';
import type { DeadlineEntry, DueEntry } from '../../services/core/domain/operation.ts';
import { AttemptEnder, dueEntryOf } from '../../services/core/moves/end-attempt.ts';
import { Rounds } from '../../services/core/rounds/rounds.ts';
import { Settler, type Found } from '../../services/reaper/settle.ts';
import { coreBench, setQueue, type CoreBench, type CoreBenchOptions } from '../support/core-bench.ts';
import { FAKE_START } from '../support/fake-clock.ts';
import { jobRow } from '../support/job-row.ts';
import { runningJob } from '../support/operations.ts';

const COHORT = 'j_0123456789abc';
const OTHER_COHORT = 'j_abcdefghjkmnp';
const AGAIN = { again: FAKE_START + SECOND_MS };

/** Ten cohorts of fifty. */
const newCohortOf = (index: number): string => `j_${String(Math.floor(index / 50)).padStart(13, '0')}`;

const foundOf = (job: JobRow, overrides: Partial<Found> = {}): Found => ({
  jobId: job.jobId,
  shard: job.shard,
  table: 'deadlines',
  at: job.runAt,
  publishedAt: null,
  ...overrides,
});

/** The bench with the jobs on it, and a settler. */
function bench(jobs: readonly JobRow[], options: CoreBenchOptions = {}) {
  const core = coreBench(options);
  for (const job of jobs) core.stores.rows.set(job.jobId, job);
  core.begin();
  const settler = new Settler(core.parts);
  return {
    ...core,
    settle: (...found: readonly Found[]) => core.clock.until(settler.settle(found)),
    row: (job: JobRow) => core.stores.rows.get(job.jobId),
    published: () => messagesOf(core).map(({ message }) => [message.jobId, message.attempt]),
  };
}

const messagesOf = ({ bus }: Pick<CoreBench, 'bus'>) => [...bus.subjects.values()].flat();
const deadlinesOf = ({ stores }: Pick<CoreBench, 'stores'>): readonly Omit<DeadlineEntry, 'shard'>[] =>
  stores.deadlines.all().map(({ jobId, at, publishedAt }) => ({ jobId, at: at - FAKE_START, publishedAt }));

describe('a job that a row names and a read does not find', () => {
  const job = jobRow(COHORT, 0, { runAt: FAKE_START - 1 });

  it('is absent when a serial read says so, and not before', async () => {
    const core = bench([jobRow(COHORT, 1)]);
    assert.deepEqual(await core.settle(foundOf(job), foundOf(jobRow(COHORT, 1))), ['settled', 'settled']);
    const reads = core.stores.calls.filter(({ method }) => method === 'jobs.read').map(({ args }) => args);
    assert.deepEqual(reads, [
      [[job.jobId, jobRow(COHORT, 1).jobId], undefined],
      [[job.jobId], { serial: true }],
    ]);
  });

  it('is settled as any other when its round was still in flight', async () => {
    const { parts, clock, stores } = coreBench();
    stores.rows.set(job.jobId, job);
    const reader = {
      ...stores.jobs,
      read: (ids: readonly string[], how = {}) => stores.jobs.read('serial' in how ? ids : [], how),
    };
    await clock.until(new Settler({ ...parts, reader }).settle([foundOf(job)]));
    assert.equal(stores.rows.get(job.jobId)?.status, JobStatus.enqueued);
  });
});

describe('reapers that do not know of each other', () => {
  it('R032 give 500 lapsed jobs back once each, however many find them in the same tick', async () => {
    const jobs = Array.from({ length: 500 }, (_, index) =>
      runningJob(newCohortOf(index), index % 50, { leaseUntil: FAKE_START - 1, heard: true }),
    );
    const core = bench(jobs);
    const { parts, stores, clock } = core;
    const settlers = [0, 1, 2].map(() => {
      // Rounds are what a process shares: three processes have three.
      const rounds = new Rounds({ ...parts, store: stores.cohorts });
      return new Settler({ ...parts, rounds, ender: new AttemptEnder({ ...parts, rounds }) });
    });
    const found = jobs.map((job) => foundOf(job));
    await clock.until(Promise.all(settlers.map((settler) => settler.settle(found))));
    for (const job of jobs) {
      const row = core.row(job);
      assert.deepEqual(
        [row?.status, row?.attempt, row?.tries, row?.lapses, row?.ends.size],
        [JobStatus.enqueued, 1, 1, 1, 1],
      );
    }
  });
});

describe('a job that ends as it is settled', () => {
  const expired = jobRow(COHORT, 0, { expiresAt: FAKE_START - 1 });
  const lapsed = runningJob(COHORT, 0, { leaseUntil: FAKE_START - 1, heard: true, maxAttempts: 1 });

  for (const [how, job, status] of [
    ['by its expires_at', expired, JobStatus.cancelled],
    ['by its last lapse', lapsed, JobStatus.dead],
  ] as const) {
    it(`leaves its history row, ${how}, also when that cannot be written at first`, async () => {
      const core = bench([job]);
      core.stores.failNext('history.writeFinished', { kind: 'overloaded' });
      core.stores.failNext('history.writeFinished', { kind: 'overloaded' });
      assert.deepEqual(await core.settle(foundOf(job)), [AGAIN]);
      assert.deepEqual([core.row(job)?.status, core.stores.finished.size], [status, 0]);
      assert.deepEqual(await core.settle(foundOf(job)), ['settled']);
      const [row] = core.stores.finished.values();
      assert.deepEqual([row?.status, row?.finishedAt], [status, core.row(job)?.finishedAt]);
    });
  }
});

describe('a job that waits for a worker', () => {
  const waiting = (waitedMs: number): JobRow =>
    jobRow(COHORT, 0, { status: JobStatus.enqueued, attempt: 1, enqueuedAt: FAKE_START - waitedMs });

  function storeAt({ bus, clock }: CoreBench, at: number, job: JobRow): void {
    clock.step({ wallMs: at - FAKE_START });
    bus.store({ ...job, attempt: job.attempt + 1 });
    clock.step({ wallMs: FAKE_START - at });
  }

  /** The oldest message of its subject is that much younger than the job's own; null: there is none. */
  async function settled(waitedMs: number, oldestAfterMs: number | null, away = false) {
    const job = waiting(waitedMs);
    const core = bench([job]);
    if (oldestAfterMs !== null) storeAt(core, FAKE_START - waitedMs + oldestAfterMs, jobRow(OTHER_COHORT, 0));
    if (away) core.connection.disconnect();
    assert.deepEqual(await core.settle(foundOf(job)), ['settled']);
    await core.clock.advance(0);
    const again = core.published().some(([jobId, attempt]) => jobId === job.jobId && attempt === 2);
    return { again, deadlines: deadlinesOf(core), publishedAt: job.enqueuedAt };
  }

  const CASES: readonly (readonly [string, number, number | null, boolean])[] = [
    ['R060 its subject is empty, whatever the stream answered when it was published', 5 * MINUTE_MS, null, true],
    ['the oldest message is just too young to be its own', 5 * MINUTE_MS, PUBLISHED_SLACK_MS + 1, true],
    ['the oldest message may be its own', 5 * MINUTE_MS, PUBLISHED_SLACK_MS, false],
    ['an older message waits before it', 5 * MINUTE_MS, -MINUTE_MS, false],
    ['it waited an hour, whatever the stream says', HOUR_MS, -MINUTE_MS, true],
    ['it waited not quite an hour', HOUR_MS - 1, -MINUTE_MS, false],
  ];
  for (const [what, waitedMs, oldestAfterMs, again] of CASES) {
    it(`${again ? 'is published again' : 'is left alone'} when ${what}`, async () => {
      const result = await settled(waitedMs, oldestAfterMs);
      assert.equal(result.again, again);
      assert.equal(result.deadlines[0]?.publishedAt, again ? FAKE_START : result.publishedAt);
    });
  }

  it('is looked at again when it has waited twice as long, from a minute to an hour', async () => {
    for (const [waitedMs, nextMs] of [
      [SECOND_MS, MINUTE_MS],
      [MINUTE_MS, MINUTE_MS],
      [7 * MINUTE_MS, 7 * MINUTE_MS],
      [HOUR_MS, HOUR_MS],
      [9 * HOUR_MS, HOUR_MS],
    ] as const) {
      const { deadlines } = await settled(waitedMs, null);
      assert.deepEqual(
        deadlines.map(({ at }) => at),
        [nextMs],
      );
    }
  });

  it('is looked at again, and not published, while the stream is away', async () => {
    const { again, deadlines, publishedAt } = await settled(5 * MINUTE_MS, null, true);
    assert.equal(again, false);
    // Nor is it said to have been: the next look starts from its real message.
    assert.deepEqual(
      deadlines.map((row) => row.publishedAt),
      [publishedAt],
    );
  });

  it('is not published again for a row that knows of a later publish', async () => {
    const job = waiting(HOUR_MS);
    const core = bench([job]);
    storeAt(core, FAKE_START - MINUTE_MS, job);
    await core.settle(foundOf(job, { publishedAt: FAKE_START - MINUTE_MS }));
    await core.clock.advance(0);
    assert.equal(messagesOf(core).length, 1);
  });
});

describe('a job that nobody enqueued', () => {
  it('is enqueued and published, with a look a minute later that knows when', async () => {
    const job = jobRow(COHORT, 0, { runAt: FAKE_START - MINUTE_MS });
    const core = bench([job]);
    assert.deepEqual(await core.settle(foundOf(job, { table: 'due' })), ['settled']);
    await core.clock.advance(0);
    assert.equal(core.row(job)?.status, JobStatus.enqueued);
    assert.deepEqual(core.published(), [[job.jobId, 1]]);
    assert.deepEqual(deadlinesOf(core), [{ jobId: job.jobId, at: MINUTE_MS, publishedAt: FAKE_START }]);
  });

  it('is looked at again a second later when the store did not say whether it was', async () => {
    for (const kind of ['unavailable', 'overloaded'] as const) {
      const job = jobRow(COHORT, 0, { runAt: FAKE_START });
      const core = bench([job], { strikes: ({ method }) => (method === 'cohorts.apply' ? { kind } : undefined) });
      assert.deepEqual(await core.settle(foundOf(job)), [AGAIN]);
      assert.deepEqual(core.published(), []);
    }
  });
});

describe('an overdue job of a queue that holds it', () => {
  const job = jobRow(COHORT, 0, { runAt: FAKE_START - MINUTE_MS });
  const held = (overrides: Partial<DueEntry> = {}): DueEntry => ({ ...dueEntryOf(job, job.runAt), ...overrides });
  const found = foundOf(job, { table: 'due' });

  it('is left to its held row, whether its queue is paused or has only no turn yet', async () => {
    for (const pause of [null, { at: FAKE_START, reason: null, until: null }]) {
      const core = bench([job]);
      await core.stores.held.write([held()]);
      await setQueue(core, job.queue, { pause });
      assert.deepEqual(await core.settle(found), ['settled']);
      assert.equal(core.row(job)?.status, JobStatus.scheduled);
      assert.deepEqual([core.stores.due.all(), deadlinesOf(core)], [[], []]);
    }
  });

  it('is looked at again when it expires', async () => {
    const core = bench([{ ...job, expiresAt: FAKE_START + HOUR_MS }]);
    await core.stores.held.write([held()]);
    assert.deepEqual(await core.settle(found), ['settled']);
    assert.deepEqual(deadlinesOf(core), [{ jobId: job.jobId, at: HOUR_MS, publishedAt: null }]);
  });

  it('gets another due row where no held row stands for it', async () => {
    for (const row of [
      held({ runAt: job.runAt - 1 }),
      held({ jobId: jobRow(COHORT, 1).jobId }),
      held({ queue: 'other' }),
      held({ priority: 'low' }),
    ]) {
      const core = bench([job]);
      await core.stores.held.write([row]);
      await setQueue(core, job.queue, { ratePerS: 5 });
      assert.deepEqual(await core.settle(found), ['settled']);
      assert.equal(core.row(job)?.status, JobStatus.scheduled);
      assert.deepEqual(core.stores.due.all(), [dueEntryOf(job, FAKE_START)]);
    }
  });

  it('is found by the time of the row that was passed over, which may be later than its own', async () => {
    const core = bench([job]);
    const later = held({ runAt: job.runAt + 10 * SECOND_MS });
    await core.stores.held.write([later]);
    await setQueue(core, job.queue, { ratePerS: 5 });
    assert.deepEqual(await core.settle({ ...found, at: later.runAt }), ['settled']);
    assert.deepEqual(core.stores.due.all(), []);
  });

  it('is asked for with all others of its queue and hour at once', async () => {
    const jobs = Array.from({ length: 20 }, (_, member) => jobRow(COHORT, member, { runAt: job.runAt + member }));
    const core = bench(jobs);
    await core.stores.held.write(jobs.slice(0, 19).map((each) => dueEntryOf(each, each.runAt)));
    await setQueue(core, job.queue, { ratePerS: 5 });
    await core.settle(...jobs.map((each) => foundOf(each, { table: 'due' })));
    assert.equal(core.stores.calls.filter(({ method }) => method === 'held.standing').length, 1);
    assert.deepEqual(
      core.stores.due.all().map(({ jobId }) => jobId),
      [jobs[19]?.jobId],
    );
  });
});

describe('a running job', () => {
  it('is left to a row where its lease ends, so that heartbeats need to write none', async () => {
    const job = runningJob(COHORT, 0, { leaseUntil: FAKE_START + 20_000 });
    const core = bench([job]);
    assert.deepEqual(await core.settle(foundOf(job)), ['settled']);
    assert.deepEqual(deadlinesOf(core), [{ jobId: job.jobId, at: 20_000, publishedAt: null }]);
  });

  it('is kept in hand when its lease ends within a second', async () => {
    const job = runningJob(COHORT, 0, { leaseUntil: FAKE_START + 400 });
    const core = bench([job]);
    assert.deepEqual(await core.settle(foundOf(job)), [{ again: FAKE_START + 400 }]);
    assert.deepEqual(deadlinesOf(core), []);
  });

  it('whose lapse loses although nothing changed is looked at a second later: Cassandra’s clock decides', async () => {
    const job = runningJob(COHORT, 0, { leaseUntil: FAKE_START - 1, deadlineAt: FAKE_START + HOUR_MS });
    const core = bench([job], { serverAheadMs: -2_500 });
    for (let seconds = 0; seconds < 3; seconds++) {
      assert.deepEqual(await core.settle(foundOf(job)), [{ again: core.clock.now() + SECOND_MS }]);
      assert.deepEqual(core.row(job), job);
      await core.clock.advance(SECOND_MS);
    }
    assert.equal(core.events.filter((event) => event === 'cohorts.apply').length, 3);
    assert.deepEqual(await core.settle(foundOf(job)), ['settled']);
    assert.equal(core.row(job)?.status, JobStatus.enqueued);
  });

  it('whose lapse loses to a heartbeat is left to its new lease', async () => {
    const job = runningJob(COHORT, 0, { leaseUntil: FAKE_START - 1 });
    const renewed = { ...job, leaseUntil: FAKE_START + 30_000, heard: true };
    const core = bench([job], {
      strikes: ({ method }) => {
        // It lands between the settler's read and its round.
        if (method === 'cohorts.apply') core.stores.rows.set(job.jobId, renewed);
        return undefined;
      },
    });
    assert.deepEqual(await core.settle(foundOf(job)), ['settled']);
    assert.deepEqual(core.row(job), renewed);
    assert.ok(deadlinesOf(core).some(({ at }) => at === 30_000));
  });
});

describe('a finished job', () => {
  const finished = (member: number): JobRow =>
    runningJob(COHORT, member, {
      status: JobStatus.succeeded,
      finishedAt: FAKE_START - SECOND_MS,
      ends: new Map([[1, { endedAt: FAKE_START - SECOND_MS, outcome: 'succeeded', error: null }]]),
    });

  it('gets its history row again from the deadline row of its claim, and not from its due row', async () => {
    const jobs = [finished(0), finished(1)];
    const core = bench(jobs);
    await core.settle(foundOf(jobs[0]!), foundOf(jobs[1]!, { table: 'due' }));
    assert.deepEqual(
      [...core.stores.finished.values()].map(({ jobId }) => jobId),
      [jobs[0]!.jobId],
    );
  });

  it('is not read again for its due row where its deadline row was settled; one that may be replayed is', async () => {
    const dead = { ...finished(1), status: JobStatus.dead };
    const jobs = [finished(0), dead];
    const core = bench(jobs);
    await core.settle(...jobs.map((job) => foundOf(job)));
    const readBefore = core.stores.calls.length;
    const results = await core.settle(...jobs.map((job) => foundOf(job, { table: 'due' })));
    assert.deepEqual(results, ['settled', 'settled']);
    assert.deepEqual(
      core.stores.calls.slice(readBefore).flatMap(({ args }) => args[0]),
      [dead.jobId],
    );
  });

  it('is looked at by its due row where the history row of its deadline row could not be written', async () => {
    const job = finished(0);
    const core = bench([job]);
    core.stores.failNext('history.writeFinished', { kind: 'unavailable' });
    await core.settle(foundOf(job));
    const readBefore = core.stores.calls.length;
    await core.settle(foundOf(job, { table: 'due' }));
    assert.ok(core.stores.calls.length > readBefore);
  });

  it('gets the very row that its cancellation wrote from whatever row finds it, an attempt before or not', async () => {
    for (const attempt of [0, 1]) {
      const failed = new Map([[1, { endedAt: FAKE_START - HOUR_MS, outcome: 'failed' as const, error: 'boom' }]]);
      const waiting = jobRow(COHORT, 0, { attempt, ends: attempt === 0 ? new Map() : failed });
      const core = bench([waiting]);
      const canceller = new JobCanceller(core.parts);
      assert.ok((await core.clock.until(canceller.cancel(waiting.jobId))).ok);
      const [written] = core.stores.finished.values();
      assert.deepEqual([written?.status, written?.outcome, written?.error], ['cancelled', 'cancelled', null]);
      for (const table of ['due', 'deadlines'] as const) {
        core.stores.finished.clear();
        await core.clock.advance(MINUTE_MS);
        await core.settle(foundOf(waiting, { table }));
        assert.deepEqual([...core.stores.finished.values()], [written], `${table} after ${attempt} attempts`);
      }
    }
  });

  it('is looked at again when its history row cannot be written; others are not', async () => {
    const job = finished(0);
    const core = bench([job]);
    core.stores.failNext('history.writeFinished', { kind: 'unavailable' });
    assert.deepEqual(await core.settle(foundOf(job), foundOf(jobRow(COHORT, 9))), [AGAIN, 'settled']);
    assert.deepEqual(await core.settle(foundOf(job)), ['settled']);
    assert.equal(core.stores.finished.size, 1);
  });
});

describe('a cohort that cannot be read', () => {
  it('keeps no other cohort’s jobs waiting', async () => {
    const jobs = [jobRow(COHORT, 0), jobRow(OTHER_COHORT, 0), jobRow(COHORT, 1)].map((job) => ({
      ...job,
      runAt: FAKE_START,
    }));
    const core = bench(jobs, {
      strikes: ({ method, args }) =>
        method === 'jobs.read' && (args[0] as readonly string[]).some((jobId) => jobId.startsWith(OTHER_COHORT))
          ? { kind: 'unavailable' }
          : undefined,
    });
    assert.deepEqual(await core.settle(...jobs.map((job) => foundOf(job))), ['settled', AGAIN, 'settled']);
    assert.deepEqual(
      jobs.map((job) => core.row(job)?.status),
      ['enqueued', 'scheduled', 'enqueued'],
    );
  });
});

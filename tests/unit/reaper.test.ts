// Design section 8: deadlines as they come, second looks at closed minutes, and cursors that wait for no single cohort.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { JobRow } from '../../services/core/domain/job.ts';
import { JobStatus } from '../../services/core/domain/job-status.ts';
import {
  COHORT_SIZE,
  LOOK_ROWS,
  LOOKS_AT_ONCE,
  MINUTE_MS,
  SECOND_LOOK_AFTER_MS,
  SECOND_MS,
} from '../../services/core/domain/limits.ts';
import { Reaper } from '../../services/reaper/reaper.ts';
import { ReadyWatch } from '../../services/reaper/ready-watch.ts';
import { Republisher } from '../../services/reaper/republish.ts';
import { Settler } from '../../services/reaper/settle.ts';
import { coreBench, type CoreBenchOptions } from '../support/core-bench.ts';
import { FAKE_START } from '../support/fake-clock.ts';
import { jobRow } from '../support/job-row.ts';
import { LEASE_MS, runningJob } from '../support/operations.ts';

const COHORT = 'j_0123456789abc';
const OTHER_COHORT = 'j_abcdefghjkmnp';
const SHARD = 3;

/** A reaper that owns the shards: deadlines each second, second looks every five, as its loops do. */
function bench(options: CoreBenchOptions = {}, shards: readonly number[] = [SHARD]) {
  const core = coreBench(options);
  const { stores, clock, parts } = core;
  let isOurs = true;
  const reaper = new Reaper({
    ...parts,
    timerStore: stores.timers,
    cursors: stores.cursors,
    settler: new Settler(parts),
    readyWatch: new ReadyWatch(parts),
    republisher: new Republisher({ ...parts, timerStore: stores.timers }),
    holds: () => isOurs,
    clusterStartedAt: FAKE_START - MINUTE_MS,
  });
  for (const shard of shards) reaper.acquired(shard);
  return {
    ...core,
    reaper,
    put: (...jobs: readonly JobRow[]) => {
      for (const job of jobs) stores.rows.set(job.jobId, job);
    },
    deadline: (job: JobRow, afterMs: number) =>
      stores.deadlines.write([{ jobId: job.jobId, shard: job.shard, at: FAKE_START + afterMs, publishedAt: null }]),
    due: ({ jobId, shard, runAt, queue, priority, attempt }: JobRow) =>
      stores.due.write([{ jobId, shard, runAt, queue, priority, attempt, direct: false }]),
    /** How far the dispatcher's cursor is, in ms after the start. */
    dispatched: (afterMs: number) => void stores.positions.set(`dispatch ${SHARD}`, FAKE_START + afterMs),
    status: (job: JobRow) => stores.rows.get(job.jobId)?.status,
    lease: (stands: boolean) => void (isOurs = stands),
    run: async (seconds: number) => {
      for (let second = 0; second < seconds; second++) {
        await clock.until(reaper.reapDeadlines());
        if (second % 5 === 0) await clock.until(reaper.lookAgain());
        await clock.advance(SECOND_MS);
      }
    },
  };
}

describe('a dead worker’s job', () => {
  it('is on its queue within two seconds of its lease, though heartbeats moved that on and wrote no timer', async () => {
    const { put, deadline, run, status, bus } = bench();
    const job = runningJob(COHORT, 0, {
      leaseUntil: FAKE_START + 3 * LEASE_MS,
      deadlineAt: FAKE_START + 10 * LEASE_MS,
    });
    put(job);
    deadline(job, LEASE_MS);
    await run(90);
    assert.equal(status(job), JobStatus.running);
    await run(2);
    assert.equal(status(job), JobStatus.enqueued);
    assert.deepEqual(
      [...bus.subjects.values()].flat().map(({ message }) => message.attempt),
      [2],
    );
  });

  it('is tried each second while its cohort is away', async () => {
    let isAway = true;
    const { put, deadline, run, status } = bench({
      strikes: ({ method }) => (isAway && method === 'cohorts.apply' ? { kind: 'unavailable' } : undefined),
    });
    const job = runningJob(COHORT, 0, { leaseUntil: FAKE_START + 5_000 });
    put(job);
    deadline(job, 5_000);
    await run(30);
    isAway = false;
    await run(2);
    assert.equal(status(job), JobStatus.enqueued);
  });

  it('is found by a deadline row that landed long behind its reader, at the second look', async () => {
    const { put, deadline, run, status } = bench();
    const job = runningJob(COHORT, 0, { leaseUntil: FAKE_START + 5_000 });
    put(job);
    await run(30);
    deadline(job, 5_000);
    await run(MINUTE_MS / SECOND_MS);
    assert.equal(status(job), JobStatus.running);
    await run(SECOND_LOOK_AFTER_MS / SECOND_MS);
    assert.equal(status(job), JobStatus.enqueued);
  });
});

describe('the second look at a due minute', () => {
  const missed = jobRow(COHORT, 0, { runAt: FAKE_START + 1_000, shard: SHARD });

  it('comes a minute after its end, when the dispatcher’s cursor is past it', async () => {
    for (const [dispatchedMs, runS, found] of [
      [2 * MINUTE_MS, 119, false],
      [2 * MINUTE_MS, 126, true],
      [MINUTE_MS, 126, true],
      [MINUTE_MS - 1, 300, false],
    ] as const) {
      const { put, due, dispatched, run, status } = bench();
      put(missed);
      due(missed);
      dispatched(dispatchedMs);
      await run(runS);
      assert.equal(status(missed), found ? JobStatus.enqueued : JobStatus.scheduled, `${dispatchedMs} ${runS}`);
    }
  });

  it('waits for no cohort that is away: its jobs get a deadline row, and the cursor goes on', async () => {
    const away = jobRow(OTHER_COHORT, 0, { runAt: FAKE_START + 1_000, shard: SHARD });
    let isAway = true;
    const { put, due, dispatched, run, status, stores } = bench({
      strikes: ({ method, args }) =>
        isAway && method !== 'timers.writeDeadlines' && JSON.stringify(args).includes(OTHER_COHORT)
          ? { kind: 'unavailable' }
          : undefined,
    });
    put(away, missed);
    due(away);
    due(missed);
    dispatched(10 * MINUTE_MS);
    await run(140);
    assert.deepEqual([status(away), status(missed)], [JobStatus.scheduled, JobStatus.enqueued]);
    assert.ok(stores.positions.get(`second_look ${SHARD}`)! >= FAKE_START + MINUTE_MS);
    isAway = false;
    await run(75);
    assert.equal(status(away), JobStatus.enqueued);
  });
});

describe('the second looks at many due rows', () => {
  const JOBS = 2_000;
  const many = Array.from({ length: JOBS }, (_, number) => {
    const cohort = `j_0123456789a${Math.floor(number / COHORT_SIZE)
      .toString(16)
      .padStart(2, '0')}`;
    return jobRow(cohort, number % COHORT_SIZE, { runAt: FAKE_START + 1_000, shard: SHARD });
  });
  const lookedAt = (statuses: readonly (JobStatus | undefined)[]) =>
    statuses.filter((status) => status === JobStatus.enqueued).length;

  it('are spread over the next minute, so that what is due meanwhile need not wait behind them', async () => {
    const { put, due, dispatched, run, status } = bench();
    put(...many);
    for (const job of many) due(job);
    dispatched(10 * MINUTE_MS);
    await run(122);
    const first = lookedAt(many.map(status));
    assert.ok(first > 0 && first <= JOBS / 2, `${first} in the first seconds`);
    await run(13);
    assert.equal(lookedAt(many.map(status)), JOBS);
  });

  it('do not pause when they are late', async () => {
    const { put, due, dispatched, run, status } = bench();
    put(...many);
    for (const job of many) due(job);
    await run(182);
    dispatched(10 * MINUTE_MS);
    await run(5);
    assert.equal(lookedAt(many.map(status)), JOBS);
  });

  it('are broken off when the shard, or the process, ends meanwhile, and begun again by whoever owns it next', async () => {
    for (const end of ['lease', 'stop'] as const) {
      const { put, due, dispatched, run, status, lease, reaper, stores } = bench();
      put(...many);
      for (const job of many) due(job);
      dispatched(10 * MINUTE_MS);
      await run(122);
      if (end === 'lease') lease(false);
      else reaper.stop();
      const before = lookedAt(many.map(status));
      await run(20);
      assert.ok(lookedAt(many.map(status)) <= before + LOOK_ROWS, end);
      assert.ok((stores.positions.get(`second_look ${SHARD}`) ?? 0) <= FAKE_START, end);
    }
  });

  it('go on with further shards as soon as one of those under way is through', async () => {
    const shards = Array.from({ length: 3 * LOOKS_AT_ONCE }, (_, shard) => shard);
    const { stores, run, put, due, status } = bench({}, shards);
    const jobs = many.slice(0, shards.length * COHORT_SIZE).map((job, index) => ({
      ...job,
      shard: Math.floor(index / COHORT_SIZE),
    }));
    put(...jobs);
    for (const job of jobs) due(job);
    for (const shard of shards) stores.positions.set(`dispatch ${shard}`, FAKE_START + 10 * MINUTE_MS);
    await run(123);
    assert.equal(lookedAt(jobs.map(status)), jobs.length);
  });
});

describe('the deadlines cursor', () => {
  it('stays behind what is not settled, so that a successor finds it', async () => {
    const job = runningJob(COHORT, 0, { leaseUntil: FAKE_START + 5_000 });
    const strikes: CoreBenchOptions['strikes'] = ({ method }) =>
      method === 'cohorts.apply' ? { kind: 'unavailable' } : undefined;
    const { put, deadline, run, stores } = bench({ strikes });
    put(job);
    deadline(job, 5_000);
    await run(60);
    assert.ok((stores.positions.get(`deadlines ${SHARD}`) ?? 0) <= FAKE_START + 5_000);
  });
});

describe('a reaper', () => {
  it('goes on with its other shards while one is slow to be read', async () => {
    const other = 9;
    let isSlow = false;
    const { put, deadline, reaper, clock, status } = bench(
      {
        strikes: ({ method, args }) =>
          isSlow && method === 'timers.readDeadlines' && (args[0] as { shard: number }).shard === other
            ? { kind: 'slow', afterMs: 30_000 }
            : undefined,
      },
      [SHARD, other],
    );
    const job = runningJob(COHORT, 0, { leaseUntil: FAKE_START + 5_000 });
    put(job);
    deadline(job, 5_000);
    await clock.until(reaper.reapDeadlines());
    isSlow = true;
    while (clock.now() < FAKE_START + 8_000) {
      await clock.until(reaper.reapDeadlines());
      await clock.advance(100);
    }
    assert.ok(clock.now() < FAKE_START + 9_000, `${clock.now() - FAKE_START} ms`);
    assert.equal(status(job), JobStatus.enqueued);
  });
});

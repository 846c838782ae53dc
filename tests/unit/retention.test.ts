// Retention (design section 8): jobs go when they have been over for as long as their queue keeps them, with their timer rows, and
// nothing that is not over goes, whatever happens in between.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { JobRow } from '../../services/core/domain/job.ts';
import { JobStatus } from '../../services/core/domain/job-status.ts';
import {
  DAY_MS,
  MINUTE_MS,
  RETENTION_SLACK_MS,
  REWRITE_AHEAD_MS,
  SECOND_MS,
} from '../../services/core/domain/limits.ts';
import { ShardRetention } from '../../services/reaper/retention.ts';
import { Settler } from '../../services/reaper/settle.ts';
import { coreBench, setQueue, type CoreBenchOptions } from '../support/core-bench.ts';
import { FAKE_START } from '../support/fake-clock.ts';
import { jobRow, newCohort } from '../support/job-row.ts';

const SHARD = 3;
const STEP_MS = DAY_MS / 2;
/** A minute is swept so much later than its jobs may go. */
const LATE_MS = RETENTION_SLACK_MS + 2 * MINUTE_MS;

function bench(options: CoreBenchOptions = {}) {
  const core = coreBench(options);
  const { stores, clock, parts } = core;
  let secondLookAt = Infinity;
  const retention = new ShardRetention({
    retention: parts.retention,
    timerStore: stores.timers,
    shard: SHARD,
    from: { due: FAKE_START, deadlines: FAKE_START },
    lookedAtTo: () => ({ due: secondLookAt, deadlines: secondLookAt }),
  });
  const settler = new Settler(parts);
  let settledTo = clock.now();
  /** What the reaper's reader does with deadline rows as their time comes. */
  const settle = async (): Promise<void> => {
    const due = stores.deadlines.all().filter(({ at }) => at > settledTo && at <= clock.now());
    settledTo = clock.now();
    const results = await clock.until(settler.settle(due.map((row) => ({ ...row, table: 'deadlines' as const }))));
    const again = due.filter((_, index) => results[index] !== 'settled');
    stores.deadlines.write(again.map((row) => ({ ...row, at: clock.now() + SECOND_MS })));
  };
  /** Until there is nothing left to sweep; what fails is tried again. */
  const sweep = async (): Promise<void> => {
    for (let before = -1; before !== retention.lagMs();) {
      before = retention.lagMs();
      await clock.until(retention.runOnce(() => true)).catch(() => (before = -1));
    }
  };
  return {
    ...core,
    /** With the due row that every job has, and the deadline row of its claim. */
    put: (...jobs: readonly JobRow[]) => {
      for (const job of jobs) {
        const { jobId, shard, queue, priority, attempt, runAt } = job;
        stores.rows.set(jobId, job);
        stores.due.write([{ jobId, shard, runAt, queue, priority, attempt, direct: false }]);
        const at = runAt + 30 * SECOND_MS;
        if (job.starts.size > 0) stores.deadlines.write([{ jobId, shard, at, publishedAt: null }]);
      }
    },
    has: ({ jobId }: JobRow) => stores.rows.has(jobId),
    timersOf: ({ jobId }: JobRow) =>
      [...stores.due.all(), ...stores.deadlines.all()].filter((row) => row.jobId === jobId).length,
    dueRowsOf: ({ jobId }: JobRow) => stores.due.all().filter((row) => row.jobId === jobId).length,
    secondLookAt: (at: number) => (secondLookAt = at),
    /** Time passes, with the reaper's duties done twice a day and at the end. */
    pass: async (ms: number) => {
      for (let passed = 0; passed < ms; passed += STEP_MS) {
        await clock.advance(Math.min(STEP_MS, ms - passed));
        await settle();
        await sweep();
      }
    },
  };
}

const RUN_AT = FAKE_START + 5 * SECOND_MS;
const ENDED_AT = RUN_AT + SECOND_MS;

function over(status: JobStatus, overrides: Partial<JobRow> = {}): JobRow {
  const starts = new Map([[1, { worker: 'w', claimId: 'c', startedAt: RUN_AT }]]);
  const common = { status, shard: SHARD, runAt: RUN_AT, scheduledFor: RUN_AT, finishedAt: ENDED_AT };
  return jobRow(newCohort(), 0, {
    ...common,
    ...(status === JobStatus.cancelled ? {} : { attempt: 1, starts }),
    ...overrides,
  });
}

describe('retention', () => {
  it('removes what succeeded or was cancelled after seven days, what died after thirty, with all timer rows', async () => {
    const { put, has, pass, timersOf, dueRowsOf } = bench();
    const [done, cancelled, dead] = [over('succeeded'), over('cancelled'), over('dead')];
    put(done, cancelled, dead);
    await pass(7 * DAY_MS);
    assert.deepEqual([done, cancelled, dead].map(has), [true, true, true]);
    await pass(LATE_MS);
    assert.deepEqual([done, cancelled, dead].map(has), [false, false, true]);
    assert.deepEqual([done, cancelled].map(timersOf), [0, 0]);
    // Lists by time still find it.
    assert.equal(dueRowsOf(dead), 1);
    await pass(30 * DAY_MS - 7 * DAY_MS - LATE_MS);
    assert.equal(has(dead), true);
    await pass(LATE_MS);
    assert.deepEqual([has(dead), dueRowsOf(dead)], [false, 0]);
  });

  it('keeps the jobs of a queue for as long as its settings say, the others’ as before', async () => {
    const core = bench();
    const { put, has, pass } = core;
    await setQueue(core, 'brief', { retentionDays: 1, deadRetentionDays: 2 });
    await setQueue(core, 'long', { retentionDays: 14 });
    const jobs = {
      brief: over('succeeded', { queue: 'brief' }),
      briefDead: over('dead', { queue: 'brief' }),
      usual: over('succeeded'),
      long: over('succeeded', { queue: 'long' }),
    };
    put(...Object.values(jobs));
    const left = () => Object.entries(jobs).flatMap(([name, job]) => (has(job) ? [name] : []));
    await pass(DAY_MS);
    assert.deepEqual(left(), ['brief', 'briefDead', 'usual', 'long']);
    await pass(LATE_MS);
    assert.deepEqual(left(), ['briefDead', 'usual', 'long']);
    await pass(DAY_MS);
    assert.deepEqual(left(), ['usual', 'long']);
    await pass(5 * DAY_MS - LATE_MS);
    assert.deepEqual(left(), ['usual', 'long']);
    await pass(LATE_MS);
    assert.deepEqual(left(), ['long']);
    await pass(7 * DAY_MS);
    assert.deepEqual(left(), []);
  });

  it('leaves what is not over, and removes it seven days after its end', async () => {
    const { put, has, pass, stores, clock, dueRowsOf, timersOf } = bench();
    // Its queue has been paused since it was due.
    const held = jobRow(newCohort(), 0, { shard: SHARD, runAt: RUN_AT, queue: 'paused' });
    const later = jobRow(newCohort(), 0, { shard: SHARD, runAt: FAKE_START + 60 * DAY_MS });
    put(held, later);
    await pass(8 * DAY_MS);
    assert.deepEqual([has(held), has(later), dueRowsOf(held)], [true, true, 1]);
    const row = stores.rows.get(held.jobId)!;
    stores.rows.set(held.jobId, { ...row, status: JobStatus.cancelled, finishedAt: clock.now() });
    await pass(7 * DAY_MS - MINUTE_MS);
    assert.equal(has(held), true);
    await pass(8 * DAY_MS);
    assert.deepEqual([has(held), dueRowsOf(held), has(later)], [false, 0, true]);
    // The deadline rows that kept it in sight are swept in their turn.
    await pass(8 * DAY_MS);
    assert.equal(timersOf(held), 0);
  });

  it('keeps a job that was cancelled before its time until seven days after that time, as its key is', async () => {
    const { put, has, pass } = bench();
    const job = over('cancelled', { runAt: FAKE_START + 3 * DAY_MS });
    put(job);
    await pass(10 * DAY_MS);
    assert.equal(has(job), true);
    await pass(LATE_MS);
    assert.equal(has(job), false);
  });

  it('leaves a dead job that is replayed just as it is to go', async () => {
    let replay = (): void => undefined;
    const core = bench({
      strikes: ({ method, args }) => {
        if (method === 'cohorts.apply' && JSON.stringify(args).includes('"remove"')) replay();
        return undefined;
      },
    });
    const { put, has, pass, stores, clock } = core;
    await setQueue(core, 'mail', { deadRetentionDays: 7 });
    const dead = over('dead');
    put(dead);
    replay = () => {
      replay = () => undefined;
      const runAt = clock.now() + DAY_MS;
      stores.rows.set(dead.jobId, { ...dead, status: JobStatus.scheduled, finishedAt: null, runAt });
      stores.due.write([
        { jobId: dead.jobId, shard: SHARD, runAt, queue: 'mail', priority: 'normal', attempt: 1, direct: false },
      ]);
    };
    await pass(7 * DAY_MS + LATE_MS);
    assert.equal(stores.rows.get(dead.jobId)?.status, JobStatus.scheduled);
    await pass(DAY_MS);
    stores.rows.set(dead.jobId, { ...dead, status: JobStatus.succeeded, finishedAt: clock.now() });
    await pass(7 * DAY_MS + DAY_MS);
    assert.equal(has(dead), false);
  });

  it('goes on where an answer was lost, where a call was lost and where a cohort was away', async () => {
    for (const kind of ['answer_lost', 'request_lost', 'unavailable'] as const) {
      for (const method of ['jobs.readStates', 'cohorts.apply', 'timers.writeDeadlines', 'timers.dropDue'] as const) {
        const core = bench();
        const { put, has, pass, stores, dueRowsOf } = core;
        await setQueue(core, 'mail', { deadRetentionDays: 8 });
        const [done, dead] = [over('succeeded'), over('dead')];
        put(done, dead);
        await pass(7 * DAY_MS);
        stores.failNext(method, { kind });
        await pass(LATE_MS);
        assert.deepEqual([has(done), dueRowsOf(done), has(dead)], [false, 0, true], `${method} ${kind}`);
        await pass(DAY_MS - LATE_MS - MINUTE_MS);
        stores.failNext(method, { kind });
        await pass(LATE_MS);
        await pass(MINUTE_MS);
        assert.deepEqual([has(dead), dueRowsOf(dead)], [false, 0], `${method} ${kind}`);
      }
    }
  });

  it('gives another timer only to what would be lost from sight without', async () => {
    const { put, parts, stores } = bench();
    const live = (overrides: Partial<JobRow>): JobRow =>
      jobRow(newCohort(), 0, { shard: SHARD, runAt: RUN_AT, ...overrides });
    const jobs = {
      later: live({ runAt: FAKE_START + 60 * DAY_MS }),
      held: live({ runAt: FAKE_START - DAY_MS }),
      waitsForAnother: live({ runAt: FAKE_START - DAY_MS, waitsFor: 'j_0123456789abc_00' }),
      enqueued: live({ status: JobStatus.enqueued }),
      running: live({ status: JobStatus.running, attempt: 1 }),
      dead: over('dead'),
    };
    put(...Object.values(jobs));
    stores.deadlines.remove(() => true);
    const ids = Object.values(jobs).map(({ jobId }) => jobId);
    const staying = await parts.retention.sweep({ shard: SHARD, table: 'deadlines', bucket: FAKE_START, ids });
    assert.deepEqual(new Set(staying.keys()), new Set(ids));
    const lookedAt = stores.deadlines.all().map(({ jobId, at }) => [jobId, at]);
    assert.deepEqual(lookedAt, [
      [jobs.held.jobId, FAKE_START + REWRITE_AHEAD_MS],
      [jobs.dead.jobId, ENDED_AT + 30 * DAY_MS],
    ]);
  });

  it('leaves no due row of a time that the job no longer has', async () => {
    const { put, pass, stores, dueRowsOf, timersOf } = bench();
    const dead = over('dead', { runAt: RUN_AT + 2 * MINUTE_MS });
    put(dead);
    const { jobId, queue, priority } = dead;
    for (const runAt of [RUN_AT, RUN_AT + MINUTE_MS]) {
      stores.due.write([{ jobId, shard: SHARD, runAt, queue, priority, attempt: 0, direct: false }]);
    }
    await pass(7 * DAY_MS + LATE_MS + 2 * MINUTE_MS);
    assert.equal(dueRowsOf(dead), 1);
    await pass(31 * DAY_MS);
    assert.equal(timersOf(dead), 0);
  });

  it('removes a job at its time, though what is over could not be read together just then', async () => {
    const { put, has, pass, stores } = bench();
    const dead = over('dead');
    put(dead);
    await pass(30 * DAY_MS - MINUTE_MS);
    stores.failNext('jobs.readEnds', { kind: 'unavailable' });
    await pass(2 * MINUTE_MS);
    assert.equal(has(dead), false);
  });

  it('keeps an occurrence that never ran while what it waited for has not ended', async () => {
    const { put, has, pass, stores, clock } = bench();
    const running = jobRow(newCohort(), 0, { shard: SHARD, runAt: RUN_AT, status: JobStatus.running, attempt: 1 });
    const link = over('cancelled', { waitsFor: running.jobId });
    put(running, link);
    await pass(12 * DAY_MS);
    assert.equal(has(link), true);
    stores.rows.set(running.jobId, { ...running, status: JobStatus.succeeded, finishedAt: clock.now() });
    await pass(DAY_MS + MINUTE_MS);
    assert.equal(has(link), false);
  });

  it('ends with the minute at hand where it may not go on', async () => {
    const { put, has, parts, stores, clock } = bench();
    const [one, later] = [over('succeeded'), over('succeeded', { runAt: RUN_AT + 2 * MINUTE_MS })];
    put(one, later);
    const walk = new ShardRetention({
      ...{ retention: parts.retention, timerStore: stores.timers, shard: SHARD },
      from: { due: FAKE_START, deadlines: FAKE_START },
      lookedAtTo: () => ({ due: Infinity, deadlines: Infinity }),
    });
    await clock.advance(8 * DAY_MS);
    let minutes = 0;
    await walk.runOnce(() => (minutes += 1) <= 2);
    assert.deepEqual([has(one), has(later)], [false, true]);
    await walk.runOnce(() => true);
    assert.equal(has(later), false);
  });

  it('sweeps no minute that had no second look, however old it is', async () => {
    const { put, has, pass, secondLookAt } = bench();
    const done = over('succeeded');
    put(done);
    secondLookAt(FAKE_START);
    await pass(9 * DAY_MS);
    assert.equal(has(done), true);
    secondLookAt(Infinity);
    await pass(MINUTE_MS);
    assert.equal(has(done), false);
  });
});

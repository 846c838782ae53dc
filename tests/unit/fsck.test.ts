// punctual fsck on stores in memory: each kind of damage is found and named, and what is whole or under way is not.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Damage, type Finding } from '../../services/core/domain/fsck.ts';
import { occurrenceId, shardOf } from '../../services/core/domain/ids.ts';
import type { JobRow } from '../../services/core/domain/job.ts';
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, SHARDS_DEFAULT } from '../../services/core/domain/limits.ts';
import { RETENTION_DEFAULT, type RetentionTerms } from '../../services/core/domain/queue-settings.ts';
import { wakeUpRow } from '../../services/core/domain/schedule-plan.ts';
import { finishedJobOf } from '../../services/core/ports/history-store.ts';
import { Fsck, type FsckOptions, type FsckReport } from '../../services/core/fsck/fsck.ts';
import { armRepairs, repairsOf } from '../../services/core/fsck/repair.ts';
import { dueEntryOf } from '../../services/core/moves/end-attempt.ts';
import { bulkOperation } from '../support/bulk-operation.ts';
import { coreBench } from '../support/core-bench.ts';
import { FAKE_START } from '../support/fake-clock.ts';
import { jobRow } from '../support/job-row.ts';
import { memoryRing } from '../support/memory-ring-store.ts';
import { scheduleRow } from '../support/schedule-row.ts';

const COHORT = 'j_0123456789abc';
const SCHEDULES = 's_0123456789abc';
const SHARD = 3;
const RETENTIONS: Readonly<Record<string, RetentionTerms>> = {
  brief: { finishedDays: 1, deadDays: 1 },
  long: { finishedDays: 30, deadDays: 30 },
  grave: { finishedDays: 1, deadDays: 30 },
  slight: { finishedDays: 30, deadDays: 1 },
};
const OPTIONS: FsckOptions = { pageRows: 2, rowsPerS: 100_000, graceMs: 10 * SECOND_MS };

const scheduled = (member: number, overrides: Partial<JobRow> = {}): JobRow =>
  jobRow(COHORT, member, { runAt: FAKE_START + HOUR_MS, shard: SHARD, ...overrides });
const enqueued = (member: number): JobRow =>
  scheduled(member, { runAt: FAKE_START - HOUR_MS, status: 'enqueued', enqueuedAt: FAKE_START - HOUR_MS });
const start = { worker: 'w', claimId: 'c', startedAt: FAKE_START - MINUTE_MS };
const running = (member: number): JobRow => ({
  ...enqueued(member),
  status: 'running',
  attempt: 1,
  worker: 'w',
  leaseUntil: FAKE_START + 30 * SECOND_MS,
  deadlineAt: FAKE_START + MINUTE_MS,
  starts: new Map([[1, start]]),
});
const finished = (member: number, status: 'succeeded' | 'dead'): JobRow => ({
  ...running(member),
  ...{ status, worker: null, leaseUntil: null, deadlineAt: null, finishedAt: FAKE_START - SECOND_MS },
  ends: new Map([
    [1, { endedAt: FAKE_START - SECOND_MS, outcome: status === 'dead' ? 'failed' : status, error: null }],
  ]),
});

function bench() {
  const core = coreBench();
  const { stores, clock } = core;
  return {
    ...core,
    put: (...jobs: readonly JobRow[]) => {
      for (const job of jobs) stores.rows.set(job.jobId, job);
    },
    due: (...jobs: readonly JobRow[]) => stores.timers.writeDue(jobs.map((job) => dueEntryOf(job, job.runAt))),
    look: (job: JobRow, at: number) =>
      stores.timers.writeDeadlines([{ jobId: job.jobId, shard: job.shard, at, publishedAt: null }]),
    record: (job: JobRow) => stores.history.writeFinished([finishedJobOf(job)!]),
    passed: async (at: number) => {
      await stores.cursors.save('second_look', SHARD, at);
      await stores.cursors.save('deadlines', SHARD, at);
    },
    fsck: (overrides: Partial<FsckOptions> = {}): Promise<FsckReport> => {
      const { jobs, schedules, operations, timers, held, cursors } = stores;
      const parts = {
        ...{ jobs, schedules, operations, timers, held, cursors },
        ...{ ring: memoryRing(stores), clock, shards: SHARDS_DEFAULT },
        retentionOf: (queue: string) => RETENTIONS[queue] ?? RETENTION_DEFAULT,
      };
      const fsck = new Fsck({ ...parts, clusterStartedAt: FAKE_START - 2 * HOUR_MS }, { ...OPTIONS, ...overrides });
      return clock.until(fsck.run());
    },
  };
}

const told = (findings: readonly Finding[]): unknown[] =>
  findings.map(({ damage, subject, repair }) => [damage, subject, repair?.table ?? null]);

describe('fsck finds nothing', () => {
  it('in a system at work: jobs with due, held and deadline rows, ahead and overdue', async () => {
    const core = bench();
    const overdue = scheduled(1, { runAt: FAKE_START - SECOND_MS });
    const movedOn = scheduled(2, { runAt: FAKE_START - 2 * MINUTE_MS });
    const held = scheduled(3, { runAt: FAKE_START - 3 * HOUR_MS });
    core.put(scheduled(0), overdue, movedOn, held, enqueued(4), running(5), finished(6, 'succeeded'));
    await core.passed(FAKE_START - 2 * MINUTE_MS);
    await core.due(scheduled(0), overdue);
    await core.stores.timers.writeDue([dueEntryOf(movedOn, FAKE_START + 10 * SECOND_MS)]);
    await core.stores.held.write([dueEntryOf(held, held.runAt)]);
    await core.look(enqueued(4), FAKE_START + 50 * MINUTE_MS);
    await core.look(running(5), FAKE_START + 20 * SECOND_MS);
    await core.record(finished(6, 'succeeded'));
    const report = await core.fsck();
    assert.deepEqual(report.findings, []);
    assert.deepEqual(report.rows, { jobs: 7, schedules: 0, operations: 0, due: 3, deadlines: 2 });
    assert.equal(report.orphans.count, 0);
  });

  it('in rows whose last reader is not past them, however old they are', async () => {
    const core = bench();
    core.put(enqueued(0), scheduled(1, { runAt: FAKE_START - HOUR_MS }));
    await core.due(enqueued(0), scheduled(1, { runAt: FAKE_START - HOUR_MS }));
    await core.passed(FAKE_START - HOUR_MS);
    assert.deepEqual((await core.fsck()).findings, []);
  });

  it('where the end of a job is still going to be recorded', async () => {
    const core = bench();
    const cancelled = scheduled(1, { status: 'cancelled', finishedAt: FAKE_START - SECOND_MS, reason: 'r' });
    core.put(finished(0, 'succeeded'), cancelled);
    await core.passed(FAKE_START - MINUTE_MS);
    await core.look(finished(0, 'succeeded'), FAKE_START + SECOND_MS);
    await core.due(cancelled);
    assert.deepEqual((await core.fsck()).findings, []);
  });

  it('in a schedule with its wake-up row, one that has ended, and one that is paused', async () => {
    const core = bench();
    const live = scheduleRow(SCHEDULES, 0);
    const ended = scheduleRow(SCHEDULES, 1, { nextRunAt: null, maxRuns: 2, runs: 2 });
    const paused = scheduleRow(SCHEDULES, 2, { paused: true });
    const until = scheduleRow(SCHEDULES, 3, { paused: true, pausedUntil: FAKE_START + DAY_MS });
    for (const row of [live, ended, paused, until]) core.stores.scheduleTables.rows.set(row.scheduleId, row);
    await core.stores.timers.writeDue([wakeUpRow(live, live.nextRunAt!), wakeUpRow(until, FAKE_START + DAY_MS)]);
    assert.deepEqual((await core.fsck()).findings, []);
  });

  it('in what is put right within the grace, and in a job that moves whenever it is looked at', async () => {
    const core = bench();
    core.put(scheduled(0), scheduled(1));
    core.clock.after(5 * SECOND_MS, () => void core.due(scheduled(0)));
    const read = core.stores.jobs.read.bind(core.stores.jobs);
    let moves = 0;
    core.stores.jobs.read = async (ids, options) => {
      const rows = await read(ids, options);
      moves += 1;
      core.put(scheduled(1, { runAt: FAKE_START + HOUR_MS + moves }));
      return rows;
    };
    const report = await core.fsck();
    assert.deepEqual(report.findings, []);
    assert.deepEqual(report.busy, [scheduled(1).jobId]);
  });

  it('and says how many timer rows were left behind', async () => {
    const core = bench();
    await core.due(scheduled(0), scheduled(1));
    const { findings, orphans } = await core.fsck();
    assert.deepEqual(findings, []);
    assert.equal(orphans.count, 2);
  });
});

describe('fsck finds', () => {
  it('jobs without a timer, in every state; the repair is a timer of the right kind, and then nothing is found', async () => {
    const core = bench();
    const overdue = scheduled(1, { runAt: FAKE_START - HOUR_MS });
    const waits = scheduled(4, { runAt: FAKE_START - HOUR_MS, waitsFor: 'another' });
    const waitsAhead = scheduled(5, { waitsFor: 'another' });
    core.put(scheduled(0), overdue, enqueued(2), running(3), waits, waitsAhead);
    await core.due(overdue, enqueued(2));
    await core.look(running(3), FAKE_START - HOUR_MS);
    await core.passed(FAKE_START - MINUTE_MS);
    const { findings } = await core.fsck();
    assert.deepEqual(told(findings).toSorted(), [
      [Damage.jobWithoutTimer, scheduled(0).jobId, 'due'],
      [Damage.jobWithoutTimer, overdue.jobId, 'due'],
      [Damage.jobWithoutTimer, enqueued(2).jobId, 'deadlines'],
      [Damage.jobWithoutTimer, running(3).jobId, 'deadlines'],
      [Damage.jobWithoutTimer, waits.jobId, 'deadlines'],
      [Damage.jobWithoutTimer, waitsAhead.jobId, 'deadlines'],
    ]);
    await core.clock.until(armRepairs(repairsOf(findings), core.parts.timers));
    assert.deepEqual((await core.fsck()).findings, []);
  });

  it('a row before the time of its job to be no timer of it', async () => {
    const core = bench();
    core.put(scheduled(0));
    await core.stores.timers.writeDue([dueEntryOf(scheduled(0), FAKE_START + MINUTE_MS)]);
    await core.look(scheduled(0), FAKE_START + MINUTE_MS);
    assert.deepEqual(told((await core.fsck()).findings), [[Damage.jobWithoutTimer, scheduled(0).jobId, 'due']]);
  });

  it('schedules without a wake-up row, ended too early, or without their last occurrence', async () => {
    const core = bench();
    const asleep = scheduleRow(SCHEDULES, 0);
    const early = scheduleRow(SCHEDULES, 1, { nextRunAt: null });
    const lastSlot = FAKE_START - MINUTE_MS;
    const torn = scheduleRow(SCHEDULES, 2, { lastSlot, lastJobId: occurrenceId(asleep.scheduleId, lastSlot), runs: 1 });
    for (const row of [asleep, early, torn]) core.stores.scheduleTables.rows.set(row.scheduleId, row);
    await core.stores.timers.writeDue([wakeUpRow(torn, torn.nextRunAt!), wakeUpRow(asleep, FAKE_START)]);
    const { findings } = await core.fsck();
    assert.deepEqual(told(findings), [
      [Damage.scheduleWithoutWakeUp, asleep.scheduleId, 'due'],
      [Damage.scheduleEndedEarly, early.scheduleId, null],
      [Damage.occurrenceMissing, torn.scheduleId, null],
    ]);
    await core.clock.until(armRepairs(repairsOf(findings), core.parts.timers));
    assert.ok((await core.fsck()).findings.every(({ damage }) => damage !== Damage.scheduleWithoutWakeUp));
  });

  it('operations without a timer', async () => {
    const core = bench();
    const [lost, armed, over] = [bulkOperation(), bulkOperation(), bulkOperation({ status: 'done' })];
    for (const row of [lost, armed, over]) core.stores.operationRows.set(row.operationId, { row, token: '' });
    const shard = shardOf(armed.operationId, SHARDS_DEFAULT);
    await core.stores.timers.writeDeadlines([
      { jobId: armed.operationId, shard, at: FAKE_START + SECOND_MS, publishedAt: null },
    ]);
    assert.deepEqual(told((await core.fsck()).findings), [
      [Damage.operationWithoutTimer, lost.operationId, 'deadlines'],
    ]);
  });

  it('ends that were not recorded, and dead letters that are missing', async () => {
    const core = bench();
    core.put(finished(0, 'succeeded'), finished(1, 'dead'), finished(2, 'dead'));
    await core.passed(FAKE_START - SECOND_MS);
    await core.record(finished(1, 'dead'));
    await core.record(finished(2, 'dead'));
    const { jobId, queue } = finished(2, 'dead');
    const letter = { jobId, queue, deadAt: FAKE_START - SECOND_MS, attempt: 1, reason: 'attempts', error: null };
    await core.stores.history.writeDeadLetters([letter]);
    assert.deepEqual(told((await core.fsck()).findings), [
      [Damage.endNotRecorded, finished(0, 'succeeded').jobId, 'deadlines'],
      [Damage.deadLetterMissing, finished(1, 'dead').jobId, null],
    ]);
  });

  it('what each queue still has to keep, and no more', async () => {
    const core = bench();
    await core.passed(FAKE_START - SECOND_MS);
    const [early, late] = [FAKE_START - 20 * DAY_MS, FAKE_START - SECOND_MS];
    const ofQueue = (queue: string, index: number): readonly JobRow[] => [
      { ...finished(4 * index, 'succeeded'), queue, finishedAt: late },
      { ...finished(4 * index + 1, 'dead'), queue, finishedAt: late },
      { ...finished(4 * index + 2, 'succeeded'), queue, finishedAt: early },
      { ...finished(4 * index + 3, 'dead'), queue, finishedAt: early },
    ];
    const queues = ['mail', ...Object.keys(RETENTIONS)];
    const jobs = queues.flatMap(ofQueue);
    core.put(...jobs);
    for (const [index, queue] of queues.entries()) {
      const row = scheduleRow(SCHEDULES, index, { queue, lastSlot: early, runs: 1 });
      core.stores.scheduleTables.rows.set(row.scheduleId, { ...row, lastJobId: occurrenceId(row.scheduleId, early) });
      await core.stores.timers.writeDue([wakeUpRow(row, FAKE_START)]);
    }
    const { findings } = await core.fsck();
    const found = (damage: Damage): readonly string[] =>
      findings.filter((finding) => finding.damage === damage).map(({ subject }) => nameOf(subject));
    const nameOf = (subject: string): string => {
      const job = jobs.find(({ jobId }) => jobId === subject);
      if (job === undefined) return core.stores.scheduleTables.rows.get(subject)?.queue ?? subject;
      return `${job.queue} ${job.status} ${job.finishedAt === early ? 'early' : 'late'}`;
    };
    assert.deepEqual(found(Damage.endNotRecorded).toSorted(), [
      ...['long dead early', 'long dead late', 'long succeeded early', 'long succeeded late'],
      ...['mail dead late', 'mail succeeded late'],
      ...['slight dead early', 'slight dead late', 'slight succeeded early', 'slight succeeded late'],
    ]);
    assert.deepEqual(found(Damage.deadLetterMissing).toSorted(), [
      ...['grave dead early', 'grave dead late', 'long dead early', 'long dead late'],
      ...['mail dead early', 'mail dead late'],
    ]);
    assert.deepEqual(found(Damage.occurrenceMissing), ['long']);
  });

  it('a shard that nobody scans', async () => {
    const core = bench();
    core.put(scheduled(0, { shard: SHARDS_DEFAULT }));
    assert.deepEqual(told((await core.fsck()).findings), [[Damage.shardUnread, scheduled(0).jobId, null]]);
  });

  const end = { endedAt: FAKE_START - SECOND_MS, outcome: 'succeeded', error: null } as const;
  const denied: Readonly<Record<string, JobRow>> = {
    'attempt 1 has no start': { ...running(0), starts: new Map() },
    'attempt 1 is running and has ended': { ...running(0), ends: new Map([[1, { ...end, outcome: 'failed' }]]) },
    'attempt 1 has no end': { ...finished(0, 'succeeded'), ends: new Map() },
    'there is an attempt 2 beyond 1': {
      ...running(0),
      starts: new Map([
        [1, start],
        [2, start],
      ]),
    },
    'attempts 1 and 2 all succeeded': {
      ...finished(0, 'succeeded'),
      attempt: 2,
      starts: new Map([
        [1, start],
        [2, start],
      ]),
      ends: new Map([
        [1, end],
        [2, end],
      ]),
    },
    'attempt 1 succeeded, the job did not': { ...finished(0, 'dead'), ends: new Map([[1, end]]) },
    'over, without finished_at': { ...finished(0, 'succeeded'), finishedAt: null },
    'not over, and has a finished_at': { ...running(0), finishedAt: FAKE_START },
    'running, without lease_until': { ...running(0), leaseUntil: null },
    'not running, and has a worker': { ...enqueued(0), worker: 'w' },
    'enqueued, without enqueued_at': { ...enqueued(0), enqueuedAt: null },
  };
  for (const [fault, job] of Object.entries(denied)) {
    it(`a history that denies its status: ${fault}`, async () => {
      const core = bench();
      core.put(job);
      const { findings } = await core.fsck();
      const details = findings
        .filter(({ damage }) => damage === Damage.historyAgainstStatus)
        .map(({ detail }) => detail);
      assert.ok(details.includes(fault), JSON.stringify(findings));
    });
  }
});

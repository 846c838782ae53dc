import assert from 'node:assert/strict';
import { it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { memberId } from '../../services/core/domain/ids.ts';
import type { AttemptEnd, JobRow } from '../../services/core/domain/job.ts';
import { JobStatus } from '../../services/core/domain/job-status.ts';
import { ATTEMPTS_KEPT } from '../../services/core/domain/limits.ts';
import {
  bearsMark,
  judgeCondition,
  type Change,
  type Claim,
  type ClockCondition,
  type Create,
  type Discard,
  type EndAttempt,
  type Heartbeat,
  type Operation,
  type Remove,
  type Replay,
} from '../../services/core/domain/operation.ts';
import type {
  ApplyResult,
  CohortStore,
  JobReader,
  EndsReader,
  JobEnd,
  JobTerms,
  StateReader,
  TermsReader,
} from '../../services/core/ports/job-store.ts';
import { fullJobRow, jobRow, newCohort } from '../support/job-row.ts';

export interface CohortStoreHarness {
  readonly cohorts: CohortStore;
  readonly jobs: JobReader & TermsReader & StateReader & EndsReader;
}

/** Leases and time limits are judged by the server's own clock, so these tests wait for it; long enough for a busy machine. */
const SHORT_MS = 1_500;
const OVER_MS = SHORT_MS + 100;
const LONG_MS = 60_000;

const TERMS: readonly (keyof JobTerms)[] = [
  'enqueuedAt',
  ...(['jobId', 'queue', 'priority', 'payload', 'payloadBytes', 'labels', 'idempotencyKey', 'runAt'] as const),
  ...(['scheduledFor', 'shard', 'status', 'attempt', 'maxAttempts', 'timeoutS', 'leaseS', 'traceparent'] as const),
  'expiresAt',
];

const ENDS: readonly (keyof JobEnd)[] = [
  ...(['jobId', 'queue', 'priority', 'status', 'attempt', 'runAt', 'scheduledFor', 'finishedAt'] as const),
  ...(['waitsFor', 'starts', 'ends'] as const),
];

const FAILED: AttemptEnd = { endedAt: Date.parse('2026-11-15T06:00:05.005Z'), outcome: 'failed', error: 'boom' };
const SUCCEEDED: AttemptEnd = { ...FAILED, outcome: 'succeeded', error: null };

/** What every CohortStore and JobReader promise; run on the fake and on a real server. */
export function cohortStoreSuite(harness: () => CohortStoreHarness): void {
  const apply = (...operations: Operation[]): Promise<ApplyResult> =>
    harness().cohorts.apply(operations[0]!.jobId.slice(0, -3), operations);
  const applies = async (...operations: Operation[]): Promise<void> => {
    assert.deepEqual(await apply(...operations), { applied: true });
  };
  const loses = async (...operations: Operation[]): Promise<Extract<ApplyResult, { applied: false }>> => {
    const result = await apply(...operations);
    assert.ok(!result.applied);
    return result;
  };
  const read = async (jobId: string): Promise<JobRow> => {
    const row = (await harness().jobs.read([jobId], { serial: true })).get(jobId);
    assert.ok(row, `no row ${jobId}`);
    return row;
  };
  /** A running job: created, enqueued, claimed. */
  const running = async (lease: Partial<Claim> = {}, row: Partial<JobRow> = {}): Promise<JobRow> => {
    const job = jobRow(newCohort(), 0, { status: JobStatus.enqueued, ...row });
    await applies(create(job));
    await applies(claim(job, lease));
    return read(job.jobId);
  };

  it('creates a batch and reads back every column', async () => {
    const cohort = newCohort();
    const rows = [fullJobRow(cohort, 0), jobRow(cohort, 1), jobRow(cohort, 63, { payload: null, payloadBytes: 0 })];
    await applies(...rows.map(create));
    const found = await harness().jobs.read(rows.map(({ jobId }) => jobId));
    assert.deepEqual([...found.values()], rows);
  });

  it('reads the terms that a claim asks for as the whole row has them', async () => {
    const cohort = newCohort();
    const rows = [fullJobRow(cohort, 0), jobRow(cohort, 1), jobRow(newCohort(), 2, { payload: null, payloadBytes: 0 })];
    for (const row of rows) await applies(create(row));
    const terms = await harness().jobs.readTerms([...rows.map(({ jobId }) => jobId), memberId(cohort, 9)]);
    assert.deepEqual(new Set(terms.keys()), new Set(rows.map(({ jobId }) => jobId)));
    for (const row of rows) {
      for (const name of TERMS) assert.deepEqual(terms.get(row.jobId)![name], row[name], name);
    }
  });

  it('reads where jobs stand', async () => {
    const cohort = newCohort();
    const rows = [fullJobRow(cohort, 0), jobRow(cohort, 1), jobRow(newCohort(), 2)];
    for (const row of rows) await applies(create(row));
    const states = await harness().jobs.readStates([...rows.map(({ jobId }) => jobId), memberId(cohort, 9)]);
    assert.deepEqual(new Set(states.keys()), new Set(rows.map(({ jobId }) => jobId)));
    for (const { jobId, queue, priority, status, runAt, finishedAt, waitsFor } of rows) {
      assert.partialDeepStrictEqual(states.get(jobId), { queue, priority, status, runAt, finishedAt, waitsFor });
    }
  });

  it('reads of a job that is over what its history keeps, as the whole row has it', async () => {
    const rows = [fullJobRow(newCohort(), 0), jobRow(newCohort(), 1)];
    for (const row of rows) await applies(create(row));
    const ends = await harness().jobs.readEnds(rows.map(({ jobId }) => jobId));
    for (const row of rows) {
      for (const name of ENDS) assert.deepEqual(ends.get(row.jobId)![name], row[name], name);
    }
  });

  it('reads of a cohort the jobs that it is asked for, whether they lie together or apart', async () => {
    const cohort = newCohort();
    const members = Array.from({ length: 12 }, (_, member) => memberId(cohort, member));
    await applies(
      ...members
        .filter((_, member) => member !== 5)
        .map((_, index) => create(jobRow(cohort, index < 5 ? index : index + 1))),
    );
    for (const asked of [[0, 1, 2, 3, 4], [2, 3, 4, 5, 6, 7, 9], [11, 10, 8, 9], [0, 6, 11], [7], [7, 7], [5]]) {
      const found = await harness().jobs.read(asked.map((member) => members[member]!));
      const expected = asked.filter((member) => member !== 5).map((member) => members[member]!);
      assert.deepEqual(new Set(found.keys()), new Set(expected), asked.join());
    }
  });

  it('claims for this very time that the job was enqueued, where it is told to', async () => {
    const jobs = [0, 1].map((member) => jobRow(newCohort(), member, { status: 'enqueued', enqueuedAt: 60_000 }));
    for (const job of jobs) await applies(create(job));
    const [one, other] = jobs as [JobRow, JobRow];
    const lost = await loses(claim(one, { enqueuedAt: 59_999 }));
    assert.partialDeepStrictEqual(lost.rows.get(one.jobId), { status: 'enqueued', enqueuedAt: 60_000 });
    await applies(claim(one, { enqueuedAt: 60_000 }));
    const old = jobRow(newCohort(), 2, { status: 'enqueued', enqueuedAt: 60_000, attempt: 60 });
    await applies(create(old));
    await applies(claim(old, { enqueuedAt: 60_000 }));
    await applies(claim(other));
  });

  it('takes a job back from this very time that it was enqueued, where it is told to', async () => {
    const jobs = [0, 1].map((member) => jobRow(newCohort(), member, { status: 'enqueued', enqueuedAt: 60_000 }));
    for (const job of jobs) await applies(create(job));
    const [one, other] = jobs as [JobRow, JobRow];
    const lost = await loses(unqueue(one, 59_999));
    assert.partialDeepStrictEqual(lost.rows.get(one.jobId), { status: 'enqueued', enqueuedAt: 60_000 });
    for (const [job, enqueuedAt] of [
      [one, 60_000],
      [other, null],
    ] as const) {
      await applies(unqueue(job, enqueuedAt));
      assert.partialDeepStrictEqual(await read(job.jobId), { status: 'scheduled', enqueuedAt: null });
    }
  });

  it('keeps the text of a payload as it is', async () => {
    const payload = '{"id":9007199254740993,"x":1.10,"s":"a\u0000b","emoji":"\u{1f600}", "dup":1e400}';
    const job = jobRow(newCohort(), 5, { payload, payloadBytes: Buffer.byteLength(payload) });
    await applies(create(job));
    assert.equal((await read(job.jobId)).payload, payload);
  });

  it('reads jobs of several cohorts, leaving out those that do not exist', async () => {
    const one = jobRow(newCohort(), 0);
    const other = jobRow(newCohort(), 1);
    await applies(create(one));
    await applies(create(other));
    const absent = [memberId(one.cohort, 9), memberId(newCohort(), 0)];
    const found = await harness().jobs.read([...absent, other.jobId, one.jobId, one.jobId]);
    assert.deepEqual(new Set(found.keys()), new Set([one.jobId, other.jobId]));
    assert.deepEqual(await harness().jobs.read([]), new Map());
  });

  it('creates nothing of a batch of which one job exists, and names only that one', async () => {
    const cohort = newCohort();
    const existing = jobRow(cohort, 0);
    await applies(create(existing));
    const again = jobRow(cohort, 0);
    const fresh = jobRow(cohort, 1);
    const { rows } = await loses(create(again), create(fresh));
    assert.deepEqual([...rows.keys()], [existing.jobId]);
    assert.equal(judgeCondition(create(again), rows.get(again.jobId)), 'fails');
    assert.equal(judgeCondition(create(fresh), rows.get(fresh.jobId)), 'holds');
    assert.deepEqual([...(await harness().jobs.read([fresh.jobId])).keys()], []);
    assert.equal((await read(existing.jobId)).createToken, existing.createToken);
  });

  it('tells a repeated create by its mark', async () => {
    const job = jobRow(newCohort(), 0);
    await applies(create(job));
    const { rows } = await loses(create(job));
    assert.equal(rows.get(job.jobId)?.status, JobStatus.scheduled);
    assert.ok(bearsMark(create(job), await read(job.jobId)));
    assert.ok(!bearsMark(create(jobRow(job.cohort, 0)), await read(job.jobId)));
  });

  it('applies all of a batch or nothing, and brings back the columns its conditions name', async () => {
    const cohort = newCohort();
    const jobs = [0, 1, 2].map((member) => jobRow(cohort, member));
    await applies(...jobs.map(create));
    const enqueues = jobs.map((job) => enqueue(job));
    await applies(enqueues[0]!);
    const absent = enqueue(jobRow(cohort, 7));
    const { rows } = await loses(...enqueues, absent);
    assert.deepEqual(
      rows,
      new Map(
        jobs.map(({ jobId, queue, runAt }, index) => [
          jobId,
          { status: index === 0 ? JobStatus.enqueued : JobStatus.scheduled, queue, attempt: 0, runAt },
        ]),
      ),
    );
    assert.deepEqual(
      [...enqueues, absent].map((operation) => judgeCondition(operation, rows.get(operation.jobId))),
      ['fails', 'holds', 'holds', 'fails'],
    );
    await applies(enqueues[1]!, enqueues[2]!);
    assert.equal((await read(jobs[2]!.jobId)).enqueuedAt, enqueues[2]!.enqueuedAt);
  });

  it('loses on absent rows without making them', async () => {
    const job = jobRow(newCohort(), 0);
    for (const operation of [enqueue(job), claim(job), heartbeat(job), succeed(job), endAttempt(job, 'lease_passed')]) {
      assert.deepEqual((await loses(operation)).rows, new Map(), operation.edge);
    }
    const neighbour = jobRow(job.cohort, 1);
    assert.deepEqual((await loses(enqueue(job), enqueue(neighbour))).rows, new Map());
    assert.deepEqual(await harness().jobs.read([job.jobId, neighbour.jobId], { serial: true }), new Map());
  });

  it('enqueues what is due by the time that the row says', async () => {
    const job = jobRow(newCohort(), 0);
    await applies(create(job));
    await loses({ ...enqueue(job), runAtMost: job.runAt - 1 });
    await loses({ ...enqueue(job), attempt: 1 });
    await applies({ ...enqueue(job), runAtMost: job.runAt + 1 });
  });

  it('claims once, with lease and time limit by the server', async () => {
    const before = Date.now();
    const job = await running({ leaseMs: 5_000, timeoutMs: LONG_MS });
    const after = Date.now();
    assert.equal(job.status, JobStatus.running);
    assert.equal(job.attempt, 1);
    assert.equal(job.worker, 'worker-1');
    assert.equal(job.heard, false);
    assert.ok(job.leaseUntil! >= before + 5_000 - 1 && job.leaseUntil! <= after + 5_000 + 1);
    assert.ok(Math.abs(job.deadlineAt! - job.leaseUntil! - LONG_MS + 5_000) <= 1);
    assert.deepEqual([...job.starts.keys()], [1]);
    assert.deepEqual((await loses(claim({ ...job, attempt: 0 }))).rows.get(job.jobId), {
      status: JobStatus.running,
      attempt: 1,
    });
    assert.ok(bearsMark(claim({ ...job, attempt: 0 }), job));
  });

  it('moves a lease later only', async () => {
    const job = await running({ leaseMs: 20_000 });
    await applies({ ...heartbeat(job), leaseMs: 30_000, progress: 'half' });
    const later = await read(job.jobId);
    assert.ok(later.leaseUntil! >= job.leaseUntil! + 10_000);
    assert.equal(later.heard, true);
    assert.equal(later.progress, 'half');
    const { rows } = await loses({ ...heartbeat(job), leaseMs: 25_000 });
    assert.equal(judgeCondition(heartbeat(job), rows.get(job.jobId)), 'clock');
    assert.equal(rows.get(job.jobId)?.leaseUntil, later.leaseUntil);
    await applies({ ...heartbeat(job), leaseMs: 40_000 });
    assert.equal((await read(job.jobId)).progress, 'half');
  });

  it('refuses a heartbeat that knows of no cancel request', async () => {
    const job = await running({}, { cancelRequested: true });
    const { rows } = await loses(heartbeat(job));
    assert.equal(rows.get(job.jobId)?.cancelRequested, true);
    await applies({ ...heartbeat(job), cancelRequested: true });
  });

  it('succeeds, once and within the time limit', async () => {
    const job = await running();
    await loses({ ...succeed(job), attempt: 2 });
    await applies(succeed(job));
    const row = await read(job.jobId);
    assert.equal(row.status, JobStatus.succeeded);
    assert.equal(row.finishedAt, SUCCEEDED.endedAt);
    assert.equal(row.result, '{"n":1}');
    assert.equal(row.heard, true);
    assert.deepEqual([row.leaseUntil, row.deadlineAt, row.worker], [null, null, null]);
    assert.deepEqual(row.ends, new Map([[1, SUCCEEDED]]));
    assert.ok(bearsMark(succeed(job), row));
    await loses(succeed(job));

    const late = await running({ timeoutMs: SHORT_MS });
    await sleep(OVER_MS);
    const { rows } = await loses(succeed(late));
    assert.equal(judgeCondition(succeed(late), rows.get(late.jobId)), 'clock');
  });

  it('lets a lease lapse when the server says so, not before', async () => {
    const long = await running({ leaseMs: LONG_MS, timeoutMs: LONG_MS });
    const brief = await running({ leaseMs: SHORT_MS, timeoutMs: LONG_MS });
    await loses(endAttempt(brief, 'lease_passed'));
    await sleep(OVER_MS);
    await loses(endAttempt(brief, 'deadline_passed'));
    await applies(endAttempt(brief, 'lease_passed'));
    const { rows } = await loses(endAttempt(long, 'lease_passed'));
    assert.equal(judgeCondition(endAttempt(long, 'lease_passed'), rows.get(long.jobId)), 'clock');
    assert.equal(rows.get(long.jobId)?.leaseUntil, long.leaseUntil);
  });

  it('accepts a report after the lease and before the time limit', async () => {
    const job = await running({ leaseMs: SHORT_MS, timeoutMs: LONG_MS });
    await sleep(OVER_MS);
    await applies(succeed(job));
  });

  it('ends an attempt by the time limit on either side of it', async () => {
    const job = await running({ leaseMs: LONG_MS, timeoutMs: SHORT_MS });
    await loses(endAttempt(job, 'deadline_passed'));
    await sleep(OVER_MS);
    await loses(endAttempt(job, 'before_deadline'));
    await applies(endAttempt(job, 'deadline_passed'));
  });

  it('writes the whole of an ended attempt', async () => {
    const job = await running({}, { enqueuedAt: 5 });
    const operation = endAttempt(job, 'before_deadline');
    await loses({ ...operation, expect: { ...operation.expect, runAt: job.runAt + 1 } });
    await loses({ ...operation, expect: { ...operation.expect, cancelRequested: true } });
    await applies(operation);
    const row = await read(job.jobId);
    assert.deepEqual(row, {
      ...job,
      ...operation.next,
      leaseUntil: null,
      deadlineAt: null,
      worker: null,
      ends: new Map([[1, FAILED]]),
    });
    assert.ok(bearsMark(operation, row));
  });

  it('finds its mark again, whatever the text of an error', async () => {
    const job = await running();
    const operation = endAttempt(job, 'before_deadline');
    const odd = { ...operation, end: { ...operation.end, error: 'half a pair \ud800, a zero \u0000' } };
    await applies(odd);
    assert.ok(bearsMark(odd, await read(job.jobId)));
    assert.ok(!bearsMark(operation, await read(job.jobId)));
  });

  it('judges each of a mixed batch by its own condition', async () => {
    const cohort = newCohort();
    const jobs = [0, 1, 2].map((member) => jobRow(cohort, member, { status: JobStatus.enqueued }));
    await applies(...jobs.map(create));
    await applies(claim(jobs[0]!), claim(jobs[1]!));
    const operations = [succeed(jobs[0]!), endAttempt(jobs[1]!, 'lease_passed'), claim(jobs[2]!)];
    const { rows } = await loses(...operations);
    assert.deepEqual(
      operations.map((operation) => judgeCondition(operation, rows.get(operation.jobId))),
      ['clock', 'clock', 'holds'],
    );
    await applies(operations[0]!, operations[2]!);
  });

  it('asks a running attempt to stop, and only the one that is named', async () => {
    const job = await running();
    const request: Operation = { edge: 'request_cancel', jobId: job.jobId, attempt: job.attempt };
    await loses({ ...request, attempt: job.attempt + 1 });
    await applies(request);
    const row = await read(job.jobId);
    assert.deepEqual(row, { ...job, cancelRequested: true });
    assert.ok(bearsMark(request, row));
    // Again is as good.
    await applies(request);
    const waiting = jobRow(newCohort(), 0);
    await applies(create(waiting));
    await loses({ edge: 'request_cancel', jobId: waiting.jobId, attempt: 0 });
  });

  it('changes what a scheduled job is to do, leaves the rest, and takes away what is null', async () => {
    const job = fullJobRow(newCohort(), 0);
    const scheduled: JobRow = { ...job, status: JobStatus.scheduled };
    await applies(create(scheduled));
    const change = (changes: Change['changes']): Change => {
      const { jobId, attempt, runAt } = scheduled;
      return { edge: 'change', jobId, expect: { attempt, runAt }, changes };
    };
    await loses({ ...change({ maxAttempts: 9 }), expect: { attempt: job.attempt, runAt: job.runAt + 1 } });
    const some = change({ payload: '{"n": 1.10}', payloadBytes: 11, labels: { a: 'b' }, priority: 'low' });
    await applies(some);
    assert.deepEqual(await read(job.jobId), { ...scheduled, ...some.changes });
    const none = change({ payload: null, payloadBytes: 0, labels: {}, expiresAt: null });
    await applies(none);
    assert.deepEqual(await read(job.jobId), { ...scheduled, ...some.changes, ...none.changes });
    const rest = change({
      runAt: job.runAt + 60_000,
      scheduledFor: job.runAt + 60_000,
      maxAttempts: 9,
      timeoutS: 7,
      retry: { kind: 'fixed', baseS: 0.5, factor: 1, capS: 60, jitter: 'none' },
      expiresAt: job.runAt + 120_000,
    });
    await applies(rest);
    const row = await read(job.jobId);
    assert.deepEqual(row, { ...scheduled, ...some.changes, ...none.changes, ...rest.changes });
    assert.ok(bearsMark(rest, row));
    await loses(rest);
  });

  it('gives a dead job its tries again, once for each death', async () => {
    const job = await running({}, { lapses: 1, lostClaims: 2, tries: 3 });
    const death = endAttempt(job, 'before_deadline');
    const next = { ...death.next, status: JobStatus.dead, finishedAt: FAILED.endedAt, reason: 'attempts' };
    await applies({ ...death, next });
    const dead = await read(job.jobId);
    const expect = { attempt: dead.attempt, runAt: dead.runAt, finishedAt: FAILED.endedAt };
    const replay: Replay = { edge: 'replay', jobId: job.jobId, expect, runAt: dead.runAt + 5, changes: {} };
    const { rows } = await loses({ ...replay, expect: { ...expect, finishedAt: FAILED.endedAt + 1 } });
    assert.equal(rows.get(job.jobId)?.finishedAt, FAILED.endedAt);
    await applies(replay);
    const again = { status: JobStatus.scheduled, runAt: dead.runAt + 5, tries: 0, lapses: 0, lostClaims: 0 };
    const row = await read(job.jobId);
    assert.deepEqual(row, { ...dead, ...again, finishedAt: null, reason: null });
    assert.ok(bearsMark(replay, row));
    await loses(replay);
  });

  it('replays a dead job with another payload into another queue, where alone it can be enqueued', async () => {
    const dead = jobRow(newCohort(), 0, { status: JobStatus.dead, finishedAt: FAILED.endedAt });
    await applies(create(dead));
    const { jobId, attempt, runAt } = dead;
    const changes = { payload: '{"mended":1.10}', payloadBytes: 15, queue: 'other', bulkMarks: ['o_1@5', 'o_2@6'] };
    const expect = { attempt, runAt, finishedAt: FAILED.endedAt };
    await applies({ edge: 'replay', jobId, expect, runAt: runAt + 5, changes });
    const row = await read(jobId);
    assert.deepEqual(row, { ...dead, ...changes, status: JobStatus.scheduled, runAt: runAt + 5, finishedAt: null });
    const { rows } = await loses(enqueue({ ...row, queue: dead.queue }));
    assert.equal(rows.get(jobId)?.queue, 'other');
    await applies(enqueue(row));
  });

  it('replays a job without a payload', async () => {
    const dead = jobRow(newCohort(), 0, { status: JobStatus.dead, finishedAt: FAILED.endedAt });
    await applies(create(dead));
    const { jobId, attempt, runAt } = dead;
    const expect = { attempt, runAt, finishedAt: FAILED.endedAt };
    await applies({ edge: 'replay', jobId, expect, runAt, changes: { payload: null, payloadBytes: 0 } });
    assert.partialDeepStrictEqual(await read(jobId), { payload: null, payloadBytes: 0, queue: dead.queue });
  });

  it('discards a dead job, once for each death, and keeps the time of it', async () => {
    const dead = jobRow(newCohort(), 0, { status: JobStatus.dead, finishedAt: FAILED.endedAt, reason: 'attempts' });
    await applies(create(dead));
    const expect = { attempt: dead.attempt, runAt: dead.runAt, finishedAt: FAILED.endedAt };
    const discard: Discard = { edge: 'discard', jobId: dead.jobId, expect, reason: 'discarded', bulkMarks: ['o_1@5'] };
    const { rows } = await loses({ ...discard, expect: { ...expect, finishedAt: FAILED.endedAt + 1 } });
    assert.equal(rows.get(dead.jobId)?.status, JobStatus.dead);
    await applies(discard);
    const row = await read(dead.jobId);
    assert.deepEqual(row, { ...dead, status: JobStatus.cancelled, reason: 'discarded', bulkMarks: ['o_1@5'] });
    assert.ok(bearsMark(discard, row));
    assert.ok(!bearsMark({ ...discard, bulkMarks: ['o_2@5'] }, row));
    await loses(discard);
  });

  it('removes a job that is over, by the end that was seen, and leaves its cohort alone', async () => {
    const cohort = newCohort();
    const [dead, done, live] = [
      jobRow(cohort, 0, { status: JobStatus.dead, finishedAt: FAILED.endedAt, starts: new Map(), labels: { a: 'b' } }),
      jobRow(cohort, 1, { status: JobStatus.succeeded, finishedAt: FAILED.endedAt }),
      jobRow(cohort, 2),
    ];
    await applies(create(dead), create(done), create(live));
    const remove = ({ jobId, status }: JobRow, finishedAt = FAILED.endedAt): Remove => ({
      ...{ edge: 'remove', jobId, expect: { status, finishedAt } },
    });
    const { rows } = await loses(remove(dead, FAILED.endedAt + 1), remove(done));
    assert.deepEqual([...rows.values()].map(({ status }) => status).toSorted(), ['dead', 'succeeded']);
    await loses(remove(live));
    await applies(remove(dead), remove(done));
    const found = await harness().jobs.read([dead.jobId, done.jobId, live.jobId], { serial: true });
    assert.deepEqual([...found.values()], [live]);
    // A repeat finds nothing, and makes nothing.
    assert.deepEqual((await loses(remove(dead))).rows, new Map());
    assert.equal((await harness().jobs.read([dead.jobId], { serial: true })).size, 0);
  });

  it('marks what a bulk operation cancels, asks to stop or changes', async () => {
    const bulkMarks = ['o_0123456789abc_00@1763186400123'];
    const asked = await running();
    await applies({ edge: 'request_cancel', jobId: asked.jobId, attempt: asked.attempt, bulkMarks });
    assert.deepEqual((await read(asked.jobId)).bulkMarks, bulkMarks);
    const job = jobRow(newCohort(), 0);
    await applies(create(job));
    const { jobId, attempt, runAt } = job;
    await applies({ edge: 'change', jobId, expect: { attempt, runAt }, changes: { bulkMarks } });
    assert.deepEqual((await read(jobId)).bulkMarks, bulkMarks);
    const status = JobStatus.scheduled;
    const expect = { status, attempt, runAt };
    const later = [...bulkMarks, 'o_2@6'];
    await applies({ edge: 'cancel', jobId, expect, finishedAt: runAt, reason: 'x', bulkMarks: later });
    assert.deepEqual((await read(jobId)).bulkMarks, later);
  });

  it('cancels what waits', async () => {
    const job = jobRow(newCohort(), 0);
    await applies(create(job));
    const { jobId, attempt, runAt } = job;
    const cancel: Operation = {
      edge: 'cancel',
      jobId,
      expect: { status: JobStatus.scheduled, attempt, runAt },
      finishedAt: 77_000,
      reason: 'by_caller',
    };
    await loses({ ...cancel, expect: { ...cancel.expect, status: JobStatus.enqueued } });
    await applies(cancel);
    assert.deepEqual(await read(jobId), {
      ...job,
      status: JobStatus.cancelled,
      finishedAt: 77_000,
      reason: 'by_caller',
    });
    await loses(cancel);
  });

  it(`keeps the last ${ATTEMPTS_KEPT} attempts`, async () => {
    const job = jobRow(newCohort(), 0, { status: JobStatus.enqueued });
    await applies(create(job));
    const attempts = ATTEMPTS_KEPT + 3;
    for (let attempt = 1; attempt <= attempts; attempt++) {
      await applies(claim({ ...job, attempt: attempt - 1 }));
      const operation = endAttempt({ ...job, attempt }, 'before_deadline');
      await applies({
        ...operation,
        next: { ...operation.next, status: JobStatus.enqueued, runAt: job.runAt },
      });
    }
    const row = await read(job.jobId);
    const kept = Array.from({ length: ATTEMPTS_KEPT }, (_, index) => attempts - ATTEMPTS_KEPT + 1 + index);
    assert.deepEqual([...row.starts.keys()], kept);
    assert.deepEqual([...row.ends.keys()], kept);
  });

  it('moves a full cohort in one round', async () => {
    const cohort = newCohort();
    const jobs = Array.from({ length: 64 }, (_, member) => jobRow(cohort, member));
    await applies(...jobs.map(create));
    await applies(...jobs.map((job) => enqueue(job)));
    await applies(...jobs.map((job) => claim(job)));
    await applies(...jobs.map((job) => heartbeat({ ...job, attempt: 1 })));
    await applies(...jobs.map((job) => succeed(job)));
    const found = await harness().jobs.read(jobs.map(({ jobId }) => jobId));
    assert.ok([...found.values()].every(({ status }) => status === JobStatus.succeeded));
    assert.equal(found.size, 64);
  });

  it('refuses two operations on one row and rows of another cohort', async () => {
    const job = jobRow(newCohort(), 0);
    await assert.rejects(apply(create(job), create(job)), /two operations on one row/);
    await assert.rejects(harness().cohorts.apply(newCohort(), [create(job)]), /is not of/);
  });
}

function create(job: JobRow): Create {
  return { edge: 'create', jobId: job.jobId, job };
}

function enqueue(job: JobRow): Extract<Operation, { edge: 'enqueue' }> {
  const { jobId, queue, runAt, attempt } = job;
  return { edge: 'enqueue', jobId, queue, runAtMost: runAt, attempt, enqueuedAt: 60_000 };
}

function unqueue({ jobId, attempt }: JobRow, enqueuedAt: number | null): Operation {
  return { edge: 'unqueue', jobId, attempt, enqueuedAt };
}

function claim(job: JobRow, overrides: Partial<Claim> = {}): Claim {
  return {
    edge: 'claim',
    jobId: job.jobId,
    attempt: job.attempt,
    enqueuedAt: null,
    worker: 'worker-1',
    claimId: 'claim-1',
    startedAt: 61_000,
    leaseMs: LONG_MS,
    timeoutMs: LONG_MS,
    ...overrides,
  };
}

function heartbeat({ jobId, attempt }: JobRow): Heartbeat {
  return { edge: 'heartbeat', jobId, attempt, cancelRequested: false, leaseMs: 2 * LONG_MS, progress: undefined };
}

function succeed({ jobId }: JobRow): Extract<Operation, { edge: 'succeed' }> {
  return { edge: 'succeed', jobId, attempt: 1, end: SUCCEEDED, result: '{"n":1}' };
}

function endAttempt({ jobId, attempt, runAt }: JobRow, clock: ClockCondition): EndAttempt {
  return {
    edge: 'end_attempt',
    jobId,
    expect: { attempt: Math.max(1, attempt), runAt, cancelRequested: false },
    clock,
    end: FAILED,
    next: {
      status: JobStatus.scheduled,
      runAt: runAt + 60_000,
      tries: 1,
      lapses: 2,
      lostClaims: 3,
      maxAttempts: 6,
      lastError: 'boom',
      enqueuedAt: null,
      finishedAt: null,
      reason: null,
    },
  };
}

// Design section 4, rounds: what shares a round, who is blamed for a lost one, and what an unknown outcome becomes.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { JobRow } from '../../services/core/domain/job.ts';
import { JobStatus } from '../../services/core/domain/job-status.ts';
import { OPERATION_DEADLINE_MS, PAYLOAD_MAX_BYTES } from '../../services/core/domain/limits.ts';
import type { Edge, Operation } from '../../services/core/domain/operation.ts';
import type { RoundOutcome, SubmitOptions } from '../../services/core/rounds/rounds.ts';
import { FAKE_START, FakeClock } from '../support/fake-clock.ts';
import { jobRow } from '../support/job-row.ts';
import { MemoryStores, type Fault, type StoreMethod } from '../support/memory-store.ts';
import { EDGES, jobBefore, LEASE_MS, markIn, operationOn, runningJob, TIMEOUT_MS } from '../support/operations.ts';
import { journalOf, markOf, watchedRounds } from '../support/watched-rounds.ts';

const COHORT = 'j_0123456789abc';
const OTHER_COHORT = 'j_abcdefghjkmnp';
const ROUND_MS = 10;

type Strikes = (method: StoreMethod, operations: readonly Operation[]) => Fault | undefined;

/** The rounds of a process on a store that holds the jobs and takes ROUND_MS for a call, unless `strikes` names its fault. */
function bench(jobs: readonly JobRow[] = [], strikes: Strikes = () => undefined) {
  const clock = new FakeClock();
  const stores = new MemoryStores({
    clock,
    plan: ({ method, args }) =>
      strikes(method, method === 'cohorts.apply' ? (args[1] as readonly Operation[]) : []) ?? {
        kind: 'slow',
        afterMs: ROUND_MS,
      },
  });
  for (const job of jobs) stores.rows.set(job.jobId, job);
  const journal = journalOf(stores);
  const { rounds, sent, violations } = watchedRounds(stores, clock);
  const submitAll = (operations: readonly Operation[], options?: SubmitOptions): Promise<readonly RoundOutcome[]> =>
    Promise.all(operations.map((operation) => rounds.submit(operation, options)));
  return {
    clock,
    stores,
    violations,
    submitAll,
    /** Submits all in one turn of the event loop and waits for the answers. */
    outcomesOf: (operations: readonly Operation[], options?: SubmitOptions) =>
      clock.until(submitAll(operations, options)),
    sentMarks: () => sent.map((round) => round.map(markIn)),
    /** The marks of what changed in the store, in order. */
    changes: () => journal.map(markOf),
  };
}

const create = (mark: number, cohort = COHORT): Operation => operationOn(jobRow(cohort, mark), 'create', mark);
const kindsOf = (outcomes: readonly RoundOutcome[]): readonly string[] => outcomes.map(({ kind }) => kind);
const applied = (count: number): readonly string[] => Array.from({ length: count }, () => 'applied');

describe('a round is shared', () => {
  it('by all of one turn; whoever arrives while it is in flight shares the next', async () => {
    const { submitAll, clock, sentMarks, violations } = bench();
    const answers = [submitAll([create(0), create(1)])];
    await clock.advance(ROUND_MS / 2);
    answers.push(submitAll([create(2)]));
    await clock.advance(1);
    answers.push(submitAll([create(3), create(4)]));
    const outcomes = (await clock.until(Promise.all(answers))).flat();
    assert.deepEqual(kindsOf(outcomes), applied(5));
    assert.deepEqual(sentMarks(), [
      [0, 1],
      [2, 3, 4],
    ]);
    assert.deepEqual(violations, []);
  });

  it('by one cohort only: another one does not wait for it', async () => {
    const { stores, outcomesOf, submitAll, clock } = bench();
    stores.failNext('cohorts.apply', { kind: 'slow', afterMs: 5_000 });
    void submitAll([create(0)]);
    await outcomesOf([create(1, OTHER_COHORT)]);
    assert.equal(clock.now(), FAKE_START + ROUND_MS);
  });

  it('never by two operations on one row, and their order is kept', async () => {
    const job = runningJob(COHORT, 0);
    const waiting = jobRow(COHORT, 1);
    const { outcomesOf, sentMarks, violations } = bench([job, waiting]);
    const operations = [
      operationOn(job, 'heartbeat', 0),
      operationOn(job, 'heartbeat', 1),
      operationOn(waiting, 'enqueue', 2),
      operationOn(job, 'succeed', 3),
    ];
    assert.deepEqual(kindsOf(await outcomesOf(operations)), applied(4));
    assert.deepEqual(sentMarks(), [[0, 2], [1], [3]]);
    assert.deepEqual(violations, []);
  });

  it('never by a create and a transition', async () => {
    const job = jobRow(COHORT, 0);
    const { outcomesOf, sentMarks, violations } = bench([job]);
    const operations = [
      operationOn(job, 'enqueue', 0),
      create(1),
      // Could join the first round, but would overtake the creation of its row.
      operationOn(jobRow(COHORT, 1), 'enqueue', 2),
      create(3),
    ];
    assert.deepEqual(kindsOf(await outcomesOf(operations)), applied(4));
    assert.deepEqual(sentMarks(), [[0], [1, 3], [2]]);
    assert.deepEqual(violations, []);
  });

  it('by no more than its bytes allow', async () => {
    const { outcomesOf, sentMarks, violations } = bench();
    const large = Array.from({ length: 64 }, (_, mark) =>
      operationOn(jobRow(COHORT, mark, { payloadBytes: PAYLOAD_MAX_BYTES }), 'create', mark),
    );
    assert.deepEqual(kindsOf(await outcomesOf(large)), applied(64));
    assert.deepEqual(violations, []);
    assert.equal(sentMarks().flat().length, 64);
    assert.ok(sentMarks().length <= 5, `${sentMarks().length} rounds for 4 MiB`);
  });
});

describe('a lost round', () => {
  it('blames those whose own condition fails, and carries out the others', async () => {
    const jobs = [0, 1, 2, 3].map((member) => jobBefore('claim', COHORT, member));
    const taken = { ...jobs[1]!, status: JobStatus.cancelled };
    const { outcomesOf, sentMarks } = bench([jobs[0]!, taken, jobs[3]!]);
    const outcomes = await outcomesOf(jobs.map((job, mark) => operationOn(job, 'claim', mark)));
    assert.deepEqual(outcomes, [
      { kind: 'applied' },
      { kind: 'lost', row: taken },
      { kind: 'lost', row: null },
      { kind: 'applied' },
    ]);
    assert.deepEqual(sentMarks(), [
      [0, 1, 2, 3],
      [0, 3],
    ]);
  });

  it('ends with a verdict for each, where only the server’s clock can have failed', async () => {
    const jobs = [
      // Heartbeats that would move the lease back, and one that may.
      runningJob(COHORT, 0, { leaseUntil: FAKE_START + 2 * LEASE_MS }),
      runningJob(COHORT, 1),
      // Reports after and before the time limit.
      runningJob(COHORT, 2, { deadlineAt: FAKE_START }),
      runningJob(COHORT, 3),
      runningJob(COHORT, 4, { deadlineAt: FAKE_START }),
      runningJob(COHORT, 5),
      // Lapses of a lease that stands and of one that is over.
      runningJob(COHORT, 6),
      runningJob(COHORT, 7, { leaseUntil: FAKE_START }),
      jobBefore('claim', COHORT, 8),
    ];
    const edges: readonly Edge[] = ['heartbeat', 'heartbeat', 'succeed', 'succeed', 'end_attempt', 'end_attempt'];
    const { outcomesOf, sentMarks } = bench(jobs);
    const outcomes = await outcomesOf([
      ...edges.map((edge, mark) => operationOn(jobs[mark]!, edge, mark)),
      operationOn(jobs[6]!, 'end_attempt', 6, { clock: 'lease_passed' }),
      operationOn(jobs[7]!, 'end_attempt', 7, { clock: 'lease_passed' }),
      operationOn(jobs[8]!, 'claim', 8),
    ]);
    const expected = ['lost', 'applied', 'lost', 'applied', 'lost', 'applied', 'lost', 'applied', 'applied'];
    assert.deepEqual(kindsOf(outcomes), expected);
    assert.ok(sentMarks().length <= 1 + jobs.length, `${sentMarks().length} rounds`);
  });

  it('shows a heartbeat or report past the time limit that the attempt runs still, heard of or not', async () => {
    for (const heard of [false, true]) {
      const job = runningJob(COHORT, 0, { heard });
      const { outcomesOf, clock } = bench([job]);
      await clock.advance(TIMEOUT_MS);
      for (const edge of ['heartbeat', 'succeed', 'end_attempt'] as const) {
        assert.deepEqual(await outcomesOf([operationOn(job, edge, 0)]), [{ kind: 'lost', row: job }], edge);
      }
    }
  });

  it('is answered when its row can be read again', async () => {
    const job = jobRow(COHORT, 0, { status: JobStatus.cancelled });
    const { stores, outcomesOf } = bench([job]);
    for (let reads = 0; reads < 3; reads++) stores.failNext('jobs.read', { kind: 'unavailable' });
    assert.deepEqual(await outcomesOf([operationOn(job, 'enqueue', 0)]), [{ kind: 'lost', row: job }]);
  });

  it('is unknown when its row cannot be read within the deadline of the operation, whatever its neighbours’ deadlines', async () => {
    const jobs = [0, 1].map((member) => jobRow(COHORT, member, { status: JobStatus.cancelled }));
    const { clock, submitAll } = bench(jobs, (method) =>
      method === 'jobs.read' ? { kind: 'unavailable' } : undefined,
    );
    const patient = submitAll([operationOn(jobs[0]!, 'enqueue', 0)], { deadlineMs: 60_000 });
    const [outcome] = await clock.until(submitAll([operationOn(jobs[1]!, 'enqueue', 1)], { deadlineMs: 1_000 }));
    assert.equal(outcome?.kind, 'unknown');
    assert.ok(clock.now() - FAKE_START < 5_000, `answered after ${clock.now() - FAKE_START} ms`);
    assert.deepEqual(kindsOf(await clock.until(patient)), ['unknown']);
  });
});

describe('a round without an answer', () => {
  for (const edge of EDGES) {
    const job = jobBefore(edge, COHORT, 0);
    const start = edge === 'create' ? [] : [job];
    // A heartbeat has no mark, but may be repeated.
    const times = edge === 'heartbeat' ? 2 : 1;

    it(`that applied is settled by its own mark: ${edge}`, async () => {
      const { stores, outcomesOf, sentMarks, changes } = bench(start);
      stores.failNext('cohorts.apply', { kind: 'answer_lost' });
      assert.deepEqual(kindsOf(await outcomesOf([operationOn(job, edge, 7)])), applied(1));
      assert.equal(sentMarks().length, times);
      assert.deepEqual(changes(), Array<number>(times).fill(7));
    });

    it(`that did not apply is sent again: ${edge}`, async () => {
      const { stores, outcomesOf, changes } = bench(start);
      stores.failNext('cohorts.apply', { kind: 'request_lost' });
      assert.deepEqual(kindsOf(await outcomesOf([operationOn(job, edge, 7)])), applied(1));
      assert.deepEqual(changes(), [7]);
    });

    it(`that applies behind the settling read is settled by its mark all the same: ${edge}`, async () => {
      const { stores, outcomesOf, changes, clock } = bench(start);
      stores.failNext('cohorts.apply', { kind: 'late', afterMs: 2 * ROUND_MS });
      assert.deepEqual(kindsOf(await outcomesOf([operationOn(job, edge, 7)])), applied(1));
      await clock.advance(5_000);
      // A change may be made twice: the job is still scheduled after it.
      assert.deepEqual(changes(), Array<number>(edge === 'change' ? 2 : times).fill(7));
    });
  }

  it('settles each of its operations by itself', async () => {
    const jobs = [0, 1, 2].map((member) => jobRow(COHORT, member));
    const { stores, outcomesOf, sentMarks, changes } = bench(jobs);
    stores.failNext('cohorts.apply', { kind: 'request_lost' });
    stores.failNext('cohorts.apply', { kind: 'answer_lost' });
    stores.failNext('jobs.read', { kind: 'unavailable' });
    const operations = jobs.map((job, mark) => operationOn(job, 'enqueue', mark));
    assert.deepEqual(kindsOf(await outcomesOf(operations)), applied(3));
    assert.equal(sentMarks().length, 2);
    assert.deepEqual(changes(), [0, 1, 2]);
  });

  it('keeps a later operation on its row waiting until it is settled', async () => {
    const job = runningJob(COHORT, 0);
    const { stores, outcomesOf, sentMarks } = bench([job]);
    stores.failNext('cohorts.apply', { kind: 'request_lost' });
    const operations = [operationOn(job, 'heartbeat', 0), operationOn(job, 'succeed', 1)];
    assert.deepEqual(kindsOf(await outcomesOf(operations)), applied(2));
    assert.deepEqual(sentMarks(), [[0], [0], [1]]);
  });

  it('is never called unwritten afterwards: unavailable then means settle it, as long as the deadline allows', async () => {
    for (const heals of [true, false]) {
      let rounds = 0;
      const { outcomesOf, clock, changes } = bench([jobRow(COHORT, 0)], (method) => {
        if (method !== 'cohorts.apply') return undefined;
        rounds += 1;
        if (rounds === 1) return { kind: 'request_lost' };
        return heals && rounds > 5 ? undefined : { kind: rounds % 2 === 0 ? 'unavailable' : 'overloaded' };
      });
      const outcomes = await outcomesOf([operationOn(jobRow(COHORT, 0), 'enqueue', 7)]);
      assert.deepEqual(kindsOf(outcomes), [heals ? 'applied' : 'unknown']);
      assert.deepEqual(changes(), heals ? [7] : []);
      assert.ok(clock.now() - FAKE_START <= OPERATION_DEADLINE_MS + 2_000);
      // Each pause is longer than the one before, up to a second: an ailing store is not hammered.
      assert.ok(rounds < 30, `${rounds} rounds in ${OPERATION_DEADLINE_MS} ms`);
    }
  });
});

describe('a refused round', () => {
  it('of a poisonous operation does not refuse its neighbours', async () => {
    const jobs = [0, 1, 2, 3].map((member) => jobRow(COHORT, member));
    const { outcomesOf } = bench(jobs, (_, operations) =>
      operations.some((each) => markIn(each) === 2) ? { kind: 'invalid' } : undefined,
    );
    const outcomes = await outcomesOf(jobs.map((job, mark) => operationOn(job, 'enqueue', mark)));
    assert.deepEqual(kindsOf(outcomes), ['applied', 'applied', 'not_written', 'applied']);
    assert.ok(outcomes[2]?.kind === 'not_written' && outcomes[2].reason === 'invalid');
  });

  for (const kind of ['unavailable', 'overloaded'] as const) {
    it(`was not written when the store is ${kind}, and is not sent again`, async () => {
      const { stores, outcomesOf, sentMarks, clock, changes } = bench();
      stores.failNext('cohorts.apply', { kind });
      for (const outcome of await outcomesOf([create(0), create(1)])) {
        assert.ok(outcome.kind === 'not_written' && outcome.reason === kind);
      }
      await clock.advance(60_000);
      assert.deepEqual([sentMarks().length, changes().length], [1, 0]);
    });
  }

  it('is for operations that waited past their deadline: they are dropped, not sent', async () => {
    const { stores, submitAll, clock, sentMarks } = bench();
    stores.failNext('cohorts.apply', { kind: 'slow', afterMs: 10_001 });
    const first = submitAll([create(0)]);
    await clock.advance(0);
    const hasty = submitAll([create(1)], { deadlineMs: 10_000 });
    const patient = submitAll([create(2)]);
    const [outcome] = await clock.until(hasty);
    assert.ok(outcome?.kind === 'not_written' && outcome.reason === 'expired');
    assert.deepEqual(kindsOf((await clock.until(Promise.all([first, patient]))).flat()), applied(2));
    assert.deepEqual(sentMarks(), [[0], [2]]);
  });
});

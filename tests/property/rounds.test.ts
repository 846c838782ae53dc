// Design section 4: whatever befalls the calls to the store, each operation is answered, and the answers agree with the rows.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { JobRow } from '../../services/core/domain/job.ts';
import { JobStatus } from '../../services/core/domain/job-status.ts';
import { LATE_APPLY_MS } from '../../services/core/domain/limits.ts';
import {
  judgeCondition,
  type ClockCondition,
  type Edge,
  type Operation,
} from '../../services/core/domain/operation.ts';
import type { RoundOutcome } from '../../services/core/rounds/rounds.ts';
import { FAKE_START, FakeClock } from '../support/fake-clock.ts';
import { jobRow } from '../support/job-row.ts';
import { MemoryStores, type Fault } from '../support/memory-store.ts';
import { EDGES, markIn, operationOn, runningJob } from '../support/operations.ts';
import { journalOf, markOf, watchedRounds, type Change } from '../support/watched-rounds.ts';

const COHORTS = ['j_0123456789abc', 'j_abcdefghjkmnp'];
const MEMBERS = 8;

/** The members of each cohort begin in different states; every fourth does not exist yet. */
function jobOf(cohort: string, member: number): JobRow {
  switch (member % 4) {
    case 2:
      return jobRow(cohort, member, { status: JobStatus.enqueued, enqueuedAt: FAKE_START });
    case 3:
      return runningJob(cohort, member);
    default:
      return jobRow(cohort, member);
  }
}

interface Step {
  /** Two processes share the store. */
  readonly process: 0 | 1;
  /** How long the clocks run before it; 0: submitted in one turn with the step before. */
  readonly afterMs: number;
  readonly cohort: string;
  readonly member: number;
  /** A number chooses among the edges that the row, as it is then, is ready for. */
  readonly edge: Edge | number;
  /** How far the attempt that it names is off. */
  readonly attemptOff: number;
  readonly clock: ClockCondition;
  readonly deadlineMs: number;
}

const steps = fc.array(
  fc.record<Step>({
    process: fc.constantFrom(0, 0, 1),
    afterMs: fc.constantFrom(0, 0, 0, 5, 60, 2_000),
    cohort: fc.constantFrom(COHORTS[0]!, COHORTS[0]!, COHORTS[1]!),
    member: fc.nat(MEMBERS - 1),
    edge: fc.oneof({ arbitrary: fc.nat(2), weight: 3 }, { arbitrary: fc.constantFrom(...EDGES), weight: 1 }),
    attemptOff: fc.constantFrom(0, 0, 0, 0, 0, -1, 1),
    clock: fc.constantFrom('before_deadline', 'before_deadline', 'lease_passed'),
    deadlineMs: fc.constantFrom(1_000, 15_000, 15_000),
  }),
  { minLength: 15, maxLength: 40 },
);

const READY_FOR: Record<JobStatus | 'absent', readonly [Edge, Edge, Edge]> = {
  absent: ['create', 'create', 'enqueue'],
  scheduled: ['enqueue', 'enqueue', 'cancel'],
  enqueued: ['claim', 'claim', 'cancel'],
  running: ['heartbeat', 'succeed', 'end_attempt'],
  succeeded: ['create', 'succeed', 'end_attempt'],
  cancelled: ['create', 'cancel', 'enqueue'],
  dead: ['create', 'cancel', 'end_attempt'],
};

function operationOf(step: Step, mark: number, row: JobRow | undefined): Operation {
  const edge = typeof step.edge === 'number' ? READY_FOR[row?.status ?? 'absent'][step.edge]! : step.edge;
  return operationOn(jobOf(step.cohort, step.member), edge, mark, {
    attempt: Math.max(0, (row?.attempt ?? 0) + step.attemptOff),
    clock: step.clock,
    cancelFrom: row?.status === JobStatus.enqueued ? JobStatus.enqueued : JobStatus.scheduled,
  });
}

/** What befalls the calls to the store, one after the other; later ones pass. */
const faults = fc.array(
  fc.constantFrom<Fault>(
    { kind: 'slow', afterMs: 1 },
    { kind: 'slow', afterMs: 1_500 },
    { kind: 'answer_lost' },
    { kind: 'answer_lost' },
    { kind: 'request_lost' },
    { kind: 'late', afterMs: 20 },
    { kind: 'late', afterMs: LATE_APPLY_MS },
    { kind: 'unavailable' },
    { kind: 'overloaded' },
    { kind: 'invalid' },
  ),
  { maxLength: 20, size: 'max' },
);

interface Answer {
  readonly operation: Operation;
  readonly outcome: RoundOutcome;
  /** The changes of the store known at its submission and at its answer. */
  readonly from: number;
  readonly to: number;
}

async function run(taken: readonly Step[], struck: readonly Fault[]) {
  const clock = new FakeClock();
  const left = [...struck];
  const late = new Set<number>();
  const stores = new MemoryStores({
    clock,
    plan: ({ method, args }) => {
      const fault = left.shift() ?? { kind: 'slow', afterMs: 5 };
      if (fault.kind === 'late' && method === 'cohorts.apply') {
        for (const operation of args[1] as readonly Operation[]) late.add(markIn(operation));
      }
      return fault;
    },
  });
  const members = Array.from({ length: MEMBERS }, (_, member) => member).filter((member) => member % 4 !== 0);
  const initial = COHORTS.flatMap((cohort) => members.map((member) => jobOf(cohort, member)));
  for (const job of initial) stores.rows.set(job.jobId, job);
  const journal = journalOf(stores);
  const processes = [watchedRounds(stores, clock), watchedRounds(stores, clock)] as const;

  const answers: Promise<Answer>[] = [];
  for (const [index, step] of taken.entries()) {
    if (step.afterMs > 0) await clock.advance(step.afterMs);
    // No mark may be one that a row begins with.
    const operation = operationOf(step, index + 1, stores.rows.get(jobOf(step.cohort, step.member).jobId));
    const from = journal.length;
    const { deadlineMs } = step;
    const submitted = processes[step.process].rounds.submit(operation, { deadlineMs });
    answers.push(submitted.then((outcome) => ({ operation, outcome, from, to: journal.length })));
  }
  const answered = await clock.until(Promise.all(answers));
  await clock.advance(2 * LATE_APPLY_MS);
  return { answered, journal, initial, late, processes };
}

/** Every state that the row had from one change of the store to another. */
function statesOf(jobId: string, initial: readonly JobRow[], journal: readonly Change[], from: number, to: number) {
  const own = (changes: readonly Change[]): readonly JobRow[] =>
    changes.map(({ after }) => after).filter((row) => row.jobId === jobId);
  const before = own(journal.slice(0, from)).at(-1) ?? initial.find((row) => row.jobId === jobId);
  return [before, ...own(journal.slice(from, to))];
}

describe('rounds under faults', () => {
  it('answer each operation, and as the rows show it', async () => {
    await fc.assert(
      fc.asyncProperty(steps, faults, async (taken, struck) => {
        const { answered, journal, initial, late } = await run(taken, struck);
        for (const { operation, outcome, from, to } of answered) {
          const mark = markIn(operation);
          const effects = journal.flatMap((change, at) => (markOf(change) === mark ? [at] : []));
          const told = `${operation.edge} ${mark}: ${outcome.kind} with ${effects.length} effects`;
          // A change that another one overwrote before it was settled is made again: the two were made at once.
          const repeatable = operation.edge === 'heartbeat' || operation.edge === 'change';
          switch (outcome.kind) {
            case 'applied':
              assert.ok(effects.length === 1 || (repeatable && effects.length > 1), told);
              assert.ok(effects[0]! < to, `${told}, answered before it applied`);
              break;
            case 'lost': {
              const moved = operation.edge === 'enqueue' && (outcome.row?.attempt ?? 0) > operation.attempt;
              assert.ok(effects.length === 0 || repeatable || moved || late.has(mark), told);
              const states = statesOf(operation.jobId, initial, journal, from, to);
              assert.ok(
                states.some((row) => judgeCondition(operation, row) !== 'holds'),
                `${told}, yet its condition held all the time`,
              );
              break;
            }
            case 'unknown':
              assert.ok(effects.length <= 1 || repeatable, told);
              break;
            case 'not_written':
              assert.equal(effects.length, 0, told);
              break;
          }
        }
      }),
      { numRuns: 120 },
    );
  });

  it('answer applied or lost, nothing else, when no fault strikes', async () => {
    await fc.assert(
      fc.asyncProperty(steps, async (taken) => {
        const { answered } = await run(taken, []);
        for (const { outcome } of answered) assert.ok(outcome.kind === 'applied' || outcome.kind === 'lost');
      }),
      { numRuns: 50 },
    );
  });

  it('keep their bounds, one round of a cohort in flight, and the order on each row', async () => {
    await fc.assert(
      fc.asyncProperty(steps, faults, async (taken, struck) => {
        const { processes } = await run(taken, struck);
        for (const { sent, violations } of processes) {
          assert.deepEqual(violations, []);
          // Marks count up, so that those of one row never fall: none overtakes, and none is sent after a later one.
          for (const operations of Map.groupBy(sent.flat(), ({ jobId }) => jobId).values()) {
            const marks = operations.map(markIn);
            assert.deepEqual(
              marks,
              marks.toSorted((one, other) => one - other),
            );
          }
        }
      }),
      { numRuns: 60 },
    );
  });
});

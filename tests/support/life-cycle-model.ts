// Random sequences of operations on the jobs of one cohort: what a small model of the life cycle expects against what the
// decisions and a store make of it. The same sequences run on the fake store and on a real Cassandra.

import assert from 'node:assert/strict';
import fc from 'fast-check';
import type { JobRow } from '../../services/core/domain/job.ts';
import { isTerminal, type JobStatus } from '../../services/core/domain/job-status.ts';
import {
  decideConfirmCancel,
  decideFail,
  decideLapse,
  decideRelease,
  decideSnooze,
} from '../../services/core/domain/life-cycle.ts';
import type { Operation } from '../../services/core/domain/operation.ts';
import type { CohortStore, JobReader } from '../../services/core/ports/job-store.ts';
import { Rounds } from '../../services/core/rounds/rounds.ts';
import type { Clock } from '../../services/core/ports/clock.ts';
import { jobRow, newCohort } from './job-row.ts';
import { LEASE_MS, operationOn, TIMEOUT_MS } from './operations.ts';
import { silentTelemetry } from './silent-telemetry.ts';

const ACTIONS = [
  'create',
  'enqueue',
  'unqueue',
  'claim',
  'claim with a lease that runs out at once',
  'claim with a time limit that runs out at once',
  'heartbeat',
  'succeed',
  'fail',
  'fail for good',
  'snooze',
  'release',
  'confirm cancel',
  'lapse',
  'time out',
  'cancel',
  'request cancel',
  'change',
  'replay',
] as const;
type Action = (typeof ACTIONS)[number];

interface Move {
  readonly action: Action;
  /** Named by a caller who knows of another attempt: nothing may happen. */
  readonly isStale: boolean;
}

/** One move for each job of the cohort; together they share rounds. */
export type Sequence = readonly (readonly Move[])[];

const JOBS = 8;
const MAX_ATTEMPTS = 3;
const LOST_CLAIMS_MAX = 3;
const SHORT_MS = 1;
/** What advances a job comes often, so that sequences get far. */
const actions = fc.oneof(
  { arbitrary: fc.constantFrom(...ACTIONS), weight: 1 },
  {
    arbitrary: fc.constantFrom<Action>(
      'create',
      'enqueue',
      'claim',
      'claim with a lease that runs out at once',
      'lapse',
      'fail',
      'replay',
    ),
    weight: 2,
  },
);
const moves = fc.record({ action: actions, isStale: fc.constantFrom(false, false, false, false, false, true) });
export const sequences = (steps: number): fc.Arbitrary<Sequence> =>
  fc.array(fc.array(moves, { minLength: JOBS, maxLength: JOBS }), { minLength: steps, maxLength: steps });

/** The life cycle in the fewest words. */
interface Model {
  status: JobStatus;
  attempt: number;
  tries: number;
  lapses: number;
  lostClaims: number;
  heard: boolean;
  cancelRequested: boolean;
  leaseIsOver: boolean;
  timeIsOver: boolean;
  outcomes: string[];
}

/** Moves the model, and says whether the operation applies. */
function expect(models: (Model | undefined)[], index: number, { action, isStale }: Move): boolean {
  const job = models[index];
  if (action === 'create') {
    if (job !== undefined) return false;
    const counters = { attempt: 0, tries: 0, lapses: 0, lostClaims: 0 };
    const flags = { heard: false, cancelRequested: false, leaseIsOver: false, timeIsOver: false };
    models[index] = { status: 'scheduled', ...counters, ...flags, outcomes: [] };
    return true;
  }
  if (job === undefined || isStale) return false;
  const runs = job.status === 'running';
  switch (action) {
    case 'enqueue':
      if (job.status !== 'scheduled') return false;
      job.status = 'enqueued';
      return true;
    case 'unqueue':
      // Whoever took it back, it waits again: a row that says so is as good as taken back by us.
      if (job.status === 'enqueued') job.status = 'scheduled';
      return job.status === 'scheduled';
    case 'claim':
    case 'claim with a lease that runs out at once':
    case 'claim with a time limit that runs out at once':
      if (job.status !== 'enqueued') return false;
      Object.assign(job, { status: 'running', attempt: job.attempt + 1, heard: false });
      job.leaseIsOver = action === 'claim with a lease that runs out at once';
      job.timeIsOver = action === 'claim with a time limit that runs out at once';
      return true;
    case 'heartbeat':
      if (!runs || job.timeIsOver) return false;
      Object.assign(job, { heard: true, leaseIsOver: false });
      return true;
    case 'succeed':
      if (!runs || job.timeIsOver) return false;
      Object.assign(job, { status: 'succeeded', heard: true });
      job.outcomes.push('succeeded');
      return true;
    case 'fail':
    case 'fail for good':
      if (!runs || job.timeIsOver) return false;
      Object.assign(job, { tries: job.tries + 1, lapses: 0 });
      job.outcomes.push('failed');
      job.status = action === 'fail for good' || job.tries >= MAX_ATTEMPTS ? 'dead' : 'scheduled';
      if (job.cancelRequested) job.status = 'cancelled';
      return true;
    case 'snooze':
    case 'release':
    case 'confirm cancel': {
      if (!runs || job.timeIsOver) return false;
      job.lapses = 0;
      const [outcome, status] = (
        {
          snooze: ['snoozed', 'scheduled'],
          release: ['released', 'enqueued'],
          'confirm cancel': ['cancelled', 'cancelled'],
        } as const
      )[action];
      job.outcomes.push(outcome);
      job.status = job.cancelRequested ? 'cancelled' : status;
      return true;
    }
    case 'lapse':
    case 'time out': {
      const timedOut = action === 'time out';
      if (!runs || !(timedOut ? job.timeIsOver : job.leaseIsOver)) return false;
      const isUncounted = !timedOut && !job.heard && job.lostClaims < LOST_CLAIMS_MAX;
      if (isUncounted) job.lostClaims += 1;
      else job.tries += 1;
      job.lapses += 1;
      job.outcomes.push(timedOut ? 'timed_out' : 'lease_expired');
      job.status = job.lapses > 1 ? 'scheduled' : 'enqueued';
      if (job.tries >= MAX_ATTEMPTS) job.status = 'dead';
      if (job.cancelRequested) job.status = 'cancelled';
      return true;
    }
    case 'cancel':
      if (job.status !== 'scheduled' && job.status !== 'enqueued') return false;
      job.status = 'cancelled';
      return true;
    case 'request cancel':
      // Whoever asked for it, the worker is told once: a row that says so is as good as asked again.
      if (runs) job.cancelRequested = true;
      return job.cancelRequested;
    case 'change':
      return job.status === 'scheduled';
    case 'replay':
      if (job.status !== 'dead') return false;
      Object.assign(job, { status: 'scheduled', tries: 0, lapses: 0, lostClaims: 0 });
      return true;
  }
}

/** What the services would submit, having read the row. */
function operationFor({ action, isStale }: Move, known: JobRow, mark: number): Operation {
  const row = isStale ? { ...known, attempt: known.attempt + (mark % 2 === 0 ? 1 : -1) } : known;
  const lapse = { now: mark, fraction: 0.5, queueIsOpen: true };
  switch (action) {
    case 'create':
      return operationOn(known, action, mark);
    case 'enqueue':
    case 'unqueue':
    case 'succeed':
    case 'change':
    case 'replay':
      return operationOn(row, action, mark);
    case 'claim':
    case 'claim with a lease that runs out at once':
    case 'claim with a time limit that runs out at once': {
      const leaseMs = action === 'claim with a lease that runs out at once' ? SHORT_MS : LEASE_MS;
      const timeoutMs = action === 'claim with a time limit that runs out at once' ? SHORT_MS : TIMEOUT_MS;
      return { ...operationOn(row, 'claim', mark), leaseMs, timeoutMs } as Operation;
    }
    case 'heartbeat':
      return { ...operationOn(row, 'heartbeat', mark), cancelRequested: row.cancelRequested } as Operation;
    case 'fail':
    case 'fail for good': {
      const report = { error: `error ${mark}`, retryable: action === 'fail', retryAfterMs: null };
      return decideFail(row, report, mark, 0.5).operation;
    }
    case 'snooze':
      return decideSnooze(row, 5_000, mark).operation;
    case 'release':
      return decideRelease(row, mark, true).operation;
    case 'confirm cancel':
      return decideConfirmCancel(row, mark).operation;
    case 'lapse':
      return decideLapse(row, 'lease_passed', lapse).operation;
    case 'time out':
      return decideLapse(row, 'deadline_passed', lapse).operation;
    case 'cancel':
      return operationOn(row, 'cancel', mark, { cancelFrom: row.status === 'enqueued' ? 'enqueued' : 'scheduled' });
    case 'request cancel':
      return operationOn(row, 'request_cancel', mark);
  }
}

export interface ModelBench {
  readonly store: CohortStore & JobReader;
  readonly clock: Clock;
  /** Lets at least SHORT_MS pass on the server. */
  readonly pass: () => Promise<void>;
  readonly settled: <T>(promise: Promise<T>) => Promise<T>;
}

/** Carries a sequence out on a cohort of its own, and holds every answer and every row against the model. */
export async function runSequence(sequence: Sequence, { store, clock, pass, settled }: ModelBench): Promise<void> {
  const cohort = newCohort();
  const blank = Array.from({ length: JOBS }, (_, member) => jobRow(cohort, member, { maxAttempts: MAX_ATTEMPTS }));
  const ids = blank.map(({ jobId }) => jobId);
  const rounds = new Rounds({ store, reader: store, clock, telemetry: silentTelemetry });
  const models: (Model | undefined)[] = ids.map(() => undefined);
  let mark = blank[0]?.runAt ?? 0;
  for (const step of sequence) {
    const before = await settled(store.read(ids, { serial: true }));
    const outcomes = await settled(
      Promise.all(
        step.map((move, index) => {
          const known = before.get(ids[index] ?? '') ?? blank[index];
          assert.ok(known !== undefined);
          mark += 1;
          return rounds.submit(operationFor(move, known, mark));
        }),
      ),
    );
    const after = await settled(store.read(ids, { serial: true }));
    step.forEach((move, index) => {
      const shown = `${JSON.stringify(move)} of job ${index}`;
      const applies = expect(models, index, move);
      assert.equal(outcomes[index]?.kind, applies ? 'applied' : 'lost', shown);
      const row = after.get(ids[index] ?? '');
      assert.deepEqual(row === undefined ? undefined : seenIn(row), seenOf(models[index]), shown);
      if (!applies) assert.deepEqual(row, before.get(ids[index] ?? ''), `${shown} changed what it lost on`);
    });
    await pass();
  }
}

function seenIn(row: JobRow): object {
  const { status, attempt, tries, lapses, lostClaims, heard, cancelRequested } = row;
  const starts = [...row.starts.keys()];
  const outcomes = [...row.ends.entries()].map(([number, end]) => [number, end.outcome]);
  const isOver = row.finishedAt !== null;
  return { status, attempt, tries, lapses, lostClaims, heard, cancelRequested, starts, outcomes, isOver };
}

function seenOf(model: Model | undefined): object | undefined {
  if (model === undefined) return undefined;
  const { status, attempt, tries, lapses, lostClaims, heard, cancelRequested } = model;
  const starts = Array.from({ length: attempt }, (_, index) => index + 1);
  const outcomes = model.outcomes.map((outcome, index) => [index + 1, outcome]);
  const isOver = isTerminal(status);
  return { status, attempt, tries, lapses, lostClaims, heard, cancelRequested, starts, outcomes, isOver };
}

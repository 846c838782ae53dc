// What each edge's condition names (design sections 4 and 6). The stores repeat these conditions in CQL, which the conformance
// suites hold to the same; here: a lost round's rows are judged by them.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { JOB_STATUSES, JobStatus } from '../../services/core/domain/job-status.ts';
import type { JobRow } from '../../services/core/domain/job.ts';
import { ROUND_MAX_BYTES, ROUND_MAX_ROWS } from '../../services/core/domain/limits.ts';
import {
  bearsMark,
  judgeCondition,
  operationBytes,
  type ConditionVerdict,
  type Edge,
} from '../../services/core/domain/operation.ts';
import { jobRow } from '../support/job-row.ts';
import { ALL_EDGES, jobBefore, operationOn } from '../support/operations.ts';

const COHORT = 'j_0123456789abc';

interface Condition {
  readonly status: JobStatus;
  readonly fits: ConditionVerdict;
  /** Changes to a fitting row that the condition must not accept, and such that it must not mind. */
  readonly refuses: readonly ((row: JobRow) => Partial<JobRow>)[];
  readonly ignores: readonly ((row: JobRow) => Partial<JobRow>)[];
}

const attemptAhead = (row: JobRow): Partial<JobRow> => ({ attempt: row.attempt + 1 });
const attemptBehind = (row: JobRow): Partial<JobRow> => ({ attempt: row.attempt - 1 });
const dueLater = (row: JobRow): Partial<JobRow> => ({ runAt: row.runAt + 1 });
const dueEarlier = (row: JobRow): Partial<JobRow> => ({ runAt: row.runAt - 1 });
const diedAgain = (row: JobRow): Partial<JobRow> => ({ finishedAt: (row.finishedAt ?? 0) + 1 });
const enqueuedAgain = (row: JobRow): Partial<JobRow> => ({ enqueuedAt: (row.enqueuedAt ?? 0) + 1 });
// A replay takes a job to another queue.
const otherQueue = (): Partial<JobRow> => ({ queue: 'other' });
const cancelRequested = (): Partial<JobRow> => ({ cancelRequested: true });
const otherAttempt = [attemptAhead, attemptBehind];

const CONDITIONS: Record<Exclude<Edge, 'create'>, Condition> = {
  // Rule 4: a due row means "by now".
  enqueue: {
    status: 'scheduled',
    fits: 'holds',
    refuses: [...otherAttempt, dueLater, otherQueue],
    ignores: [dueEarlier],
  },
  unqueue: {
    status: 'enqueued',
    fits: 'holds',
    refuses: [...otherAttempt, enqueuedAgain],
    ignores: [dueLater, dueEarlier],
  },
  claim: { status: 'enqueued', fits: 'holds', refuses: otherAttempt, ignores: [dueLater, dueEarlier] },
  heartbeat: { status: 'running', fits: 'clock', refuses: [...otherAttempt, cancelRequested], ignores: [dueLater] },
  // Success wins over a request to cancel.
  succeed: { status: 'running', fits: 'clock', refuses: otherAttempt, ignores: [cancelRequested, dueLater] },
  end_attempt: {
    status: 'running',
    fits: 'clock',
    refuses: [...otherAttempt, dueLater, dueEarlier, cancelRequested],
    ignores: [],
  },
  // Whoever asks, and whenever it is due: the running attempt is asked to stop.
  request_cancel: {
    status: 'running',
    fits: 'holds',
    refuses: otherAttempt,
    ignores: [cancelRequested, dueLater, dueEarlier],
  },
  change: { status: 'scheduled', fits: 'holds', refuses: [...otherAttempt, dueLater, dueEarlier], ignores: [] },
  replay: {
    status: 'dead',
    fits: 'holds',
    refuses: [...otherAttempt, dueLater, dueEarlier, diedAgain],
    ignores: [cancelRequested],
  },
  discard: {
    status: 'dead',
    fits: 'holds',
    refuses: [...otherAttempt, dueLater, dueEarlier, diedAgain],
    ignores: [cancelRequested],
  },
  cancel: { status: 'scheduled', fits: 'holds', refuses: [...otherAttempt, dueLater, dueEarlier], ignores: [] },
  // Of any end, here of a death.
  remove: { status: 'dead', fits: 'holds', refuses: [diedAgain], ignores: [...otherAttempt, dueLater] },
};

describe('the condition of', () => {
  for (const [edge, { status, fits, refuses, ignores }] of Object.entries(CONDITIONS) as [Edge, Condition][]) {
    it(`${edge} names what its decision rests on, and nothing else`, () => {
      const row = jobBefore(edge, COHORT, 0);
      const operation = operationOn(row, edge, 1);
      assert.equal(row.status, status);
      assert.equal(judgeCondition(operation, row), fits);
      for (const change of refuses) assert.equal(judgeCondition(operation, { ...row, ...change(row) }), 'fails');
      for (const change of ignores) assert.equal(judgeCondition(operation, { ...row, ...change(row) }), fits);
      for (const other of JOB_STATUSES.filter((each) => each !== status)) {
        assert.equal(judgeCondition(operation, { ...row, status: other }), 'fails', other);
      }
      // A condition that an absent row or column met would make a zombie.
      assert.equal(judgeCondition(operation, undefined), 'fails');
      assert.equal(judgeCondition(operation, {}), 'fails');
    });
  }

  it('a cancellation can name a job that waits for a worker', () => {
    const row = jobRow(COHORT, 0, { status: JobStatus.enqueued });
    assert.equal(judgeCondition(operationOn(row, 'cancel', 1, { cancelFrom: 'enqueued' }), row), 'holds');
    assert.equal(judgeCondition(operationOn(row, 'cancel', 1), row), 'fails');
  });

  it('a creation is that there is no row', () => {
    const operation = operationOn(jobRow(COHORT, 0), 'create', 1);
    assert.equal(judgeCondition(operation, undefined), 'holds');
    assert.equal(judgeCondition(operation, {}), 'fails');
  });
});

describe('an operation', () => {
  it('has left no mark on the row that it found', () => {
    for (const edge of ALL_EDGES) {
      const row = jobBefore(edge, COHORT, 0);
      assert.ok(!bearsMark(operationOn(row, edge, 1), row), edge);
      assert.ok(!bearsMark(operationOn(row, edge, 1), undefined), edge);
    }
  });

  it('that only moves a job leaves room in a round for a whole cohort of them', () => {
    for (const edge of ALL_EDGES) {
      const bytes = operationBytes(operationOn(jobBefore(edge, COHORT, 0), edge, 1));
      assert.ok(bytes > 0 && bytes * ROUND_MAX_ROWS < ROUND_MAX_BYTES, `${edge}: ${bytes}`);
    }
  });
});

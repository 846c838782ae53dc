import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { JobRow } from '../../services/core/domain/job.ts';
import { JOB_STATUSES } from '../../services/core/domain/job-status.ts';
import { SECOND_MS } from '../../services/core/domain/limits.ts';
import type { DueEntry } from '../../services/core/domain/operation.ts';
import { planDue, type DuePlan } from '../../services/dispatcher/due-planner.ts';
import { FAKE_START } from '../support/fake-clock.ts';
import { jobRow } from '../support/job-row.ts';

const COHORT = 'j_0123456789abc';
const RUN_AT = FAKE_START;

function planOf(
  job: Partial<JobRow> | null,
  context: { sinceSeenMs?: number; maybeUnpublished?: boolean } = {},
): DuePlan {
  const row = job === null ? null : jobRow(COHORT, 0, { runAt: RUN_AT, attempt: 2, ...job });
  const { jobId, queue, priority, shard } = jobRow(COHORT, 0);
  // The row was written when the job was at attempt 1.
  const due: DueEntry = { jobId, queue, priority, shard, runAt: RUN_AT, attempt: 1, direct: false };
  const now = RUN_AT + 60 * SECOND_MS;
  const { sinceSeenMs = 0, maybeUnpublished = false } = context;
  return planDue(due, job === null ? null : row, { now, firstSeenAt: now - sinceSeenMs, maybeUnpublished });
}

describe('the plan for a due row', () => {
  it('is to enqueue a job that is due by the row’s time, with the attempt that the job has now', () => {
    for (const earlier of [0, 1, 3_600_000]) {
      assert.deepEqual(planOf({ runAt: RUN_AT - earlier }), { kind: 'enqueue', attempt: 2 });
    }
  });

  it('is to drop the row of a job that was moved to later: it has another timer', () => {
    assert.deepEqual(planOf({ runAt: RUN_AT + 1 }), { kind: 'settle' });
    assert.deepEqual(planOf({ runAt: RUN_AT + 1 }, { maybeUnpublished: true }), { kind: 'settle' });
  });

  it('is to drop the row of a job that a replay took to another queue: it has a due row there', () => {
    for (const status of ['scheduled', 'enqueued'] as const) {
      assert.deepEqual(planOf({ status, queue: 'other' }, { maybeUnpublished: true }), { kind: 'settle' });
    }
  });

  it('is to publish what is enqueued only where the message may be missing', () => {
    assert.deepEqual(planOf({ status: 'enqueued' }), { kind: 'settle' });
    assert.deepEqual(planOf({ status: 'enqueued' }, { maybeUnpublished: true }), { kind: 'publish', attempt: 2 });
  });

  it('is to leave every other job to its other timers', () => {
    for (const status of JOB_STATUSES.filter((each) => each !== 'scheduled' && each !== 'enqueued')) {
      assert.deepEqual(planOf({ status }, { maybeUnpublished: true }), { kind: 'settle' }, status);
    }
  });

  it('is to look again for 10 s where no job is yet, a second later each time, and then to leave it', () => {
    const again = { kind: 'look_again', at: RUN_AT + 61 * SECOND_MS };
    assert.deepEqual(planOf(null), again);
    assert.deepEqual(planOf(null, { sinceSeenMs: 10 * SECOND_MS - 1, maybeUnpublished: true }), again);
    assert.deepEqual(planOf(null, { sinceSeenMs: 10 * SECOND_MS }), { kind: 'settle' });
  });
});

// The life cycle as design section 6 has it.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { JOB_STATUSES, JobStatus } from '../../services/core/domain/job-status.ts';
import {
  decideCancel,
  decideDiscard,
  decideReplay,
  decideSettle,
  TRANSITIONS,
  type Transition,
} from '../../services/core/domain/life-cycle.ts';
import { SECOND_MS } from '../../services/core/domain/limits.ts';
import type { Edge } from '../../services/core/domain/operation.ts';
import { FAKE_START, FakeClock } from '../support/fake-clock.ts';
import { jobRow } from '../support/job-row.ts';
import { MemoryStores } from '../support/memory-store.ts';
import { ALL_EDGES, jobBefore, LEASE_MS, operationOn, runningJob } from '../support/operations.ts';

const COHORT = 'j_0123456789abc';
const NOW = FAKE_START;

/** from | event | to | timer or dead letter written first */
const DESIGN = `
  -         | create         | scheduled | due
  -         | create_due_now | enqueued  | due
  scheduled | due            | enqueued  | -
  enqueued  | unqueue        | scheduled | due
  enqueued  | claim          | running   | deadline
  running   | heartbeat      | running   | -
  running   | succeed        | succeeded | -
  running   | fail           | scheduled | due
  running   | fail           | dead      | dead_letter
  running   | fail           | cancelled | -
  running   | lapse          | enqueued  | deadline
  running   | lapse          | scheduled | due
  running   | lapse          | dead      | dead_letter
  running   | lapse          | cancelled | -
  running   | request_cancel | running   | -
  running   | confirm_cancel | cancelled | -
  running   | snooze         | scheduled | due
  running   | snooze         | cancelled | -
  running   | release        | enqueued  | deadline
  running   | release        | scheduled | due
  running   | release        | cancelled | -
  scheduled | expire         | cancelled | -
  enqueued  | expire         | cancelled | -
  scheduled | change         | scheduled | due
  dead      | replay         | scheduled | due
  dead      | discard        | cancelled | deadline
  succeeded | remove         | -         | -
  cancelled | remove         | -         | -
  dead      | remove         | -         | -
  scheduled | cancel         | cancelled | -
  enqueued  | cancel         | cancelled | -
`;

function lineOf({ from, event, to, timer }: Transition): string {
  return [from ?? '-', event, to ?? '-', timer ?? '-'].join(' | ');
}

describe('the table of transitions', () => {
  it('is the one of the design', () => {
    const design = DESIGN.trim()
      .split('\n')
      .map((line) =>
        line
          .trim()
          .split(/ *\| */)
          .join(' | '),
      );
    assert.deepEqual(TRANSITIONS.map(lineOf).toSorted(), design.toSorted());
  });

  it('allows what the operations do to a row, each from the one state its condition names', async () => {
    const events: Record<Edge, readonly Transition['event'][]> = {
      create: ['create', 'create_due_now'],
      enqueue: ['due'],
      unqueue: ['unqueue'],
      claim: ['claim'],
      heartbeat: ['heartbeat'],
      succeed: ['succeed'],
      end_attempt: ['fail', 'lapse', 'snooze', 'release', 'confirm_cancel'],
      cancel: ['cancel', 'expire'],
      request_cancel: ['request_cancel'],
      change: ['change'],
      replay: ['replay'],
      discard: ['discard'],
      remove: ['remove'],
    };
    for (const edge of ALL_EDGES) {
      const stores = new MemoryStores({ clock: new FakeClock() });
      const job = jobBefore(edge, COHORT, 0);
      if (edge !== 'create') stores.rows.set(job.jobId, job);
      await stores.cohorts.apply(COHORT, [operationOn(job, edge, 1)]);
      const [from, to] = [edge === 'create' ? null : job.status, stores.rows.get(job.jobId)?.status ?? null];
      assert.ok(
        TRANSITIONS.some((each) => events[edge].includes(each.event) && each.from === from && each.to === to),
        `${edge}: ${from} -> ${to}`,
      );
    }
  });
});

describe('a cancellation', () => {
  it('is decided for a job that waits, naming what was read, and for no other', () => {
    for (const status of JOB_STATUSES) {
      const row = jobRow(COHORT, 0, { status, attempt: 2 });
      const isWaiting = status === JobStatus.scheduled || status === JobStatus.enqueued;
      const expected = {
        edge: 'cancel',
        jobId: row.jobId,
        expect: { status, attempt: 2, runAt: row.runAt },
        finishedAt: NOW,
        reason: 'test',
      };
      assert.deepEqual(decideCancel(row, NOW, 'test'), isWaiting ? expected : null, status);
    }
  });
});

describe('a replay or a discard', () => {
  it('is decided for a dead job, naming the death that was read, and for no other', () => {
    for (const status of JOB_STATUSES) {
      const row = jobRow(COHORT, 0, { status, attempt: 2, finishedAt: NOW });
      const isDead = status === JobStatus.dead;
      const expect = { attempt: 2, runAt: row.runAt, finishedAt: NOW };
      const replay = { edge: 'replay', jobId: row.jobId, expect, runAt: NOW + 1, changes: { queue: 'other' } };
      assert.deepEqual(decideReplay(row, NOW + 1, { queue: 'other' }), isDead ? replay : null, status);
      const discard = { edge: 'discard', jobId: row.jobId, expect, reason: 'discarded', bulkMarks: ['mark'] };
      assert.deepEqual(decideDiscard(row, ['mark']), isDead ? discard : null, status);
    }
  });
});

describe('settle, the one rule of design section 8', () => {
  const waiting = jobRow(COHORT, 0, { status: JobStatus.enqueued, enqueuedAt: NOW - 5_000 });
  const lease = NOW + LEASE_MS;
  const CASES: readonly (readonly [string, Parameters<typeof decideSettle>[0], ReturnType<typeof decideSettle>])[] = [
    ['absent', null, { kind: 'done' }],
    ['scheduled and ahead', jobRow(COHORT, 0, { runAt: NOW + 1 }), { kind: 'done' }],
    ['scheduled and due this moment', jobRow(COHORT, 0, { runAt: NOW }), { kind: 'enqueue' }],
    ['scheduled and overdue', jobRow(COHORT, 0, { runAt: NOW - 1 }), { kind: 'enqueue' }],
    ['enqueued', waiting, { kind: 'waiting', publishedAt: NOW - 5_000 }],
    ['scheduled, past its expires_at', jobRow(COHORT, 0, { runAt: NOW - 1, expiresAt: NOW }), { kind: 'expire' }],
    ['enqueued, past its expires_at', { ...waiting, expiresAt: NOW - 1 }, { kind: 'expire' }],
    [
      'enqueued, its expires_at ahead',
      { ...waiting, expiresAt: NOW + 1 },
      { kind: 'waiting', publishedAt: NOW - 5_000 },
    ],
    ['running, past its expires_at', runningJob(COHORT, 0, { expiresAt: NOW }), { kind: 'look_again', at: lease }],
    ['running, lease ahead', runningJob(COHORT, 0), { kind: 'look_again', at: lease }],
    [
      'running, the time limit before the end of the lease',
      runningJob(COHORT, 0, { deadlineAt: NOW + SECOND_MS }),
      { kind: 'look_again', at: NOW + SECOND_MS },
    ],
    ['running, lease just over', runningJob(COHORT, 0, { leaseUntil: NOW }), { kind: 'lapse', lapse: 'lease_passed' }],
    ['running, lease over', runningJob(COHORT, 0, { leaseUntil: NOW - 1 }), { kind: 'lapse', lapse: 'lease_passed' }],
    [
      'running, time limit over, whatever the lease',
      runningJob(COHORT, 0, { deadlineAt: NOW, leaseUntil: lease }),
      { kind: 'lapse', lapse: 'deadline_passed' },
    ],
    [
      'running, both over',
      runningJob(COHORT, 0, { deadlineAt: NOW, leaseUntil: NOW }),
      { kind: 'lapse', lapse: 'deadline_passed' },
    ],
    ...(['succeeded', 'cancelled', 'dead'] as const).map(
      (status) => [status, runningJob(COHORT, 0, { status }), { kind: 'finished' }] as const,
    ),
  ];
  for (const [what, row, expected] of CASES) {
    it(what, () => assert.deepEqual(decideSettle(row, null, NOW), expected));
  }

  it('takes the later of what row and job say of the last publish', () => {
    const publishedAt = (row: number | null): unknown => decideSettle(waiting, row, NOW);
    assert.deepEqual(publishedAt(NOW - 1_000), { kind: 'waiting', publishedAt: NOW - 1_000 });
    // A row of an attempt before this one.
    assert.deepEqual(publishedAt(NOW - 60_000), { kind: 'waiting', publishedAt: NOW - 5_000 });
  });
});

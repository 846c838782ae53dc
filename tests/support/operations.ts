// Operations to test with, each with a mark of its own that its effect on the row can be told by.

import type { JobRow } from '../../services/core/domain/job.ts';
import { JobStatus, Outcome } from '../../services/core/domain/job-status.ts';
import type { ClockCondition, Edge, Operation } from '../../services/core/domain/operation.ts';
import { FAKE_START } from './fake-clock.ts';
import { jobRow } from './job-row.ts';

/** Those whose effect can be told from another's of the same edge. */
export const EDGES: readonly Edge[] = [
  'create',
  'enqueue',
  'claim',
  'heartbeat',
  'succeed',
  'end_attempt',
  'cancel',
  'change',
  'replay',
  'discard',
];
/** A request to cancel is the same whoever made it, and so are a job taken back and one removed. */
export const ALL_EDGES: readonly Edge[] = [...EDGES, 'request_cancel', 'unqueue', 'remove'];

export const LEASE_MS = 30_000;
export const TIMEOUT_MS = 60_000;

export interface OperationTerms {
  /** The attempt that the condition names; that of the job when absent. */
  readonly attempt?: number;
  readonly clock?: ClockCondition;
  readonly cancelFrom?: typeof JobStatus.scheduled | typeof JobStatus.enqueued;
}

/** @param mark a number that no other operation of the test has. */
export function operationOn(job: JobRow, edge: Edge, mark: number, terms: OperationTerms = {}): Operation {
  const { jobId, queue, runAt } = job;
  const { attempt = job.attempt, clock = 'before_deadline', cancelFrom = JobStatus.scheduled } = terms;
  const text = String(mark);
  switch (edge) {
    case 'create':
      return { edge, jobId, job: { ...job, createToken: text } };
    case 'enqueue':
      return { edge, jobId, queue, runAtMost: runAt, attempt, enqueuedAt: mark };
    case 'claim': {
      const lease = { leaseMs: LEASE_MS, timeoutMs: TIMEOUT_MS };
      return { edge, jobId, attempt, enqueuedAt: null, worker: 'worker-1', claimId: text, startedAt: mark, ...lease };
    }
    case 'heartbeat':
      return { edge, jobId, attempt, cancelRequested: false, leaseMs: LEASE_MS, progress: text };
    case 'succeed':
      return {
        edge,
        jobId,
        attempt,
        end: { endedAt: mark, outcome: Outcome.succeeded, error: null },
        result: undefined,
      };
    case 'end_attempt':
      return {
        edge,
        jobId,
        expect: { attempt, runAt, cancelRequested: false },
        clock,
        end: { endedAt: mark, outcome: Outcome.failed, error: 'boom' },
        next: {
          status: JobStatus.scheduled,
          runAt,
          tries: attempt,
          lapses: 0,
          lostClaims: 0,
          maxAttempts: job.maxAttempts,
          lastError: 'boom',
          enqueuedAt: null,
          finishedAt: null,
          reason: null,
        },
      };
    case 'cancel':
      return { edge, jobId, expect: { status: cancelFrom, attempt, runAt }, finishedAt: mark, reason: 'test' };
    case 'request_cancel':
      return { edge, jobId, attempt };
    case 'unqueue':
      return { edge, jobId, attempt, enqueuedAt: job.enqueuedAt };
    case 'change':
      return { edge, jobId, expect: { attempt, runAt }, changes: { labels: { mark: text } } };
    case 'replay':
      return { edge, jobId, expect: { attempt, runAt, finishedAt: job.finishedAt ?? 0 }, runAt: mark, changes: {} };
    case 'discard': {
      const expect = { attempt, runAt, finishedAt: job.finishedAt ?? 0 };
      return { edge, jobId, expect, reason: 'discarded', bulkMarks: [text] };
    }
    case 'remove':
      return { edge, jobId, expect: { status: job.status, finishedAt: job.finishedAt ?? 0 } };
  }
}

/** The mark that the operation was given. */
export function markIn(operation: Operation): number {
  switch (operation.edge) {
    case 'create':
      return Number(operation.job.createToken);
    case 'enqueue':
      return operation.enqueuedAt;
    case 'claim':
      return operation.startedAt;
    case 'heartbeat':
      return Number(operation.progress);
    case 'succeed':
    case 'end_attempt':
      return operation.end.endedAt;
    case 'cancel':
      return operation.finishedAt;
    case 'change':
      return Number(operation.changes.labels?.['mark']);
    case 'replay':
      return operation.runAt;
    case 'discard':
      return Number(operation.bulkMarks[0]);
    case 'request_cancel':
    case 'unqueue':
    case 'remove':
      return NaN;
  }
}

/** A job on which the edge's operation applies at FAKE_START; a create applies while it is absent. */
export function jobBefore(edge: Edge, cohort: string, member: number): JobRow {
  switch (edge) {
    case 'create':
    case 'enqueue':
    case 'cancel':
    case 'change':
      return jobRow(cohort, member);
    case 'replay':
    case 'discard':
    case 'remove':
      return jobRow(cohort, member, { status: JobStatus.dead, attempt: 1, finishedAt: FAKE_START });
    case 'claim':
    case 'unqueue':
      return jobRow(cohort, member, { status: JobStatus.enqueued, enqueuedAt: FAKE_START });
    case 'heartbeat':
    case 'succeed':
    case 'end_attempt':
    case 'request_cancel':
      return runningJob(cohort, member);
  }
}

/** Claimed at FAKE_START, as attempt 1. */
export function runningJob(cohort: string, member: number, overrides: Partial<JobRow> = {}): JobRow {
  return jobRow(cohort, member, {
    status: JobStatus.running,
    attempt: 1,
    worker: 'worker-1',
    enqueuedAt: FAKE_START,
    leaseUntil: FAKE_START + LEASE_MS,
    deadlineAt: FAKE_START + TIMEOUT_MS,
    starts: new Map([[1, { worker: 'worker-1', claimId: 'claim-1', startedAt: FAKE_START }]]),
    ...overrides,
  });
}

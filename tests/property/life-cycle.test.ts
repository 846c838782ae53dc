// Design section 6: how an attempt ends, over all rows it can end on.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { JobRow } from '../../services/core/domain/job.ts';
import { isTerminal, JobStatus } from '../../services/core/domain/job-status.ts';
import {
  decideConfirmCancel,
  decideFail,
  decideLapse,
  decideRelease,
  decideSnooze,
  TRANSITIONS,
  type AttemptDecision,
  type FailReport,
  type LapseKind,
} from '../../services/core/domain/life-cycle.ts';
import { MINUTE_MS } from '../../services/core/domain/limits.ts';
import { FAKE_START } from '../support/fake-clock.ts';
import { runningJob } from '../support/operations.ts';

const NOW = FAKE_START + 45_000;
const COHORT = 'j_0123456789abc';
const LOST_CLAIMS = 3;

/** Rows as they can be: a running job has tries left, and its counted and uncounted ends do not exceed its attempts. */
const rows = fc
  .record({
    maxAttempts: fc.integer({ min: 1, max: 6 }),
    used: fc.nat(5),
    lostClaims: fc.nat(LOST_CLAIMS),
    lapses: fc.nat(4),
    heard: fc.boolean(),
    cancelRequested: fc.constantFrom(false, false, false, true),
    baseS: fc.constantFrom(0.001, 1, 100),
    jitter: fc.constantFrom('none' as const, 'equal' as const, 'full' as const),
  })
  .map(({ used, baseS, jitter, ...columns }): JobRow => {
    const tries = Math.min(used, columns.maxAttempts - 1);
    return runningJob(COHORT, 0, {
      ...columns,
      tries,
      attempt: tries + columns.lostClaims + 1,
      retry: { kind: 'exponential', baseS, factor: 2, capS: 3_600, jitter },
    });
  });
const reports = fc.record<FailReport>({
  error: fc.string(),
  retryable: fc.constantFrom(true, true, false),
  retryAfterMs: fc.option(fc.integer({ min: 0, max: 100_000 })),
});
const lapseKinds = fc.constantFrom<LapseKind>('lease_passed', 'deadline_passed');
const fractions = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });

type Uncounted = 'snooze' | 'release' | 'confirm_cancel';
type Counted = { readonly report: FailReport } | { readonly lapse: LapseKind };
type Ending = (Counted | { readonly uncounted: Uncounted }) & { readonly queueIsOpen: boolean };
const counted = fc
  .tuple(
    fc.oneof(
      reports.map((report) => ({ report })),
      lapseKinds.map((lapse) => ({ lapse })),
    ),
    fc.boolean(),
  )
  .map(([ending, queueIsOpen]) => ({ ...ending, queueIsOpen }));
const uncounted = fc.constantFrom<Uncounted>('snooze', 'release', 'confirm_cancel');
const endings = fc.oneof(
  { arbitrary: counted, weight: 2 },
  {
    arbitrary: fc.tuple(uncounted, fc.boolean()).map(([ending, queueIsOpen]) => ({ uncounted: ending, queueIsOpen })),
    weight: 1,
  },
);
const SNOOZE_MS = 7_000;

const UNCOUNTED: Record<Uncounted, (row: JobRow, queueIsOpen: boolean) => AttemptDecision> = {
  snooze: (row) => decideSnooze(row, SNOOZE_MS, NOW),
  release: (row, queueIsOpen) => decideRelease(row, NOW, queueIsOpen),
  confirm_cancel: (row) => decideConfirmCancel(row, NOW),
};

function decide(row: JobRow, ending: Ending, fraction: number): AttemptDecision {
  if ('uncounted' in ending) return UNCOUNTED[ending.uncounted](row, ending.queueIsOpen);
  return 'report' in ending
    ? decideFail(row, ending.report, NOW, fraction)
    : decideLapse(row, ending.lapse, { now: NOW, fraction, queueIsOpen: ending.queueIsOpen });
}

function eventOf(ending: Ending): string {
  if ('uncounted' in ending) return ending.uncounted;
  return 'report' in ending ? 'fail' : 'lapse';
}

function transitionOf(ending: Ending, { operation, timer, deadLetter }: AttemptDecision): string {
  const written = timer?.kind ?? (deadLetter === null ? null : 'dead_letter');
  return [eventOf(ending), operation.next.status, written].join(' | ');
}

describe('the end of an attempt', () => {
  it('is one of the table’s transitions, and each of those is reached', () => {
    const reached = new Set<string>();
    fc.assert(
      fc.property(rows, endings, fractions, (row, ending, fraction) => {
        reached.add(transitionOf(ending, decide(row, ending, fraction)));
      }),
      { numRuns: 1_000 },
    );
    const events = ['fail', 'lapse', 'snooze', 'release', 'confirm_cancel'];
    const table = TRANSITIONS.filter(({ event }) => events.includes(event));
    assert.deepEqual(
      [...reached].toSorted(),
      table.map(({ event, to, timer }) => [event, to, timer].join(' | ')).toSorted(),
    );
  });

  it('names what it was decided on, and the clock that has to agree', () => {
    fc.assert(
      fc.property(rows, endings, fractions, (row, ending, fraction) => {
        const { operation } = decide(row, ending, fraction);
        const { attempt, runAt, cancelRequested } = row;
        assert.deepEqual(operation.expect, { attempt, runAt, cancelRequested });
        assert.equal(operation.clock, 'lapse' in ending ? ending.lapse : 'before_deadline');
      }),
    );
  });

  it('keeps a terminal job terminal in every column, and a waiting one waiting', () => {
    fc.assert(
      fc.property(rows, endings, fractions, (row, ending, fraction) => {
        const { operation, timer, deadLetter } = decide(row, ending, fraction);
        const { next, end } = operation;
        assert.equal(end.endedAt, NOW);
        assert.equal(next.maxAttempts, row.maxAttempts);
        assert.equal(next.lastError, 'uncounted' in ending ? row.lastError : end.error);
        assert.equal(next.finishedAt, isTerminal(next.status) ? NOW : null);
        assert.equal(next.reason !== null, isTerminal(next.status));
        assert.equal(next.enqueuedAt, next.status === JobStatus.enqueued ? NOW : null);
        // Only what is dead has a dead letter; only what goes on has a timer.
        assert.equal(deadLetter !== null, next.status === JobStatus.dead);
        assert.equal(timer !== null, !isTerminal(next.status));
      }),
    );
  });

  it('is cancelled whenever that was asked for, and never otherwise', () => {
    fc.assert(
      fc.property(rows, endings, fractions, (row, ending, fraction) => {
        const { operation, deadLetter } = decide(row, ending, fraction);
        const byWorker = 'uncounted' in ending && ending.uncounted === 'confirm_cancel';
        assert.equal(operation.next.status === JobStatus.cancelled, row.cancelRequested || byWorker);
        if (row.cancelRequested) assert.equal(deadLetter, null);
      }),
    );
  });

  it('by a report is counted, is the last one when none is left, and else waits as long as asked or backed off', () => {
    fc.assert(
      fc.property(rows, reports, fractions, (row, report, fraction) => {
        fc.pre(!row.cancelRequested);
        const { operation, deadLetter } = decideFail(row, report, NOW, fraction);
        const { next } = operation;
        assert.deepEqual([next.tries, next.lapses, next.lostClaims], [row.tries + 1, 0, row.lostClaims]);
        if (!report.retryable) assert.equal(deadLetter, 'not_retryable');
        else if (row.tries + 1 === row.maxAttempts) assert.equal(deadLetter, 'attempts');
        else {
          assert.equal(next.status, JobStatus.scheduled);
          const waitMs = next.runAt - NOW;
          const mostMs = Math.min(row.retry.baseS * 2 ** row.tries, row.retry.capS) * 1_000;
          if (report.retryAfterMs !== null) assert.equal(waitMs, report.retryAfterMs);
          else assert.ok(waitMs >= 1 && waitMs <= Math.ceil(mostMs), `${waitMs} ms after try ${row.tries + 1}`);
        }
      }),
    );
  });

  it('by a snooze or a release is not counted, and starts the count of lapses anew', () => {
    fc.assert(
      fc.property(rows, uncounted, fc.boolean(), fractions, (row, ending, queueIsOpen, fraction) => {
        fc.pre(!row.cancelRequested && ending !== 'confirm_cancel');
        const { operation, timer } = decide(row, { uncounted: ending, queueIsOpen }, fraction);
        const { next } = operation;
        assert.deepEqual([next.tries, next.lapses, next.lostClaims], [row.tries, 0, row.lostClaims]);
        assert.deepEqual(
          [next.status, next.runAt, timer],
          ending === 'snooze'
            ? [JobStatus.scheduled, NOW + SNOOZE_MS, { kind: 'due' }]
            : !queueIsOpen
              ? [JobStatus.scheduled, NOW, { kind: 'due' }]
              : [JobStatus.enqueued, row.runAt, { kind: 'deadline', at: NOW + MINUTE_MS }],
        );
      }),
    );
  });

  it('by a lapse is not counted while nobody was heard of, three times; the first goes back at once, later ones wait', () => {
    fc.assert(
      fc.property(rows, lapseKinds, fc.boolean(), fractions, (row, kind, queueIsOpen, fraction) => {
        fc.pre(!row.cancelRequested);
        const { operation, timer, deadLetter } = decideLapse(row, kind, { now: NOW, fraction, queueIsOpen });
        const { next } = operation;
        const lost = kind === 'lease_passed' && !row.heard && row.lostClaims < LOST_CLAIMS;
        assert.deepEqual(
          [next.tries, next.lapses, next.lostClaims],
          [row.tries + (lost ? 0 : 1), row.lapses + 1, row.lostClaims + (lost ? 1 : 0)],
        );
        if (next.tries === row.maxAttempts) assert.equal(deadLetter, 'attempts');
        else if (row.lapses === 0 && !queueIsOpen) {
          assert.deepEqual([next.status, next.runAt, timer], [JobStatus.scheduled, NOW, { kind: 'due' }]);
        } else if (row.lapses === 0) {
          assert.deepEqual([next.status, next.runAt], [JobStatus.enqueued, row.runAt]);
          assert.deepEqual(timer, { kind: 'deadline', at: NOW + MINUTE_MS });
        } else {
          assert.equal(next.status, JobStatus.scheduled);
          const mostMs = Math.min(row.retry.baseS * 2 ** (row.lapses - 1), row.retry.capS) * 1_000;
          const waitMs = next.runAt - NOW;
          assert.ok(
            waitMs >= 1 && waitMs <= mostMs && (row.retry.jitter !== 'none' || waitMs === mostMs),
            `${waitMs} ms`,
          );
        }
      }),
    );
  });
});

describe('a job that never succeeds', () => {
  it('is dead after exactly max_attempts counted tries, and at most three more that were not counted', () => {
    const fate = fc.record({ ending: counted, heard: fc.boolean() });
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 10 }),
        fc.infiniteStream(fate),
        fractions,
        (maxAttempts, fates, fraction) => {
          let row = runningJob(COHORT, 0, { maxAttempts });
          let unheard = 0;
          let attempts = 0;
          for (const { ending, heard } of fates) {
            attempts += 1;
            assert.ok(attempts <= maxAttempts + LOST_CLAIMS, 'it goes on');
            const isLapse = 'lapse' in ending;
            if (isLapse && ending.lapse === 'lease_passed' && !heard) unheard += 1;
            const retried = isLapse ? ending : { ...ending, report: { ...ending.report, retryable: true } };
            const { operation } = decide({ ...row, attempt: attempts, heard }, retried, fraction);
            row = { ...row, ...operation.next };
            if (row.status === JobStatus.dead) break;
          }
          assert.equal(row.tries, maxAttempts);
          assert.equal(attempts, maxAttempts + Math.min(LOST_CLAIMS, unheard));
        },
      ),
    );
  });
});

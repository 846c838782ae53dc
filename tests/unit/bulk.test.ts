// What a bulk operation decides about one job: the same as the call for one job, and each job once.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import {
  type BulkDecision,
  type BulkTask,
  type BulkVerb,
  decideBulk,
  operationIdsOf,
  VERB_STATUSES,
} from '../../services/core/domain/bulk.ts';
import { JOB_STATUSES } from '../../services/core/domain/job-status.ts';
import type { JobRow } from '../../services/core/domain/job.ts';
import { BULK_MARKS_KEPT } from '../../services/core/domain/limits.ts';
import { bulkOperation } from '../support/bulk-operation.ts';
import { FAKE_START } from '../support/fake-clock.ts';
import { jobRow } from '../support/job-row.ts';

const COHORT = 'j_0123456789abc';
const NOW = FAKE_START;
const DIED = NOW - 60_000;
const OPERATION_ID = 'o_0123456789abc';

const task = (verb: BulkVerb, overrides: Partial<BulkTask> = {}): BulkTask =>
  bulkOperation({ operationId: OPERATION_ID, verb, newTime: { shiftMs: 5_000 }, ...overrides });
const filtered = (verb: BulkVerb, filter: Partial<BulkTask['filter']>): BulkTask => {
  const whole = task(verb);
  return { ...whole, filter: { ...whole.filter, ...filter } };
};
const dead = (overrides: Partial<JobRow> = {}): JobRow =>
  jobRow(COHORT, 0, { status: 'dead', finishedAt: DIED, lastError: 'the relay answered 451', ...overrides });
const waiting = (overrides: Partial<JobRow> = {}): JobRow =>
  jobRow(COHORT, 0, { runAt: NOW + 1_000, lastError: 'the relay answered 451', ...overrides });

/** As the row of the index at which the job stands finds it. */
function decide(which: BulkTask, job: JobRow, at = job.status === 'dead' ? job.finishedAt! : job.runAt): BulkDecision {
  return decideBulk(which, { at, job }, NOW);
}

describe('a bulk operation', () => {
  it('changes jobs of the states of its verb, and leaves all others', () => {
    for (const [verb, statuses] of Object.entries(VERB_STATUSES) as [BulkVerb, readonly string[]][]) {
      for (const status of JOB_STATUSES) {
        const job = status === 'dead' ? dead() : waiting({ status });
        const { kind } = decide(task(verb), job);
        assert.equal(kind !== 'leave', statuses.includes(status), `${verb} ${status}: ${kind}`);
      }
    }
  });

  it('does what the call for one job does, with its mark', () => {
    const bulkMarks = [`${OPERATION_ID}@${NOW + 1_000}`];
    assert.deepEqual(decide(task('cancel'), waiting()), { kind: 'cancel', bulkMarks });
    assert.partialDeepStrictEqual(decide(task('cancel'), waiting({ status: 'running', attempt: 2 })), {
      kind: 'request_cancel',
      operation: { attempt: 2, bulkMarks },
    });
    assert.partialDeepStrictEqual(decide(task('run'), waiting()), {
      kind: 'move',
      operation: { edge: 'change', changes: { runAt: NOW, bulkMarks } },
    });
    assert.partialDeepStrictEqual(decide(task('reschedule'), waiting()), {
      kind: 'move',
      operation: { edge: 'change', changes: { runAt: NOW + 6_000, scheduledFor: NOW + 6_000, bulkMarks } },
    });
    assert.partialDeepStrictEqual(decide(task('reschedule', { newTime: { at: NOW + 77 } }), waiting()), {
      operation: { changes: { runAt: NOW + 77, scheduledFor: NOW + 77 } },
    });
    const died = [`${OPERATION_ID}@${DIED}`];
    assert.partialDeepStrictEqual(decide(task('replay'), dead()), {
      kind: 'move',
      operation: { edge: 'replay', runAt: NOW, expect: { finishedAt: DIED }, changes: { bulkMarks: died } },
    });
    assert.partialDeepStrictEqual(decide(task('discard'), dead()), {
      kind: 'discard',
      operation: { expect: { finishedAt: DIED }, bulkMarks: died },
    });
  });

  it('gives replayed jobs the payload and the queue that it was started with, if any', () => {
    for (const replayChanges of [
      { queue: 'elsewhere' },
      { payload: '{"n":1}', payloadBytes: 7 },
      { payload: null, payloadBytes: 0, queue: 'elsewhere' },
    ]) {
      const decision = decide(task('replay', { replayChanges }), dead());
      assert.ok(decision.kind === 'move');
      assert.deepEqual(decision.operation.changes, { ...replayChanges, bulkMarks: [`${OPERATION_ID}@${DIED}`] });
    }
  });

  it('takes what its filter says: queue, status, label, a part of the last error', () => {
    const labelled = { labels: { region: 'eu', tier: 'a=b' } };
    for (const [filter, job, matches] of [
      [{ queue: 'other' }, waiting(), false],
      [{ status: 'scheduled' }, waiting(), true],
      [{ status: 'enqueued' }, waiting(), false],
      [{ label: { name: 'region', value: 'eu' } }, waiting(labelled), true],
      [{ label: { name: 'tier', value: 'a=b' } }, waiting(labelled), true],
      [{ label: { name: 'region', value: 'us' } }, waiting(labelled), false],
      [{ label: { name: 'toString', value: 'x' } }, waiting(labelled), false],
      [{ error: '451' }, waiting(), true],
      [{ error: '452' }, waiting(), false],
      [{ error: '451' }, waiting({ lastError: null }), false],
    ] as const) {
      const { kind } = decide(filtered('cancel', filter), job);
      assert.equal(kind !== 'leave', matches, JSON.stringify(filter));
    }
  });

  it('leaves a row of the index at which the job no longer stands', () => {
    assert.deepEqual(decide(task('cancel'), waiting(), NOW), { kind: 'leave' });
    // A dead letter is written before its round, which may have lost.
    assert.deepEqual(decide(task('replay'), dead(), DIED - 1), { kind: 'leave' });
    assert.deepEqual(decide(task('replay'), dead({ status: 'scheduled', finishedAt: null }), DIED), { kind: 'leave' });
  });

  it('leaves a job that died after it began', () => {
    assert.equal(decide(task('replay', { createdAt: DIED }), dead()).kind, 'move');
    assert.equal(decide(task('replay', { createdAt: DIED - 1 }), dead()).kind, 'leave');
    assert.equal(decide(task('discard', { createdAt: DIED - 1 }), dead()).kind, 'leave');
  });

  it('knows its own work by the mark: done for the same row of the index, never again for another', () => {
    const marked = { bulkMarks: ['o_abcdefghjkmnp@1', `${OPERATION_ID}@${NOW + 1_000}`] };
    assert.deepEqual(decide(task('reschedule'), waiting({ ...marked, runAt: NOW + 6_000 }), NOW + 1_000), {
      kind: 'done',
    });
    // It meets the job again where it moved it to.
    assert.deepEqual(decide(task('reschedule'), waiting({ ...marked, runAt: NOW + 6_000 })), { kind: 'leave' });
    // A replayed job that died again, by a clock that is behind.
    const again = dead({ finishedAt: DIED + 5, bulkMarks: [`${OPERATION_ID}@${DIED}`] });
    assert.deepEqual(decide(task('replay'), again), { kind: 'leave' });
    assert.deepEqual(decide(task('replay'), again, DIED), { kind: 'done' });
  });

  it('keeps the marks of the last operations', () => {
    const earlier = Array.from({ length: BULK_MARKS_KEPT }, (_, index) => `o_${index}@7`);
    const decision = decide(task('cancel'), waiting({ bulkMarks: earlier }));
    assert.ok(decision.kind === 'cancel');
    assert.deepEqual(decision.bulkMarks, [...earlier.slice(1), `${OPERATION_ID}@${NOW + 1_000}`]);
    assert.deepEqual(operationIdsOf(decision.bulkMarks).at(-1), OPERATION_ID);
  });

  it('asks a worker to stop once', () => {
    assert.deepEqual(decide(task('cancel'), waiting({ status: 'running', cancelRequested: true })), { kind: 'leave' });
  });

  it('hurries nothing that is due already', () => {
    assert.deepEqual(decide(task('run'), waiting({ runAt: NOW })), { kind: 'leave' });
  });

  it('refuses a time at which the job has expired', () => {
    const decision = decide(task('reschedule'), waiting({ expiresAt: NOW + 6_000 }));
    assert.deepEqual(decision, { kind: 'refuse', reason: 'it would be due after its expires_at' });
    assert.equal(decide(task('reschedule'), waiting({ expiresAt: NOW + 6_001 })).kind, 'move');
  });
});

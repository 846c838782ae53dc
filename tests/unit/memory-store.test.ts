// The faults of the fake: what the stores do without them is held by tests/conformance.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Create } from '../../services/core/domain/operation.ts';
import { systemClock } from '../../services/core/runtime/system-clock.ts';
import { jobRow, newCohort } from '../support/job-row.ts';
import { MemoryStores, type Fault } from '../support/memory-store.ts';

function start(): { stores: MemoryStores; create: Create; send: () => Promise<unknown>; exists: () => boolean } {
  const stores = new MemoryStores({ clock: systemClock });
  const job = jobRow(newCohort(), 0);
  const create: Create = { edge: 'create', jobId: job.jobId, job };
  return {
    stores,
    create,
    send: () => stores.cohorts.apply(job.cohort, [create]),
    exists: () => stores.rows.has(job.jobId),
  };
}

describe('faults of the stores in memory', () => {
  const unknown: readonly (readonly [Fault, boolean])[] = [
    [{ kind: 'answer_lost' }, true],
    [{ kind: 'request_lost' }, false],
  ];
  for (const [fault, applied] of unknown) {
    it(`${fault.kind}: unknown, ${applied ? 'applied' : 'not applied'}`, async () => {
      const { stores, send, exists } = start();
      stores.failNext('cohorts.apply', fault);
      await assert.rejects(send(), { kind: 'unknown' });
      assert.equal(exists(), applied);
      assert.deepEqual(await send(), applied ? { applied: false, rows: await rowsOf(stores) } : { applied: true });
    });
  }

  it('late: unknown, applied afterwards', async () => {
    const { stores, send, exists } = start();
    stores.failNext('cohorts.apply', { kind: 'late', afterMs: 20 });
    await assert.rejects(send(), { kind: 'unknown' });
    assert.equal(exists(), false);
    await sleep(60);
    assert.equal(exists(), true);
  });

  it('slow: everything later', async () => {
    const { stores, send, exists } = start();
    stores.failNext('cohorts.apply', { kind: 'slow', afterMs: 20 });
    const sent = send();
    await sleep(1);
    assert.equal(exists(), false);
    assert.deepEqual(await sent, { applied: true });
  });

  it('refusals: surely not applied', async () => {
    for (const kind of ['unavailable', 'overloaded', 'invalid'] as const) {
      const { stores, send, exists } = start();
      stores.failNext('cohorts.apply', { kind });
      await assert.rejects(send(), { kind });
      assert.equal(exists(), false);
    }
  });

  it('a read that meets an ambiguous fault is unavailable', async () => {
    const { stores, create } = start();
    stores.failNext('jobs.read', { kind: 'request_lost' });
    await assert.rejects(stores.jobs.read([create.jobId]), { kind: 'unavailable' });
    assert.equal((await stores.jobs.read([create.jobId])).size, 0);
  });

  it('a plan is asked before each call', async () => {
    const stores = new MemoryStores({
      clock: systemClock,
      plan: ({ method }) => (method === 'cursors.save' ? { kind: 'unavailable' } : undefined),
    });
    await assert.rejects(stores.cursors.save('dispatch', 1, 5), { kind: 'unavailable' });
    assert.equal(await stores.cursors.load('dispatch', 1), null);
    assert.deepEqual(
      stores.calls.map(({ method }) => method),
      ['cursors.save', 'cursors.load'],
    );
  });
});

async function rowsOf(stores: MemoryStores): Promise<ReadonlyMap<string, unknown>> {
  const rows = await stores.jobs.read([...stores.rows.keys()]);
  return new Map(
    [...rows.values()].map(
      ({ jobId, status, queue, attempt, runAt, cancelRequested, leaseUntil, deadlineAt, enqueuedAt, finishedAt }) => [
        jobId,
        { status, queue, attempt, runAt, cancelRequested, leaseUntil, deadlineAt, enqueuedAt, finishedAt },
      ],
    ),
  );
}

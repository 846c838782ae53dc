// No more jobs of a queue with max_running have a slot than there are, whoever dies or stalls in between.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { memberId } from '../../services/core/domain/ids.ts';
import type { JobStatus } from '../../services/core/domain/job-status.ts';
import { SECOND_MS } from '../../services/core/domain/limits.ts';
import { RunningSlots } from '../../services/core/queues/running-slots.ts';
import { FakeClock } from '../support/fake-clock.ts';
import { jobRow, newCohort } from '../support/job-row.ts';
import { MemoryStores } from '../support/memory-store.ts';
import { scriptedRandom } from '../support/scripted-random.ts';
import { silentLog } from '../support/silent-telemetry.ts';

const QUEUE = 'mail';
const MAX = 3;

function bench() {
  const clock = new FakeClock();
  const stores = new MemoryStores({ clock });
  const cohort = newCohort();
  const random = scriptedRandom();
  const slotsOfAProcess = (): RunningSlots =>
    new RunningSlots({ store: stores.slots, reader: stores.jobs, clock, random, log: silentLog });
  const one = slotsOfAProcess();
  const put = (member: number, status: JobStatus, queue = QUEUE): string => {
    stores.rows.set(memberId(cohort, member), jobRow(cohort, member, { status, queue }));
    return memberId(cohort, member);
  };
  return {
    ...{ clock, stores, one, put, slotsOfAProcess },
    take: (jobId: string, slots = one, max = MAX) => clock.until(slots.take(QUEUE, max, jobId)),
    holders: async (max = MAX) => [...(await clock.until(one.holders(QUEUE, max, [...stores.rows.keys()])))].toSorted(),
    /** As a dispatcher asks, several times a second. */
    freeAfter: async (ms: number, slots = one, max = MAX): Promise<number> => {
      for (let passed = 0; passed < ms; passed += 100) {
        slots.free(QUEUE, max);
        await clock.advance(100);
      }
      return slots.free(QUEUE, max);
    },
  };
}

describe('slots', () => {
  it('are as many as max_running, however many want one at once', async () => {
    const { clock, one, put, slotsOfAProcess, take, holders } = bench();
    const other = slotsOfAProcess();
    const jobs = Array.from({ length: 8 }, (_, member) => put(member, 'scheduled'));
    const taken = await clock.until(
      Promise.all(jobs.map((jobId, index) => (index % 2 === 0 ? one : other).take(QUEUE, MAX, jobId))),
    );
    assert.equal(taken.filter(Boolean).length, MAX);
    assert.deepEqual(await holders(), jobs.filter((_, index) => taken[index]).toSorted());
    assert.equal(await take(jobs[taken.indexOf(false)]!), false);
    // Whoever has one keeps it.
    assert.equal(await take(jobs[taken.indexOf(true)]!), true);
    assert.equal((await holders()).length, MAX);
  });

  it('are free again when their jobs neither wait for a worker nor run', async () => {
    const { put, take, holders, freeAfter } = bench();
    const [enqueued, running, third] = [put(0, 'enqueued'), put(1, 'running'), put(2, 'running')];
    for (const jobId of [enqueued, running, third]) assert.ok(await take(jobId));
    assert.equal(await freeAfter(SECOND_MS), 0);
    put(2, 'succeeded');
    assert.equal(await freeAfter(SECOND_MS), 1);
    assert.deepEqual(await holders(), [enqueued, running].toSorted());
    put(0, 'running', 'other');
    put(1, 'dead');
    assert.ok(await take(put(2, 'running')));
    assert.equal(await freeAfter(SECOND_MS), 2);
  });

  it('are none while as many or more run as max_running was lowered to, then as many as are left', async () => {
    const { put, take, holders, freeAfter, slotsOfAProcess } = bench();
    const jobs = [0, 1, 2, 3, 4].map((member) => put(member, 'running'));
    for (const jobId of jobs) assert.ok(await take(jobId, undefined, 5));
    const other = slotsOfAProcess();
    // Which of them end first tells nothing of the numbers of their slots.
    for (const [ended, free] of [
      [2, 0],
      [0, 0],
      [1, 0],
      [3, 1],
    ] as const) {
      put(ended, 'succeeded');
      assert.equal(await freeAfter(SECOND_MS, other, 2), free, `when ${ended} has ended`);
      if (free === 0) assert.equal(await take(put(9, 'scheduled'), other, 2), false);
    }
    // It runs already, and has no need to be told among those that may start.
    assert.deepEqual(await holders(2), []);
  });

  it('let as many of those start that were handed out before max_running was lowered as it has', async () => {
    const { put, take, holders, freeAfter } = bench();
    const jobs = [0, 1, 2].map((member) => put(member, 'enqueued'));
    for (const jobId of jobs) assert.ok(await take(jobId));
    assert.deepEqual(await holders(3), jobs);
    assert.deepEqual(await holders(1), [jobs[0]]);
    put(2, 'running');
    assert.deepEqual(await holders(1), []);
    // The claims of the others take them back.
    for (const member of [0, 1]) put(member, 'scheduled');
    put(2, 'succeeded');
    assert.equal(await freeAfter(8 * SECOND_MS, undefined, 1), 1);
    assert.ok(await take(put(1, 'enqueued'), undefined, 1));
    assert.deepEqual(await holders(1), [jobs[1]]);
  });

  it('beyond a lowered max_running do not keep the one job that has one from starting', async () => {
    const { put, take, holders, freeAfter } = bench();
    const jobs = [0, 1, 2].map((member) => put(member, 'enqueued'));
    for (const jobId of jobs) assert.ok(await take(jobId));
    for (const member of [0, 1]) put(member, 'succeeded');
    assert.equal(await freeAfter(SECOND_MS), 2);
    const last = put(2, 'scheduled');
    let taken = false;
    for (let second = 0; second < 8 && !taken; second += 1) {
      await freeAfter(SECOND_MS, undefined, 2);
      taken = await take(last, undefined, 2);
    }
    assert.ok(taken);
    assert.deepEqual(await holders(2), [last]);
  });

  it('of a job that is just being enqueued are left to it, for some seconds', async () => {
    const { put, take, freeAfter } = bench();
    for (const member of [0, 1, 2]) assert.ok(await take(put(member, 'scheduled')));
    assert.equal(await freeAfter(4 * SECOND_MS), 0);
    assert.equal(await freeAfter(2 * SECOND_MS), MAX);
  });

  it('are given back at once, unless the job was enqueued all the same', async () => {
    const { clock, one, put, take, holders } = bench();
    const [lost, enqueued] = [put(0, 'cancelled'), put(1, 'scheduled')];
    for (const jobId of [lost, enqueued]) assert.ok(await take(jobId));
    put(1, 'enqueued');
    await clock.until(one.giveBack(QUEUE, lost));
    await clock.until(one.giveBack(QUEUE, enqueued));
    assert.deepEqual(await holders(), [enqueued]);
  });

  it('that somebody marked and left marked are settled by the next', async () => {
    const { stores, put, take, holders, freeAfter, slotsOfAProcess } = bench();
    const [ended, running] = [put(0, 'succeeded'), put(1, 'running')];
    for (const jobId of [ended, running, put(2, 'running')]) assert.ok(await take(jobId));
    for (const [key, row] of stores.slotRows) stores.slotRows.set(key, { ...row, leaving: true, token: `dead ${key}` });
    assert.deepEqual(await holders(), []);
    const other = slotsOfAProcess();
    assert.equal(await freeAfter(SECOND_MS, other), 1);
    assert.deepEqual(await holders(), [running, memberId(running.slice(0, running.lastIndexOf('_')), 2)].toSorted());
  });

  it('are nobody else’s while an answer is lost', async () => {
    for (const kind of ['answer_lost', 'request_lost'] as const) {
      const { stores, put, take, holders } = bench();
      stores.failNext('slots.change', { kind });
      const jobId = put(0, 'scheduled');
      assert.equal(await take(jobId), true);
      assert.deepEqual(await holders(), [jobId]);
      assert.equal(stores.slotRows.size, 1);
    }
  });

  it('are not freed where the job came back between the look at it and the mark', async () => {
    const { clock, stores, one, put, take, holders } = bench();
    const jobId = put(0, 'cancelled');
    assert.ok(await take(jobId));
    stores.failNext('slots.change', { kind: 'slow', afterMs: 50 });
    const left = one.giveBack(QUEUE, jobId);
    put(0, 'enqueued');
    await clock.until(left);
    assert.deepEqual(await holders(), [jobId]);
  });
});

// Jobs that run since before their queue had max_running are given slots, so that nothing starts until fewer run.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { memberId } from '../../services/core/domain/ids.ts';
import type { JobStatus } from '../../services/core/domain/job-status.ts';
import { QUEUE_RUNNING_MAX, SECOND_MS } from '../../services/core/domain/limits.ts';
import { RunningSlots } from '../../services/core/queues/running-slots.ts';
import { SlotAdopter } from '../../services/reaper/slot-adopter.ts';
import { FakeClock } from '../support/fake-clock.ts';
import { jobRow, newCohort } from '../support/job-row.ts';
import { MemoryStores } from '../support/memory-store.ts';
import { scriptedRandom } from '../support/scripted-random.ts';
import { silentLog } from '../support/silent-telemetry.ts';

const QUEUE = 'mail';

function bench() {
  const clock = new FakeClock();
  const stores = new MemoryStores({ clock });
  const cohort = newCohort();
  const random = scriptedRandom();
  const dispatcher = new RunningSlots({ store: stores.slots, reader: stores.jobs, clock, random, log: silentLog });
  const adopter = new SlotAdopter({ store: stores.slots, reader: stores.jobs, clock, random });
  const put = (member: number, status: JobStatus, of = cohort): string => {
    stores.rows.set(memberId(of, member), jobRow(of, member, { status, queue: QUEUE }));
    return memberId(of, member);
  };
  const holders = (): readonly string[] => [...stores.slotRows.values()].flatMap(({ jobId }) => jobId ?? []);
  return {
    ...{ clock, stores, adopter, dispatcher, put, holders },
    adopt: (jobs: readonly string[]) => clock.until(adopter.adopt(QUEUE, jobs)),
    take: (jobId: string, max: number) => clock.until(dispatcher.take(QUEUE, max, jobId)),
    mayStart: async (max: number) =>
      [...(await clock.until(dispatcher.holders(QUEUE, max, [...stores.rows.keys()])))].toSorted(),
    freeAfter: async (ms: number, max: number): Promise<number> => {
      for (let passed = 0; passed < ms; passed += 100) {
        dispatcher.free(QUEUE, max);
        await clock.advance(100);
      }
      return dispatcher.free(QUEUE, max);
    },
  };
}

describe('running jobs without a slot', () => {
  it('are given one each, once, and leave room when fewer run than max_running', async () => {
    const { adopt, put, holders, freeAfter } = bench();
    const jobs = [0, 1, 2, 3, 4].map((member) => put(member, 'running'));
    await adopt(jobs);
    await adopt(jobs);
    assert.deepEqual(holders().toSorted(), jobs.toSorted());
    for (const [ended, free] of [
      [0, 0],
      [3, 0],
      [4, 0],
      [1, 1],
    ] as const) {
      put(ended, 'succeeded');
      assert.equal(await freeAfter(SECOND_MS, 2), free, `when ${ended} has ended`);
    }
  });

  it('are given one by one of two that look at once', async () => {
    const { clock, adopter, put, holders } = bench();
    const jobs = [0, 1, 2].map((member) => put(member, 'running'));
    await clock.until(Promise.all([adopter.adopt(QUEUE, jobs), adopter.adopt(QUEUE, jobs)]));
    assert.deepEqual(holders().toSorted(), jobs.toSorted());
  });

  it('take no slot from those that have one', async () => {
    const { adopt, put, take, holders, mayStart, stores } = bench();
    const [enqueued, other] = [put(0, 'enqueued'), put(1, 'enqueued')];
    assert.ok((await take(enqueued, 2)) && (await take(other, 2)));
    await adopt([put(2, 'running')]);
    assert.equal(holders().length, 3);
    assert.deepEqual([...stores.slotRows.values()].map(({ slot }) => slot).toSorted(), [0, 1, 2]);
    // One may run beside it, and it is always the same one.
    assert.deepEqual(await mayStart(2), [enqueued]);
    assert.ok((await mayStart(3)).includes(other));
    stores.failNext('jobs.readStates', { kind: 'unavailable' });
    assert.deepEqual(await mayStart(2), []);
    put(1, 'running');
    assert.ok(!(await mayStart(2)).includes(enqueued));
    put(2, 'succeeded');
    assert.ok((await mayStart(2)).includes(enqueued));
  });

  it('give it back when they ended while they were given it', async () => {
    const { clock, stores, adopter, put, holders, freeAfter } = bench();
    const jobs = [put(0, 'running'), put(1, 'running')];
    stores.failNext('slots.change', { kind: 'slow', afterMs: 100 });
    clock.after(50, () => put(0, 'succeeded'));
    await clock.until(adopter.adopt(QUEUE, jobs));
    assert.deepEqual(holders().toSorted(), jobs.toSorted());
    assert.equal(await freeAfter(SECOND_MS, 2), 1);
  });

  it('are as many as a queue may have slots at the most', async () => {
    const { adopt, put, holders } = bench();
    const jobs = Array.from({ length: QUEUE_RUNNING_MAX + 5 }, () => put(0, 'running', newCohort()));
    await adopt(jobs);
    assert.equal(holders().length, QUEUE_RUNNING_MAX);
  });
});

describe('jobs that ran when they were counted', () => {
  it('are given no slot where they ended since, and another has theirs', async () => {
    for (const since of ['succeeded', 'scheduled', 'enqueued'] as const) {
      const { adopt, put, take, holders, mayStart, freeAfter } = bench();
      const seen = [put(0, 'running'), put(1, 'running')];
      for (const jobId of seen) assert.ok(await take(jobId, 2));
      put(0, since === 'enqueued' ? 'succeeded' : since);
      assert.equal(await freeAfter(8 * SECOND_MS, 2), 1);
      const next = put(2, 'enqueued');
      assert.ok(await take(next, 2));
      put(0, since);
      await adopt(seen);
      assert.deepEqual(holders().toSorted(), [seen[1], next].toSorted(), since);
      assert.ok((await mayStart(2)).includes(next));
    }
  });

  it('are not looked at again while they have their slots', async () => {
    const { adopt, put, take, stores } = bench();
    const seen = [put(0, 'running'), put(1, 'running')];
    for (const jobId of seen) assert.ok(await take(jobId, 2));
    await adopt(seen);
    const asked = stores.calls.filter(({ method }) => method === 'jobs.readStates' || method === 'slots.change');
    assert.equal(asked.filter(({ method }) => method === 'jobs.readStates').length, 0);
    assert.equal(asked.length, seen.length);
  });
});

describe('a dispatcher that has not seen them take slots', () => {
  it('hands a job out once, whose claim is refused, and not again', async () => {
    const { adopt, put, take, mayStart, freeAfter, stores } = bench();
    put(9, 'scheduled');
    assert.equal(await freeAfter(SECOND_MS, 2), 2);
    // One more held slot 0 meanwhile, and ended.
    const running = [0, 1, 2].map((member) => put(member, 'running'));
    await adopt(running);
    for (const [key, row] of stores.slotRows) if (row.slot === 0) stores.slotRows.delete(key);
    const late = put(9, 'enqueued');
    assert.equal(await take(late, 2), true);
    assert.deepEqual(await mayStart(2), []);
    put(9, 'scheduled');
    assert.equal(await take(late, 2), false);
  });
});

// Jobs that run beside max_running, claims that go on by what they saw long ago: nothing starts that would be one too many.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { memberId } from '../../services/core/domain/ids.ts';
import { JobStatus } from '../../services/core/domain/job-status.ts';
import { RunningSlots } from '../../services/core/queues/running-slots.ts';
import { FakeClock } from '../support/fake-clock.ts';
import { jobRow, newCohort } from '../support/job-row.ts';
import { MemoryStores } from '../support/memory-store.ts';
import { scriptedRandom } from '../support/scripted-random.ts';
import { silentLog } from '../support/silent-telemetry.ts';

const QUEUE = 'mail';
const SLOTS = 6;

/** Jobs that ran before there was a limit, by slot; then what happens to which slot. */
const histories = fc.record({
  max: fc.integer({ min: 1, max: 4 }),
  before: fc.uniqueArray(fc.nat({ max: SLOTS - 1 }), { maxLength: SLOTS }),
  acts: fc.array(
    fc.record({
      slot: fc.nat({ max: SLOTS - 1 }),
      act: fc.constantFrom('hand out', 'hand out', 'look', 'look', 'start', 'start', 'lapse', 'end'),
    }),
    { maxLength: 80, size: 'max' },
  ),
});

function world(max: number) {
  const clock = new FakeClock();
  const stores = new MemoryStores({ clock });
  const random = scriptedRandom();
  const slots = new RunningSlots({ store: stores.slots, reader: stores.jobs, clock, random, log: silentLog });
  const inSlots = new Map<number, { readonly jobId: string; status: JobStatus; mayStart: boolean }>();
  const write = (slot: number): void => {
    const job = inSlots.get(slot);
    const token = random.token();
    const row = { queue: QUEUE, slot, jobId: job?.jobId ?? null, leaving: false, takenAt: clock.now(), token };
    stores.slotRows.set(`${QUEUE} ${slot}`, row);
  };
  const put = (slot: number, status: JobStatus): void => {
    const cohort = newCohort();
    const job = inSlots.get(slot) ?? { jobId: memberId(cohort, 0), status, mayStart: false };
    inSlots.set(slot, { ...job, status });
    const known = stores.rows.get(job.jobId) ?? jobRow(cohort, 0, { queue: QUEUE });
    stores.rows.set(job.jobId, { ...known, status });
    write(slot);
  };
  return {
    put,
    running: () => [...inSlots.values()].filter(({ status }) => status === JobStatus.running).length,
    act: async (slot: number, act: string): Promise<boolean> => {
      const job = inSlots.get(slot);
      // A dispatcher whose view is as old as can be takes whatever is free.
      if (act === 'hand out' && job === undefined && slot < max) put(slot, JobStatus.enqueued);
      if (job?.status === JobStatus.enqueued && act === 'look') {
        job.mayStart = (await clock.until(slots.holders(QUEUE, max, [job.jobId]))).has(job.jobId);
      }
      if (job?.status === JobStatus.enqueued && act === 'start' && job.mayStart) {
        job.mayStart = false;
        put(slot, JobStatus.running);
        return true;
      }
      if (job?.status === JobStatus.running && act === 'lapse') put(slot, JobStatus.enqueued);
      if (job?.status === JobStatus.running && act === 'end') {
        stores.rows.delete(job.jobId);
        inSlots.delete(slot);
        write(slot);
      }
      return false;
    },
  };
}

describe('a queue with max_running, some of whose jobs ran before', () => {
  it('starts none that would be one too many, by whatever view', async () => {
    let starts = 0;
    await fc.assert(
      fc.asyncProperty(histories, async ({ max, before, acts }) => {
        const { put, running, act } = world(max);
        for (const slot of before) put(slot, JobStatus.running);
        for (const { slot, act: what } of acts) {
          if (!(await act(slot, what))) continue;
          starts += 1;
          assert.ok(running() <= max, `${running()} run`);
        }
      }),
      { numRuns: 500 },
    );
    assert.ok(starts > 100, `${starts} starts`);
  });

  it('lets another start wherever fewer run than max_running and all of its slots are handed out', async () => {
    await fc.assert(
      fc.asyncProperty(histories, async ({ max, before }) => {
        const { put, running, act } = world(max);
        for (const slot of before) put(slot, JobStatus.running);
        for (let slot = 0; slot < max; slot += 1) await act(slot, 'hand out');
        for (let slot = 0; slot < max; slot += 1) {
          await act(slot, 'look');
          await act(slot, 'start');
        }
        assert.equal(running(), Math.max(max, before.length));
      }),
    );
  });
});

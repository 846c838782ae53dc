// Where a lane of held rows stands, for the next owner of its shard.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { hourOf } from '../../services/core/domain/bucket.ts';
import type { DueEntry } from '../../services/core/domain/operation.ts';
import { HeldLane } from '../../services/dispatcher/held-lane.ts';
import { FAKE_START, FakeClock } from '../support/fake-clock.ts';
import { MemoryStores } from '../support/memory-store.ts';

const KEY = { shard: 0, queue: 'mail', priority: 'normal' } as const;
const ROW: DueEntry = { ...KEY, jobId: 'j_0123456789abc_00', runAt: FAKE_START, attempt: 0, direct: false };

describe('the place of a lane', () => {
  it('lies before a row that was given out and is not settled, though it is the last one read', async () => {
    const { held } = new MemoryStores({ clock: new FakeClock() });
    await held.write([ROW]);
    const lane = new HeldLane(held, KEY, { hours: [hourOf(ROW.runAt)], place: null, holds: () => true });
    const { jobs } = await lane.next(10);
    assert.equal(jobs.length, 1);
    const saved = lane.placeToSave(FAKE_START + 1);
    assert.ok(saved !== null);
    const next = new HeldLane(held, KEY, { hours: [hourOf(ROW.runAt)], place: saved, holds: () => true });
    const found = await next.next(10);
    assert.deepEqual(
      found.jobs.map(({ row }) => row.jobId),
      [ROW.jobId],
    );
  });

  it('goes back before a row is written behind it', async () => {
    const { held } = new MemoryStores({ clock: new FakeClock() });
    const place = { runAt: FAKE_START + 1, jobId: '' };
    const lane = new HeldLane(held, KEY, { hours: [], place, holds: () => true });
    assert.equal(lane.placeToGoBack([{ ...ROW, runAt: place.runAt + 1 }]), null);
    const back = lane.placeToGoBack([{ ...ROW, runAt: place.runAt + 1 }, ROW]);
    assert.ok(back !== null);
    await held.write([ROW]);
    const next = new HeldLane(held, KEY, { hours: [hourOf(ROW.runAt)], place: back, holds: () => true });
    assert.equal((await next.next(10)).jobs.length, 1);
  });

  it('says of rows that it gives out a second time that they may have been handled', async () => {
    const { held } = new MemoryStores({ clock: new FakeClock() });
    const rows = [1, 2, 3].map((offset) => ({
      ...ROW,
      runAt: FAKE_START + offset,
      jobId: `j_0123456789abc_0${offset}`,
    }));
    await held.write(rows);
    const lane = new HeldLane(held, KEY, { hours: [], place: null, holds: () => true });
    lane.writes(rows);
    lane.wrote(rows, { acknowledged: true });
    const reading = lane.next(2);
    // Written behind the place while the store is asked.
    lane.writes([ROW]);
    lane.wrote([ROW], { acknowledged: true });
    const first = await reading;
    assert.deepEqual([first.jobs.length, first.mustBeSifted], [2, false]);
    for (const job of first.jobs) job.settle();
    const again = await lane.next(2);
    assert.equal(again.mustBeSifted, true);
    const beyond = [...again.jobs, ...(await lane.next(2)).jobs].map(({ row }) => row.jobId);
    assert.ok(beyond.includes(rows[2]!.jobId), 'those behind them are given out as well');
    assert.equal((await lane.next(2)).mustBeSifted, false);
  });
});

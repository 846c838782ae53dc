import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { it } from 'node:test';
import { SCHEDULE_STRIPES, scheduleStripe } from '../../services/core/domain/bucket.ts';
import { memberId } from '../../services/core/domain/ids.ts';
import { ALL_QUEUES, type ScheduleIndex, type ScheduleIndexEntry } from '../../services/core/ports/schedule-index.ts';
import type { ScheduleName, ScheduleNames } from '../../services/core/ports/schedule-names.ts';
import { newScheduleCohort } from '../support/schedule-row.ts';

export interface ScheduleDirectoryHarness {
  readonly scheduleNames: ScheduleNames;
  readonly scheduleIndex: ScheduleIndex;
}

const AT = Date.parse('2026-11-15T06:00:00.123Z');

/** What every ScheduleNames and ScheduleIndex promise; run on the fake and on a real server. */
export function scheduleDirectorySuite(harness: () => ScheduleDirectoryHarness): void {
  const newName = (overrides: Partial<ScheduleName> = {}): ScheduleName => ({
    keyHash: randomBytes(32).toString('hex'),
    scheduleId: memberId(newScheduleCohort(), 0),
    createdAt: AT,
    written: false,
    ...overrides,
  });
  const claimed = async (): Promise<ScheduleName> => harness().scheduleNames.claim(newName());

  it('gives a name to one of those who claim it at once', async () => {
    const { scheduleNames } = harness();
    const { keyHash } = newName();
    assert.equal(await scheduleNames.find(keyHash), null);
    const claims = Array.from({ length: 20 }, () => newName({ keyHash }));
    const standing = await Promise.all(claims.map((name) => scheduleNames.claim(name)));
    assert.equal(new Set(standing.map(({ scheduleId }) => scheduleId)).size, 1);
    assert.ok(claims.some(({ scheduleId }) => scheduleId === standing[0]?.scheduleId));
    assert.deepEqual(await scheduleNames.find(keyHash), standing[0]);
  });

  it('marks a name written for the schedule that it stands for, and no other', async () => {
    const { scheduleNames } = harness();
    const name = await claimed();
    assert.equal(await scheduleNames.markWritten(newName({ keyHash: name.keyHash })), false);
    assert.deepEqual(await scheduleNames.find(name.keyHash), name);
    assert.equal(await scheduleNames.markWritten(name), true);
    assert.equal(await scheduleNames.markWritten(name), true);
    assert.deepEqual(await scheduleNames.find(name.keyHash), { ...name, written: true });
    assert.equal(await scheduleNames.markWritten(newName()), false);
  });

  it('moves a name from one schedule to another once', async () => {
    const { scheduleNames } = harness();
    const name = await claimed();
    await scheduleNames.markWritten(name);
    const others = [1, 2].map((offset) => newName({ keyHash: name.keyHash, createdAt: AT + offset }));
    const moved = await Promise.all(others.map((to) => scheduleNames.move(name, to)));
    assert.deepEqual(moved.toSorted(), [false, true]);
    assert.deepEqual(await scheduleNames.find(name.keyHash), others[moved.indexOf(true)]);
    assert.equal(await scheduleNames.move(newName(), newName()), false);
  });

  it('frees a name of the schedule that it stands for, and no other', async () => {
    const { scheduleNames } = harness();
    const name = await claimed();
    await scheduleNames.release(newName({ keyHash: name.keyHash }));
    assert.deepEqual(await scheduleNames.find(name.keyHash), name);
    await scheduleNames.release(name);
    await scheduleNames.release(name);
    assert.equal(await scheduleNames.find(name.keyHash), null);
    const next = newName({ keyHash: name.keyHash });
    assert.deepEqual(await scheduleNames.claim(next), next);
  });

  it('lists the schedules of a queue stripe by stripe, in the order of ids, from anywhere', async () => {
    const { scheduleIndex } = harness();
    const queue = `q-${randomBytes(4).toString('hex')}`;
    const entries = Array.from({ length: 60 }, (_, index): ScheduleIndexEntry => ({
      queue: index % 3 === 0 ? ALL_QUEUES : queue,
      scheduleId: memberId(newScheduleCohort(), index),
      writtenAt: AT + index,
    }));
    await scheduleIndex.write(entries);
    await scheduleIndex.write(entries.slice(0, 10));
    const expected = entries.filter((entry) => entry.queue === queue);
    const found: ScheduleIndexEntry[] = [];
    for (let stripe = 0; stripe < SCHEDULE_STRIPES; stripe += 1) {
      for (let after = ''; ;) {
        const page = await scheduleIndex.read({ queue, stripe, after, limit: 2 });
        assert.ok(page.length <= 2);
        assert.ok(page.every(({ scheduleId }) => scheduleId > after && scheduleStripe(scheduleId) === stripe));
        found.push(...page);
        if (page.length === 0) break;
        after = page.at(-1)!.scheduleId;
      }
    }
    assert.deepEqual(byId(found), byId(expected));
    const all = await scheduleIndex.read({
      queue: ALL_QUEUES,
      stripe: scheduleStripe(entries[0]!.scheduleId),
      after: '',
      limit: 1_000,
    });
    assert.ok(all.some(({ scheduleId }) => scheduleId === entries[0]!.scheduleId));
  });

  it('takes an entry away as it was read, and none that was written later', async () => {
    const { scheduleIndex } = harness();
    const queue = `q-${randomBytes(4).toString('hex')}`;
    const scheduleId = memberId(newScheduleCohort(), 0);
    const read = (): Promise<readonly ScheduleIndexEntry[]> =>
      scheduleIndex.read({ queue, stripe: scheduleStripe(scheduleId), after: '', limit: 10 });
    const [first, second] = [AT, AT + 1].map((writtenAt): ScheduleIndexEntry => ({ queue, scheduleId, writtenAt }));
    await scheduleIndex.write([first!]);
    await scheduleIndex.write([second!]);
    await scheduleIndex.remove([first!]);
    assert.deepEqual(await read(), [second]);
    await scheduleIndex.remove([second!]);
    assert.deepEqual(await read(), []);
    await scheduleIndex.write([first!]);
    assert.deepEqual(await read(), []);
  });
}

function byId(entries: readonly ScheduleIndexEntry[]): readonly ScheduleIndexEntry[] {
  return entries.toSorted((one, other) => (one.scheduleId < other.scheduleId ? -1 : 1));
}

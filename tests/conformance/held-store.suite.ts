// What every HeldStore promises.

import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { it } from 'node:test';
import { memberId } from '../../services/core/domain/ids.ts';
import { HOUR_MS } from '../../services/core/domain/limits.ts';
import type { DueEntry } from '../../services/core/domain/operation.ts';
import type { HeldHour, HeldPlace, HeldStore } from '../../services/core/ports/held-store.ts';
import { newCohort } from '../support/job-row.ts';

export interface HeldStoreHarness {
  readonly held: HeldStore;
}

const AT = Date.parse('2026-11-15T06:30:00.123Z');
const HOUR = Date.parse('2026-11-15T06:00:00.000Z');
const START: HeldPlace = { runAt: 0, jobId: '' };

export function heldStoreSuite(harness: () => HeldStoreHarness): void {
  const newHour = (overrides: Partial<HeldHour> = {}): HeldHour => ({
    shard: 5,
    queue: `q-${randomBytes(4).toString('hex')}`,
    priority: 'normal',
    hour: HOUR,
    ...overrides,
  });
  const rowIn = ({ shard, queue, priority }: HeldHour, runAt: number, overrides: Partial<DueEntry> = {}): DueEntry => ({
    jobId: memberId(newCohort(), 0),
    shard,
    runAt,
    queue,
    priority,
    attempt: 2,
    direct: false,
    ...overrides,
  });
  const byPlace = (one: DueEntry, other: DueEntry): number =>
    one.runAt - other.runAt || (one.jobId < other.jobId ? -1 : 1);

  it('keeps a row once, however often it is passed over', async () => {
    const { held } = harness();
    const hour = newHour();
    const row = rowIn(hour, AT);
    await Promise.all([held.write([row]), held.write([row, row])]);
    await held.write([row]);
    assert.deepEqual(await held.read(hour, START, 10), [row]);
  });

  it('gives the rows of an hour in order, from any place, as many as asked for', async () => {
    const { held } = harness();
    const hour = newHour();
    const rows = Array.from({ length: 250 }, (_, index) => rowIn(hour, AT + Math.floor(index / 100))).toSorted(byPlace);
    await held.write(rows.toReversed());
    assert.deepEqual(await held.read(hour, START, 1_000), rows);
    assert.deepEqual(await held.read(hour, START, 7), rows.slice(0, 7));
    assert.deepEqual(await held.read(hour, rows[99]!, 3), rows.slice(100, 103));
    assert.deepEqual(await held.read(hour, { runAt: AT + 1, jobId: '' }, 3), rows.slice(100, 103));
    assert.deepEqual(await held.read(hour, rows.at(-1)!, 3), []);
    assert.equal(await held.count(hour, START), 250);
    assert.equal(await held.count(hour, rows[99]!), 150);
  });

  it('tells where rows stand between two places', async () => {
    const { held } = harness();
    const hour = newHour();
    const rows = Array.from({ length: 5 }, (_, index) => rowIn(hour, AT + index));
    await held.write(rows);
    const places = rows.slice(1, 4).map(({ runAt, jobId }) => ({ runAt, jobId }));
    assert.deepEqual(await held.standing(hour, rows[1]!, rows[3]!), places);
    assert.deepEqual(await held.standing(hour, { runAt: AT + 10, jobId: '' }, { runAt: AT + 11, jobId: '' }), []);
  });

  it('keeps shards, queues, priorities and hours apart, and knows where a shard has rows', async () => {
    const { held } = harness();
    const one = newHour({ shard: 40 });
    const others: readonly HeldHour[] = [
      { ...one, priority: 'high' },
      { ...one, hour: HOUR + HOUR_MS },
      { ...one, queue: `${one.queue}-2` },
      { ...one, shard: 41 },
    ];
    const rows = [one, ...others].map((hour) => rowIn(hour, hour.hour + 1));
    await held.write(rows);
    for (const [index, hour] of [one, ...others].entries()) {
      assert.deepEqual(await held.read(hour, START, 10), [rows[index]]);
    }
    const known = (await held.hours(40)).filter(({ queue }) => queue.startsWith(one.queue));
    const asText = (hours: readonly HeldHour[]): string[] =>
      hours.map(({ queue, priority, hour }) => `${queue} ${priority} ${hour}`).toSorted();
    assert.deepEqual(asText(known), asText([one, ...others.slice(0, 3)]));
  });

  it('drops an hour whole, and takes new rows in it', async () => {
    const { held } = harness();
    const hour = newHour({ shard: 42 });
    const later = { ...hour, hour: HOUR + HOUR_MS };
    await held.write([rowIn(hour, AT), rowIn(hour, AT + 1), rowIn(later, AT + HOUR_MS)]);
    await held.drop(hour);
    assert.deepEqual(await held.read(hour, START, 10), []);
    assert.deepEqual(
      (await held.hours(42)).filter(({ queue }) => queue === hour.queue),
      [later],
    );
    const row = rowIn(hour, AT);
    await held.write([row]);
    assert.deepEqual(await held.read(hour, START, 10), [row]);
  });

  it('keeps the position that was saved last, further on or further back', async () => {
    const { held } = harness();
    const { hour: _, ...lane } = newHour({ shard: 43 });
    const places: readonly HeldPlace[] = [
      { runAt: AT, jobId: 'j_zzzzzzzzzzzzz_1z' },
      { runAt: AT, jobId: 'j_0000000000000_00' },
      { runAt: AT + 1, jobId: '' },
      { runAt: AT - 1, jobId: 's_0000000000000_00@2026-11-15T06:00:00Z' },
    ];
    const saved = async (): Promise<HeldPlace | undefined> =>
      (await held.positions(43)).find(({ queue }) => queue === lane.queue)?.place;
    assert.equal(await saved(), undefined);
    for (const place of places) {
      await held.savePosition({ ...lane, place });
      assert.deepEqual(await saved(), place);
    }
  });
}

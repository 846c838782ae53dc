// What every SlotStore promises.

import assert from 'node:assert/strict';
import { randomBytes, randomUUID } from 'node:crypto';
import { it } from 'node:test';
import type { RunningSlot, SlotStore } from '../../services/core/ports/slot-store.ts';

export interface SlotStoreHarness {
  readonly slots: SlotStore;
}

export function slotStoreSuite(harness: () => SlotStoreHarness): void {
  const newQueue = (): string => `q-${randomBytes(4).toString('hex')}`;
  const slotOf = (queue: string, slot: number, overrides: Partial<RunningSlot> = {}): RunningSlot => ({
    queue,
    slot,
    jobId: `j_0123456789abc_0${slot}`,
    leaving: false,
    takenAt: Date.parse('2026-11-15T06:00:00.123Z'),
    token: randomUUID(),
    ...overrides,
  });

  it('makes, changes and frees slots, one or several', async () => {
    const { slots } = harness();
    const queue = newQueue();
    assert.deepEqual(await slots.read(queue), []);
    const [one, two] = [slotOf(queue, 0), slotOf(queue, 2)];
    assert.ok(await slots.change([{ before: null, after: two }]));
    assert.ok(await slots.change([{ before: null, after: one }]));
    assert.deepEqual(await slots.read(queue), [one, two]);
    const free = slotOf(queue, 0, { jobId: null });
    const [leaving, third] = [slotOf(queue, 2, { leaving: true }), slotOf(queue, 3)];
    const changes = [
      { before: one.token, after: free },
      { before: two.token, after: leaving },
      { before: null, after: third },
    ];
    assert.ok(await slots.change(changes));
    assert.deepEqual(await slots.read(queue), [free, leaving, third]);
    assert.deepEqual(await slots.read(newQueue()), []);
  });

  it('changes none where one is not as it was read', async () => {
    const { slots } = harness();
    const queue = newQueue();
    const [one, two] = [slotOf(queue, 0), slotOf(queue, 1)];
    assert.ok(await slots.change([one, two].map((after) => ({ before: null, after }))));
    assert.equal(await slots.change([{ before: null, after: slotOf(queue, 0) }]), false);
    assert.equal(await slots.change([{ before: 'another', after: slotOf(queue, 0) }]), false);
    assert.equal(await slots.change([{ before: 'another', after: slotOf(queue, 7) }]), false);
    const half = [
      { before: one.token, after: slotOf(queue, 0) },
      { before: one.token, after: slotOf(queue, 1) },
    ];
    assert.equal(await slots.change(half), false);
    assert.deepEqual(await slots.read(queue), [one, two]);
  });

  it('gives a slot to one of many that want it', async () => {
    const { slots } = harness();
    const queue = newQueue();
    const wanting = Array.from({ length: 6 }, (_, index) => slotOf(queue, 0, { jobId: `j_0123456789abc_0${index}` }));
    const got = await Promise.all(wanting.map((after) => slots.change([{ before: null, after }])));
    assert.equal(got.filter(Boolean).length, 1);
    assert.deepEqual(await slots.read(queue), [wanting[got.indexOf(true)]]);
  });
}

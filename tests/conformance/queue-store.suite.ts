// What every QueueStore promises.

import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { it } from 'node:test';
import { defaultSettings, type QueueSettings } from '../../services/core/domain/queue-settings.ts';
import type { QueueStore } from '../../services/core/ports/queue-store.ts';

export interface QueueStoreHarness {
  readonly queues: QueueStore;
}

const AT = Date.parse('2026-11-15T06:00:00.123Z');

export function queueStoreSuite(harness: () => QueueStoreHarness): void {
  const name = (): string => `q-${randomBytes(4).toString('hex')}`;
  const first = (queue: string): QueueSettings => ({
    ...defaultSettings(queue),
    revision: 1,
    createdAt: AT,
    updatedAt: AT,
  });
  const full = (queue: string): QueueSettings => ({
    queue,
    ratePerS: 0.5,
    burst: 7,
    rampS: 60,
    maxRunning: 3,
    readyMax: 100,
    maxWaiting: 1_000,
    maxAttempts: 2,
    timeoutS: 30,
    leaseS: 10,
    retry: { kind: 'fixed', baseS: 0.5, factor: 1, capS: 5, jitter: 'none' },
    retentionDays: 3,
    deadRetentionDays: 20,
    pause: { at: AT + 1, reason: 'the printer is on fire', until: AT + 2 },
    resumedAt: AT + 3,
    revision: 2,
    createdAt: AT,
    updatedAt: AT + 4,
  });

  it('knows no queue that nobody configured', async () => {
    assert.equal(await harness().queues.read(name()), null);
  });

  it('keeps what is set, sets it back to the default, and lists it', async () => {
    const { queues } = harness();
    const queue = name();
    assert.ok(await queues.change({ next: first(queue), token: 'a' }));
    assert.deepEqual(await queues.read(queue), first(queue));
    assert.ok(await queues.change({ next: full(queue), token: 'b' }));
    assert.deepEqual(await queues.read(queue), full(queue));
    const listed = await queues.readAll();
    assert.deepEqual(
      listed.find((each) => each.queue === queue),
      full(queue),
    );
    assert.deepEqual(
      listed.map((each) => each.queue),
      listed.map((each) => each.queue).toSorted(),
    );
    const bare = { ...first(queue), revision: 3 };
    assert.ok(await queues.change({ next: bare, token: 'c' }));
    assert.deepEqual(await queues.read(queue), bare);
  });

  it('lets one of those who change the same revision win', async () => {
    const { queues } = harness();
    const queue = name();
    for (const revision of [1, 2]) {
      const changes = Array.from({ length: 8 }, (_, index) =>
        queues.change({ next: { ...first(queue), revision, burst: index + 1 }, token: `${queue} ${index}` }),
      );
      const won = await Promise.all(changes);
      assert.equal(won.filter(Boolean).length, 1);
      assert.equal((await queues.read(queue))?.burst, won.indexOf(true) + 1);
    }
    assert.equal(await queues.change({ next: { ...first(queue), revision: 2 }, token: 'late' }), false);
    assert.equal(await queues.change({ next: { ...first(queue), revision: 9 }, token: 'ahead' }), false);
  });

  it('tells by its last change that something changed', async () => {
    const { queues } = harness();
    const [one, other] = [name(), name()];
    await queues.change({ next: first(one), token: `${one} 1` });
    assert.equal(await queues.lastChange(), `${one} 1`);
    await queues.change({ next: first(other), token: `${other} 1` });
    assert.equal(await queues.lastChange(), `${other} 1`);
    await queues.change({ next: first(one), token: 'lost' });
    assert.equal(await queues.lastChange(), `${other} 1`);
  });
}

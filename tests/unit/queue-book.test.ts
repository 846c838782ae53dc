import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { defaultSettings, type QueueSettings } from '../../services/core/domain/queue-settings.ts';
import { QueueBook } from '../../services/core/queues/queue-book.ts';
import { FakeClock } from '../support/fake-clock.ts';
import { MemoryStores } from '../support/memory-store.ts';

async function bookOf(...queues: readonly Partial<QueueSettings>[]): Promise<QueueBook> {
  const clock = new FakeClock();
  const { queues: store } = new MemoryStores({ clock });
  for (const [index, settings] of queues.entries()) {
    const next = { ...defaultSettings(`queue-${index}`), revision: 1, ...settings };
    assert.ok(await store.change({ next, token: String(index) }));
  }
  const book = new QueueBook({ store, clock });
  await book.refresh();
  return book;
}

describe('the book of queues', () => {
  it('tells how long what ended is kept, by queue', async () => {
    const book = await bookOf({ retentionDays: 3, deadRetentionDays: 20 });
    assert.deepEqual(book.retentionOf('queue-0'), { finishedDays: 3, deadDays: 20 });
    assert.deepEqual(book.retentionOf('another'), { finishedDays: 7, deadDays: 30 });
  });

  it('tells the shortest time that anything is kept: never more than the default, for any queue may have it', async () => {
    assert.equal((await bookOf()).shortestRetentionDays(), 7);
    assert.equal((await bookOf({ retentionDays: 30, deadRetentionDays: 8 })).shortestRetentionDays(), 7);
    assert.equal((await bookOf({}, { retentionDays: 4 }, { retentionDays: 5 })).shortestRetentionDays(), 4);
    assert.equal((await bookOf({ retentionDays: 4, deadRetentionDays: 2 })).shortestRetentionDays(), 2);
  });

  it('is not set back by a read that set out before another and came after it', async () => {
    const clock = new FakeClock();
    let reads = 0;
    const { queues: store } = new MemoryStores({
      clock,
      plan: ({ method }) =>
        method === 'queues.readAll' && (reads += 1) === 1 ? { kind: 'slow', afterMs: 3_000 } : undefined,
    });
    const book = new QueueBook({ store, clock });
    const change = (ratePerS: number, revision: number): Promise<boolean> =>
      store.change({ next: { ...defaultSettings('mail'), ratePerS, revision }, token: String(ratePerS) });
    assert.ok(await change(1, 1));
    const slow = book.refresh();
    await clock.advance(1);
    assert.ok(await change(2, 2));
    const changedAt = clock.monotonic();
    assert.ok(!book.isReadSince(changedAt));
    await book.refresh();
    await clock.until(slow);
    assert.equal(book.settingsOf('mail').ratePerS, 2);
    assert.ok(book.isReadSince(changedAt));
  });
});

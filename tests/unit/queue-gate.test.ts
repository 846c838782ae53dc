import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { defaultSettings, type QueueSettings } from '../../services/core/domain/queue-settings.ts';
import { coreBench, setQueue, type CoreBench } from '../support/core-bench.ts';

const SUBJECT = { queue: 'mail', priority: 'normal' } as const;

function configure(bench: CoreBench, overrides: Partial<QueueSettings>): Promise<void> {
  return setQueue(bench, 'mail', { ...defaultSettings('mail'), ...overrides });
}

describe('the gate of a queue', () => {
  it('is open unless something holds the queue back', async () => {
    const bench = coreBench();
    const { gate } = bench.parts;
    assert.ok(gate.isOpen(SUBJECT));
    await configure(bench, { maxAttempts: 2, maxWaiting: 10 });
    assert.ok(gate.isOpen(SUBJECT));
    await configure(bench, { ratePerS: 1_000 });
    assert.equal(gate.isOpen(SUBJECT), false);
    await configure(bench, { maxRunning: 3 });
    assert.equal(gate.isOpen(SUBJECT), false);
    assert.ok(gate.isOpen({ ...SUBJECT, queue: 'other' }));
  });

  it('is closed while the queue is paused, and while the ready stream is away', async () => {
    const bench = coreBench();
    const { gate } = bench.parts;
    const { clock, connection } = bench;
    await configure(bench, { pause: { at: clock.now(), reason: 'maintenance', until: clock.now() + 5_000 } });
    assert.equal(gate.isOpen(SUBJECT), false);
    await clock.advance(5_000);
    assert.ok(gate.isOpen(SUBJECT));
    connection.disconnect();
    assert.equal(gate.isOpen(SUBJECT), false);
  });
});

describe('the book of queues', () => {
  it('reads all settings again when one changed, and only then', async () => {
    const bench = coreBench();
    const { queueBook } = bench.parts;
    await configure(bench, { ratePerS: 5 });
    const before = bench.events.length;
    await queueBook.refresh();
    assert.deepEqual(bench.events.slice(before), ['queues.lastChange']);
    assert.equal(queueBook.settingsOf('mail').ratePerS, 5);
    assert.deepEqual(queueBook.settingsOf('other'), defaultSettings('other'));
  });

  it('keeps what it knows while the store is away', async () => {
    const bench = coreBench();
    const { queueBook } = bench.parts;
    await configure(bench, { ratePerS: 5 });
    bench.stores.failNext('queues.lastChange', { kind: 'unavailable' });
    await assert.rejects(queueBook.refresh());
    assert.equal(queueBook.settingsOf('mail').ratePerS, 5);
  });

  it('looks again when the settings could not be read', async () => {
    const bench = coreBench();
    bench.stores.failNext('queues.readAll', { kind: 'unavailable' });
    await assert.rejects(configure(bench, { ratePerS: 5 }));
    await bench.parts.queueBook.refresh();
    assert.equal(bench.parts.queueBook.settingsOf('mail').ratePerS, 5);
  });
});

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { PUBLISH_RETRY_MAX_MS, SECOND_MS } from '../../services/core/domain/limits.ts';
import { ReadyPublisher } from '../../services/core/moves/ready-publisher.ts';
import type { PublishOutcome, ReadyMessage, ReadyQueue } from '../../services/core/ports/ready-queue.ts';
import { FAKE_START, FakeClock } from '../support/fake-clock.ts';

const message = (number: number): ReadyMessage => ({
  jobId: `j_0123456789abc_${String(number).padStart(2, '0')}`,
  attempt: 1,
  runAt: FAKE_START,
  queue: 'mail',
  priority: 'normal',
});

/** A publisher whose stream answers as told, message by message. */
function bench(answer: (sent: ReadyMessage, calls: number) => PublishOutcome) {
  const clock = new FakeClock();
  const calls: (readonly ReadyMessage[])[] = [];
  const publish: ReadyQueue['publish'] = async (messages) => {
    calls.push(messages);
    return messages.map((each) => answer(each, calls.length));
  };
  const queue: ReadyQueue = {
    connected: () => true,
    publish,
    ensureQueue: async () => [],
    oldestMessageAt: async () => null,
  };
  const publisher = new ReadyPublisher({ queue, clock });
  return { clock, calls, publish: (each: ReadyMessage) => publisher.publish(each) };
}

describe('the publisher of ready messages', () => {
  it('sends all of one turn in one call, in order', async () => {
    const { publish, calls } = bench(() => 'stored');
    const messages = Array.from({ length: 64 }, (_, number) => message(number));
    assert.deepEqual(await Promise.all(messages.map(publish)), Array<boolean>(64).fill(true));
    assert.deepEqual(calls, [messages]);
  });

  it('sends again what was not stored, and only that', async () => {
    const { publish, calls, clock } = bench(({ jobId }, call) =>
      jobId === message(1).jobId && call < 3 ? 'failed' : 'stored',
    );
    const published = await clock.until(Promise.all([0, 1, 2].map((number) => publish(message(number)))));
    assert.deepEqual(published, [true, true, true]);
    assert.deepEqual(
      calls.map((sent) => sent.length),
      [3, 1, 1],
    );
  });

  it('gives a failed one to the second look after a minute', async () => {
    const { publish, clock } = bench(() => 'failed');
    assert.equal(await clock.until(publish(message(0))), false);
    const tookMs = clock.now() - FAKE_START;
    assert.ok(tookMs >= PUBLISH_RETRY_MAX_MS && tookMs < PUBLISH_RETRY_MAX_MS + SECOND_MS, `${tookMs} ms`);
  });

  it('waits for room in a full queue, however long, and lets others pass', async () => {
    let isFull = true;
    const { publish, clock } = bench(({ queue }) => (queue === 'mail' && isFull ? 'full' : 'stored'));
    let stored = false;
    const waiting = publish(message(0)).then(() => (stored = true));
    assert.equal(await publish({ ...message(1), queue: 'sms' }), true);
    await clock.advance(10 * PUBLISH_RETRY_MAX_MS);
    assert.equal(stored, false);
    isFull = false;
    assert.equal(await clock.until(waiting), true);
  });
});

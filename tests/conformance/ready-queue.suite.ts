import assert from 'node:assert/strict';
import { it } from 'node:test';
import type { ReadyMessage, ReadyQueue } from '../../services/core/ports/ready-queue.ts';

/** A queue to test and what the suite needs to see of the other side. */
export interface ReadyQueueHarness {
  readonly queue: ReadyQueue;
  /** Takes and acknowledges up to `max` waiting messages of the consumer, oldest first. */
  readonly take: (queue: string, priority: ReadyMessage['priority'], max: number) => Promise<readonly ReadyMessage[]>;
  /** How many messages a subject holds at most. */
  readonly perSubject: number;
  /** Loses everything, as a server whose disk was replaced. */
  readonly lose: () => Promise<void>;
}

const AT = Date.parse('2026-11-29T10:00:00.123Z');

export function messageOf(index: number, overrides: Partial<ReadyMessage> = {}): ReadyMessage {
  return {
    jobId: `j_${String(index).padStart(13, '0')}_00`,
    attempt: 1,
    runAt: AT,
    queue: 'mail',
    priority: 'normal',
    ...overrides,
  };
}

/** What every ReadyQueue promises; run on the fake and on a real server. */
export function readyQueueSuite(start: () => Promise<ReadyQueueHarness>): void {
  it('names three consumers, by priority, and again the same', async () => {
    const { queue } = await start();
    const [first, second] = await Promise.all([queue.ensureQueue('mail'), queue.ensureQueue('mail')]);
    assert.deepEqual(first, second);
    assert.deepEqual(
      first.map(({ priority, consumer }) => [priority, consumer]),
      [
        ['high', 'q_mail_p_high'],
        ['normal', 'q_mail_p_normal'],
        ['low', 'q_mail_p_low'],
      ],
    );
  });

  it('keeps what was published before there was a consumer, in order, priorities apart', async () => {
    const { queue, take } = await start();
    const outcomes = await queue.publish([
      messageOf(1),
      messageOf(2, { priority: 'high' }),
      messageOf(3, { attempt: 4 }),
    ]);
    assert.deepEqual(outcomes, ['stored', 'stored', 'stored']);
    await queue.ensureQueue('mail');
    const taken = await take('mail', 'normal', 10);
    assert.deepEqual(taken, [messageOf(1), messageOf(3, { attempt: 4 })]);
    assert.equal((await take('mail', 'high', 10)).length, 1);
    assert.equal((await take('mail', 'low', 10)).length, 0);
  });

  it('stores the same job as often as it is published: nothing is taken for a duplicate', async () => {
    const { queue, take } = await start();
    await queue.ensureQueue('mail');
    assert.deepEqual(await queue.publish([messageOf(1), messageOf(1)]), ['stored', 'stored']);
    assert.equal((await take('mail', 'normal', 10)).length, 2);
  });

  it('tells when the oldest waiting message was stored', async () => {
    const { queue, take } = await start();
    await queue.ensureQueue('mail');
    assert.equal(await queue.oldestMessageAt('mail', 'normal'), null);
    await queue.publish([messageOf(1)]);
    const first = await queue.oldestMessageAt('mail', 'normal');
    assert.ok(first !== null);
    await queue.publish([messageOf(2)]);
    assert.equal(await queue.oldestMessageAt('mail', 'normal'), first);
    assert.equal(await queue.oldestMessageAt('mail', 'high'), null);
    await take('mail', 'normal', 1);
    const second = await queue.oldestMessageAt('mail', 'normal');
    assert.ok(second !== null && second >= first);
    await take('mail', 'normal', 1);
    assert.equal(await queue.oldestMessageAt('mail', 'normal'), null);
  });

  it('refuses beyond the bound of a subject, message by message, and no other subject', async () => {
    const { queue, perSubject } = await start();
    const count = perSubject - 2;
    const stored = await queue.publish(Array.from({ length: count }, (_, index) => messageOf(index)));
    assert.ok(stored.every((outcome) => outcome === 'stored'));
    const outcomes = await queue.publish(
      [0, 1, 2, 3].map((index) => messageOf(index)).concat(messageOf(9, { queue: 'other' })),
    );
    assert.equal(outcomes.filter((outcome) => outcome === 'full').length, 2);
    assert.equal(outcomes.filter((outcome) => outcome === 'stored').length, 3);
    assert.equal(outcomes[4], 'stored');
  });

  it('refuses message by message in large batches too', async () => {
    const { queue, perSubject } = await start();
    const outcomes = await queue.publish([
      ...Array.from({ length: perSubject + 50 }, (_, index) => messageOf(index)),
      ...Array.from({ length: 50 }, (_, index) => messageOf(index, { priority: 'low' })),
    ]);
    assert.equal(outcomes.filter((outcome) => outcome === 'stored').length, perSubject + 50);
    assert.ok(outcomes.slice(0, perSubject).every((outcome) => outcome === 'stored'));
    assert.ok(outcomes.slice(perSubject, perSubject + 50).every((outcome) => outcome === 'full'));
  });

  it('stores again after everything was lost, consumers included', async () => {
    const { queue, take, lose } = await start();
    await queue.ensureQueue('mail');
    await queue.publish([messageOf(1)]);
    await lose();
    assert.deepEqual(await queue.publish([messageOf(2)]), ['stored']);
    assert.equal((await take('mail', 'normal', 10)).length, 1);
  });

  it('answers an empty publish with nothing', async () => {
    const { queue } = await start();
    assert.deepEqual(await queue.publish([]), []);
  });
}

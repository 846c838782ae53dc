import assert from 'node:assert/strict';
import { it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { PRIORITIES } from '../../services/core/domain/job-status.ts';
import type {
  PulledMessage,
  PullRequest,
  ReadMessages,
  ReadyDepth,
  ReadyMessage,
  ReadyQueue,
} from '../../services/core/ports/ready-queue.ts';

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

/** A request that waits for nothing, unless told otherwise. */
export function pullOf(overrides: Partial<PullRequest> = {}): PullRequest {
  return {
    queue: 'mail',
    priorities: PRIORITIES,
    max: 10,
    waitMs: 0,
    signal: new AbortController().signal,
    ...overrides,
  };
}

/** Acknowledges them, and tells which they were. */
function acked(pulled: readonly PulledMessage[]): readonly ReadyMessage[] {
  for (const each of pulled) each.ack();
  return pulled.map(({ message }) => message);
}

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

  it('R058 stores the same job as often as it is published, right after its acknowledgement too: nothing is taken for a duplicate', async () => {
    const { queue, take } = await start();
    await queue.ensureQueue('mail');
    assert.deepEqual(await queue.publish([messageOf(1), messageOf(1)]), ['stored', 'stored']);
    assert.equal((await take('mail', 'normal', 10)).length, 2);
    assert.deepEqual(await queue.publish([messageOf(1)]), ['stored']);
    assert.equal((await take('mail', 'normal', 10)).length, 1);
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

  it('tells how many messages stand on each subject, of one queue or of all', async () => {
    const { queue, take } = await start();
    assert.deepEqual(await queue.depths(), []);
    await queue.ensureQueue('mail');
    await queue.publish([
      ...[1, 2, 3].map((index) => messageOf(index)),
      messageOf(4, { priority: 'high' }),
      messageOf(5, { queue: 'mail-2' }),
    ]);
    await take('mail', 'normal', 1);
    const mail = [
      { queue: 'mail', priority: 'high', messages: 1 },
      { queue: 'mail', priority: 'normal', messages: 2 },
    ];
    const inOrder = (depths: readonly ReadyDepth[]): readonly ReadyDepth[] =>
      depths.toSorted((one, other) => (`${one.queue} ${one.priority}` < `${other.queue} ${other.priority}` ? -1 : 1));
    assert.deepEqual(inOrder(await queue.depths('mail')), mail);
    assert.deepEqual(inOrder(await queue.depths()), [...mail, { queue: 'mail-2', priority: 'normal', messages: 1 }]);
    await take('mail', 'high', 1);
    assert.deepEqual(await queue.depths('mail'), mail.slice(1));
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

  it('pulls what is there, high priorities first and the oldest first, and each message once', async () => {
    const { queue, take } = await start();
    await queue.ensureQueue('mail');
    await queue.publish([
      messageOf(1, { priority: 'low' }),
      messageOf(2, { attempt: 4 }),
      messageOf(3),
      messageOf(4, { priority: 'high' }),
    ]);
    const first = acked(await queue.pull(pullOf({ max: 2 })));
    assert.deepEqual(first, [messageOf(4, { priority: 'high' }), messageOf(2, { attempt: 4 })]);
    const second = acked(await queue.pull(pullOf({ waitMs: 5_000 })));
    assert.deepEqual(second, [messageOf(3), messageOf(1, { priority: 'low' })]);
    assert.deepEqual(await queue.pull(pullOf()), []);
    assert.equal((await take('mail', 'normal', 10)).length, 0);
  });

  it('pulls high before low, and of ten one at least of each lower priority that waits', async () => {
    const { queue } = await start();
    await queue.ensureQueue('mail');
    await queue.publish(
      (['high', 'normal', 'low'] as const).flatMap((priority, kind) =>
        Array.from({ length: 40 }, (_, index) => messageOf(100 * kind + index, { priority })),
      ),
    );
    const counts = { high: 0, normal: 0, low: 0 };
    for (const max of [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 7, 13, 20]) {
      for (const { priority } of acked(await queue.pull(pullOf({ max })))) counts[priority] += 1;
    }
    assert.deepEqual(counts, { high: 40, normal: 5, low: 5 });
  });

  it('pulls only the priorities asked for, of the queue asked for', async () => {
    const { queue } = await start();
    await queue.publish([
      messageOf(1, { priority: 'low' }),
      messageOf(2, { priority: 'high' }),
      messageOf(3, { queue: 'other', priority: 'low' }),
    ]);
    assert.deepEqual(acked(await queue.pull(pullOf({ priorities: ['low'] }))), [messageOf(1, { priority: 'low' })]);
    assert.deepEqual(acked(await queue.pull(pullOf({ priorities: ['low', 'normal'] }))), []);
    assert.equal((await queue.pull(pullOf())).length, 1);
  });

  it('waits for the first message, and no longer', async () => {
    const { queue } = await start();
    await queue.ensureQueue('mail');
    const startedAt = performance.now();
    const waiting = queue.pull(pullOf({ waitMs: 5_000 }));
    await sleep(150);
    await queue.publish([messageOf(1, { priority: 'low' })]);
    assert.deepEqual(acked(await waiting), [messageOf(1, { priority: 'low' })]);
    const tookMs = performance.now() - startedAt;
    assert.ok(tookMs >= 140 && tookMs < 2_000, `it took ${tookMs} ms`);
  });

  it('answers with nothing when the wait is over, and leaves no request behind that would swallow a message', async () => {
    const { queue } = await start();
    await queue.ensureQueue('mail');
    const startedAt = performance.now();
    assert.deepEqual(await queue.pull(pullOf({ waitMs: 200 })), []);
    const tookMs = performance.now() - startedAt;
    assert.ok(tookMs >= 190 && tookMs < 2_000, `it took ${tookMs} ms`);
    await queue.publish([messageOf(1)]);
    assert.equal(acked(await queue.pull(pullOf())).length, 1);
  });

  it('shares what comes out among those who wait', async () => {
    const { queue } = await start();
    await queue.ensureQueue('mail');
    const waiting = [1, 2, 3, 4].map(() => queue.pull(pullOf({ max: 1, waitMs: 5_000 })));
    await sleep(100);
    await queue.publish([1, 2, 3, 4].map((index) => messageOf(index)));
    const ids = (await Promise.all(waiting)).flatMap(acked).map(({ jobId }) => jobId);
    assert.deepEqual(
      ids.sort(),
      [1, 2, 3, 4].map((index) => messageOf(index).jobId),
    );
  });

  it('takes nothing more once aborted, before or during the wait', async () => {
    const { queue } = await start();
    await queue.publish([messageOf(1)]);
    assert.deepEqual(await queue.pull(pullOf({ signal: AbortSignal.abort() })), []);
    assert.equal(acked(await queue.pull(pullOf())).length, 1);

    const caller = new AbortController();
    const waiting = queue.pull(pullOf({ waitMs: 5_000, signal: caller.signal }));
    await sleep(100);
    caller.abort();
    assert.deepEqual(await waiting, []);
    await queue.publish([messageOf(2)]);
    assert.deepEqual(acked(await queue.pull(pullOf())), [messageOf(2)]);
  });

  it('delivers again what was given back, not before its time', async () => {
    const { queue } = await start();
    await queue.publish([messageOf(1)]);
    const [given] = await queue.pull(pullOf());
    given?.nakAfter(300);
    assert.deepEqual(await queue.pull(pullOf()), []);
    const startedAt = performance.now();
    const again = acked(await queue.pull(pullOf({ waitMs: 5_000 })));
    assert.deepEqual(again, [messageOf(1)]);
    assert.ok(performance.now() - startedAt >= 200);
  });

  it('pulls from a queue that nobody met before, and after everything was lost', async () => {
    const { queue, lose } = await start();
    assert.deepEqual(await queue.pull(pullOf({ queue: 'fresh' })), []);
    await lose();
    assert.deepEqual(await queue.pull(pullOf({ queue: 'fresh', waitMs: 100 })), []);
    await queue.publish([messageOf(1, { queue: 'fresh' })]);
    assert.equal(acked(await queue.pull(pullOf({ queue: 'fresh' }))).length, 1);
  });

  it('shows the messages of one subject page by page, oldest first, in hands or not', async () => {
    const { queue } = await start();
    await queue.ensureQueue('mail');
    for (let index = 0; index < 5; index += 1) {
      await queue.publish([messageOf(index), messageOf(index, { queue: 'other' }), messageOf(9, { priority: 'low' })]);
    }
    const [held] = await queue.pull(pullOf({ max: 1, priorities: ['normal'] }));
    assert.equal(held?.message.jobId, messageOf(0).jobId);
    const shown: ReadyMessage[] = [];
    const sizes: number[] = [];
    let from: ReadMessages['from'] | null = { storedAt: 0 };
    while (from !== null) {
      const page = await queue.readMessages({ queue: 'mail', priority: 'normal', from, max: 2 });
      sizes.push(page.messages.length);
      shown.push(...page.messages.map(({ message }) => message));
      from = page.next;
    }
    assert.deepEqual(
      shown,
      [0, 1, 2, 3, 4].map((index) => messageOf(index)),
    );
    assert.deepEqual(sizes, [2, 2, 1]);
    const none = await queue.readMessages({ queue: 'mail', priority: 'high', from: { storedAt: 0 }, max: 2 });
    assert.deepEqual(none, { messages: [], next: null });
    held.ack();
  });

  it('shows the messages that were stored since a time', async () => {
    const { queue } = await start();
    await queue.publish([messageOf(1)]);
    await sleep(20);
    await queue.publish([messageOf(2)]);
    const since = async (storedAt: number): Promise<readonly string[]> => {
      const page = await queue.readMessages({ queue: 'mail', priority: 'normal', from: { storedAt }, max: 10 });
      return page.messages.map(({ message }) => message.jobId);
    };
    const first = (await queue.oldestMessageAt('mail', 'normal')) ?? assert.fail('nothing is stored');
    assert.deepEqual(await since(first), [messageOf(1).jobId, messageOf(2).jobId]);
    assert.deepEqual(await since(first + 10), [messageOf(2).jobId]);
    assert.deepEqual(await since(first + 60_000), []);
  });

  it('removes the messages named and no other, in hands or not; what is gone already is no fault', async () => {
    const { queue, take } = await start();
    await queue.ensureQueue('mail');
    await queue.publish([0, 1, 2, 3, 4].map((index) => messageOf(index)));
    const [held] = await queue.pull(pullOf({ max: 1 }));
    const request = { queue: 'mail', priority: 'normal', from: { storedAt: 0 }, max: 10 } as const;
    const sequences = (await queue.readMessages(request)).messages.map(({ sequence }) => sequence);
    const before = await queue.incarnation();
    const removed = [0, 2, 3].map((index) => sequences[index]!);
    await queue.removeMessages(removed);
    await queue.removeMessages([...removed, before.lastSequence + 1_000]);
    await queue.removeMessages([]);
    assert.deepEqual(await queue.depths('mail'), [{ queue: 'mail', priority: 'normal', messages: 2 }]);
    assert.deepEqual(await queue.incarnation(), before);
    held?.nakAfter(0);
    await sleep(100);
    assert.deepEqual(await take('mail', 'normal', 10), [messageOf(1), messageOf(4)]);
    assert.deepEqual(await queue.pull(pullOf()), []);
  });

  it('stores a job again whose message was just removed, under a sequence of its own', async () => {
    const { queue, take } = await start();
    await queue.ensureQueue('mail');
    const read = async (): Promise<readonly number[]> => {
      const request = { queue: 'mail', priority: 'normal', from: { storedAt: 0 }, max: 10 } as const;
      return (await queue.readMessages(request)).messages.map(({ sequence }) => sequence);
    };
    await queue.publish([messageOf(1)]);
    const [first] = await read();
    await queue.removeMessages([first!]);
    assert.deepEqual(await queue.publish([messageOf(1)]), ['stored']);
    const [second] = await read();
    assert.ok(second! > first!);
    await queue.removeMessages([first!]);
    assert.deepEqual(await take('mail', 'normal', 10), [messageOf(1)]);
  });

  it('shows and removes nothing once everything was lost', async () => {
    const { queue, lose } = await start();
    await queue.publish([messageOf(1)]);
    await lose();
    await queue.incarnation();
    const request = { queue: 'mail', priority: 'normal', from: { sequence: 1 }, max: 10 } as const;
    assert.deepEqual(await queue.readMessages(request), { messages: [], next: null });
    await queue.removeMessages([1]);
  });

  it('tells one incarnation from the next, and how far it has come', async () => {
    const { queue, lose } = await start();
    const first = await queue.incarnation();
    await queue.publish([messageOf(1), messageOf(2)]);
    const later = await queue.incarnation();
    assert.equal(later.createdAt, first.createdAt);
    assert.equal(later.lastSequence, first.lastSequence + 2);
    await sleep(5);
    await lose();
    const next = await queue.incarnation();
    assert.ok(next.createdAt > first.createdAt);
    assert.equal(next.lastSequence, 0);
    assert.deepEqual(await queue.incarnation(), next);
  });
}

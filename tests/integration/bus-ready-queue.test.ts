// What the ready queue does on JetStream beyond what the conformance suite asks of every implementation.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { connectBus } from '../../services/core/bus/connection.ts';
import { createReadyQueue } from '../../services/core/bus/ready-queue.ts';
import { PRIORITIES } from '../../services/core/domain/job-status.ts';
import { BusError, type ReadMessages, type ReadyQueue } from '../../services/core/ports/ready-queue.ts';
import { systemClock } from '../../services/core/runtime/system-clock.ts';
import { messageOf, pullOf } from '../conformance/ready-queue.suite.ts';
import { connectedBus, eventually, RecordingTelemetry, silentLog, TestBus } from '../support/bus.ts';
import { startPrivateNats } from '../support/servers.ts';

describe('the ready queue on JetStream', () => {
  const test = new TestBus();

  function start(): { queue: ReadyQueue; other: ReadyQueue; stream: string; telemetry: RecordingTelemetry } {
    const { prefix, maxBytes } = test.names();
    const telemetry = new RecordingTelemetry();
    const parts = { clock: systemClock, telemetry, log: silentLog };
    return {
      queue: createReadyQueue({ prefix, maxBytes }, { bus: test.bus, ...parts }),
      other: createReadyQueue({ prefix, maxBytes }, { bus: test.otherBus, ...parts }),
      stream: `${prefix}READY_0`,
      telemetry,
    };
  }

  it('writes messages as the contract has them', async () => {
    const { queue, stream } = start();
    await queue.ensureQueue('mail');
    await queue.publish([messageOf(1, { attempt: 4, priority: 'low' })]);
    assert.deepEqual(await test.take(stream, 'q_mail_p_low', 1), [
      {
        v: 1,
        job_id: messageOf(1).jobId,
        attempt: 4,
        run_at: '2026-11-29T10:00:00.123Z',
        queue: 'mail',
        priority: 'low',
      },
    ]);
  });

  it('keeps the largest message within 512 bytes', async () => {
    const { queue, stream } = start();
    const largest = messageOf(0, {
      jobId: `s_${'z'.repeat(13)}_1z@2026-11-15T06:00:00Z`,
      queue: 'q'.repeat(64),
      attempt: 1_000_000_000,
    });
    assert.deepEqual(await queue.publish([largest]), ['stored']);
    const stored = await test.bus.link().jsm.streams.getMessage(stream, { seq: 1 });
    assert.ok(stored !== null && stored.data.length <= 512, `${stored?.data.length} bytes`);
  });

  it('publishes 2,500 messages in batches', async () => {
    const { queue, stream, telemetry } = start();
    await queue.ensureQueue('mail');
    const outcomes = await queue.publish(Array.from({ length: 2_500 }, (_, index) => messageOf(index)));
    assert.ok(outcomes.every((outcome) => outcome === 'stored'));
    const { jsm } = test.bus.link();
    assert.equal((await jsm.streams.info(stream)).state.messages, 2_500);
    const last = await jsm.streams.getMessage(stream, { seq: 2_500 });
    assert.ok(last?.header.has('Nats-Batch-Id'));
    assert.equal(telemetry.counts.get('punctual_ready_publish_total stored'), 2_500);
  });

  it('counts what it had to make again', async () => {
    const { queue, stream, telemetry } = start();
    await queue.ensureQueue('mail');
    await test.bus.link().jsm.streams.delete(stream);
    assert.deepEqual(await queue.publish([messageOf(1)]), ['stored']);
    assert.equal(telemetry.counts.get('punctual_bus_recreated_total stream'), 1);
    assert.equal(telemetry.counts.get('punctual_bus_recreated_total consumer'), 3);
  });

  it('reads in batches from a stream that was made without direct gets, once somebody looked at it', async () => {
    const { queue, other, stream } = start();
    await queue.publish([messageOf(1)]);
    await test.bus.link().jsm.streams.update(stream, { allow_direct: false });
    const request = { queue: 'mail', priority: 'normal', from: { storedAt: 0 }, max: 10 } as const;
    await assert.rejects(queue.readMessages(request), BusError);
    await other.incarnation();
    assert.deepEqual(
      (await queue.readMessages(request)).messages.map(({ message }) => message),
      [messageOf(1)],
    );
  });

  it('finds and removes one message in each ten of 20,000, among as many of another queue', async (context) => {
    const { queue } = start();
    await queue.ensureQueue('mail');
    const count = 20_000;
    for (let from = 0; from < count; from += 1_000) {
      const some = Array.from({ length: 1_000 }, (_, index) => messageOf(from + index));
      await queue.publish(some.flatMap((message) => [message, { ...message, queue: 'other' }]));
    }
    const startedAt = performance.now();
    const found: number[] = [];
    let read = 0;
    let from: ReadMessages['from'] | null = { storedAt: 0 };
    while (from !== null) {
      const page = await queue.readMessages({ queue: 'mail', priority: 'normal', from, max: 1_000 });
      page.messages.forEach(({ sequence }, index) => index % 10 === 0 && found.push(sequence));
      read += page.messages.length;
      from = page.next;
    }
    const readMs = performance.now() - startedAt;
    await queue.removeMessages(found);
    context.diagnostic(
      `read in ${readMs.toFixed(0)} ms, removed in ${(performance.now() - startedAt - readMs).toFixed(0)} ms`,
    );
    assert.equal(read, count);
    assert.deepEqual(await queue.depths('mail'), [
      { queue: 'mail', priority: 'normal', messages: count - found.length },
    ]);
    assert.deepEqual(await queue.depths('other'), [{ queue: 'other', priority: 'normal', messages: count }]);
  });

  it('makes one stream and one set of consumers from two processes at once', async () => {
    const { queue, other } = start();
    const [ours, theirs] = await Promise.all([queue.ensureQueue('mail'), other.ensureQueue('mail')]);
    assert.deepEqual(ours, theirs);
  });

  it('leaves a consumer that an operator changed as it is', async () => {
    const { queue, other, stream } = start();
    const consumers = await queue.ensureQueue('mail');
    await test.bus.link().jsm.consumers.update(stream, 'q_mail_p_low', { max_ack_pending: 17 });
    assert.deepEqual(await other.ensureQueue('mail'), consumers);
    assert.equal((await test.bus.link().jsm.consumers.info(stream, 'q_mail_p_low')).config.max_ack_pending, 17);
  });

  it('fails at once without a connection', async () => {
    const bus = connectBus({ servers: ['127.0.0.1:1'] }, { clock: systemClock, log: silentLog });
    const telemetry = new RecordingTelemetry();
    const queue = createReadyQueue({}, { bus, clock: systemClock, telemetry, log: silentLog });
    assert.equal(queue.connected(), false);
    assert.deepEqual(await queue.publish([messageOf(1), messageOf(2)]), ['failed', 'failed']);
    await assert.rejects(queue.ensureQueue('mail'), BusError);
    await assert.rejects(queue.oldestMessageAt('mail', 'normal'), BusError);
    const request = { queue: 'mail', priority: 'normal', from: { storedAt: 0 }, max: 10 } as const;
    await assert.rejects(queue.readMessages(request), BusError);
    await assert.rejects(queue.removeMessages([1]), BusError);
    await bus.close();
  });

  it('shares 2,000 messages out among 40 callers that keep pulling, each once', async () => {
    const { queue, other } = start();
    await queue.ensureQueue('mail');
    const count = 2_000;
    const seen: string[] = [];
    const stopping = new AbortController();
    const callers = Array.from({ length: 40 }, async (_, index) => {
      while (!stopping.signal.aborted) {
        const source = index % 2 === 0 ? queue : other;
        for (const each of await source.pull(pullOf({ max: 7, waitMs: 2_000, signal: stopping.signal }))) {
          seen.push(each.message.jobId);
          each.ack();
        }
      }
    });
    for (let from = 0; from < count; from += 50) {
      const priority = PRIORITIES[(from / 50) % 3]!;
      await queue.publish(Array.from({ length: 50 }, (_, index) => messageOf(from + index, { priority })));
    }
    await eventually(() => seen.length >= count, 'all are pulled', 10_000);
    stopping.abort();
    await Promise.all(callers);
    assert.equal(seen.length, count);
    assert.equal(new Set(seen).size, count);
  });

  it('loses nothing to callers that hang up while messages come in', async () => {
    const { queue, other, stream } = start();
    await queue.ensureQueue('mail');
    const count = 400;
    const seen: string[] = [];
    const take = async (waitMs: number, signal: AbortSignal): Promise<number> => {
      const pulled = await other.pull(pullOf({ max: 3, waitMs, signal }));
      for (const each of pulled) {
        seen.push(each.message.jobId);
        each.ack();
      }
      return pulled.length;
    };
    const callers: Promise<unknown>[] = [];
    for (let index = 0; index < count; index += 1) {
      const caller = new AbortController();
      callers.push(take(5_000, caller.signal));
      void queue.publish([messageOf(index, { priority: PRIORITIES[index % 3]! })]);
      setTimeout(() => caller.abort(), index % 5);
      await new Promise((resolve) => setTimeout(resolve, 2));
    }
    await Promise.all(callers);
    // Far below ack_wait: nothing may lie in the hands of a caller that has gone.
    const startedAt = performance.now();
    while (seen.length < count && (await take(2_000, new AbortController().signal)) > 0);
    assert.ok(performance.now() - startedAt < 5_000, `it took ${performance.now() - startedAt} ms`);
    assert.equal(new Set(seen).size, count);
    const state = await test.bus.link().jsm.consumers.info(stream, 'q_mail_p_low');
    assert.equal(state.num_waiting, 0);
  });

  it('throws away what is no ready message, and says so', async () => {
    const { prefix, maxBytes } = test.names();
    const warnings: string[] = [];
    const log = { ...silentLog, warn: (message: string) => warnings.push(message) };
    const parts = { bus: test.bus, clock: systemClock, telemetry: new RecordingTelemetry(), log };
    const queue = createReadyQueue({ prefix, maxBytes }, parts);
    await queue.ensureQueue('mail');
    const malformed = ['', '{}', 'null', '[1]', '{"v":2}', JSON.stringify({ v: 1, job_id: 'x', attempt: 1 })];
    for (const text of malformed) await test.bus.link().js.publish(`${prefix}ready.mail.normal`, text);
    await queue.publish([messageOf(1)]);
    const pulled = await queue.pull(pullOf());
    assert.deepEqual(
      pulled.map(({ message }) => message),
      [messageOf(1)],
    );
    assert.equal(warnings.length, malformed.length);
    pulled[0]?.ack();
    await eventually(
      async () => (await test.bus.link().jsm.streams.info(`${prefix}READY_0`)).state.messages === 0,
      'the malformed ones are gone too',
    );
  });

  it('rejects a pull when the server goes away in mid-wait', async (context) => {
    const server = await startPrivateNats(context);
    const bus = await connectedBus([server.contactPoint]);
    context.after(() => bus.close());
    const parts = { clock: systemClock, telemetry: new RecordingTelemetry(), log: silentLog };
    const queue = createReadyQueue({}, { bus, ...parts });
    await queue.ensureQueue('mail');
    const waiting = queue.pull(pullOf({ waitMs: 20_000 }));
    await new Promise((resolve) => setTimeout(resolve, 100));
    await server.process.kill('SIGKILL');
    await assert.rejects(waiting, BusError);
    await assert.rejects(queue.pull(pullOf()), BusError);
    await assert.rejects(queue.incarnation(), BusError);
  });

  it('heals the consumers of a queue whose stream somebody else made again', async () => {
    const { queue, other, stream } = start();
    await queue.ensureQueue('mail');
    await test.bus.link().jsm.streams.delete(stream);
    await other.incarnation();
    assert.deepEqual(await queue.pull(pullOf({ waitMs: 100 })), [], 'the pull made them');
    await test.bus.link().jsm.streams.delete(stream);
    await other.incarnation();
    await other.publish([messageOf(1)]);
    await eventually(
      () =>
        test.bus
          .link()
          .jsm.consumers.info(stream, 'q_mail_p_low')
          .then(Boolean, () => false),
      'the publisher made them',
    );
  });
});

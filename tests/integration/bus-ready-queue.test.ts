import assert from 'node:assert/strict';
import { after, describe, it } from 'node:test';
import { createReadyQueue } from '../../services/core/bus/ready-queue.ts';
import { BusError } from '../../services/core/ports/ready-queue.ts';
import { connectBus } from '../../services/core/bus/connection.ts';
import { systemClock } from '../../services/core/runtime/system-clock.ts';
import { messageOf, readyQueueSuite } from '../conformance/ready-queue.suite.ts';
import { connectedBus, dropStreams, RecordingTelemetry, silentLog, testPrefix } from '../support/bus.ts';

const MAX_BYTES = 16 * 1024 * 1024;
const PER_SUBJECT = 300;

void describe('the ready queue on JetStream', async () => {
  const bus = await connectedBus();
  const prefixes: string[] = [];
  after(async () => {
    for (const prefix of prefixes) await dropStreams(bus, prefix);
    await bus.close();
  });

  async function start() {
    const prefix = testPrefix();
    prefixes.push(prefix);
    const stream = `${prefix}READY_0`;
    const telemetry = new RecordingTelemetry();
    const queue = createReadyQueue(
      { prefix, maxBytes: MAX_BYTES },
      { bus, clock: systemClock, telemetry, log: silentLog },
    );
    await queue.ensureQueue('probe');
    const { jsm, js } = bus.link();
    await jsm.streams.update(stream, { max_msgs_per_subject: PER_SUBJECT });
    return {
      queue,
      telemetry,
      stream,
      perSubject: PER_SUBJECT,
      lose: async () => {
        await jsm.streams.delete(stream);
      },
      take: async (name: string, priority: string, max: number) => {
        const consumer = await js.consumers.get(stream, `q_${name}_p_${priority}`);
        const waiting = (await consumer.info()).num_pending;
        const taken: unknown[] = [];
        if (waiting === 0) return taken;
        const messages = await consumer.fetch({ max_messages: Math.min(max, waiting), expires: 2_000 });
        for await (const message of messages) {
          taken.push(message.json());
          await message.ackAck();
        }
        return taken;
      },
    };
  }

  readyQueueSuite(start);

  void it('publishes 2,500 messages in batches', async () => {
    const { queue, stream, telemetry } = await start();
    const { jsm } = bus.link();
    await jsm.streams.update(stream, { max_msgs_per_subject: 100_000 });
    const outcomes = await queue.publish(Array.from({ length: 2_500 }, (_, index) => messageOf(index)));
    assert.ok(outcomes.every((outcome) => outcome === 'stored'));
    assert.equal((await jsm.streams.info(stream)).state.messages, 2_500);
    assert.equal(telemetry.counts.get('punctual_ready_publish_total stored'), 2_500);
  });

  void it('keeps the largest message within 512 bytes', async () => {
    const { queue, stream } = await start();
    const largest = messageOf(0, {
      jobId: `s_${'z'.repeat(13)}_1z@2026-11-15T06:00:00Z`,
      queue: 'q'.repeat(64),
      attempt: 2_000_000_000,
    });
    await queue.publish([largest]);
    const stored = await bus.link().jsm.streams.getMessage(stream, { seq: 1 });
    assert.ok(stored !== null && stored.data.length <= 512, `${stored?.data.length} bytes`);
  });

  void it('counts what it had to make again', async () => {
    const { queue, telemetry, lose } = await start();
    await lose();
    assert.deepEqual(await queue.publish([messageOf(1)]), ['stored']);
    assert.equal(telemetry.counts.get('punctual_bus_recreated_total stream'), 1);
    assert.equal(telemetry.counts.get('punctual_bus_recreated_total consumer'), 3);
  });

  void it('makes one stream and one set of consumers from many processes at once', async () => {
    const prefix = testPrefix();
    prefixes.push(prefix);
    const queues = Array.from({ length: 5 }, () =>
      createReadyQueue(
        { prefix, maxBytes: MAX_BYTES },
        { bus, clock: systemClock, telemetry: new RecordingTelemetry(), log: silentLog },
      ),
    );
    const made = await Promise.all(queues.map((queue) => queue.ensureQueue('mail')));
    for (const consumers of made) assert.deepEqual(consumers, made[0]);
  });

  void it('fails at once without a connection', async () => {
    const nowhere = connectBus({ servers: ['127.0.0.1:1'] }, { clock: systemClock, log: silentLog });
    const queue = createReadyQueue(
      {},
      { bus: nowhere, clock: systemClock, telemetry: new RecordingTelemetry(), log: silentLog },
    );
    assert.equal(queue.connected(), false);
    assert.deepEqual(await queue.publish([messageOf(1), messageOf(2)]), ['failed', 'failed']);
    await assert.rejects(queue.ensureQueue('mail'), BusError);
    await assert.rejects(queue.oldestMessageAt('mail', 'normal'), BusError);
    await nowhere.close();
  });
});

// What the ready queue does on JetStream beyond what the conformance suite asks of every implementation.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { connectBus } from '../../services/core/bus/connection.ts';
import { createReadyQueue } from '../../services/core/bus/ready-queue.ts';
import { BusError, type ReadyQueue } from '../../services/core/ports/ready-queue.ts';
import { systemClock } from '../../services/core/runtime/system-clock.ts';
import { messageOf } from '../conformance/ready-queue.suite.ts';
import { RecordingTelemetry, silentLog, TestBus } from '../support/bus.ts';

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
    await bus.close();
  });
});

// The bus ports, on the fake that other tests use and on a real nats-server.

import { describe } from 'node:test';
import { createDueHints } from '../../services/core/bus/due-hints.ts';
import { NatsHeldReports } from '../../services/core/bus/held-reports.ts';
import { createReadyQueue } from '../../services/core/bus/ready-queue.ts';
import { createShardLeases } from '../../services/core/bus/shard-leases.ts';
import type { Priority } from '../../services/core/domain/job-status.ts';
import type { ReadyMessage } from '../../services/core/ports/ready-queue.ts';
import { systemClock } from '../../services/core/runtime/system-clock.ts';
import { RecordingTelemetry, silentLog, TestBus, type WireMessage } from '../support/bus.ts';
import { FakeClock, settled } from '../support/fake-clock.ts';
import { MemoryBus } from '../support/memory-bus.ts';
import { dueHintsSuite } from './due-hints.suite.ts';
import { heldReportsSuite } from './held-reports.suite.ts';
import { readyQueueSuite } from './ready-queue.suite.ts';
import { shardLeasesSuite } from './shard-leases.suite.ts';

const PER_SUBJECT = 300;
const LEASE_TTL_MS = 2_000;

describe('the bus in memory', () => {
  describe('ready queue', () => {
    readyQueueSuite(async () => {
      const bus = new MemoryBus({ clock: systemClock, perSubject: PER_SUBJECT });
      return {
        queue: bus.connect().queue,
        perSubject: PER_SUBJECT,
        lose: async () => {
          bus.lose();
        },
        take: async (queue, priority, max) => {
          const delivered = bus.take(queue, priority, max);
          for (const each of delivered) each.ack();
          return delivered.map(({ message }) => message);
        },
      };
    });
  });

  describe('due hints', () => {
    dueHintsSuite(async () => {
      const bus = new MemoryBus({ clock: new FakeClock() });
      return { ours: bus.connect().hints, theirs: bus.connect().hints, arrived: settled };
    });
  });

  describe('reports of what is held', () => {
    heldReportsSuite(async () => {
      const bus = new MemoryBus({ clock: new FakeClock() });
      return { ours: bus.connect().heldReports, theirs: bus.connect().heldReports, arrived: settled };
    });
  });

  describe('shard leases', () => {
    shardLeasesSuite(async () => {
      const clock = new FakeClock();
      const bus = new MemoryBus({ clock, leaseTtlMs: LEASE_TTL_MS });
      return { ours: bus.connect().leases, theirs: bus.connect().leases, pass: (ms) => clock.advance(ms) };
    });
  });
});

describe('the bus on NATS', () => {
  const test = new TestBus();

  describe('ready queue', () => {
    readyQueueSuite(async () => {
      const { prefix, maxBytes } = test.names();
      const { bus } = test;
      const telemetry = new RecordingTelemetry();
      const queue = createReadyQueue({ prefix, maxBytes }, { bus, clock: systemClock, telemetry, log: silentLog });
      await queue.ensureQueue('probe');
      const stream = `${prefix}READY_0`;
      const { jsm } = bus.link();
      await jsm.streams.update(stream, { max_msgs_per_subject: PER_SUBJECT });
      return {
        queue,
        perSubject: PER_SUBJECT,
        lose: async () => {
          await jsm.streams.delete(stream);
        },
        take: async (name, priority, max) =>
          (await test.take(stream, `q_${name}_p_${priority}`, max)).map(messageOfWire),
      };
    });
  });

  describe('due hints', () => {
    dueHintsSuite(async () => {
      const { prefix } = test.names();
      const { bus, otherBus } = test;
      return {
        ours: createDueHints({ prefix }, { bus, log: silentLog }),
        theirs: createDueHints({ prefix }, { bus: otherBus, log: silentLog }),
        arrived: async () => {
          await bus.link().nats.flush();
          await otherBus.link().nats.flush();
        },
      };
    });
  });

  describe('reports of what is held', () => {
    heldReportsSuite(async () => {
      const { prefix } = test.names();
      const { bus, otherBus } = test;
      return {
        ours: new NatsHeldReports({ prefix }, { bus, log: silentLog }),
        theirs: new NatsHeldReports({ prefix }, { bus: otherBus, log: silentLog }),
        arrived: async () => {
          await bus.link().nats.flush();
          await otherBus.link().nats.flush();
        },
      };
    });
  });

  describe('shard leases', { concurrency: true }, () => {
    shardLeasesSuite(async () => {
      const { prefix } = test.names();
      const [ours, theirs] = [test.bus, test.otherBus].map((bus) =>
        createShardLeases(
          { prefix, ttlMs: LEASE_TTL_MS },
          { bus, telemetry: new RecordingTelemetry(), log: silentLog },
        ),
      );
      await ours!.ensure();
      return { ours: ours!, theirs: theirs!, pass: (ms) => systemClock.sleep(ms) };
    });
  });
});

function messageOfWire(wire: WireMessage): ReadyMessage {
  const { job_id: jobId, attempt, run_at: runAt, queue, priority } = wire;
  return { jobId, attempt, runAt: Date.parse(runAt), queue, priority: priority as Priority };
}

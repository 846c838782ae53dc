// A reaper on memory stores and the memory bus, to be driven by hand.

import { HOUR_MS } from '../../services/core/domain/limits.ts';
import { AttemptEnder } from '../../services/core/moves/end-attempt.ts';
import { OverlapQueue } from '../../services/core/moves/overlap-queue.ts';
import { ReadyPublisher } from '../../services/core/moves/ready-publisher.ts';
import { StaleMessages } from '../../services/core/moves/stale-messages.ts';
import { WaitingCanceller } from '../../services/core/moves/cancel-waiting.ts';
import { JobUnqueuer } from '../../services/core/moves/unqueue-job.ts';
import type { Clock } from '../../services/core/ports/clock.ts';
import type { Telemetry } from '../../services/core/ports/telemetry.ts';
import { HeldBoard } from '../../services/core/queues/held-board.ts';
import { QueueBook } from '../../services/core/queues/queue-book.ts';
import { QueueGate } from '../../services/core/queues/queue-gate.ts';
import { Rounds } from '../../services/core/rounds/rounds.ts';
import { systemRandom } from '../../services/core/runtime/system-random.ts';
import { Timers } from '../../services/core/timers/timers.ts';
import { ReadyWatch } from '../../services/reaper/ready-watch.ts';
import { Reaper } from '../../services/reaper/reaper.ts';
import { Republisher } from '../../services/reaper/republish.ts';
import { Retention } from '../../services/reaper/retention.ts';
import { ScheduleWaker } from '../../services/reaper/schedule-waker.ts';
import { Settler } from '../../services/reaper/settle.ts';
import { FAKE_START } from './fake-clock.ts';
import type { MemoryConnection } from './memory-bus.ts';
import type { MemoryStores } from './memory-store.ts';
import { silentLog } from './silent-telemetry.ts';

export function makeReaper(parts: {
  readonly stores: MemoryStores;
  readonly connection: MemoryConnection;
  readonly clock: Clock;
  readonly telemetry: Telemetry;
  readonly holds: (shard: number) => boolean;
}): Reaper {
  const { stores, connection, clock, telemetry, holds } = parts;
  const { queue, hints } = connection;
  const log = silentLog;
  const reader = stores.jobs;
  const { history } = stores;
  const rounds = new Rounds({ store: stores.cohorts, reader, clock, telemetry });
  const timers = new Timers({ store: stores.timers, hints, clock });
  const publisher = new ReadyPublisher({ queue, clock });
  const queueBook = new QueueBook({ store: stores.queues, clock });
  const gate = new QueueGate({ book: queueBook, publisher, queue, board: new HeldBoard({ clock }) });
  const { schedules } = stores;
  const overlaps = new OverlapQueue({ reader, schedules, timers, clock, log });
  const leftBehind = new StaleMessages({ queue, reader, clock, telemetry, log });
  const canceller = new WaitingCanceller({ rounds, timers, history, overlaps, leftBehind, clock, log });
  const ender = new AttemptEnder({ rounds, timers, history, publisher, overlaps, telemetry, log });
  const shared = { clock, telemetry, log };
  const retention = new Retention({
    reader,
    rounds,
    timers,
    overlaps,
    timerStore: stores.timers,
    book: queueBook,
    clock,
    telemetry,
  });
  return new Reaper({
    timerStore: stores.timers,
    cursors: stores.cursors,
    settler: new Settler({
      retention,
      reader,
      heldStore: stores.held,
      history,
      rounds,
      timers,
      ender,
      overlaps,
      waker: new ScheduleWaker({ schedules, timers, clock, telemetry, log }),
      publisher,
      canceller,
      unqueuer: new JobUnqueuer({ rounds, timers, leftBehind, clock }),
      queue,
      gate,
      random: systemRandom,
      ...shared,
    }),
    timers,
    readyWatch: new ReadyWatch({ queue, clock, log }),
    republisher: new Republisher({ timerStore: stores.timers, reader, queue, clock, telemetry }),
    retention,
    ...shared,
    holds,
    clusterStartedAt: FAKE_START - HOUR_MS,
  });
}

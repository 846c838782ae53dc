import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { JobStatus } from '../../services/core/domain/job-status.ts';
import { MINUTE_MS, READY_BACKLOG_MAX, SECOND_MS } from '../../services/core/domain/limits.ts';
import { WaitingCanceller } from '../../services/core/moves/cancel-waiting.ts';
import { ReadyPublisher } from '../../services/core/moves/ready-publisher.ts';
import { Rounds } from '../../services/core/rounds/rounds.ts';
import { Timers } from '../../services/core/timers/timers.ts';
import { ShardDispatcher } from '../../services/dispatcher/shard-dispatcher.ts';
import { FakeClock } from '../support/fake-clock.ts';
import { noSchedules, noSuccessors } from '../support/no-schedules.ts';
import { jobRow, newCohort } from '../support/job-row.ts';
import { MemoryBus } from '../support/memory-bus.ts';
import { MemoryStores } from '../support/memory-store.ts';
import { silentLog, silentTelemetry } from '../support/silent-telemetry.ts';

const SHARD = 3;
const PER_SUBJECT = 100;

class World {
  readonly clock = new FakeClock();
  readonly stores = new MemoryStores({ clock: this.clock });
  readonly bus = new MemoryBus({ clock: this.clock, perSubject: PER_SUBJECT });
  readonly publisher: ReadyPublisher;
  readonly dispatcher: ShardDispatcher;
  #member = 0;
  #cohort = newCohort();

  constructor() {
    const { clock, stores } = this;
    const { queue, hints } = this.bus.connect();
    const telemetry = silentTelemetry;
    const log = silentLog;
    this.publisher = new ReadyPublisher({ queue, clock });
    const rounds = new Rounds({ store: stores.cohorts, reader: stores.jobs, clock, telemetry });
    this.dispatcher = new ShardDispatcher(
      {
        timerStore: stores.timers,
        cursors: stores.cursors,
        rounds,
        reader: stores.jobs,
        timers: new Timers({ store: stores.timers, hints, clock }),
        publisher: this.publisher,
        canceller: new WaitingCanceller({
          rounds,
          timers: { left: () => undefined },
          history: stores.history,
          overlaps: noSuccessors,
          clock,
          log,
        }),
        firer: noSchedules,
        clock,
        telemetry,
        log,
        holds: () => true,
      },
      { shard: SHARD, from: clock.now(), savedCursor: clock.now() },
    );
  }

  async schedule(count: number, queue: string): Promise<void> {
    const runAt = this.clock.now() + 500;
    const rows = Array.from({ length: count }, () => {
      if (this.#member % 64 === 0) this.#cohort = newCohort();
      const row = jobRow(this.#cohort, this.#member % 64, { queue, runAt, shard: SHARD });
      this.#member += 1;
      this.stores.rows.set(row.jobId, row);
      return row;
    });
    await this.stores.timers.writeDue(
      rows.map(({ jobId, priority, attempt }) => ({
        jobId,
        shard: SHARD,
        runAt,
        queue,
        priority,
        attempt,
        direct: false,
      })),
    );
  }

  async run(seconds: number): Promise<void> {
    for (let ticks = 0; ticks < seconds; ticks += 1) {
      await this.clock.until(this.dispatcher.tick());
      await this.clock.advance(SECOND_MS);
    }
  }

  /** Waiting messages of the queue; taken and acknowledged. */
  work(queue: string): number {
    const delivered = this.bus.take(queue, 'normal', PER_SUBJECT);
    for (const each of delivered) each.ack();
    return delivered.length;
  }

  count(queue: string, status: JobStatus): number {
    return [...this.stores.rows.values()].filter((row) => row.queue === queue && row.status === status).length;
  }
}

describe('a dispatcher whose queue is full', () => {
  it('leaves the jobs scheduled, keeps little, writes nothing, and goes on as the queue drains', async () => {
    const world = new World();
    await world.schedule(500, 'flood');
    await world.run(5);
    // The first of them found out that there is no room, before anybody knew.
    const kept = READY_BACKLOG_MAX - world.publisher.room();
    assert.ok(kept <= 500 - PER_SUBJECT);
    await world.schedule(500, 'flood');
    await world.run(5);
    assert.equal(READY_BACKLOG_MAX - world.publisher.room(), kept, 'no more are taken while it is full');
    assert.equal(world.count('flood', JobStatus.scheduled), 500);

    const rounds = world.stores.calls.filter(({ method }) => method === 'cohorts.apply').length;
    await world.run(30);
    assert.equal(world.stores.calls.filter(({ method }) => method === 'cohorts.apply').length, rounds);
    const saved = world.stores.positions.get(`dispatch ${SHARD}`) ?? 0;
    assert.ok(saved < world.clock.now() - 30 * SECOND_MS, 'the cursor waits');

    let worked = 0;
    for (let passes = 0; passes < 60 && worked < 1_000; passes += 1) {
      worked += world.work('flood');
      await world.run(2);
    }
    assert.equal(worked, 1_000);
    await world.run(10);
    assert.ok((world.stores.positions.get(`dispatch ${SHARD}`) ?? 0) > world.clock.now() - MINUTE_MS / 4);
  });

  it('moves the jobs of other queues on meanwhile', async () => {
    const world = new World();
    await world.schedule(8_000, 'flood');
    await world.run(5);
    await world.schedule(50, 'calm');
    await world.run(3);
    assert.equal(world.count('calm', JobStatus.enqueued), 50);
    assert.equal(world.work('calm'), 50);
  });
});

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { JobRow } from '../../services/core/domain/job.ts';
import { JobStatus } from '../../services/core/domain/job-status.ts';
import { HOUR_MS, MINUTE_MS, SECOND_MS } from '../../services/core/domain/limits.ts';
import type { ReadyMessage } from '../../services/core/ports/ready-queue.ts';
import { lifeAfter } from '../../services/reaper/ready-watch.ts';
import type { Reaper } from '../../services/reaper/reaper.ts';
import { RecordingTelemetry } from '../support/bus.ts';
import { FakeClock } from '../support/fake-clock.ts';
import { jobRow, newCohort } from '../support/job-row.ts';
import { MemoryBus, type BusFault, type MemoryConnection } from '../support/memory-bus.ts';
import { MemoryStores } from '../support/memory-store.ts';
import { makeReaper } from '../support/reaper.ts';

const SHARD = 3;

class World {
  readonly clock = new FakeClock();
  readonly stores = new MemoryStores({ clock: this.clock });
  readonly telemetry = new RecordingTelemetry();
  publishFault: BusFault | undefined;
  readonly bus = new MemoryBus({
    clock: this.clock,
    perSubject: 50,
    plan: ({ method }) => (method === 'queue.publish' ? this.publishFault : undefined),
  });
  readonly connection: MemoryConnection = this.bus.connect();
  held = true;
  reaper: Reaper = this.#newReaper();
  #members = 0;
  readonly #cohort = newCohort();

  /** As by its process's end: the next one takes the shard over. */
  async restartReaper(): Promise<void> {
    this.reaper = this.#newReaper();
    await this.takeUp();
  }

  async takeUp(): Promise<void> {
    this.reaper.acquired(SHARD);
    await this.clock.until(this.reaper.reapDeadlines());
    await this.watch();
  }

  async watch(): Promise<void> {
    await this.clock.until(this.reaper.republishLost());
  }

  /** A job whose message was published at that time, with the timer that its kind of waiting has. */
  async waitingJob(
    timer: { readonly dueAt: number } | { readonly lookAt: number; readonly publishedAt: number },
    overrides: Partial<JobRow> = {},
  ): Promise<JobRow> {
    const enqueuedAt = 'dueAt' in timer ? timer.dueAt : timer.publishedAt;
    const row = jobRow(this.#cohort, this.#members, {
      status: JobStatus.enqueued,
      enqueuedAt,
      runAt: enqueuedAt,
      shard: SHARD,
      ...overrides,
    });
    this.#members += 1;
    const { jobId, queue, priority, attempt } = row;
    this.stores.rows.set(jobId, row);
    if ('dueAt' in timer) {
      const due = { jobId, shard: SHARD, runAt: timer.dueAt, queue, priority, attempt, direct: false };
      await this.stores.timers.writeDue([due]);
    } else {
      const { lookAt: at, publishedAt } = timer;
      await this.stores.timers.writeDeadlines([{ jobId, shard: SHARD, at, publishedAt }]);
    }
    if (row.status === JobStatus.enqueued) this.bus.store(messageFor(row));
    return row;
  }

  published(): readonly string[] {
    return [...this.bus.subjects.values()]
      .flat()
      .map(({ message }) => message.jobId)
      .sort();
  }

  #newReaper(): Reaper {
    const { stores, connection, clock, telemetry } = this;
    return makeReaper({ stores, connection, clock, telemetry, holds: () => this.held });
  }
}

function messageFor({ jobId, attempt, runAt, queue, priority }: JobRow): ReadyMessage {
  return { jobId, attempt: attempt + 1, runAt, queue, priority };
}

describe('lost ready messages', () => {
  it('are published again from the deadlines ahead and from the due minutes before their second look', async () => {
    const world = new World();
    await world.takeUp();
    const now = world.clock.now();
    const waiting = [
      await world.waitingJob({ dueAt: now - 90 * SECOND_MS }),
      await world.waitingJob({ dueAt: now - SECOND_MS }),
      await world.waitingJob({ lookAt: now + 30 * SECOND_MS, publishedAt: now - MINUTE_MS }),
      await world.waitingJob(
        { lookAt: now + HOUR_MS, publishedAt: now - 2 * HOUR_MS },
        { attempt: 4, priority: 'low' },
      ),
    ];
    await world.waitingJob({ dueAt: now - 5 * SECOND_MS }, { status: JobStatus.running, attempt: 1 });
    await world.clock.advance(20 * SECOND_MS);
    world.bus.lose();
    assert.deepEqual(world.published(), []);
    await world.watch();
    assert.deepEqual(world.published(), waiting.map(({ jobId }) => jobId).sort());
    const [low] = world.bus.take('mail', 'low', 1);
    assert.equal(low?.message.attempt, 5);
    assert.equal(world.telemetry.counts.get('punctual_reaper_repairs_total stuck_enqueued'), 4);
  });

  it('are published once: not by later looks of the watch, nor by the timers that stand', async () => {
    const world = new World();
    await world.takeUp();
    const now = world.clock.now();
    await world.waitingJob({ dueAt: now - SECOND_MS });
    await world.waitingJob({ lookAt: now + 2 * MINUTE_MS, publishedAt: now - MINUTE_MS });
    await world.clock.advance(20 * SECOND_MS);
    world.bus.lose();
    await world.watch();
    for (let seconds = 0; seconds < 240; seconds += 5) {
      await world.stores.cursors.save('dispatch', SHARD, world.clock.now());
      await world.clock.until(world.reaper.reapDeadlines());
      await world.clock.until(world.reaper.lookAgain());
      await world.watch();
      await world.clock.advance(5 * SECOND_MS);
    }
    assert.equal(world.published().length, 2);
  });

  it('are noticed by a reaper that was not there when it happened', async () => {
    const world = new World();
    await world.takeUp();
    const { jobId } = await world.waitingJob({ dueAt: world.clock.now() - SECOND_MS });
    await world.clock.advance(20 * SECOND_MS);
    world.bus.lose();
    await world.clock.advance(MINUTE_MS);
    await world.restartReaper();
    assert.deepEqual(world.published(), [jobId]);
    await world.restartReaper();
    assert.deepEqual(world.published(), [jobId], 'the shard is known to be published in this life');
  });

  it('are noticed when the stream was only set back', async () => {
    const world = new World();
    await world.takeUp();
    const now = world.clock.now();
    const ids = [
      (await world.waitingJob({ dueAt: now - 2 * SECOND_MS })).jobId,
      (await world.waitingJob({ dueAt: now - SECOND_MS })).jobId,
    ];
    await world.watch();
    world.bus.loseLast(1);
    assert.deepEqual(world.published(), [ids[0]]);
    await world.watch();
    assert.deepEqual(new Set(world.published()), new Set(ids));
  });

  it('are left to what was published since: nothing is published that the new life holds', async () => {
    const world = new World();
    await world.takeUp();
    await world.clock.advance(20 * SECOND_MS);
    world.bus.lose();
    await world.clock.advance(30 * SECOND_MS);
    await world.waitingJob({ dueAt: world.clock.now() - SECOND_MS });
    await world.watch();
    assert.equal(world.published().length, 1);
  });

  it('are tried again while the stream is away or gives no answer', async () => {
    const world = new World();
    await world.takeUp();
    const { jobId } = await world.waitingJob({ dueAt: world.clock.now() - SECOND_MS });
    await world.clock.advance(20 * SECOND_MS);
    world.bus.lose();
    world.connection.disconnect();
    await world.watch();
    world.connection.reconnect();
    world.publishFault = { kind: 'request_lost' };
    await world.watch();
    assert.deepEqual(world.published(), []);
    world.publishFault = undefined;
    await world.watch();
    assert.deepEqual(world.published(), [jobId]);
  });

  it('do not block the walk where a subject is full', async () => {
    const world = new World();
    await world.takeUp();
    const now = world.clock.now();
    for (let count = 0; count < 60; count += 1) await world.waitingJob({ dueAt: now - SECOND_MS });
    await world.waitingJob({ dueAt: now - SECOND_MS }, { queue: 'other' });
    await world.clock.advance(20 * SECOND_MS);
    world.bus.lose();
    await world.watch();
    assert.equal(world.published().length, 51);
    assert.equal(world.stores.positions.get(`ready_stream ${SHARD}`), world.bus.incarnation().createdAt);
  });

  it('are the next owner’s when the shard is lost in mid-walk', async () => {
    const world = new World();
    await world.takeUp();
    const { jobId } = await world.waitingJob({ dueAt: world.clock.now() - SECOND_MS });
    await world.clock.advance(20 * SECOND_MS);
    world.bus.lose();
    world.held = false;
    await world.watch();
    assert.deepEqual(world.published(), []);
    world.held = true;
    await world.restartReaper();
    assert.deepEqual(world.published(), [jobId]);
  });

  it('are looked for at a bounded rate', async () => {
    const world = new World();
    await world.takeUp();
    const now = world.clock.now();
    for (let count = 0; count < 50; count += 1) {
      await world.waitingJob({ lookAt: now + MINUTE_MS, publishedAt: now - MINUTE_MS });
    }
    world.bus.lose();
    const startedAt = world.clock.now();
    await world.watch();
    assert.equal(world.clock.now() - startedAt, 20, '50 rows at 2,500 a second');
  });
});

describe('the life of the ready stream', () => {
  const seen = { createdAt: 1_000, lastSequence: 10 };
  const now = 9_000;

  it('begins with its creation', () => {
    assert.equal(lifeAfter({ seen: null, since: 0, found: seen, now }), 1_000);
    assert.equal(lifeAfter({ seen, since: 1_000, found: { createdAt: 5_000, lastSequence: 0 }, now }), 5_000);
  });

  it('goes on while the sequence does', () => {
    assert.equal(lifeAfter({ seen, since: 1_000, found: { ...seen, lastSequence: 10 }, now }), 1_000);
    assert.equal(lifeAfter({ seen, since: 1_000, found: { ...seen, lastSequence: 11 }, now }), 1_000);
  });

  it('ends when the sequence goes back, or the stream is another with an earlier time', () => {
    assert.equal(lifeAfter({ seen, since: 1_000, found: { ...seen, lastSequence: 9 }, now }), now);
    assert.equal(lifeAfter({ seen, since: 1_000, found: { createdAt: 900, lastSequence: 99 }, now }), now);
    assert.equal(lifeAfter({ seen, since: 9_500, found: { ...seen, lastSequence: 9 }, now }), 9_501);
  });
});

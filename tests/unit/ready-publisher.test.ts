import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { DIRECT_BACKLOG_MAX, MINUTE_MS, READY_BACKLOG_MAX, SECOND_MS } from '../../services/core/domain/limits.ts';
import { ReadyPublisher, type Published } from '../../services/core/moves/ready-publisher.ts';
import { messageOf } from '../conformance/ready-queue.suite.ts';
import { FakeClock, settled } from '../support/fake-clock.ts';
import { MemoryBus } from '../support/memory-bus.ts';

const PER_SUBJECT = 300;

class World {
  readonly clock = new FakeClock();
  /** Messages in each call. */
  readonly calls: number[] = [];
  away = false;
  readonly bus = new MemoryBus({
    clock: this.clock,
    perSubject: PER_SUBJECT,
    plan: ({ method, args }) => {
      if (method !== 'queue.publish') return undefined;
      this.calls.push((args[0] as readonly unknown[]).length);
      return this.away ? { kind: 'request_lost' } : undefined;
    },
  });
  readonly publisher = new ReadyPublisher({ queue: this.bus.connect().queue, clock: this.clock });
  readonly results: Published[] = [];

  publish(count: number, overrides: Parameters<typeof messageOf>[1] = {}, from = 0): void {
    for (let index = from; index < from + count; index += 1) {
      void this.publisher.publish(messageOf(index, overrides)).then((result) => this.results.push(result));
    }
  }

  stored(queue = 'mail', priority = 'normal'): readonly string[] {
    return (this.bus.subjects.get(`ready.${queue}.${priority}`) ?? []).map(({ message }) => message.jobId);
  }

  /** A worker takes so many. */
  work(count: number): void {
    for (const delivered of this.bus.take('mail', 'normal', count)) delivered.ack();
  }
}

function ids(count: number, from = 0): readonly string[] {
  return Array.from({ length: count }, (_, index) => messageOf(from + index).jobId);
}

describe('the ready publisher', () => {
  it('sends what one turn brings in one call, in order', async () => {
    const world = new World();
    world.publish(200);
    await settled();
    assert.deepEqual(world.calls, [200]);
    assert.deepEqual(world.stored(), ids(200));
    assert.equal(world.results.length, 200);
    assert.equal(world.publisher.room(), READY_BACKLOG_MAX);
  });

  it('waits for a full subject without growing calls, and stores everything in order as it drains', async () => {
    const world = new World();
    world.publish(500);
    await settled();
    assert.equal(world.stored().length, PER_SUBJECT);
    assert.ok(world.publisher.isFull({ queue: 'mail', priority: 'normal' }));
    world.calls.length = 0;
    await world.clock.advance(MINUTE_MS * 5);
    assert.ok(
      world.calls.length <= 301 && Math.max(...world.calls) <= 100,
      `probes only, one a second: ${world.calls.length} calls, ${Math.max(...world.calls)} messages`,
    );
    assert.equal(world.results.length, PER_SUBJECT, 'a full subject is waited for, whatever it takes');

    const seen = [...world.stored()];
    while (seen.length < 500) {
      world.work(PER_SUBJECT);
      await world.clock.advance(2 * SECOND_MS);
      seen.push(...world.stored());
    }
    assert.deepEqual(seen, ids(500));
    world.work(PER_SUBJECT);
    await world.clock.advance(2 * SECOND_MS);
    assert.equal(world.publisher.isFull({ queue: 'mail', priority: 'normal' }), false);
    assert.ok(world.results.every((result) => result === 'stored'));
  });

  it('keeps few messages of a full subject, and gives the others back', async () => {
    const world = new World();
    world.publish(5_000);
    await settled();
    assert.equal(READY_BACKLOG_MAX - world.publisher.room(), 200);
    assert.equal(world.results.filter((result) => result === 'no_room').length, 5_000 - PER_SUBJECT - 200);
    world.publish(10, {}, 5_000);
    await settled();
    assert.deepEqual(
      world.results.slice(-10),
      Array.from({ length: 10 }, () => 'no_room'),
    );
  });

  it('makes no other subject wait for one that is full', async () => {
    const world = new World();
    world.publish(20_000);
    await settled();
    world.publish(250, { queue: 'other' });
    world.publish(10, { priority: 'high' });
    await settled();
    assert.equal(world.stored('other').length, 250);
    assert.equal(world.stored('mail', 'high').length, 10);
    assert.equal(world.publisher.isFull({ queue: 'other', priority: 'normal' }), false);
  });

  it('tries again when the stream is away, and leaves the job to the second look after a minute', async () => {
    const world = new World();
    world.away = true;
    world.publish(3);
    await world.clock.advance(MINUTE_MS / 2);
    assert.deepEqual(world.results, []);
    world.away = false;
    await world.clock.advance(SECOND_MS);
    assert.deepEqual(world.results, ['stored', 'stored', 'stored']);
    world.away = true;
    world.publish(2);
    await world.clock.advance(MINUTE_MS + SECOND_MS);
    assert.deepEqual(world.results.slice(3), ['given_up', 'given_up']);
    assert.equal(world.publisher.room(), READY_BACKLOG_MAX);
  });

  it('keeps a bounded number, and says at once when there is no room', async () => {
    const world = new World();
    world.away = true;
    world.publish(DIRECT_BACKLOG_MAX - 1);
    assert.ok(world.publisher.takesDirect({ queue: 'mail', priority: 'normal' }));
    world.publish(1);
    assert.equal(world.publisher.takesDirect({ queue: 'mail', priority: 'normal' }), false);
    world.publish(READY_BACKLOG_MAX - DIRECT_BACKLOG_MAX);
    assert.equal(world.publisher.room(), 0);
    world.publish(5);
    await settled();
    assert.deepEqual(
      world.results,
      Array.from({ length: 5 }, () => 'no_room'),
    );
  });

  it('takes nothing directly for a full subject', async () => {
    const world = new World();
    world.publish(PER_SUBJECT + 1);
    await settled();
    assert.equal(world.publisher.takesDirect({ queue: 'mail', priority: 'normal' }), false);
    assert.ok(world.publisher.takesDirect({ queue: 'mail', priority: 'high' }));
    world.work(PER_SUBJECT);
    await world.clock.advance(2 * SECOND_MS);
    assert.ok(world.publisher.takesDirect({ queue: 'mail', priority: 'normal' }));
  });
});

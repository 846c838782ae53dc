// What every QueueCountStore promises.

import assert from 'node:assert/strict';
import { randomBytes, randomUUID } from 'node:crypto';
import { it } from 'node:test';
import { DAY_MS, HOUR_MS } from '../../services/core/domain/limits.ts';
import { type Grain, slotsOf } from '../../services/core/domain/queue-counts.ts';
import type { QueueCountStore, ShardQueueCounts } from '../../services/core/ports/queue-count-store.ts';

export interface QueueCountStoreHarness {
  readonly queueCounts: QueueCountStore;
}

export function queueCountStoreSuite(harness: () => QueueCountStoreHarness): void {
  const newQueue = (): string => `q-${randomBytes(4).toString('hex')}`;
  const ahead = Math.ceil(Date.now() / DAY_MS) * DAY_MS + DAY_MS;

  it('sums the last word of each process over a range of slots', async () => {
    const { queueCounts } = harness();
    const queue = newQueue();
    const [one, other] = [randomUUID(), randomUUID()];
    const say = (process: string, at: number, jobs: number) =>
      queueCounts.writeWaiting(slotsOf(at).map((slot) => ({ ...slot, queue, process, jobs })));
    const sum = (grain: Grain, from: number, to: number) => queueCounts.sumWaiting(queue, { grain, from, to });
    assert.equal(await sum('day', 0, ahead + 365 * DAY_MS), 0);
    await say(one, ahead, 2);
    await say(other, ahead, -1);
    await say(one, ahead, 5);
    await say(one, ahead + HOUR_MS, 7);
    assert.equal(await sum('minute', ahead, ahead + 1), 4);
    assert.equal(await sum('hour', ahead, ahead + HOUR_MS), 4);
    assert.equal(await sum('hour', ahead, ahead + HOUR_MS + 1), 11);
    assert.equal(await sum('hour', ahead + 1, ahead + HOUR_MS + 1), 7);
    assert.equal(await queueCounts.sumWaiting(newQueue(), { grain: 'hour', from: 0, to: ahead + DAY_MS }), 0);
  });

  it('keeps what was counted last in each shard, by queue', async () => {
    const { queueCounts } = harness();
    const queue = newQueue();
    const row: ShardQueueCounts = {
      shard: 7_001,
      queue,
      countedAt: Date.now(),
      dueSoon: [1, 0, 3],
      running: 4,
      dead: null,
    };
    const others = [
      { ...row, queue: '' },
      { ...row, queue: `${queue}-2`, dead: 0 },
      { ...row, shard: 7_002 },
    ];
    await queueCounts.writeShard([row, ...others]);
    const later = { ...row, countedAt: row.countedAt + 1, dueSoon: [0, 0, 0], running: 0 };
    await queueCounts.writeShard([later]);
    const read = await queueCounts.readShard(7_001);
    assert.deepEqual(
      read.filter((each) => each.queue.startsWith(queue)),
      [later, others[1]],
    );
    assert.deepEqual(
      read.find((each) => each.queue === ''),
      others[0],
    );
  });
}

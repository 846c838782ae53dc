import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { TimerRange } from '../../services/core/ports/timer-store.ts';
import { QuietShards } from '../../services/core/storage/quiet-shards.ts';

const MINUTE = Date.parse('2026-11-15T06:00:00Z');

interface Asked {
  readonly shards: readonly number[];
  readonly from: number;
  readonly to: number;
}

/** Shards 0 to 7, all found empty once, in which the ones named have rows now. */
function start(withRows: readonly number[], fails = false): { quiet: QuietShards; asked: Asked[] } {
  const asked: Asked[] = [];
  const quiet = new QuietShards((shards, { from, to }) => {
    asked.push({ shards, from, to });
    if (fails) return Promise.reject(new Error('no replicas'));
    return Promise.resolve(shards.filter((shard) => withRows.includes(shard)));
  });
  for (let shard = 0; shard < 8; shard += 1) quiet.found(shard, 0);
  return { quiet, asked };
}

function range(shard: number, { from = MINUTE, to = MINUTE + 1_000, bucket = MINUTE } = {}): TimerRange {
  return { shard, bucket, from, to };
}

describe('quiet shards', () => {
  it('are asked for in one request, over all that any of them is asked about', async () => {
    const { quiet, asked } = start([2]);
    const answers = await Promise.all([
      quiet.isEmpty(range(1, { from: MINUTE + 5, to: MINUTE + 9 })),
      quiet.isEmpty(range(2, { from: MINUTE + 2, to: MINUTE + 7 })),
      quiet.isEmpty(range(3)),
    ]);
    assert.deepEqual(answers, [true, false, true]);
    assert.deepEqual(asked, [{ shards: [1, 2, 3], from: MINUTE, to: MINUTE + 1_000 }]);
  });

  it('are asked for minute by minute', async () => {
    const { quiet, asked } = start([]);
    await Promise.all([1, 2, 3, 4].map((shard) => quiet.isEmpty(range(shard, { bucket: MINUTE + (shard % 2) }))));
    assert.deepEqual(
      asked.map(({ shards }) => shards),
      [
        [1, 3],
        [2, 4],
      ],
    );
  });

  it('leaves a shard to its own read that was never read, that had rows, or that is asked for alone', async () => {
    const { quiet, asked } = start([]);
    quiet.found(1, 3);
    assert.deepEqual(await Promise.all([8, 1].map((shard) => quiet.isEmpty(range(shard)))), [false, false]);
    assert.equal(await quiet.isEmpty(range(2)), false);
    assert.deepEqual(asked, []);
    quiet.found(1, 0);
    assert.deepEqual(await Promise.all([1, 2].map((shard) => quiet.isEmpty(range(shard)))), [true, true]);
  });

  it('leaves all to their own reads when the request fails, and for a while after', async () => {
    const { quiet, asked } = start([], true);
    const both = (): Promise<boolean[]> => Promise.all([1, 2].map((shard) => quiet.isEmpty(range(shard))));
    assert.deepEqual(await both(), [false, false]);
    for (let reads = 0; reads < 30; reads += 1) {
      for (const shard of [1, 2]) quiet.found(shard, 0);
      assert.deepEqual(await both(), [false, false]);
      assert.equal(asked.length, 1, `after ${reads + 1} reads`);
    }
    for (const shard of [1, 2]) quiet.found(shard, 0);
    await both();
    assert.equal(asked.length, 2);
  });
});

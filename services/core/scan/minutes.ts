import { bucketEnd, bucketOf } from '../domain/bucket.ts';
import { MINUTE_MS } from '../domain/limits.ts';
import type { EpochMs } from '../domain/time.ts';
import type { TimerRange } from '../ports/timer-store.ts';

/** The partitions of a timer table that hold a shard's rows from one time to another, both included, oldest first. */
export function* minutes(shard: number, from: EpochMs, to: EpochMs): Generator<TimerRange> {
  for (let bucket = bucketOf(from); bucket <= to; bucket += MINUTE_MS) {
    yield { shard, bucket, from: Math.max(from, bucket), to: Math.min(to, bucketEnd(bucket) - 1) };
  }
}

import { MINUTE_MS } from './limits.ts';
import type { EpochMs } from './time.ts';

/** The UTC minute a timer lies in, as the epoch milliseconds of its start: half of a due or deadline partition's key. */
export function bucketOf(at: EpochMs): EpochMs {
  return Math.floor(at / MINUTE_MS) * MINUTE_MS;
}

/** The first instant after the bucket. */
export function bucketEnd(bucket: EpochMs): EpochMs {
  return bucket + MINUTE_MS;
}

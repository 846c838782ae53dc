import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { backoffMs } from '../../services/core/domain/backoff.ts';
import type { RetryPolicy } from '../../services/core/domain/job.ts';
import { MAX_ATTEMPTS_MAX } from '../../services/core/domain/limits.ts';

const policy = (baseS: number, capS = 3_600): RetryPolicy => ({
  kind: 'exponential',
  baseS,
  factor: 2,
  capS,
  jitter: 'none',
});

describe('the backoff', () => {
  it('R057: doubles from the base on, the first wait being the base itself', () => {
    assert.deepEqual(
      [1, 2, 3, 4, 5].map((tries) => backoffMs(policy(0.1), tries, 0)),
      [100, 200, 400, 800, 1_600],
    );
  });

  it('R053: stays at the cap where shifted and raised numbers overflow', () => {
    assert.deepEqual(
      [1, 13, 31, 32, 54, 63, MAX_ATTEMPTS_MAX, 1_100].map((tries) => backoffMs(policy(1), tries, 0)),
      [1_000, ...Array.from({ length: 7 }, () => 3_600_000)],
    );
  });

  it('does not wait longer than the cap even the first time', () => {
    assert.equal(backoffMs(policy(10, 3), 1, 0), 3_000);
    assert.equal(backoffMs({ ...policy(10, 3), kind: 'fixed' }, 1, 0), 3_000);
  });
});

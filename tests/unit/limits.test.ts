// The bounds hold each other: what a rule promises follows from relations between them, not from their values.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import * as limits from '../../services/core/domain/limits.ts';

/** A write whose caller has given up may still run in the server for this long (design section 6; the store's timeouts). */
const REQUEST_IN_SERVER_MS = 16_000;
/** Two processes act at most 5 s off the true time each, then they stop (design section 10). */
const SKEW_MAX_MS = 10_000;

type Relation = readonly [why: string, lesser: number, greater: number];

const BELOW: readonly Relation[] = [
  [
    'the spare deadline comes after whatever a slow round may still write',
    limits.ROUND_SLOW_MS + REQUEST_IN_SERVER_MS + SKEW_MAX_MS,
    limits.SPARE_DEADLINE_AHEAD_MS,
  ],
  [
    'a due minute is looked at again only when no timer can land in it unnoticed',
    limits.DUE_MINUTE_PASSED_MS + REQUEST_IN_SERVER_MS + SKEW_MAX_MS,
    limits.SECOND_LOOK_AFTER_MS,
  ],
  ['an operation given up as unknown has landed when rule 3 looks', limits.LATE_APPLY_MS, limits.ROUND_SLOW_MS],
  [
    'a round that ended in time needs no spare deadline',
    limits.OPERATION_DEADLINE_MS + limits.LATE_APPLY_MS,
    limits.ROUND_SLOW_MS,
  ],
  ['unknown rounds can settle in time', limits.LATE_APPLY_MS, limits.OPERATION_DEADLINE_MS],
  ['a job still being written is waited for', limits.LATE_APPLY_MS, limits.ABSENT_JOB_GRACE_MS],
  ['a rewritten timer is clear of its reader, skew included', limits.DEADLINE_CLEARANCE_MS, limits.REWRITE_AHEAD_MS],
  ['a rewritten timer outlives the skew of one machine', SKEW_MAX_MS / 2, limits.REWRITE_AHEAD_MS],
  ['a claim writes its deadline row once', limits.DEADLINE_CLEARANCE_MS, limits.LEASE_MIN_S * limits.SECOND_MS],
  ['a tick cannot step over the trailing edge', 2 * limits.TICK_MS, limits.TRAILING_EDGE_MS],
  ['whole reads overlap', limits.TRAILING_READ_EVERY_MS + limits.TICK_MS, limits.TRAILING_EDGE_MS],
  ['whoever may have been read past is hinted', limits.READ_AHEAD_MS, limits.TRAILING_READ_EVERY_MS],
  ['a late tick still finds rows ahead of their time', limits.TICK_MS, limits.READ_AHEAD_MS],
  [
    'a rewound cursor covers the trailing edge and the skew',
    limits.TRAILING_EDGE_MS + SKEW_MAX_MS,
    limits.CURSOR_REWIND_MS,
  ],
  [
    'the cursor is saved several times before it would be rewound',
    limits.CURSOR_SAVE_EVERY_MS * 3,
    limits.CURSOR_REWIND_MS,
  ],
  [
    'an owner may miss a renewal and two and keep its shards',
    limits.SHARD_LEASE_RENEW_DEFAULT_MS * 2,
    limits.SHARD_LEASE_TTL_DEFAULT_MS - limits.SHARD_LEASE_SAFETY_MS,
  ],
  ['a lease is given up before it lapses', limits.SHARD_LEASE_SAFETY_MS, limits.SHARD_LEASE_RENEW_DEFAULT_MS],
  [
    'a shard moves from a dead owner within the 10 s of the promise',
    limits.SHARD_LEASE_TTL_DEFAULT_MS + limits.TICK_MS,
    10 * limits.SECOND_MS,
  ],
  [
    'an operation saves itself several times before another runner could begin',
    3 * limits.OPERATION_SAVE_EVERY_MS,
    limits.OPERATION_LOOK_AHEAD_MS,
  ],
  ['a ready message is not called lost while it is young', limits.PUBLISHED_SLACK_MS, limits.ENQUEUED_LOOK_MIN_MS],
  [
    'a list of dead letters reaches all that are kept',
    limits.RETENTION_MAX_DAYS * limits.DAY_MS,
    limits.DEAD_LETTERS_WINDOW_MAX_MS,
  ],
  ['fsck sees the deadline row of any claim', limits.LEASE_MAX_S * limits.SECOND_MS, limits.FSCK_DEADLINES_AHEAD_MS],
  ['fsck sees the next look at a waiting job', limits.ENQUEUED_LOOK_MAX_MS, limits.FSCK_DEADLINES_AHEAD_MS],
  ['fsck sees due rows that were written again', limits.REWRITE_AHEAD_MS, limits.FSCK_DUE_AHEAD_MS],
  ['fsck waits until writes under way have landed', limits.LATE_APPLY_MS, limits.FSCK_GRACE_DEFAULT_MS],
  ['looks at a waiting job get rarer', limits.ENQUEUED_LOOK_MIN_MS, limits.ENQUEUED_LOOK_MAX_MS],
  ['a sleep never overflows the timer of Node', limits.SLEEP_MAX_MS, 2 ** 31 - 1],
  [
    'what two dispatchers publish ahead at once is no surplus',
    2 * limits.READY_AHEAD_MS,
    limits.READY_KEPT_TIMES * limits.READY_AHEAD_MS + 1,
  ],
  [
    'a lowered rate is heard of, and then held to, within 5 s',
    limits.QUEUE_SETTINGS_EVERY_MS + limits.OVER_RATE_SEEN_MAX_MS + limits.READY_DEPTHS_KEPT_MS,
    5 * limits.SECOND_MS,
  ],
  [
    'whether a queue has its rate still is looked at before it is taken for granted',
    limits.OVER_RATE_LOOK_MS,
    limits.OVER_RATE_SEEN_MAX_MS,
  ],
  ['claims of a busy queue never wait for its depth', limits.READY_DEPTHS_KEPT_MS, limits.READY_DEPTHS_STAND_MS],
  [
    'a claim waits for a depth a small part of its lease',
    limits.READY_DEPTHS_WAIT_MS,
    (limits.LEASE_MIN_S * limits.SECOND_MS) / 4,
  ],
  ['a worker heartbeats less often than the reaper looks again', limits.LAPSE_RETRY_MS, heartbeatMinMs()],
  ['payload and row fit a round', limits.PAYLOAD_MAX_BYTES * 2, limits.ROUND_MAX_BYTES],
  ['a round is far from the 16 MiB of one CQL message', limits.ROUND_MAX_BYTES * 4, 16 * 1024 * 1024],
  ['a payload fits its request', limits.PAYLOAD_MAX_BYTES, limits.JOB_BODY_MAX_BYTES],
  ['a request fits a batch', limits.JOB_BODY_MAX_BYTES, limits.BATCH_BODY_MAX_BYTES],
];

const AT_MOST: readonly Relation[] = [
  ['one round moves a whole cohort', limits.COHORT_SIZE, limits.ROUND_MAX_ROWS],
  ['a cohort has as many ids as members', limits.COHORT_SIZE, 64],
  ['a publish is given up when the second look takes over', limits.PUBLISH_RETRY_MAX_MS, limits.SECOND_LOOK_AFTER_MS],
  ['the lease is within its range', limits.LEASE_MIN_S, limits.LEASE_DEFAULT_S],
  ['the lease is within its range', limits.LEASE_DEFAULT_S, limits.LEASE_MAX_S],
  ['the time limit is within its range', limits.TIMEOUT_DEFAULT_S, limits.TIMEOUT_MAX_S],
  ['the default lease does not outlive the default time limit', limits.LEASE_DEFAULT_S, limits.TIMEOUT_DEFAULT_S],
  ['the tries are within their range', limits.MAX_ATTEMPTS_DEFAULT, limits.MAX_ATTEMPTS_MAX],
  ['a dead job is kept as long as any', limits.RETENTION_DEFAULT_DAYS, limits.DEAD_RETENTION_DEFAULT_DAYS],
  ['the retention is within its range', limits.RETENTION_MIN_DAYS, limits.RETENTION_DEFAULT_DAYS],
  ['the retention is within its range', limits.DEAD_RETENTION_DEFAULT_DAYS, limits.RETENTION_MAX_DAYS],
  ['the first wait is within the cap', limits.RETRY_BASE_DEFAULT_S, limits.RETRY_CAP_DEFAULT_S],
];

function heartbeatMinMs(): number {
  return (limits.LEASE_MIN_S * limits.SECOND_MS) / limits.HEARTBEATS_PER_LEASE;
}

describe('the bounds', () => {
  for (const [why, lesser, greater] of BELOW) {
    it(why, () => assert.ok(lesser < greater, `${lesser} is not below ${greater}`));
  }
  for (const [why, lesser, greater] of AT_MOST) {
    it(why, () => assert.ok(lesser <= greater, `${lesser} is above ${greater}`));
  }

  it('are positive whole numbers, every one', () => {
    for (const [name, bound] of Object.entries(limits)) {
      if (typeof bound === 'string') continue;
      assert.ok(Number.isSafeInteger(bound) && bound > 0, `${name} is ${bound}`);
    }
  });
});

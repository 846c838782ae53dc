// Jobs that were over for as long as they are kept leave a real Cassandra, with their timer rows; only the clock is moved.

import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import { bucketEnd, bucketOf } from '../../services/core/domain/bucket.ts';
import type { JobRow } from '../../services/core/domain/job.ts';
import { DAY_MS, MINUTE_MS, RETENTION_SLACK_MS, ROUND_MAX_ROWS, SECOND_MS } from '../../services/core/domain/limits.ts';
import { OverlapQueue } from '../../services/core/moves/overlap-queue.ts';
import { QueueBook } from '../../services/core/queues/queue-book.ts';
import { Rounds } from '../../services/core/rounds/rounds.ts';
import { systemClock } from '../../services/core/runtime/system-clock.ts';
import type { Session } from '../../services/core/storage/session.ts';
import { createStores } from '../../services/core/storage/stores.ts';
import { Timers } from '../../services/core/timers/timers.ts';
import { Retention, ShardRetention } from '../../services/reaper/retention.ts';
import { testSession } from '../support/cassandra.ts';
import { jobRow, newCohort } from '../support/job-row.ts';
import { silentLog, silentTelemetry as telemetry } from '../support/silent-telemetry.ts';
import { suiteCleanup } from '../support/suite-cleanup.ts';

const SHARD = 7;
const COHORTS = 20;

describe('a minute of long ago', () => {
  const cleanup = suiteCleanup();
  let session: Session;

  before(async () => {
    ({ session } = await testSession(cleanup));
  });

  it('goes with its jobs, but for those that are kept longer', async () => {
    let aheadMs = 0;
    const clock = {
      ...systemClock,
      now: () => systemClock.now() + aheadMs,
      moment: () => ({ ...systemClock.moment(), wallMs: systemClock.now() + aheadMs }),
    };
    const stores = createStores(session, { clock });
    const { jobs: reader, timers: timerStore } = stores;
    const book = new QueueBook({ store: stores.queues, clock });
    const rounds = new Rounds({ store: stores.cohorts, reader, clock, telemetry });
    const hints = { send: () => undefined, listen: () => () => undefined };
    const timers = new Timers({ store: timerStore, hints, clock });
    const overlaps = new OverlapQueue({ reader, schedules: stores.schedules, timers, clock, log: silentLog });

    const bucket = bucketOf(clock.now()) - MINUTE_MS;
    const runAt = bucket + 20 * SECOND_MS;
    const kept = { status: 'dead', finishedAt: runAt + SECOND_MS, shard: SHARD, runAt } as const;
    const done = { ...kept, status: 'succeeded' } as const;
    const cohorts = Array.from({ length: COHORTS }, () => {
      const cohort = newCohort();
      // One in a cohort died, and stays among those that go.
      return Array.from({ length: ROUND_MAX_ROWS }, (_, member) => jobRow(cohort, member, member === 30 ? kept : done));
    });
    const all = cohorts.flat();
    for (const jobs of cohorts) {
      assert.deepEqual(await stores.cohorts.apply(jobs[0]!.cohort, jobs.map(create)), { applied: true });
    }
    await timerStore.writeDue(
      all.map(({ jobId, queue, priority }) => ({
        jobId,
        shard: SHARD,
        runAt,
        queue,
        priority,
        attempt: 0,
        direct: false,
      })),
    );
    await timerStore.writeDeadlines(
      all.map(({ jobId }) => ({ jobId, shard: SHARD, at: runAt + 30 * SECOND_MS, publishedAt: null })),
    );

    const walk = new ShardRetention({
      ...{ timerStore, shard: SHARD },
      retention: new Retention({ reader, rounds, timers, overlaps, timerStore, book, clock, telemetry }),
      from: { due: bucket, deadlines: bucket },
      lookedAtTo: () => ({ due: Infinity, deadlines: Infinity }),
    });
    const left = async () => {
      const rows = await reader.read(all.map(({ jobId }) => jobId));
      return Map.groupBy(rows.values(), ({ status }) => status);
    };
    const dueRows = () =>
      countOf(timerStore.readDue({ shard: SHARD, bucket, from: bucket, to: bucketEnd(bucket) - 1 }));
    const deadlineRows = (from: number) => {
      const range = { shard: SHARD, bucket: bucketOf(from), from: bucketOf(from), to: bucketEnd(bucketOf(from)) - 1 };
      return countOf(timerStore.readDeadlines(range));
    };

    aheadMs = 7 * DAY_MS + RETENTION_SLACK_MS - MINUTE_MS;
    await walk.runOnce(() => true);
    assert.equal((await left()).get('succeeded')?.length, COHORTS * (ROUND_MAX_ROWS - 1));
    aheadMs += 3 * MINUTE_MS;
    await walk.runOnce(() => true);
    assert.deepEqual(
      [...(await left())].map(([status, rows]) => [status, rows.length]),
      [['dead', COHORTS]],
    );
    assert.deepEqual([await dueRows(), await deadlineRows(bucket)], [COHORTS, 0]);
    // By which settle removes them.
    assert.equal(await deadlineRows(kept.finishedAt + 30 * DAY_MS), COHORTS);
    assert.equal(walk.lagMs(), 0);
  });
});

function create(job: JobRow) {
  return { edge: 'create', jobId: job.jobId, job } as const;
}

async function countOf(pages: AsyncIterable<readonly unknown[]>): Promise<number> {
  let count = 0;
  for await (const page of pages) count += page.length;
  return count;
}

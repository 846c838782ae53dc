// Design section 7: from the due row to the ready stream, at its millisecond, and past whatever is in one row's way.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { jobCohort, memberId } from '../../services/core/domain/ids.ts';
import type { JobRow } from '../../services/core/domain/job.ts';
import { JobStatus } from '../../services/core/domain/job-status.ts';
import { BEAT_MS, DUE_MINUTE_PASSED_MS, MINUTE_MS, SECOND_MS, TICK_MS } from '../../services/core/domain/limits.ts';
import type { DueEntry } from '../../services/core/domain/operation.ts';
import { Dispatcher } from '../../services/dispatcher/dispatcher.ts';
import { coreBench, type CoreBenchOptions } from '../support/core-bench.ts';
import { FAKE_START } from '../support/fake-clock.ts';
import { jobRow } from '../support/job-row.ts';
import { scriptedRandom } from '../support/scripted-random.ts';

const COHORT = 'j_0123456789abc';
const OTHER_COHORT = 'j_abcdefghjkmnp';
const SHARD = 3;

/** A dispatcher that owns the shards; each second of its life is a tick. */
function bench(options: CoreBenchOptions = {}, shards: readonly number[] = [SHARD]) {
  const core = coreBench(options);
  const { stores, clock, bus } = core;
  const owned = new Set(shards);
  const dispatcher = new Dispatcher({
    ...core.parts,
    timerStore: stores.timers,
    cursors: stores.cursors,
    shards: 1,
    member: 'dispatcher-1',
    holds: (shard) => owned.has(shard),
    clusterStartedAt: FAKE_START - MINUTE_MS,
  });
  const dueRowOf = (job: JobRow): DueEntry => {
    const { jobId, shard, runAt, queue, priority, attempt } = job;
    return { jobId, shard, runAt, queue, priority, attempt, direct: false };
  };
  return {
    ...core,
    owned,
    dispatcher,
    /** Jobs with their due rows, as their creation leaves them. */
    create: (...jobs: readonly JobRow[]) => {
      for (const job of jobs) stores.rows.set(job.jobId, job);
      stores.due.write(jobs.map(dueRowOf));
    },
    writeDueRow: (job: JobRow) => stores.due.write([dueRowOf(job)]),
    start: async () => {
      for (const shard of shards) dispatcher.acquired(shard);
      await clock.advance(0);
    },
    /** Ticks begin on the second, even if the one before has not ended. */
    run: async (seconds: number) => {
      for (let second = 0; second < seconds; second++) {
        void dispatcher.runOnce();
        for (let beats = 0; beats < TICK_MS / BEAT_MS; beats += 1) {
          dispatcher.beat();
          await clock.advance(BEAT_MS);
        }
      }
    },
    /** What is on the stream: job, attempt and ms after the start at which it was stored. */
    published: () =>
      [...bus.subjects.values()]
        .flat()
        .map(({ message, storedAt }) => [message.jobId, message.attempt, storedAt - FAKE_START]),
  };
}

const due = (member: number, afterMs: number, overrides: Partial<JobRow> = {}): JobRow =>
  jobRow(COHORT, member, { runAt: FAKE_START + afterMs, shard: SHARD, ...overrides });

describe('a dispatcher', () => {
  it('publishes a job at its millisecond, with the attempt that its claim will get', async () => {
    const { create, start, run, published } = bench();
    const jobs = [due(0, 1), due(1, 700), due(2, 1_999, { attempt: 4 }), due(3, 6_543)];
    create(...jobs);
    await start();
    await run(8);
    assert.deepEqual(published(), [
      [jobs[0]!.jobId, 1, 1],
      [jobs[1]!.jobId, 1, 700],
      [jobs[2]!.jobId, 5, 1_999],
      [jobs[3]!.jobId, 1, 6_543],
    ]);
  });

  it('R030 publishes nothing of a job delayed by 6 h before its time, and then one message for one attempt', async () => {
    const { create, start, run, published, clock, stores, dispatcher } = bench();
    const sixHoursMs = 6 * 3_600_000;
    create(due(0, sixHoursMs));
    await start();
    for (let hour = 0; hour < 5; hour += 1) {
      clock.step({ wallMs: 3_600_000, monotonicMs: 3_600_000 });
      await run(2);
      assert.deepEqual(published(), []);
    }
    clock.step({ wallMs: 3_600_000 - 15_000, monotonicMs: 3_600_000 - 15_000 });
    dispatcher.lost(SHARD);
    stores.positions.set(`dispatch ${SHARD}`, clock.now());
    await start();
    await run(4);
    assert.deepEqual(published(), []);
    await run(5);
    assert.deepEqual(
      published().map(([, attempt, at]) => [attempt, at]),
      [[1, sixHoursMs]],
    );
  });

  it('publishes a job that was replayed into another queue there alone, whatever rows it left in the old one', async () => {
    const { create, writeDueRow, start, run, bus } = bench();
    // Their rows of the old queue are left by rounds that lost: one at the same attempt, one read when long due.
    const [later, late] = [due(0, 100, { queue: 'new', attempt: 2 }), due(1, 0, { queue: 'new', attempt: 2 })];
    create(later, late);
    for (const afterMs of [50, 101, 1_500]) writeDueRow({ ...later, queue: 'old', runAt: FAKE_START + afterMs });
    writeDueRow({ ...late, queue: 'old', runAt: FAKE_START - 30_000 });
    await start();
    await run(5);
    assert.deepEqual(
      [...bus.subjects.values()].flat().map(({ message }) => [message.queue, message.jobId, message.attempt]),
      [
        ['new', late.jobId, 3],
        ['new', later.jobId, 3],
      ],
    );
  });

  it('R085 publishes a job that is due in 24.8 days then, not before', async () => {
    const { create, start, run, published, clock, stores, dispatcher } = bench();
    create(due(0, 2 ** 31));
    await start();
    await run(3);
    clock.step({ wallMs: 2 ** 31 - 5_000, monotonicMs: 2 ** 31 - 5_000 });
    // Taken up anew, so that it need not read every minute of 24 days.
    dispatcher.lost(SHARD);
    stores.positions.set(`dispatch ${SHARD}`, clock.now());
    await start();
    await run(3);
    assert.deepEqual(
      published().map(([, , at]) => at),
      [2 ** 31],
    );
  });

  it('moves jobs that are due one soon after the other in groups, none later than 30 ms', async () => {
    const { create, start, run, published } = bench();
    const dueAfterMs = Array.from({ length: 64 }, (_, index) => 1_000 + index);
    create(...dueAfterMs.map((afterMs, member) => due(member, afterMs)));
    await start();
    await run(3);
    const lateMs = published().map(([, , storedAt], index) => Number(storedAt) - (dueAfterMs[index] ?? NaN));
    assert.equal(lateMs.length, 64);
    assert.ok(Math.min(...lateMs) >= 0 && Math.max(...lateMs) <= 30, String(lateMs));
    assert.ok(new Set(published().map(([, , storedAt]) => storedAt)).size <= 12, String(published()));
  });

  it('starts all of 12,001 jobs due in one millisecond of one shard, once each', async () => {
    const { create, start, run, published, stores } = bench();
    const random = scriptedRandom();
    const cohorts = Array.from({ length: 188 }, () => jobCohort(random.bytes(13)));
    const jobs = Array.from({ length: 12_001 }, (_, index) =>
      due(0, 1_500, { cohort: cohorts[index >> 6]!, jobId: memberId(cohorts[index >> 6]!, index & 63) }),
    );
    create(...jobs);
    await start();
    await run(5);
    const ids = published().map(([jobId]) => jobId);
    assert.equal(ids.length, 12_001);
    assert.equal(new Set(ids).size, 12_001);
    const rounds = stores.calls.filter(({ method }) => method === 'cohorts.apply');
    assert.ok(rounds.length < 2 * cohorts.length, `${rounds.length} rounds for ${cohorts.length} cohorts`);
  });

  it('waits 10 s for a job whose timer came first, and then leaves the row', async () => {
    const { writeDueRow, stores, start, run, published, dispatcher } = bench();
    const [slow, never] = [due(0, 0), due(1, 0)];
    writeDueRow(slow);
    writeDueRow(never);
    await start();
    await run(5);
    stores.rows.set(slow.jobId, slow);
    await run(20);
    assert.equal(published().length, 1);
    await dispatcher.drain();
    assert.ok(
      stores.positions.get(`dispatch ${SHARD}`)! > FAKE_START,
      'the cursor waits for a row that matches nothing',
    );
  });

  it('does nothing without the lease', async () => {
    const { create, start, run, published, owned, events } = bench();
    create(due(0, 0));
    owned.delete(SHARD);
    await start();
    events.length = 0;
    await run(5);
    assert.deepEqual([events, published()], [[], []]);
  });

  it('lets go of what it holds when it loses the lease', async () => {
    const { create, start, run, stores, clock, owned } = bench();
    create(due(0, 1_500));
    await start();
    await run(1);
    owned.delete(SHARD);
    await clock.advance(5_000);
    assert.equal(stores.rows.get(due(0, 0).jobId)?.status, JobStatus.scheduled);
  });

  it('takes up from the saved cursor, a minute back at least, and publishes what its predecessor may not have', async () => {
    const { create, start, run, published, stores } = bench();
    stores.positions.set(`dispatch ${SHARD}`, FAKE_START - 5_000);
    const enqueued = { status: JobStatus.enqueued, enqueuedAt: FAKE_START - 4_000 };
    const jobs = [
      // Before the cursor: surely handled, unless its row landed late.
      due(0, -30_000, enqueued),
      due(1, -30_000),
      due(2, -4_000, enqueued),
      due(3, -4_000),
      due(4, -4_000, { status: JobStatus.running, attempt: 1 }),
    ];
    create(...jobs);
    await start();
    await run(2);
    assert.deepEqual(
      published()
        .map(([jobId]) => jobs.findIndex((job) => job.jobId === jobId))
        .toSorted(),
      [1, 2, 3],
    );
  });

  it('publishes what it enqueued without learning it, after a spare deadline when its minute is long over', async () => {
    const job = due(0, 1_500);
    let isAway = true;
    const { create, start, run, published, stores, clock, events } = bench({
      strikes: ({ method }) => (isAway && method === 'jobs.read' ? { kind: 'unavailable' } : undefined),
    });
    create(job);
    // The round lands, its answer does not, and what could settle it is away until the operation has expired.
    stores.failNext('cohorts.apply', { kind: 'answer_lost' });
    await start();
    await run(2);
    clock.step({ wallMs: MINUTE_MS + DUE_MINUTE_PASSED_MS });
    await run(20);
    assert.deepEqual([stores.rows.get(job.jobId)?.status, published().length], [JobStatus.enqueued, 0]);
    isAway = false;
    await run(5);
    assert.deepEqual(
      published().map(([jobId, attempt]) => [jobId, attempt]),
      [[job.jobId, 1]],
    );
    const spareAt = events.indexOf('timers.writeDeadlines');
    assert.ok(spareAt >= 0 && spareAt < events.indexOf('queue.publish'));
  });
});

describe('a dispatcher goes on with the others', () => {
  it('when one cohort of an overdue shard cannot be read', async () => {
    const others = Array.from({ length: 3 }, (_, member) => due(member, -30_000));
    const away = jobRow(OTHER_COHORT, 0, { runAt: FAKE_START - 30_000, shard: SHARD });
    const names = (args: readonly unknown[]): boolean => JSON.stringify(args[0]).includes(OTHER_COHORT);
    const { create, start, run, published } = bench({
      strikes: ({ method, args }) =>
        (method === 'jobs.read' || method === 'cohorts.apply') && names(args) ? { kind: 'unavailable' } : undefined,
    });
    create(...others, away);
    await start();
    await run(3);
    assert.deepEqual(
      published()
        .map(([jobId]) => jobId)
        .toSorted(),
      others.map(({ jobId }) => jobId),
    );
  });

  it('when one shard cannot be read in time', async () => {
    let isSlow = false;
    const { create, start, dispatcher, clock, published } = bench(
      {
        strikes: ({ method, args }) =>
          isSlow && method === 'timers.readDue' && (args[0] as { shard: number }).shard === 9
            ? { kind: 'slow', afterMs: 12 * SECOND_MS }
            : undefined,
      },
      [SHARD, 9],
    );
    await start();
    isSlow = true;
    // As the loop does it: the next run begins when the last one has ended.
    const stopping = new AbortController();
    const loop = (async () => {
      while (!stopping.signal.aborted) {
        await dispatcher.runOnce();
        await clock.sleep(100);
      }
    })();
    await clock.advance(2_000);
    create(due(0, 5_000));
    await clock.advance(8_000);
    assert.deepEqual(
      published().map(([, , at]) => at),
      [5_000],
    );
    stopping.abort();
    await clock.until(loop);
  });
});

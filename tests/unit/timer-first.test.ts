// The invariant of design section 6: a timer never dies before its job does. Everybody who moves a job writes its timer first,
// the state second, and answers or publishes last; and wherever it stands still on the way, on whatever clock, the job has a
// timer that somebody will still read.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { JobChanger } from '../../services/api/use-cases/change-job.ts';
import { ClaimedJobs } from '../../services/api/use-cases/claimed-jobs.ts';
import { JobClaimer } from '../../services/api/use-cases/claim-jobs.ts';
import { JobReporter } from '../../services/api/use-cases/report-jobs.ts';
import type { CreateJob } from '../../services/api/use-cases/types.ts';
import { bucketEnd, bucketOf } from '../../services/core/domain/bucket.ts';
import type { JobRow } from '../../services/core/domain/job.ts';
import { isTerminal, JobStatus } from '../../services/core/domain/job-status.ts';
import { decideFail } from '../../services/core/domain/life-cycle.ts';
import { DAY_MS, DUE_MINUTE_PASSED_MS, SECOND_MS } from '../../services/core/domain/limits.ts';
import { JobMover } from '../../services/core/moves/move-job.ts';
import { QueueWork } from '../../services/dispatcher/queue-work.ts';
import { ShardDispatcher } from '../../services/dispatcher/shard-dispatcher.ts';
import { BulkCarrier } from '../../services/reaper/bulk-carrier.ts';
import { Settler } from '../../services/reaper/settle.ts';
import { bulkOperation } from '../support/bulk-operation.ts';
import { coreBench, type BenchEvent, type CoreBench, jobCreator } from '../support/core-bench.ts';
import { createJobRequest } from '../support/create-job-request.ts';
import { FAKE_START } from '../support/fake-clock.ts';
import { jobRow } from '../support/job-row.ts';
import { runningJob } from '../support/operations.ts';

const COHORT = 'j_0123456789abc';
const SHARD = 3;

interface Mover {
  readonly what: string;
  /** The job as it stands before; null: none. */
  readonly job: JobRow | null;
  readonly move: (bench: CoreBench, jobId: string) => Promise<unknown>;
  /** What is done, in order, when nothing stands still. */
  readonly events: readonly BenchEvent[];
}

function create(changes: Partial<CreateJob>): Mover['move'] {
  return async (bench) => {
    const result = await jobCreator(bench).create(createJobRequest(changes));
    assert.ok(result.ok);
  };
}

const claim: Mover['move'] = async ({ parts }, jobId) => {
  const claimer = new JobClaimer({ ...parts, claimed: new ClaimedJobs() });
  const [result] = await claimer.claim([{ jobId, attempt: 1, claimId: 'claim-1' }], 'worker-1');
  // One that stood still for longer than its lease gets nothing.
  assert.ok(result?.ok === true || result?.problem.code === 'lease_lost');
};

const claimInVain: Mover['move'] = async ({ parts }, jobId) => {
  const claimer = new JobClaimer({
    ...parts,
    gate: { isPaused: () => true, maxRunning: () => null },
    claimed: new ClaimedJobs(),
  });
  const [result] = await claimer.claim([{ jobId, attempt: 1, claimId: 'claim-1' }], 'worker-1');
  assert.ok(result?.ok === false && result.problem.code === 'queue_paused');
};

const fail: Mover['move'] = async ({ parts }, jobId) => {
  const reporter = new JobReporter({ ...parts, claimed: new ClaimedJobs() });
  const [result] = await reporter.report([
    { kind: 'failed', jobId, attempt: 1, error: 'boom', retryable: true, retryAfterMs: null },
  ]);
  assert.ok(result?.ok);
};

const settle: Mover['move'] = async ({ parts }, jobId) => {
  const results = await new Settler(parts).settle([
    { jobId, shard: SHARD, table: 'due', at: FAKE_START, publishedAt: null },
  ]);
  assert.deepEqual(results, ['settled']);
};

const dispatch: Mover['move'] = async ({ parts, stores }) => {
  const holds = (): boolean => true;
  const work = new QueueWork({ ...parts, holds, share: () => 1 });
  const dispatcher = new ShardDispatcher(
    { ...parts, timerStore: stores.timers, cursors: stores.cursors, work, holds },
    { shard: SHARD, from: FAKE_START - 1, savedCursor: FAKE_START - 1 },
  );
  await dispatcher.tick();
  while (work.isBusy()) await parts.clock.sleep(1);
};

const discard: Mover['move'] = async ({ parts }, jobId) => {
  const carrier = new BulkCarrier({ ...parts, mover: new JobMover(parts) });
  const carried = await carrier.carryOut(bulkOperation({ verb: 'discard' }), [{ at: FAKE_START, jobId }]);
  assert.equal(carried.changed, 1);
};

const runNow: Mover['move'] = async ({ parts }, jobId) => {
  const changer = new JobChanger({ ...parts, mover: new JobMover(parts) });
  assert.ok((await changer.runNow(jobId)).ok);
};

const overdue = jobRow(COHORT, 0, { runAt: FAKE_START });
/** A job whose report is in time however long it stands still. */
const reported = (overrides: Partial<JobRow> = {}): JobRow =>
  runningJob(COHORT, 0, { deadlineAt: FAKE_START + DAY_MS, ...overrides });
const lapsed = (overrides: Partial<JobRow> = {}): JobRow =>
  runningJob(COHORT, 0, { leaseUntil: FAKE_START - 1, heard: true, runAt: FAKE_START, ...overrides });

/** Of the settler, which asks first whether the job is over. */
const LOOK: readonly BenchEvent[] = ['jobs.readEnds', 'jobs.read'];
const ROUND: readonly BenchEvent[] = ['cohorts.apply', 'row changed'];
const MOVERS: readonly Mover[] = [
  {
    what: 'a job created ahead',
    job: null,
    move: create({ when: { delayMs: 30 * SECOND_MS } }),
    events: ['timers.writeDue', ...ROUND, 'queue.ensureQueue'],
  },
  {
    what: 'a job created for a second from now',
    job: null,
    move: create({ when: { delayMs: SECOND_MS } }),
    events: ['timers.writeDue', ...ROUND, 'queue.ensureQueue', 'hints.send'],
  },
  {
    what: 'a job created due now',
    job: null,
    move: create({}),
    events: ['timers.writeDue', ...ROUND, 'queue.ensureQueue', 'queue.publish'],
  },
  {
    what: 'a job created under a key, for a time that has passed',
    job: null,
    move: create({ idempotencyKey: 'key', when: { at: FAKE_START - 30 * SECOND_MS } }),
    events: [
      'keys.find',
      'keys.claim',
      'timers.writeDue',
      ...ROUND,
      'queue.ensureQueue',
      'queue.publish',
      'keys.markWritten',
    ],
  },
  {
    what: 'a due job',
    job: overdue,
    move: dispatch,
    events: ['timers.readDue', 'timers.readDue', ...ROUND, 'queue.publish'],
  },
  {
    what: 'a claimed job',
    job: jobRow(COHORT, 0, { status: JobStatus.enqueued, enqueuedAt: FAKE_START }),
    move: claim,
    events: ['jobs.read', 'timers.writeDeadlines', ...ROUND],
  },
  {
    what: 'a job claimed in a paused queue',
    job: jobRow(COHORT, 0, { status: JobStatus.enqueued, enqueuedAt: FAKE_START }),
    move: claimInVain,
    events: ['jobs.read', 'timers.writeDue', ...ROUND, 'hints.send'],
  },
  {
    what: 'a job to be tried again',
    job: reported(),
    move: fail,
    events: ['jobs.read', 'timers.writeDue', ...ROUND, 'hints.send'],
  },
  {
    what: 'a job out of tries',
    job: reported({ maxAttempts: 1 }),
    move: fail,
    events: ['jobs.read', 'history.writeDeadLetters', ...ROUND, 'history.writeFinished'],
  },
  {
    what: 'a failed job whose cancellation was asked for',
    job: reported({ cancelRequested: true }),
    move: fail,
    events: ['jobs.read', ...ROUND, 'history.writeFinished'],
  },
  {
    what: 'a lapsed job, the first time',
    job: lapsed(),
    move: settle,
    events: [...LOOK, 'timers.writeDeadlines', ...ROUND, 'queue.publish'],
  },
  {
    what: 'a lapsed job, the second time',
    job: lapsed({ lapses: 1 }),
    move: settle,
    events: [...LOOK, 'timers.writeDue', ...ROUND, 'hints.send'],
  },
  {
    what: 'a lapsed job out of tries',
    job: lapsed({ maxAttempts: 1 }),
    move: settle,
    events: [...LOOK, 'history.writeDeadLetters', ...ROUND, 'history.writeFinished'],
  },
  {
    what: 'a missed job',
    job: overdue,
    move: settle,
    events: [...LOOK, 'held.standing', 'timers.writeDeadlines', ...ROUND, 'queue.publish'],
  },
  {
    what: 'a waiting job whose message is gone',
    job: jobRow(COHORT, 0, { status: JobStatus.enqueued, enqueuedAt: FAKE_START }),
    move: settle,
    events: [...LOOK, 'queue.oldestMessageAt', 'timers.writeDeadlines', 'queue.publish'],
  },
  {
    what: 'an occurrence that waits for another, to run now',
    job: jobRow(COHORT, 0, { runAt: FAKE_START - 1, waitsFor: 'another' }),
    move: runNow,
    // Rule 2: a deadline row that is due at once is written again.
    events: ['jobs.read', 'timers.writeDeadlines', 'timers.writeDeadlines', ...ROUND, 'timers.writeDue', 'hints.send'],
  },
  {
    what: 'a discarded job',
    job: jobRow(COHORT, 0, { status: JobStatus.dead, finishedAt: FAKE_START }),
    move: discard,
    events: ['jobs.read', 'timers.writeDeadlines', ...ROUND],
  },
  {
    what: 'a running job',
    job: runningJob(COHORT, 0),
    move: settle,
    events: [...LOOK, 'timers.writeDeadlines'],
  },
];

/** Moves the job while `onEvent` stands still where it wants. The job's due row stands as its creation wrote it. */
async function moved({ job, move }: Mover, onEvent: (bench: CoreBench, event: BenchEvent) => void): Promise<CoreBench> {
  const bench: CoreBench = coreBench({ onEvent: (event) => onEvent(bench, event) });
  if (job !== null) {
    const { jobId, shard, runAt, queue, priority, attempt } = job;
    bench.stores.rows.set(jobId, job);
    bench.stores.due.write([{ jobId, shard, runAt, queue, priority, attempt, direct: false }]);
  }
  bench.begin();
  await bench.clock.until(move(bench, job?.jobId ?? ''));
  return bench;
}

/** Timers that somebody will read from now on. A due row means "by now": it serves a job that is due by its time. */
function timersAhead({ stores, clock }: CoreBench, job: JobRow): readonly string[] {
  const now = clock.now();
  const due = stores.due
    .all()
    .filter(({ runAt }) => runAt >= job.runAt && bucketEnd(bucketOf(runAt)) + DUE_MINUTE_PASSED_MS >= now);
  const deadlines = stores.deadlines.all().filter(({ at }) => at >= now);
  return [...due, ...deadlines].map(({ jobId }) => jobId).filter((jobId) => jobId === job.jobId);
}

const PAUSES = [
  ['the process', { wallMs: 200_000, monotonicMs: 200_000 }],
  ['the machine, and its monotonic clock with it', { wallMs: 200_000 }],
] as const;

for (const mover of MOVERS) {
  describe(mover.what, () => {
    it('gets its timer first, its state second, and what others see last', async () => {
      const { events } = await moved(mover, () => undefined);
      assert.deepEqual(events, mover.events);
    });

    // What comes after the last of these finds the job as its timers have it.
    const lastAt = mover.events.findLastIndex((event) => event === 'row changed' || event.startsWith('timers.write'));
    for (const [at, event] of mover.events.slice(0, lastAt + 1).entries()) {
      for (const [who, pause] of PAUSES) {
        it(`has a timer ahead though ${who} stood still at ${event}`, async () => {
          let passed = 0;
          const bench = await moved(mover, ({ clock }) => {
            if (passed++ === at) clock.step(pause);
          });
          for (const job of bench.stores.rows.values()) {
            // Of one that was discarded, the history is still to be told.
            const isTold = isTerminal(job.status) && job.reason !== 'discarded';
            if (!isTold) assert.notEqual(timersAhead(bench, job).length, 0, job.status);
          }
        });
      }
    }
  });
}

describe('the time of a job', () => {
  const createdUnderKey = MOVERS.find(({ what }) => what.includes('under a key'))!;

  it('is that of its timer, though this was moved to now', async () => {
    const { stores } = await moved(createdUnderKey, ({ clock }, event) => {
      if (event === 'keys.claim') clock.step({ wallMs: 200_000 });
    });
    const [job] = [...stores.rows.values()];
    const runAt = FAKE_START + 200_000;
    assert.deepEqual([job?.runAt, stores.due.all().map((row) => row.runAt)], [runAt, [runAt]]);
    // And the time that was asked for stays.
    assert.equal(job?.scheduledFor, FAKE_START - 30 * SECOND_MS);
  });

  it('is that of its timer after a decision that took long, too', async () => {
    const { parts, stores, clock } = coreBench();
    const job = reported();
    stores.rows.set(job.jobId, job);
    const report = { error: 'boom', retryable: true, retryAfterMs: 5_000 };
    const decision = decideFail(job, report, FAKE_START, 0);
    clock.step({ wallMs: 10_000 });
    assert.equal((await clock.until(parts.ender.end(job, decision))).kind, 'applied');
    const runAt = FAKE_START + 10_000;
    assert.deepEqual([stores.rows.get(job.jobId)?.runAt, stores.due.all().map((row) => row.runAt)], [runAt, [runAt]]);
  });
});

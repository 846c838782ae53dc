// Bulk operations from their start to their end, on memory stores: run by whoever owns their shard, each job once.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { OperationPage, OperationPosition } from '../../services/api/use-cases/types.ts';
import type { Result } from '../../services/core/contract/problems.ts';
import { jobCohort } from '../../services/core/domain/ids.ts';
import type { JobRow } from '../../services/core/domain/job.ts';
import { HOUR_MS, MINUTE_MS, OPERATIONS_AT_ONCE_MAX, SECOND_MS } from '../../services/core/domain/limits.ts';
import { bulkBench, startRequest } from '../support/bulk-bench.ts';
import { FAKE_START } from '../support/fake-clock.ts';
import { jobRow } from '../support/job-row.ts';
import { journalOf } from '../support/watched-rounds.ts';

const DIED = FAKE_START - 10 * MINUTE_MS;

function cohortOf(index: number): string {
  return jobCohort(
    new Uint8Array(13)
      .fill(0)
      .with(0, index >> 5)
      .with(1, index & 31),
  );
}

/** Dead jobs, three in a cohort, each a millisecond after the other. */
function deadJobs(count: number, overrides: (index: number) => Partial<JobRow> = () => ({})): readonly JobRow[] {
  return Array.from({ length: count }, (_, index) =>
    jobRow(cohortOf(Math.floor(index / 3)), index % 3, {
      shard: 0,
      status: 'dead',
      attempt: 5,
      tries: 5,
      finishedAt: DIED + index,
      reason: 'attempts',
      lastError: 'boom',
      ...overrides(index),
    }),
  );
}

async function started(bench: ReturnType<typeof bulkBench>, request = startRequest()): Promise<string> {
  const result = await bench.clock.until(bench.keeper.start(request));
  assert.ok(result.ok);
  return result.value.operation.operationId;
}

/** Each of its minutes is read. */
const HOUR = { ...startRequest().filter, from: FAKE_START, to: FAKE_START + HOUR_MS };

/** How often each job was replayed. */
function replays(journal: ReturnType<typeof journalOf>): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const { before, after } of journal) {
    if (before?.status === 'dead' && after.status === 'scheduled') {
      counts.set(after.jobId, (counts.get(after.jobId) ?? 0) + 1);
    }
  }
  return counts;
}

describe('a bulk operation', () => {
  it('is run by the reaper of its shard to its end, at its rate, and counts what it changed', async () => {
    const bench = bulkBench();
    bench.add(...deadJobs(60, (index) => ({ lastError: index < 40 ? 'boom 451' : 'other' })));
    bench.startReaper();
    const { filter } = startRequest();
    const operationId = await started(bench, startRequest({ ratePerS: 10, filter: { ...filter, error: '451' } }));
    await bench.run(3);
    const middle = bench.find(operationId);
    assert.equal(middle.status, 'running');
    assert.ok(middle.changed > 0 && middle.changed <= 30, `${middle.changed} after three seconds`);
    await bench.run(5);
    assert.partialDeepStrictEqual(bench.find(operationId), { status: 'done', changed: 40, failed: 0, lastError: null });
    const rows = [...bench.stores.rows.values()];
    assert.equal(rows.filter(({ status, tries }) => status === 'scheduled' && tries === 0).length, 40);
    assert.equal(rows.filter(({ status }) => status === 'dead').length, 20);
    // Every replayed job has its due row.
    for (const job of rows.filter(({ status }) => status === 'scheduled')) {
      assert.ok(bench.stores.due.all().some((row) => row.jobId === job.jobId && row.runAt === job.runAt));
    }
  });

  it('goes on after kill -9 from where it was saved, and changes no job twice', async () => {
    const bench = bulkBench();
    bench.add(...deadJobs(300));
    const journal = journalOf(bench.stores);
    const first = bench.startReaper();
    const operationId = await started(bench, startRequest({ ratePerS: 50 }));
    await bench.run(4);
    first.kill();
    const saved = bench.find(operationId);
    assert.ok(replays(journal).size > saved.changed, 'something was done that is not saved');
    // Whoever takes the shard over reads its deadlines from the saved cursor on.
    bench.startReaper();
    await bench.run(20);
    assert.partialDeepStrictEqual(bench.find(operationId), { status: 'done', changed: 300, failed: 0 });
    assert.deepEqual(new Set(replays(journal).values()), new Set([1]));
    assert.equal(replays(journal).size, 300);
  });

  it('goes on after kill -9 with the payload and the queue that it was started with', async () => {
    const bench = bulkBench();
    bench.add(...deadJobs(100, () => ({ queue: 'mail', payload: '1', payloadBytes: 1 })));
    const journal = journalOf(bench.stores);
    const first = bench.startReaper();
    const replayChanges = { payload: '{"n":1.0}', payloadBytes: 9, queue: 'mended' };
    const operationId = await started(bench, startRequest({ ratePerS: 20, replayChanges }));
    await bench.run(3);
    first.kill();
    bench.startReaper();
    await bench.run(20);
    assert.partialDeepStrictEqual(bench.find(operationId), { status: 'done', changed: 100, failed: 0, replayChanges });
    assert.deepEqual([replays(journal).size, ...new Set(replays(journal).values())], [100, 1]);
    for (const job of bench.stores.rows.values()) {
      assert.partialDeepStrictEqual(job, { status: 'scheduled', ...replayChanges });
      // Due where it goes to: a row of its former queue starts nothing.
      const due = bench.stores.due.all().filter((row) => row.jobId === job.jobId && row.runAt === job.runAt);
      assert.deepEqual(new Set(due.map(({ queue }) => queue)), new Set(['mended']));
    }
  });

  it('does not replay a job that dies again while it runs', async () => {
    const bench = bulkBench();
    const [job] = deadJobs(1);
    bench.add(job!, ...deadJobs(30).slice(3));
    bench.startReaper();
    const operationId = await started(bench, startRequest({ ratePerS: 2 }));
    await bench.run(3);
    const replayed = bench.stores.rows.get(job!.jobId)!;
    assert.equal(replayed.status, 'scheduled');
    // By a clock that is behind, so that the operation comes to its letter.
    bench.add({ ...replayed, status: 'dead', attempt: 6, finishedAt: DIED + 25 });
    await bench.run(20);
    assert.equal(bench.find(operationId).status, 'done');
    assert.equal(bench.stores.rows.get(job!.jobId)?.status, 'dead');
    assert.equal(bench.find(operationId).changed, 28);
  });

  it('stops within two seconds, and stays as it is', async () => {
    const bench = bulkBench();
    bench.add(...deadJobs(300));
    bench.startReaper();
    const operationId = await started(bench, startRequest({ ratePerS: 20 }));
    await bench.run(3);
    const stopping = await bench.clock.until(bench.keeper.stop(operationId, 'default'));
    assert.ok(stopping.ok && stopping.value.status === 'stopping');
    await bench.run(2);
    const stopped = bench.find(operationId);
    assert.equal(stopped.status, 'stopped');
    assert.ok(stopped.finishedAt !== null && stopped.changed > 0 && stopped.changed < 300);
    assert.equal(
      [...bench.stores.rows.values()].filter(({ status }) => status === 'scheduled').length,
      stopped.changed,
    );
    await bench.run(30);
    assert.deepEqual(bench.find(operationId), stopped);
    const again = await bench.clock.until(bench.keeper.stop(operationId, 'default'));
    assert.ok(again.ok && again.value.status === 'stopped');
  });

  it('that was asked to stop while nobody ran it ends stopped, having changed nothing', async () => {
    const bench = bulkBench();
    bench.add(...deadJobs(3));
    const operationId = await started(bench);
    assert.ok((await bench.clock.until(bench.keeper.stop(operationId, 'default'))).ok);
    bench.startReaper();
    await bench.run(5);
    assert.partialDeepStrictEqual(bench.find(operationId), { status: 'stopped', changed: 0 });
  });

  it('that is done cannot be stopped; one that is not there is not found', async () => {
    const bench = bulkBench();
    bench.startReaper();
    const operationId = await started(bench);
    await bench.run(3);
    const done = await bench.clock.until(bench.keeper.stop(operationId, 'default'));
    assert.ok(!done.ok && done.problem.code === 'operation_finished');
    const unknown = await bench.clock.until(bench.keeper.stop('o_0000000000000', 'default'));
    assert.ok(!unknown.ok && unknown.problem.code === 'operation_not_found');
  });

  it('is left alone by a runner that stood still past its lease, while another runs it', async () => {
    const bench = bulkBench();
    bench.add(...deadJobs(300));
    const journal = journalOf(bench.stores);
    const first = bench.startReaper();
    const operationId = await started(bench, startRequest({ ratePerS: 20 }));
    await bench.run(2);
    const { runner } = bench.find(operationId);
    // The lease of the second is there before the first knows that its own has lapsed.
    bench.startReaper();
    await bench.run(12);
    assert.notEqual(bench.find(operationId).runner, runner);
    first.holds = false;
    await bench.run(30);
    assert.partialDeepStrictEqual(bench.find(operationId), { status: 'done' });
    assert.deepEqual(new Set(replays(journal).values()), new Set([1]));
    assert.equal(replays(journal).size, 300);
  });

  it('waits for a store that is away, and loses nothing', async () => {
    let isAway = false;
    const bench = bulkBench({ strikes: () => (isAway ? { kind: 'unavailable' } : undefined) });
    bench.add(...deadJobs(100));
    const journal = journalOf(bench.stores);
    bench.startReaper();
    const operationId = await started(bench, startRequest({ ratePerS: 20 }));
    await bench.run(2);
    isAway = true;
    await bench.run(30);
    isAway = false;
    await bench.run(30);
    assert.partialDeepStrictEqual(bench.find(operationId), { status: 'done', changed: 100, failed: 0 });
    assert.deepEqual(new Set(replays(journal).values()), new Set([1]));
  });

  it('counts a job that the store refuses as failed, says why, and goes on', async () => {
    const [bad, ...others] = deadJobs(10);
    const bench = bulkBench({
      strikes: ({ method, args }) =>
        method === 'cohorts.apply' && JSON.stringify(args[1]).includes(bad!.jobId) ? { kind: 'invalid' } : undefined,
    });
    bench.add(bad!, ...others);
    bench.startReaper();
    const operationId = await started(bench);
    await bench.run(5);
    assert.partialDeepStrictEqual(bench.find(operationId), {
      status: 'done',
      changed: 9,
      failed: 1,
      lastError: `${bad!.jobId}: the store refused the write`,
    });
  });

  it('moves each job once, also where it moves jobs further into its own window', async () => {
    const bench = bulkBench();
    const jobs = Array.from({ length: 50 }, (_, index) =>
      jobRow(cohortOf(index), 0, { shard: 0, runAt: FAKE_START + 2 * MINUTE_MS + index * SECOND_MS }),
    );
    bench.add(...jobs);
    bench.startReaper();
    const request = startRequest({ verb: 'reschedule', filter: HOUR, newTime: { shiftMs: 10_000 } });
    const operationId = await started(bench, request);
    await bench.run(5);
    assert.partialDeepStrictEqual(bench.find(operationId), { status: 'done', changed: 50 });
    for (const { jobId, runAt } of jobs) {
      const row = bench.stores.rows.get(jobId);
      assert.deepEqual([row?.runAt, row?.scheduledFor], [runAt + 10_000, runAt + 10_000]);
    }
  });

  it('cancels what waits, asks workers of what runs to stop, and makes what waits due now', async () => {
    const bench = bulkBench();
    const at = FAKE_START + MINUTE_MS;
    const scheduled = jobRow(cohortOf(0), 0, { shard: 0, runAt: at });
    const enqueued = jobRow(cohortOf(0), 1, { shard: 0, runAt: at, status: 'enqueued', enqueuedAt: FAKE_START });
    const running = jobRow(cohortOf(0), 2, { shard: 0, runAt: at, status: 'running', attempt: 1 });
    const urgent = jobRow(cohortOf(1), 0, { shard: 0, runAt: at, queue: 'urgent' });
    bench.add(scheduled, enqueued, running, urgent);
    bench.startReaper();
    const cancel = await started(bench, startRequest({ verb: 'cancel', filter: HOUR }));
    const run = await started(bench, startRequest({ verb: 'run', filter: { ...HOUR, queue: 'urgent' } }));
    await bench.run(5);
    assert.partialDeepStrictEqual(bench.find(cancel), { status: 'done', changed: 3 });
    assert.partialDeepStrictEqual(bench.find(run), { status: 'done', changed: 1 });
    const rowOf = ({ jobId }: JobRow): JobRow => bench.stores.rows.get(jobId)!;
    assert.deepEqual([rowOf(scheduled).status, rowOf(enqueued).status], ['cancelled', 'cancelled']);
    assert.equal(rowOf(scheduled).reason, 'cancelled_by_request');
    assert.deepEqual([rowOf(running).status, rowOf(running).cancelRequested], ['running', true]);
    assert.ok(rowOf(urgent).runAt < at);
    assert.equal(bench.stores.finished.size, 2);
  });

  it('discards dead jobs for good', async () => {
    const bench = bulkBench();
    bench.add(...deadJobs(5));
    bench.startReaper();
    const operationId = await started(bench, startRequest({ verb: 'discard' }));
    await bench.run(5);
    assert.partialDeepStrictEqual(bench.find(operationId), { status: 'done', changed: 5 });
    for (const { status, reason, finishedAt } of bench.stores.rows.values()) {
      assert.deepEqual([status, reason], ['cancelled', 'discarded']);
      assert.ok(finishedAt !== null && finishedAt < FAKE_START);
    }
  });

  it('waits for its turn where many run, and gets it', async () => {
    const bench = bulkBench();
    bench.add(...deadJobs(40));
    bench.startReaper();
    const requests = Array.from({ length: OPERATIONS_AT_ONCE_MAX + 4 }, () => startRequest({ ratePerS: 5 }));
    const ids: string[] = [];
    for (const request of requests) ids.push(await started(bench, request));
    await bench.run(60);
    assert.ok(ids.every((id) => bench.find(id).status === 'done'));
    assert.equal(
      ids.reduce((sum, id) => sum + bench.find(id).changed, 0),
      40,
    );
  });

  it('is handed over by a reaper that ends gracefully, with what it did saved', async () => {
    const bench = bulkBench();
    bench.add(...deadJobs(200));
    const reaper = bench.startReaper();
    const operationId = await started(bench, startRequest({ ratePerS: 20 }));
    await bench.run(3);
    await bench.clock.until(reaper.stop());
    reaper.kill();
    const done = [...bench.stores.rows.values()].filter(({ status }) => status === 'scheduled').length;
    assert.equal(bench.find(operationId).changed, done);
    bench.startReaper();
    await bench.run(30);
    assert.partialDeepStrictEqual(bench.find(operationId), { status: 'done', changed: 200 });
  });
});

describe('the start of a bulk operation', () => {
  it('writes the timer before the operation, and who asked before both', async () => {
    const bench = bulkBench();
    bench.begin();
    const replayChanges = { payload: '1', payloadBytes: 1, queue: 'mended' };
    const operationId = await started(bench, startRequest({ replayChanges }));
    const events = bench.events.filter((event) => !event.startsWith('operations.find'));
    assert.deepEqual(events.slice(0, 3), ['audit.write', 'operations.list', 'timers.writeDeadlines']);
    assert.ok(events.indexOf('operations.create') > events.indexOf('timers.writeDeadlines'));
    assert.partialDeepStrictEqual(
      [...bench.stores.auditEntries.values()],
      [
        {
          verb: 'operation.start',
          subject: operationId,
          detail: { verb: 'replay', replayChanges: { payloadBytes: 1, queue: 'mended' } },
        },
      ],
    );
  });

  it('is found by its timer also when the operation lands seconds later', async () => {
    const bench = bulkBench();
    bench.add(...deadJobs(3));
    bench.startReaper();
    bench.stores.failNext('operations.create', { kind: 'slow', afterMs: 8_000 });
    const starting = bench.keeper.start(startRequest());
    await bench.run(14);
    const result = await bench.clock.until(starting);
    assert.ok(result.ok);
    assert.partialDeepStrictEqual(bench.find(result.value.operation.operationId), { status: 'done', changed: 3 });
  });

  it('under a key is one operation, however often it is asked for', async () => {
    const bench = bulkBench();
    const key = { text: 'nightly', route: 'POST /operations', requestHash: 'h' } as const;
    const first = await bench.clock.until(bench.keeper.start(startRequest({ key })));
    const again = await bench.clock.until(bench.keeper.start(startRequest({ key })));
    assert.ok(first.ok && again.ok);
    assert.equal(again.value.replayed, true);
    assert.equal(again.value.operation.operationId, first.value.operation.operationId);
    assert.equal(bench.stores.operationRows.size, 1);
    const other = await bench.clock.until(bench.keeper.start(startRequest({ key: { ...key, requestHash: 'other' } })));
    assert.ok(!other.ok && other.problem.code === 'idempotency_key_reused');
    assert.equal(other.problem.members?.['operation_id'], first.value.operation.operationId);
  });

  it('whose answer is lost is settled by the operation itself', async () => {
    const bench = bulkBench();
    bench.stores.failNext('operations.create', { kind: 'answer_lost' });
    await started(bench);
    assert.equal(bench.stores.operationRows.size, 1);
  });
});

describe('the list of operations', () => {
  it('shows the newest first, page after page, over days', async () => {
    const bench = bulkBench();
    const ids: string[] = [];
    for (let count = 0; count < 7; count += 1) {
      ids.unshift(await started(bench));
      bench.clock.step({ wallMs: count % 2 === 0 ? 0 : 9 * 3_600_000 });
    }
    const seen: string[] = [];
    let after: OperationPosition | null = null;
    do {
      const page: Result<OperationPage> = await bench.clock.until(bench.keeper.list({ pageSize: 3, after }));
      assert.ok(page.ok);
      seen.push(...page.value.operations.map(({ operationId }) => operationId));
      after = page.value.next;
    } while (after !== null);
    assert.deepEqual(new Set(seen), new Set(ids));
    assert.equal(seen.length, 7);
    const times = seen.map((id) => bench.find(id).createdAt);
    assert.deepEqual(
      times,
      times.toSorted((one, other) => other - one),
    );
  });
});

describe('a dry run', () => {
  it('counts what the operation would change, shows the first, and changes nothing', async () => {
    const bench = bulkBench();
    bench.add(...deadJobs(1_500, (index) => ({ queue: index % 3 === 0 ? 'other' : 'mail' })));
    const journal = journalOf(bench.stores);
    const task = { ...startRequest(), operationId: '', createdAt: bench.clock.now() };
    const counted = await bench.clock.until(bench.dryRunner.run(task));
    assert.ok(counted.ok);
    assert.partialDeepStrictEqual(counted.value, { matched: 1_000, refused: 0, reached: null });
    assert.deepEqual(
      counted.value.samples.map(({ finishedAt }) => finishedAt! - DIED),
      [1, 2, 4, 5, 7, 8, 10, 11, 13, 14],
    );
    assert.equal(journal.length, 0);
  });

  it('answers within seconds with what it has, and says how far it came', async () => {
    const bench = bulkBench({
      strikes: ({ method }) => (method === 'timers.readDue' ? { kind: 'slow', afterMs: 400 } : undefined),
    });
    const at = (minute: number): number => FAKE_START + minute * MINUTE_MS;
    for (let minute = 0; minute < 60; minute += 1)
      bench.add(jobRow(cohortOf(minute), 0, { shard: 0, runAt: at(minute) }));
    const task = { ...startRequest({ verb: 'cancel', filter: HOUR }), operationId: '' };
    const counted = await bench.clock.until(bench.dryRunner.run({ ...task, createdAt: FAKE_START }));
    assert.ok(counted.ok);
    assert.ok(counted.value.matched >= 10 && counted.value.matched < 20, String(counted.value.matched));
    assert.equal(counted.value.reached, at(counted.value.matched));
  });
});

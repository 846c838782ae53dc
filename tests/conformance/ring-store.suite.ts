import assert from 'node:assert/strict';
import { randomBytes, randomInt } from 'node:crypto';
import { it } from 'node:test';
import { COHORT_ENTROPY_BYTES, memberId, operationId } from '../../services/core/domain/ids.ts';
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../services/core/domain/limits.ts';
import type { DueEntry } from '../../services/core/domain/operation.ts';
import type { RingPart, RingStore } from '../../services/core/ports/ring-store.ts';
import type { Stores } from '../../services/core/storage/stores.ts';
import { bulkOperation } from '../support/bulk-operation.ts';
import { fullJobRow, jobRow, newCohort } from '../support/job-row.ts';
import { fullScheduleRow, newScheduleCohort } from '../support/schedule-row.ts';

export type RingHarness = Stores & { readonly ring: RingStore };

const AT = Date.parse('2026-11-15T06:59:59.999Z');
const PARTS = 5;
const PAGE_ROWS = 1_000;

/** What every RingStore promises. Other suites have filled the tables, so that only the test's own rows are looked for. */
export function ringStoreSuite(harness: () => RingHarness): void {
  const due = (overrides: Partial<DueEntry>): DueEntry => ({
    jobId: memberId(newCohort(), 0),
    shard: 100_000 + randomInt(900_000_000),
    runAt: AT,
    queue: 'mail',
    priority: 'normal',
    attempt: 0,
    direct: false,
    ...overrides,
  });

  it('has every row once in all parts together, page by page, jobs without their payloads', async () => {
    const { ring, cohorts, scheduleCohorts, operations, timers } = harness();
    const jobs = Array.from({ length: 12 }, (_, index) => fullJobRow(newCohort(), index));
    for (const job of jobs) await cohorts.apply(job.cohort, [{ edge: 'create', jobId: job.jobId, job }]);
    const schedules = Array.from({ length: 4 }, (_, index) => fullScheduleRow(newScheduleCohort(), index));
    for (const schedule of schedules) {
      const { cohort, scheduleId } = schedule;
      await scheduleCohorts.apply(cohort, [{ edge: 'schedule_create', scheduleId, schedule }]);
    }
    const operation = bulkOperation({
      operationId: operationId(randomBytes(COHORT_ENTROPY_BYTES)),
      expiresAt: Date.now() + DAY_MS,
    });
    await operations.create(operation);
    const dueRows = [1, 2, 3].map((minute) => due({ runAt: AT + minute * MINUTE_MS }));
    await timers.writeDue(dueRows);
    const deadlines = dueRows.map(({ jobId, shard, runAt }) => ({ jobId, shard, at: runAt, publishedAt: null }));
    await timers.writeDeadlines(deadlines);

    const found = await all(
      (part) => ring.jobs(part),
      ({ jobId }) => jobs.some((job) => job.jobId === jobId),
    );
    const byId = (one: { jobId: string }, other: { jobId: string }): number => (one.jobId < other.jobId ? -1 : 1);
    const bare = (row: object): object => Object.fromEntries(Object.entries(row).filter(([key]) => key !== 'payload'));
    assert.deepEqual(found.toSorted(byId).map(bare), jobs.toSorted(byId).map(bare));
    const shown = await all(
      (part) => ring.schedules(part),
      ({ scheduleId }) => schedules.some((row) => row.scheduleId === scheduleId),
    );
    assert.deepEqual(new Set(shown), new Set(schedules));
    const run = await all(
      (part) => ring.operations(part),
      ({ operationId: id }) => id === operation.operationId,
    );
    assert.deepEqual(run, [operation]);
    const ours = new Set(dueRows.map(({ shard }) => shard));
    assert.deepEqual(
      new Set(
        await all(
          (part) => ring.due(part),
          ({ shard }) => ours.has(shard),
        ),
      ),
      new Set(dueRows),
    );
    const looks = await all(
      (part) => ring.deadlines(part),
      ({ shard }) => ours.has(shard),
    );
    assert.deepEqual(new Set(looks), new Set(deadlines));
  });

  it('tells which due rows stand, by shard, time and job', async () => {
    const { ring, timers } = harness();
    const rows = Array.from({ length: 70 }, (_, index) => due({ shard: 99_999, runAt: AT + index * 1_000 }));
    await timers.writeDue(rows);
    const [first] = rows as [DueEntry, ...DueEntry[]];
    const moved = { ...first, runAt: AT + 1 };
    const elsewhere = { ...first, shard: 99_998 };
    assert.deepEqual(await ring.standingDue([moved, elsewhere]), new Set());
    const asked = [due({}), ...rows, moved];
    assert.deepEqual(await ring.standingDue(asked), new Set(rows.map(({ jobId }) => jobId)));
    assert.deepEqual(await ring.standingDue([]), new Set());
  });

  it('tells which ends and dead letters are recorded', async () => {
    const { ring, history } = harness();
    const queue = `q-${randomBytes(4).toString('hex')}`;
    const ends = [0, HOUR_MS, DAY_MS].map((ms) => ({ queue, at: AT + ms, jobId: memberId(newCohort(), 1) }));
    const other = { queue, at: AT, jobId: memberId(newCohort(), 2) };
    await history.writeFinished(
      ends.map(({ at, jobId }) => ({
        ...{ jobId, queue, finishedAt: at, priority: 'normal', status: 'succeeded', outcome: 'succeeded' },
        ...{ attempt: 1, scheduledFor: at, lagMs: 1, error: null },
      })),
    );
    await history.writeDeadLetters(
      ends.map(({ at, jobId }) => ({ jobId, queue, deadAt: at, attempt: 1, reason: 'attempts', error: 'boom' })),
    );
    const expected = new Set(ends.map(({ jobId }) => jobId));
    const moved = ends.map((end) => ({ ...end, at: end.at + 1 }));
    assert.deepEqual(await ring.recordedEnds([...ends, other]), expected);
    assert.deepEqual(await ring.deadLetters([...ends, other]), expected);
    assert.deepEqual([await ring.recordedEnds(moved), await ring.deadLetters(moved)], [new Set(), new Set()]);
  });

  it('tells which jobs exist', async () => {
    const { ring, cohorts } = harness();
    const cohort = newCohort();
    const job = jobRow(cohort, 1);
    await cohorts.apply(cohort, [{ edge: 'create', jobId: job.jobId, job }]);
    const asked = [job.jobId, memberId(cohort, 2), memberId(newCohort(), 1)];
    assert.deepEqual(await ring.existingJobs(asked), new Set([job.jobId]));
  });
}

async function all<Row>(
  read: (part: RingPart) => AsyncIterable<readonly Row[]>,
  isOurs: (row: Row) => boolean,
): Promise<readonly Row[]> {
  const rows: Row[] = [];
  for (let part = 0; part < PARTS; part += 1) {
    for await (const page of read({ part, of: PARTS, pageRows: PAGE_ROWS })) {
      assert.ok(page.length <= PAGE_ROWS, `a page of ${page.length} rows`);
      rows.push(...page.filter(isOurs));
    }
  }
  return rows;
}

import assert from 'node:assert/strict';
import { randomInt } from 'node:crypto';
import { it } from 'node:test';
import { bucketOf } from '../../services/core/domain/bucket.ts';
import { memberId } from '../../services/core/domain/ids.ts';
import { DAY_MS, MINUTE_MS } from '../../services/core/domain/limits.ts';
import type { DeadlineEntry, DueEntry } from '../../services/core/domain/operation.ts';
import type { CursorStore, DroppedRows, TimerStore } from '../../services/core/ports/timer-store.ts';
import { newCohort } from '../support/job-row.ts';

export interface TimerStoreHarness {
  readonly timers: TimerStore;
  readonly cursors: CursorStore;
}

const BUCKET = bucketOf(Date.parse('2026-11-15T06:00:00Z'));
const MANY = 12_001;

/** What every TimerStore and CursorStore promise; run on the fake and on a real server. */
export function timerStoreSuite(harness: () => TimerStoreHarness): void {
  const dueRows = async (shard: number, bucket = BUCKET, from = bucket, to = bucket + MINUTE_MS - 1) =>
    (await pagesOf(harness().timers.readDue({ shard, bucket, from, to }))).flat();
  const deadlineRows = async (shard: number, from = BUCKET, to = BUCKET + MINUTE_MS - 1) =>
    (await pagesOf(harness().timers.readDeadlines({ shard, bucket: BUCKET, from, to }))).flat();

  it('reads due rows in the order of time and id, within the range, both ends included', async () => {
    const shard = newShard();
    const cohort = newCohort();
    const rows = [7, 3, 5, 5, 9].map((ms, member) => due(shard, BUCKET + ms, memberId(cohort, member)));
    await harness().timers.writeDue(rows);
    const inOrder = [rows[1], rows[2], rows[3], rows[0], rows[4]];
    assert.deepEqual(await dueRows(shard), inOrder);
    assert.deepEqual(await dueRows(shard, BUCKET, BUCKET + 5, BUCKET + 7), inOrder.slice(1, 4));
    assert.deepEqual(await dueRows(shard, BUCKET, BUCKET + 10), []);
    assert.deepEqual(await dueRows(newShard()), []);
  });

  it('puts each row into its own minute', async () => {
    const shard = newShard();
    const rows = [-1, 0, MINUTE_MS].map((ms) => due(shard, BUCKET + ms, memberId(newCohort(), 0)));
    await harness().timers.writeDue(rows);
    assert.deepEqual(await dueRows(shard, BUCKET - MINUTE_MS), [rows[0]]);
    assert.deepEqual(await dueRows(shard), [rows[1]]);
    assert.deepEqual(await dueRows(shard, BUCKET + MINUTE_MS), [rows[2]]);
  });

  it('takes a row again as the same row', async () => {
    const shard = newShard();
    const row = due(shard, BUCKET + 5, memberId(newCohort(), 0));
    await harness().timers.writeDue([row]);
    await harness().timers.writeDue([row, { ...row, direct: true, attempt: 3 }]);
    assert.equal((await dueRows(shard)).length, 1);
  });

  it(`reads all of ${MANY} rows of one minute, page by page`, async () => {
    const shard = newShard();
    const rows = Array.from({ length: MANY }, (_, index) => {
      const cohort = `j_${index.toString().padStart(13, '0')}`;
      return due(shard, BUCKET + (index % 1_000), memberId(cohort, 0));
    });
    // Many callers at once, as in a burst of creates.
    const chunks = Array.from({ length: Math.ceil(MANY / 64) }, (_, index) => rows.slice(64 * index, 64 * (index + 1)));
    await Promise.all(chunks.map((chunk) => harness().timers.writeDue(chunk)));
    const pages = await pagesOf(
      harness().timers.readDue({ shard, bucket: BUCKET, from: BUCKET, to: BUCKET + MINUTE_MS - 1 }),
    );
    assert.ok(pages.length > 1 && pages.every((page) => page.length <= 1_000));
    const found = pages.flat();
    assert.equal(found.length, MANY);
    assert.equal(new Set(found.map(({ jobId }) => jobId)).size, MANY);
    assert.ok(found.every((row, index) => index === 0 || found[index - 1]!.runAt <= row.runAt));
  });

  it('reads many shards at the same moment as it reads each of them, however often they were empty before', async () => {
    const shards = Array.from({ length: 12 }, newShard);
    const read = async (): Promise<string[][]> => {
      const both = shards.flatMap((shard) => [
        dueRows(shard, BUCKET, BUCKET, BUCKET + 2),
        deadlineRows(shard, BUCKET, BUCKET + 2),
      ]);
      return (await Promise.all<readonly (DueEntry | DeadlineEntry)[]>(both)).map((rows) =>
        rows.map(({ jobId }) => jobId),
      );
    };
    const expected = shards.map((): string[] => []).flatMap((none) => [none, []]);
    assert.deepEqual(await read(), expected);
    assert.deepEqual(await read(), expected);
    for (const index of [3, 7]) {
      const shard = shards[index]!;
      const [dueId, lateId, deadlineId] = [0, 1, 2].map((member) => memberId(newCohort(), member));
      await harness().timers.writeDue([due(shard, BUCKET + 2, dueId!), due(shard, BUCKET + 3, lateId!)]);
      await harness().timers.writeDeadlines([{ shard, at: BUCKET + 2, jobId: deadlineId!, publishedAt: null }]);
      expected[2 * index] = [dueId!];
      expected[2 * index + 1] = [deadlineId!];
    }
    assert.deepEqual(await read(), expected);
    assert.deepEqual(await read(), expected);
  });

  it('goes on behind a row, among others of the same time', async () => {
    const shard = newShard();
    const cohort = newCohort();
    const ids = [0, 1, 2, 3].map((member) => memberId(cohort, member));
    const times = [5, 5, 5, 6].map((ms) => BUCKET + ms);
    await harness().timers.writeDue(ids.map((jobId, index) => due(shard, times[index]!, jobId)));
    await harness().timers.writeDeadlines(
      ids.map((jobId, index) => ({ shard, at: times[index]!, jobId, publishedAt: null })),
    );
    const to = BUCKET + MINUTE_MS - 1;
    for (const [from, afterId, expected] of [
      [BUCKET + 5, ids[0]!, ids.slice(1)],
      [BUCKET + 5, ids[2]!, ids.slice(3)],
      [BUCKET + 5, '', ids],
      [BUCKET + 4, ids[3]!, ids],
      [BUCKET + 6, ids[3]!, []],
    ] as const) {
      const range = { shard, bucket: BUCKET, from, afterId, to };
      const dueIds = (await pagesOf(harness().timers.readDue(range))).flat().map(({ jobId }) => jobId);
      const deadlineIds = (await pagesOf(harness().timers.readDeadlines(range))).flat().map(({ jobId }) => jobId);
      assert.deepEqual([dueIds, deadlineIds], [expected, expected], `from ${from - BUCKET} ms, behind ${afterId}`);
    }
  });

  it('keeps deadline rows, with and without a time of publishing', async () => {
    const shard = newShard();
    const rows: DeadlineEntry[] = [
      { shard, at: BUCKET + 1, jobId: memberId(newCohort(), 0), publishedAt: BUCKET - 5 },
      { shard, at: BUCKET + 2, jobId: memberId(newCohort(), 1), publishedAt: null },
    ];
    await harness().timers.writeDeadlines(rows);
    assert.deepEqual(await deadlineRows(shard), rows);
    assert.deepEqual(await deadlineRows(shard, BUCKET + 2), [rows[1]]);
    await harness().timers.writeDeadlines([{ ...rows[0]!, publishedAt: null }]);
    assert.equal((await deadlineRows(shard))[0]?.publishedAt, null);
  });

  it('drops the rows of a minute, or those from one place to another, and no others', async () => {
    const { timers } = harness();
    const bucket = bucketOf(Date.now());
    const within = (table: 'due' | 'deadlines', shard: number) => {
      const range = { shard, bucket, from: bucket, to: bucket + MINUTE_MS - 1 };
      return pagesOf<readonly (DueEntry | DeadlineEntry)[]>(
        table === 'due' ? timers.readDue(range) : timers.readDeadlines(range),
      );
    };
    for (const table of ['due', 'deadlines'] as const) {
      const [shard, other] = [newShard(), newShard()];
      const drop = (rows: DroppedRows): Promise<void> =>
        table === 'due' ? timers.dropDue({ shard, bucket }, rows) : timers.dropDeadlines({ shard, bucket }, rows);
      // Two of them at the same instant.
      const ids = Array.from({ length: 6 }, () => memberId(newCohort(), 0)).toSorted();
      const places = [1, 2, 2, 3, 4, 5].map((ms, index) => ({ at: bucket + ms, jobId: ids[index] ?? '' }));
      for (const each of [shard, other]) {
        if (table === 'due') await timers.writeDue(places.map(({ at, jobId }) => due(each, at, jobId)));
        else await timers.writeDeadlines(places.map((place) => ({ ...place, shard: each, publishedAt: null })));
      }
      const left = async (): Promise<string[]> => (await within(table, shard)).flat().map(({ jobId }) => jobId);
      await drop([{ first: places[2]!, last: places[3]! }]);
      assert.deepEqual(await left(), [ids[0], ids[1], ids[4], ids[5]]);
      await drop([0, 5].map((index) => ({ first: places[index]!, last: places[index]! })));
      assert.deepEqual(await left(), [ids[1], ids[4]]);
      await drop('all');
      await drop('all');
      assert.deepEqual(await left(), []);
      assert.equal((await within(table, other)).flat().length, places.length);
    }
  });

  it('drops no row that was written later than a day after its minute', async () => {
    const shard = newShard();
    const runAt = BUCKET - 30 * DAY_MS;
    const late = due(shard, runAt, memberId(newCohort(), 0));
    await harness().timers.writeDue([late]);
    await harness().timers.dropDue({ shard, bucket: runAt }, 'all');
    assert.deepEqual(await dueRows(shard, runAt), [late]);
  });

  it('writes nothing for no rows', async () => {
    await harness().timers.writeDue([]);
    await harness().timers.writeDeadlines([]);
  });

  it('moves a cursor forward only', async () => {
    const { cursors } = harness();
    const shard = newShard();
    assert.equal(await cursors.load('dispatch', shard), null);
    await cursors.save('dispatch', shard, BUCKET);
    await cursors.save('dispatch', shard, BUCKET - 1);
    assert.equal(await cursors.load('dispatch', shard), BUCKET);
    await cursors.save('dispatch', shard, BUCKET + 1);
    await cursors.save('dispatch', shard, BUCKET + 1);
    assert.equal(await cursors.load('dispatch', shard), BUCKET + 1);
    assert.equal(await cursors.load('second_look', shard), null);
    assert.equal(await cursors.load('dispatch', shard + 1), null);
  });
}

/** Tests share the tables, never a shard. */
function newShard(): number {
  return randomInt(1_000_000_000);
}

function due(shard: number, runAt: number, jobId: string): DueEntry {
  return { shard, runAt, jobId, queue: 'mail', priority: 'low', attempt: 2, direct: false };
}

async function pagesOf<Page>(pages: AsyncIterable<Page>): Promise<Page[]> {
  const all: Page[] = [];
  for await (const page of pages) all.push(page);
  return all;
}

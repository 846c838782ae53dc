// Case R077: a queue that deletes what it has handled becomes a heap of tombstones for whoever polls it. Here timer rows stay
// where they are until their retention, and each read begins where the one before has ended, less a trailing edge.

import assert from 'node:assert/strict';
import { describe, it, type TestContext } from 'node:test';
import { QueueWork } from '../../services/dispatcher/queue-work.ts';
import { ShardDispatcher } from '../../services/dispatcher/shard-dispatcher.ts';
import { bucketOf } from '../../services/core/domain/bucket.ts';
import { memberId } from '../../services/core/domain/ids.ts';
import { MINUTE_MS, READ_AHEAD_MS, SECOND_MS, TICK_MS, TRAILING_EDGE_MS } from '../../services/core/domain/limits.ts';
import type { DueEntry } from '../../services/core/domain/operation.ts';
import type { EpochMs } from '../../services/core/domain/time.ts';
import { WaitingCanceller } from '../../services/core/moves/cancel-waiting.ts';
import { ReadyPublisher } from '../../services/core/moves/ready-publisher.ts';
import type { HeldStore } from '../../services/core/ports/held-store.ts';
import type { ReadyQueue } from '../../services/core/ports/ready-queue.ts';
import type { TimerRange, TimerStore } from '../../services/core/ports/timer-store.ts';
import { QueueBook } from '../../services/core/queues/queue-book.ts';
import { Rounds } from '../../services/core/rounds/rounds.ts';
import { systemClock } from '../../services/core/runtime/system-clock.ts';
import { createStores } from '../../services/core/storage/stores.ts';
import { Timers } from '../../services/core/timers/timers.ts';
import { mostTombstonesMet, testDriver, testSession } from '../support/cassandra.ts';
import { newCohort } from '../support/job-row.ts';
import { noSchedules, noSuccessors } from '../support/no-schedules.ts';
import { inParallel } from '../support/rest.ts';
import { silentLog as log, silentTelemetry as telemetry } from '../support/silent-telemetry.ts';

const JOBS = 150_000;
const JOBS_PER_S = JOBS / 60;
const WRITTEN_TOGETHER = 50;
const CROWDED_SHARD = 7;
/** Its minute holds only what one poll reads. */
const QUIET_SHARD = 8;
/** When the dispatcher ticks, in seconds of the minute: slowly at first, to save time; measured are the polls near its end. */
const SLOW_TICKS_S = [0, 6, 12, 18, 24, 30, 36, 42, 48, 50];
const MEASURED_TICKS_S = [51, 52, 53, 54, 55, 56, 57];
const LAST_TICKS_S = [59, 62, 66];
/** What one poll in mid-minute spans. */
const POLL_MS = TRAILING_EDGE_MS + TICK_MS + READ_AHEAD_MS;

describe('a minute of one shard with 150,000 due jobs', () => {
  it('R077 is polled at its end, all jobs before finished, as fast as one that holds just what a poll reads', async (test: TestContext) => {
    const { session, target } = await testSession(test);
    const { timers, cursors, held, queues } = createStores(session, { clock: systemClock });
    const bucket = bucketOf(systemClock.now());
    await writeRows(timers, CROWDED_SHARD, bucket, 60 * JOBS_PER_S);
    await writeRows(timers, QUIET_SHARD, bucket, (POLL_MS / SECOND_MS) * JOBS_PER_S);

    let now = bucket - 2 * SECOND_MS;
    const clock = { ...systemClock, now: () => now, moment: () => ({ ...systemClock.moment(), wallMs: now }) };
    const pageMs: number[] = [];
    const started = new Set<string>();
    const { dispatcher, work } = dispatcherOf(bucket, {
      clock,
      cursors,
      heldStore: held,
      queueBook: new QueueBook({ store: queues, clock }),
      timerStore: { ...timers, readDue: (range) => timed(timers.readDue(range), pageMs) },
      onStart: (jobId) => {
        assert.ok(!started.has(jobId), `${jobId} came twice`);
        started.add(jobId);
      },
    });
    const crowdedMs: number[] = [];
    const quietMs: number[] = [];
    for (const second of [...SLOW_TICKS_S, ...MEASURED_TICKS_S, ...LAST_TICKS_S]) {
      now = bucket + second * SECOND_MS;
      await dispatcher.tick();
      for (let pagesBefore = -1; work.isBusy() || pageMs.length > pagesBefore || firesBy(dispatcher, now);) {
        pagesBefore = pageMs.length;
        await dispatcher.beat();
        await systemClock.sleep(1);
      }
      const pages = pageMs.splice(0);
      if (!MEASURED_TICKS_S.includes(second)) continue;
      crowdedMs.push(...pages);
      const poll = { shard: QUIET_SHARD, bucket, from: bucket, to: bucket + POLL_MS };
      await countRows(timed(timers.readDue(poll), quietMs));
    }
    assert.equal(started.size, JOBS);
    assert.ok(((await cursors.load('dispatch', CROWDED_SHARD)) ?? 0) >= bucket + MINUTE_MS, 'the cursor waits');

    const crowded = summary(crowdedMs);
    const quiet = summary(quietMs);
    test.diagnostic(`ms a page: ${JSON.stringify({ crowded, quiet })}`);
    assert.ok(crowded.pages <= 1.2 * quiet.pages, 'polls read more than the trailing edge');
    assert.ok(crowded.median <= 1.5 * quiet.median + 1, 'polls have become slow');
    assert.ok(crowded.p99 <= 3 * quiet.p99 + 20, 'some polls have become slow');

    const minute: TimerRange = { shard: CROWDED_SHARD, bucket, from: bucket, to: bucket + MINUTE_MS - 1 };
    assert.equal(await countRows(timers.readDue(minute)), JOBS, 'rows were taken out');
    const driver = await testDriver(test, target);
    assert.ok((await mostTombstonesMet(driver, target.keyspace, 'due')) <= 1, 'reads meet tombstones');
  });
});

function firesBy(dispatcher: ShardDispatcher, now: EpochMs): boolean {
  return (dispatcher.nextFireAt() ?? Infinity) <= now;
}

/** Rows evenly spread from a time on: as many each second as the crowded minute has. */
async function writeRows(timers: TimerStore, shard: number, from: EpochMs, count: number): Promise<void> {
  const groups = Array.from({ length: count / WRITTEN_TOGETHER }, (_, index) => index);
  await inParallel(groups, 24, async (group) => {
    const cohort = newCohort();
    const runAt = from + Math.floor((group * WRITTEN_TOGETHER * SECOND_MS) / JOBS_PER_S);
    await timers.writeDue(
      Array.from({ length: WRITTEN_TOGETHER }, (_, member): DueEntry => {
        const jobId = memberId(cohort, member);
        return { jobId, shard, runAt, queue: 'mail', priority: 'normal', attempt: 0, direct: false };
      }),
    );
  });
}

interface Surroundings {
  readonly clock: typeof systemClock;
  readonly cursors: ReturnType<typeof createStores>['cursors'];
  readonly timerStore: TimerStore;
  readonly heldStore: HeldStore;
  readonly queueBook: QueueBook;
  readonly onStart: (jobId: string) => void;
}

/** The crowded shard's dispatcher. Its jobs are not what is looked at here: every round on them applies. */
function dispatcherOf(
  bucket: EpochMs,
  { clock, cursors, timerStore, heldStore, queueBook, onStart }: Surroundings,
): { readonly dispatcher: ShardDispatcher; readonly work: QueueWork } {
  const reader = { read: () => Promise.resolve(new Map()) };
  const rounds = new Rounds({ store: { apply: async () => ({ applied: true }) }, reader, clock, telemetry });
  const history = {
    writeFinished: () => Promise.resolve(),
    writeDeadLetters: () => Promise.resolve(),
    deadLetterQueues: nothingToAsk,
    readDeadLetters: nothingToAsk,
  };
  const holds = (): boolean => true;
  const work = new QueueWork({
    heldStore,
    rounds,
    reader,
    timers: new Timers({ store: timerStore, hints: { send: () => undefined, listen: nothingToAsk }, clock }),
    publisher: new ReadyPublisher({ queue: queueWithRoom(onStart), clock: systemClock }),
    queue: queueWithRoom(onStart),
    canceller: new WaitingCanceller({
      rounds,
      timers: { left: () => undefined },
      history,
      overlaps: noSuccessors,
      leftBehind: { note: () => undefined },
      clock,
      log,
    }),
    queueBook,
    slots: { free: nothingToAsk, take: nothingToAsk, giveBack: nothingToAsk },
    clock,
    telemetry,
    log,
    holds,
    share: () => 1,
  });
  const dispatcher = new ShardDispatcher(
    { timerStore, cursors, work, firer: noSchedules, clock, telemetry, log, holds },
    { shard: CROWDED_SHARD, from: bucket - MINUTE_MS, savedCursor: bucket - MINUTE_MS },
  );
  return { dispatcher, work };
}

/** Its workers take each message at once. */
function queueWithRoom(onStart: (jobId: string) => void): ReadyQueue {
  return {
    connected: () => true,
    publish: async (messages) => {
      for (const { jobId } of messages) onStart(jobId);
      return messages.map(() => 'stored');
    },
    ensureQueue: nothingToAsk,
    oldestMessageAt: nothingToAsk,
    depths: () => Promise.resolve([]),
    pull: nothingToAsk,
    readMessages: nothingToAsk,
    removeMessages: nothingToAsk,
    incarnation: nothingToAsk,
  };
}

function nothingToAsk(): never {
  throw new Error('not asked for here');
}

/** Notes how long each page took to come. */
async function* timed<Page>(pages: AsyncIterable<Page>, tookMs: number[]): AsyncGenerator<Page, void, undefined> {
  const iterator = pages[Symbol.asyncIterator]();
  for (;;) {
    const askedAt = performance.now();
    const next = await iterator.next();
    if (next.done === true) return;
    tookMs.push(performance.now() - askedAt);
    yield next.value;
  }
}

async function countRows(pages: AsyncIterable<readonly unknown[]>): Promise<number> {
  let rows = 0;
  for await (const page of pages) rows += page.length;
  return rows;
}

function summary(tookMs: readonly number[]): { readonly pages: number; readonly median: number; readonly p99: number } {
  const sorted = tookMs.toSorted((one, other) => one - other);
  const at = (share: number): number => Number(sorted[Math.floor(share * (sorted.length - 1))]?.toFixed(1));
  return { pages: sorted.length, median: at(0.5), p99: at(0.99) };
}

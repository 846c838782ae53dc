// How many jobs of a queue are where, on fakes: counted by reapers, told by creators, put together by the api.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { QueueCounters } from '../../services/api/use-cases/queue-counters.ts';
import { StartLags } from '../../services/api/use-cases/start-lags.ts';
import { memberId, shardOf } from '../../services/core/domain/ids.ts';
import { defaultSettings } from '../../services/core/domain/queue-settings.ts';
import type { JobRow } from '../../services/core/domain/job.ts';
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '../../services/core/domain/limits.ts';
import { QueueBook } from '../../services/core/queues/queue-book.ts';
import { HeldBoard } from '../../services/core/queues/held-board.ts';
import { WaitingTallies } from '../../services/core/queues/waiting-tallies.ts';
import { DeadCensus } from '../../services/reaper/dead-census.ts';
import { QueueCensus } from '../../services/reaper/queue-census.ts';
import { ReadyGauges } from '../../services/reaper/ready-gauges.ts';
import { SlotAdopter } from '../../services/reaper/slot-adopter.ts';
import { RecordingTelemetry } from '../support/bus.ts';
import { FAKE_START, FakeClock } from '../support/fake-clock.ts';
import { jobRow, newCohort } from '../support/job-row.ts';
import { MemoryBus } from '../support/memory-bus.ts';
import { MemoryStores } from '../support/memory-store.ts';
import { scriptedRandom } from '../support/scripted-random.ts';
import { silentLog } from '../support/silent-telemetry.ts';

const SHARDS = 4;

function bench(clock = new FakeClock()) {
  const stores = new MemoryStores({ clock });
  const bus = new MemoryBus({ clock });
  const connection = bus.connect();
  const { queue } = connection;
  const telemetry = new RecordingTelemetry();
  const { timers: timerStore, jobs: reader, history, queueCounts: counts } = stores;
  const holds = (): boolean => true;
  const shared = { clock, telemetry, log: silentLog };
  const dead = new DeadCensus({ history, reader, ...shared, shards: SHARDS, holds });
  const book = new QueueBook({ store: stores.queues, clock });
  const adopter = new SlotAdopter({ store: stores.slots, reader, clock, random: scriptedRandom() });
  const census = new QueueCensus({ timerStore, reader, counts, dead, book, adopter, ...shared, holds });
  for (let shard = 0; shard < SHARDS; shard += 1) census.acquired(shard);
  const startLags = new StartLags(clock);
  const board = new HeldBoard({ clock });
  const counters = new QueueCounters({ counts, queue, board, startLags, clock, shards: SHARDS });
  const tallies = new WaitingTallies({ store: counts, clock, random: scriptedRandom() });
  return {
    ...{ clock, stores, book, bus, connection, telemetry, tallies, startLags, counters, queue, board },
    count: async () => {
      await clock.until(dead.runOnce());
      await clock.until(census.runOnce());
    },
    /** After what was read before is forgotten. */
    countsOf: async (name: string) => {
      await clock.advance(5 * SECOND_MS);
      return clock.until(counters.one(name));
    },
    /** A job with its timer, as all writers leave them. */
    put: async (overrides: Partial<JobRow>, timer: { due?: number; deadline?: number } = {}): Promise<JobRow> => {
      const cohort = newCohort();
      const row = jobRow(cohort, 0, { shard: shardOf(cohort, SHARDS), ...overrides });
      const { jobId, shard, queue: name, priority, attempt } = row;
      stores.rows.set(jobId, row);
      if (timer.due !== undefined) {
        const entry = { jobId, shard, runAt: timer.due, queue: name, priority, attempt, direct: false };
        await clock.until(stores.timers.writeDue([entry]));
      }
      if (timer.deadline !== undefined) {
        const entry = { jobId, shard, at: timer.deadline, publishedAt: null };
        await clock.until(stores.timers.writeDeadlines([entry]));
      }
      return row;
    },
  };
}

describe('jobs that wait for their time', () => {
  it('are counted near and far, whatever the hour, and leave in time', async () => {
    for (const start of [
      FAKE_START,
      FAKE_START + 59_999,
      FAKE_START + 58 * MINUTE_MS,
      Date.parse('2026-11-15T23:58:30Z'),
    ]) {
      const { clock, put, tallies, count, countsOf } = bench(new FakeClock(start));
      const aheads = [
        10 * SECOND_MS,
        61 * SECOND_MS,
        119 * SECOND_MS,
        3 * MINUTE_MS,
        HOUR_MS,
        2 * DAY_MS,
        300 * DAY_MS,
      ];
      for (const ahead of aheads) {
        const row = await put({ runAt: start + ahead }, { due: start + ahead });
        tallies.arrived([row]);
      }
      await clock.until(tallies.flush());
      await count();
      assert.equal((await countsOf('mail')).waiting, aheads.length, new Date(start).toISOString());
      // The rest of the first three passes by.
      for (let minute = 0; minute < 4; minute += 1) {
        await clock.advance(MINUTE_MS);
        await count();
      }
      assert.equal((await countsOf('mail')).waiting, 3);
    }
  });

  it('count where they are, not where they were', async () => {
    const { clock, put, tallies, count, countsOf } = bench();
    const at = FAKE_START + HOUR_MS;
    const moved = await put({ runAt: at + DAY_MS });
    tallies.arrived([{ ...moved, runAt: at }]);
    tallies.left({ ...moved, runAt: at });
    tallies.arrived([moved]);
    await put({ status: 'cancelled', runAt: FAKE_START + 30_000 }, { due: FAKE_START + 30_000 });
    await put({ runAt: at, queue: 'other' }, { due: FAKE_START + 30_000 });
    await put({ queue: 'schedules' });
    tallies.arrived([{ jobId: 's_0123456789abc_00', queue: 'mail', runAt: at }]);
    await clock.until(tallies.flush());
    await count();
    assert.equal((await countsOf('mail')).waiting, 1);
    assert.equal((await countsOf('other')).waiting, 0);
  });

  it('are told again when the store did not take them', async () => {
    const { clock, stores, tallies, countsOf } = bench();
    const row = { jobId: memberId(newCohort(), 0), queue: 'mail', runAt: FAKE_START + HOUR_MS };
    tallies.arrived([row, row]);
    stores.failNext('queueCounts.writeWaiting', { kind: 'request_lost' });
    await assert.rejects(clock.until(tallies.flush()));
    tallies.left(row);
    await clock.until(tallies.flush());
    await clock.until(tallies.flush());
    assert.equal((await countsOf('mail')).waiting, 1);
    assert.equal(stores.calls.filter(({ method }) => method === 'queueCounts.writeWaiting').length, 2);
  });
});

describe('running jobs', () => {
  it('are counted once, while they run, by queue and priority', async () => {
    const { clock, stores, telemetry, put, count, countsOf } = bench();
    const soon = FAKE_START + 30 * SECOND_MS;
    const one = await put({ status: 'running' }, { deadline: soon });
    await clock.until(
      stores.timers.writeDeadlines([{ jobId: one.jobId, shard: one.shard, at: soon + 5, publishedAt: null }]),
    );
    await put({ status: 'running', priority: 'high' }, { deadline: FAKE_START + 15 * MINUTE_MS });
    await put({ status: 'succeeded' }, { deadline: soon });
    await put({ status: 'enqueued' }, { deadline: soon });
    await put({ status: 'running', queue: 'other' }, { deadline: soon });
    await count();
    assert.equal((await countsOf('mail')).running, 2);
    assert.equal(telemetry.gauges.get('punctual_queue_running_jobs mail high'), 1);
    stores.rows.set(one.jobId, { ...one, status: 'succeeded' });
    await count();
    assert.equal((await countsOf('mail')).running, 1);
    assert.equal((await countsOf('other')).running, 1);
    // What has ended is not looked up again.
    const asked = stores.calls.length;
    await count();
    const ids = stores.calls.slice(asked).flatMap(({ method, args }) => (method === 'jobs.readStates' ? args : []));
    assert.equal(ids.flat().length, 3);
  });
});

describe('running jobs of a queue with max_running', () => {
  it('are given slots by the census, and those of other queues are not', async () => {
    const { clock, stores, book, put, count } = bench();
    const next = { ...defaultSettings('mail'), maxRunning: 2, revision: 1 };
    await clock.until(stores.queues.change({ next, token: 'set' }));
    await clock.until(book.refresh());
    const deadline = FAKE_START + 30 * SECOND_MS;
    const jobs = [];
    for (let member = 0; member < 3; member += 1) jobs.push(await put({ status: 'running' }, { deadline }));
    await put({ status: 'enqueued' }, { deadline });
    await put({ status: 'running', queue: 'other' }, { deadline });
    stores.failNext('slots.read', { kind: 'unavailable' });
    await count();
    assert.equal(stores.slotRows.size, 0);
    await count();
    const given = [...stores.slotRows.values()].map(({ queue, jobId }) => `${queue} ${jobId ?? ''}`);
    assert.deepEqual(given.toSorted(), jobs.map(({ jobId }) => `mail ${jobId}`).toSorted());
  });
});

describe('what the former owner of a shard counted', () => {
  it('is over with the first count of the next one', async () => {
    const { clock, stores, count, countsOf } = bench();
    const stale = { queue: 'mail', countedAt: FAKE_START, dueSoon: [0, 0, 3], running: 7, dead: null };
    await clock.until(stores.queueCounts.writeShard([{ ...stale, shard: 2 }]));
    assert.equal((await countsOf('mail')).running, 7);
    await count();
    assert.partialDeepStrictEqual(await countsOf('mail'), { running: 0, waiting: 0 });
  });
});

describe('dead jobs', () => {
  it('are those that are dead now', async () => {
    const { clock, stores, telemetry, put, count, countsOf } = bench();
    const die = async (deadAt: number, overrides: Partial<JobRow> = {}): Promise<JobRow> => {
      const row = await put({ status: 'dead', finishedAt: deadAt, ...overrides });
      const letter = { jobId: row.jobId, queue: row.queue, deadAt, attempt: 1, reason: 'attempts', error: null };
      await clock.until(stores.history.writeDeadLetters([letter]));
      return row;
    };
    const first = await die(FAKE_START - 20 * DAY_MS);
    const second = await die(FAKE_START);
    await die(FAKE_START, { queue: 'other' });
    await die(FAKE_START, { finishedAt: FAKE_START + 5 });
    await die(FAKE_START, { status: 'cancelled' });
    await count();
    assert.equal((await countsOf('mail')).dead, 2);
    stores.rows.set(first.jobId, { ...first, status: 'scheduled', finishedAt: null });
    await count();
    assert.equal((await countsOf('mail')).dead, 1);
    assert.equal(telemetry.gauges.get('punctual_dead_letters mail'), 1);
    stores.rows.set(second.jobId, { ...second, status: 'cancelled' });
    await die(FAKE_START + 1);
    await die(FAKE_START + 2);
    await count();
    assert.equal((await countsOf('mail')).dead, 2);
    assert.equal((await countsOf('other')).dead, 1);
  });
});

describe('the number of dead jobs', () => {
  it('is unknown until the letters were counted, and then 0 for a queue that has none', async () => {
    const { clock, stores, put, count, countsOf } = bench();
    assert.equal((await countsOf('mail')).dead, null);
    const row = await put({ status: 'dead', finishedAt: FAKE_START });
    const letter = { jobId: row.jobId, queue: 'mail', deadAt: FAKE_START, attempt: 1, reason: 'attempts', error: null };
    await clock.until(stores.history.writeDeadLetters([letter]));
    stores.failNext('history.readDeadLetters', { kind: 'unavailable' });
    await count();
    assert.equal((await countsOf('mail')).dead, null);
    const elsewhere = Array.from({ length: 9 }, (_, index) => `q${index}`).find(
      (queue) => shardOf(queue, SHARDS) !== shardOf('mail', SHARDS),
    );
    assert.equal((await countsOf(elsewhere ?? '')).dead, 0);
    await count();
    assert.equal((await countsOf('mail')).dead, 1);
  });
});

describe('held jobs', () => {
  it('are those of all priorities that dispatchers told of lately', async () => {
    const { clock, board, counters } = bench();
    const depth = { queue: 'mail', priority: 'low', count: 3, oldestAt: FAKE_START } as const;
    board.note({ member: 'one', shards: 2, held: [depth, { ...depth, priority: 'high', count: 1 }] });
    board.note({ member: 'two', shards: 2, held: [depth, { ...depth, queue: 'other' }] });
    assert.equal((await clock.until(counters.one('mail'))).held, 7);
    await clock.advance(MINUTE_MS);
    assert.equal((await clock.until(counters.one('mail'))).held, 0);
  });
});

describe('ready jobs', () => {
  it('are what the stream holds, and how long the first has waited; unknown while NATS is away', async () => {
    const { clock, connection, telemetry, queue, count, countsOf } = bench();
    const message = { attempt: 1, runAt: FAKE_START, queue: 'mail', priority: 'low' } as const;
    const jobs = [0, 1].map((member) => memberId(newCohort(), member));
    await clock.until(queue.publish(jobs.map((jobId) => ({ ...message, jobId }))));
    await clock.advance(7 * SECOND_MS);
    await count();
    const counts = await countsOf('mail');
    assert.deepEqual([counts.ready, counts.oldestReadyAgeMs], [{ high: 0, normal: 0, low: 2 }, 12 * SECOND_MS]);
    const gauges = new ReadyGauges({ queue, clock, telemetry, tells: () => true });
    await clock.until(gauges.runOnce());
    assert.equal(telemetry.gauges.get('punctual_queue_ready_jobs mail low'), 2);
    assert.equal(telemetry.gauges.get('punctual_queue_oldest_ready_age_seconds mail low'), 12);
    connection.disconnect();
    const away = await countsOf('mail');
    assert.deepEqual([away.ready, away.oldestReadyAgeMs], [null, null]);
  });
});

describe('the queues in use', () => {
  it('are those that have jobs somewhere, each once, while they have', async () => {
    const { clock, connection, queue, board, put, count, counters } = bench();
    const soon = FAKE_START + 30 * SECOND_MS;
    await put({ queue: 'runs', status: 'running' }, { deadline: FAKE_START + 15 * MINUTE_MS });
    await put({ queue: 'due', runAt: soon }, { due: soon });
    await put({ queue: 'over', status: 'succeeded' }, { deadline: soon });
    const message = { attempt: 1, runAt: FAKE_START, priority: 'low' } as const;
    const publish = (name: string) => queue.publish([{ ...message, queue: name, jobId: memberId(newCohort(), 0) }]);
    await clock.until(publish('ready'));
    await clock.until(publish('runs'));
    await count();
    board.note({
      member: 'one',
      shards: 4,
      held: [{ queue: 'held', priority: 'low', count: 1, oldestAt: FAKE_START }],
    });
    const names = async () => (await clock.until(counters.inUse())).queues.toSorted();
    assert.deepEqual(await names(), ['due', 'held', 'ready', 'runs']);
    connection.disconnect();
    assert.deepEqual(await names(), ['due', 'held', 'runs']);
    // Nothing counts them again, and they are due by now.
    await clock.advance(2 * MINUTE_MS);
    assert.ok(!(await names()).includes('due'));
  });
});

describe('the time of the counts', () => {
  it('is that of the shard counted longest ago, and none while one was not counted', async () => {
    const { clock, stores, count, countsOf } = bench();
    assert.equal((await countsOf('mail')).countedAt, null);
    stores.failNext('queueCounts.writeShard', { kind: 'unavailable' });
    await count();
    assert.equal((await countsOf('mail')).countedAt, null);
    const countedAt = clock.now();
    await count();
    assert.equal((await countsOf('mail')).countedAt, countedAt);
  });
});

describe('the start lag', () => {
  it('is of the last five minutes, a quarter too high at most', async () => {
    const { clock, startLags } = bench();
    assert.equal(startLags.of('mail'), null);
    for (let lagMs = 1; lagMs <= 1_000; lagMs += 1) startLags.note('mail', lagMs);
    const { starts, p50Ms, p95Ms, p99Ms } = startLags.of('mail')!;
    assert.equal(starts, 1_000);
    for (const [found, exact] of [
      [p50Ms, 500],
      [p95Ms, 950],
      [p99Ms, 990],
    ] as const) {
      assert.ok(found >= exact && found <= exact * 1.26, `${found} for ${exact}`);
    }
    startLags.note('slow', 40 * DAY_MS);
    assert.equal(startLags.of('slow')?.starts, 1);
    await clock.advance(4 * MINUTE_MS);
    startLags.note('mail', 3);
    assert.equal(startLags.of('mail')?.starts, 1_001);
    await clock.advance(2 * MINUTE_MS);
    assert.equal(startLags.of('mail')?.starts, 1);
  });
});

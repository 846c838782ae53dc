// Schedules across both kinds of clock change, from their definition to the rows of their slots on real Cassandra; only the clock is moved.

import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import { bucketOf } from '../../services/core/domain/bucket.ts';
import { MINUTE_MS, SECOND_MS } from '../../services/core/domain/limits.ts';
import type { ScheduleRow } from '../../services/core/domain/schedule.ts';
import { timetableOf } from '../../services/core/domain/timetable.ts';
import type { EpochMs } from '../../services/core/domain/time.ts';
import { WaitingCanceller } from '../../services/core/moves/cancel-waiting.ts';
import { OccurrenceWriter } from '../../services/core/moves/occurrence-writer.ts';
import { OverlapQueue } from '../../services/core/moves/overlap-queue.ts';
import { ReadyPublisher } from '../../services/core/moves/ready-publisher.ts';
import { TimetableCache } from '../../services/core/moves/timetable-cache.ts';
import { ScheduleWriter } from '../../services/core/moves/write-schedule.ts';
import type { ReadyQueue } from '../../services/core/ports/ready-queue.ts';
import { HeldBoard } from '../../services/core/queues/held-board.ts';
import { QueueBook } from '../../services/core/queues/queue-book.ts';
import { QueueGate } from '../../services/core/queues/queue-gate.ts';
import { Rounds, ScheduleRounds } from '../../services/core/rounds/rounds.ts';
import { systemClock } from '../../services/core/runtime/system-clock.ts';
import type { Session } from '../../services/core/storage/session.ts';
import { createStores } from '../../services/core/storage/stores.ts';
import { Timers } from '../../services/core/timers/timers.ts';
import { ScheduleFirer } from '../../services/dispatcher/schedule-firer.ts';
import { testSession } from '../support/cassandra.ts';
import { inParallel } from '../support/rest.ts';
import { iso, told } from '../support/schedule-pass.ts';
import { newScheduleCohort, scheduleRow } from '../support/schedule-row.ts';
import { scriptedRandom } from '../support/scripted-random.ts';
import { silentLog as log, silentTelemetry as telemetry } from '../support/silent-telemetry.ts';
import { suiteCleanup } from '../support/suite-cleanup.ts';
import { naiveSlots, walk, type NamedNumbers } from '../support/wall-clock-walk.ts';

const SHARD = 0;
const FIRES_MAX = 10;

const upTo = (max: number, step = 1): number[] => Array.from({ length: max / step + 1 }, (_, index) => index * step);
const every: NamedNumbers = {
  ...{ seconds: [0], minutes: upTo(59), hours: upTo(23), months: upTo(12), daysOfWeek: upTo(6) },
  ...{ daysOfMonth: upTo(31), eitherDay: false },
};

/** With what a walk over minutes is asked for. */
const SCHEDULES: readonly (readonly [Partial<ScheduleRow>, NamedNumbers, 'run_after' | 'skip', 'first' | 'both'])[] = [
  [{ cron: '30 2 * * *' }, { ...every, minutes: [30], hours: [2] }, 'run_after', 'first'],
  [{ cron: '15 1 * * *' }, { ...every, minutes: [15], hours: [1] }, 'run_after', 'first'],
  [{ cron: '15 1 * * *', onDstRepeat: 'both' }, { ...every, minutes: [15], hours: [1] }, 'run_after', 'both'],
  [{ cron: '15 2 * * *', onDstGap: 'skip' }, { ...every, minutes: [15], hours: [2] }, 'skip', 'first'],
  [{ cron: '*/15 * * * *' }, { ...every, minutes: [0, 15, 30, 45] }, 'skip', 'both'],
  [{ cron: '0 */2 * * *' }, { ...every, minutes: [0], hours: upTo(22, 2) }, 'skip', 'both'],
  [{ cron: '30 1-3 * * *' }, { ...every, minutes: [30], hours: [1, 2, 3] }, 'run_after', 'first'],
];

describe('schedules on real stores, night by night', () => {
  const cleanup = suiteCleanup();
  let session: Session;

  before(async () => {
    ({ session } = await testSession(cleanup));
  });

  for (const [zone, from, to] of [
    ['America/New_York', '2027-03-14T04:00:00Z', '2027-03-15T08:00:00Z'],
    ['America/New_York', '2027-11-07T03:00:00Z', '2027-11-08T08:00:00Z'],
    ['Australia/Lord_Howe', '2027-04-03T12:00:00Z', '2027-04-04T18:00:00Z'],
    ['Australia/Lord_Howe', '2027-10-02T12:00:00Z', '2027-10-03T18:00:00Z'],
  ] as const) {
    it(`fire each slot of a walk over minutes once: ${zone} from ${from}`, async () => {
      const [fromMs, toMs] = [Date.parse(from), Date.parse(to)];
      const minutes = walk(zone, fromMs - 12 * 60 * MINUTE_MS, toMs, MINUTE_MS);
      const world = worldAt(session, fromMs);
      const schedules = SCHEDULES.map(([changes]) => {
        const row = scheduleRow(newScheduleCohort(), 0, {
          timeZone: zone,
          onOverlap: 'allow',
          shard: SHARD,
          ...changes,
        });
        return { ...row, nextRunAt: timetableOf(row, row.scheduleId).next(fromMs - 1) };
      });
      for (const schedule of schedules) await world.create(schedule);
      await world.goOnUntil(toMs);
      for (const [index, schedule] of schedules.entries()) {
        const [, numbers, onGap, onRepeat] = SCHEDULES[index]!;
        const slots = naiveSlots(minutes, numbers, onGap, onRepeat).filter((at) => at >= fromMs);
        assert.deepEqual(
          await world.told(schedule),
          slots.map((at) => `${iso(at)} fired`),
          JSON.stringify(schedule.cron),
        );
        const jobIds = slots.map((at) => `${schedule.scheduleId}@${iso(at)}`);
        const rows = await world.stores.jobs.read(jobIds);
        assert.deepEqual(
          jobIds.map((jobId) => rows.get(jobId)?.scheduledFor),
          slots,
        );
        assert.deepEqual(
          jobIds.map((jobId) => world.published.get(jobId)),
          slots.map(() => 1),
        );
      }
    });
  }
});

/** One firer, woken by the rows of `due`. */
function worldAt(session: Session, start: EpochMs) {
  let now = start - MINUTE_MS;
  const clock = { ...systemClock, now: () => now, moment: () => ({ ...systemClock.moment(), wallMs: now }) };
  const stores = createStores(session, { clock });
  const published = new Map<string, number>();
  const queue = queueThatCounts(published);
  const { jobs: reader, schedules, history } = stores;
  const rounds = new Rounds({ store: stores.cohorts, reader, clock, telemetry });
  const scheduleRounds = new ScheduleRounds({ store: stores.scheduleCohorts, reader: schedules, clock, telemetry });
  const timers = new Timers({ store: stores.timers, hints: { send: () => undefined, listen: nothingToAsk }, clock });
  const publisher = new ReadyPublisher({ queue, clock });
  const overlaps = new OverlapQueue({ reader, schedules, timers, clock, log });
  const random = scriptedRandom();
  const occurrences = new OccurrenceWriter({
    ...{ rounds, timers, publisher, clock, random, telemetry, log },
    ...{ runs: stores.scheduleRuns, shards: 1 },
  });
  const timetables = new TimetableCache();
  const writer = new ScheduleWriter({
    ...{ schedules, rounds: scheduleRounds, timers, occurrences, timetables, clock, random },
  });
  const firer = new ScheduleFirer({
    ...{ schedules, reader, rounds, scheduleRounds, occurrences, overlaps, timetables, timers, clock, telemetry, log },
    canceller: new WaitingCanceller({
      ...{ rounds, timers, history, overlaps, clock, log },
      leftBehind: { note: () => undefined },
    }),
    gate: new QueueGate({
      book: new QueueBook({ store: stores.queues, clock }),
      publisher,
      queue,
      board: new HeldBoard({ clock }),
    }),
  });

  async function fire(scheduleId: string): Promise<void> {
    for (let fires = 0; fires < FIRES_MAX; fires += 1) {
      if ((await firer.fire([scheduleId], () => true)).get(scheduleId) === 'settled') return;
    }
    assert.fail(`${scheduleId} has more to do after ${FIRES_MAX} fires`);
  }

  async function dueIn(bucket: EpochMs): Promise<readonly string[]> {
    const range = { shard: SHARD, bucket, from: bucket, to: bucket + MINUTE_MS - 1 };
    const rows = await all(stores.timers.readDue(range));
    return rows.flatMap(({ jobId }) => (jobId.includes('@') ? [] : [jobId]));
  }

  return {
    stores,
    published,
    create: async (row: ScheduleRow) => {
      assert.equal((await writer.create(row)).kind, 'written');
    },
    /** Minute after minute; each is looked at when it has come. */
    goOnUntil: async (end: EpochMs) => {
      for (now = bucketOf(start) + SECOND_MS / 5; now < end; now += MINUTE_MS) {
        await inParallel([...new Set(await dueIn(bucketOf(now)))], 8, fire);
      }
    },
    told: async ({ scheduleId }: ScheduleRow) => {
      const runs = await all(stores.scheduleRuns.read({ scheduleId, from: start, to: now }));
      return runs.toReversed().map(told);
    },
  };
}

async function all<Row>(pages: AsyncIterable<readonly Row[]>): Promise<readonly Row[]> {
  const rows: Row[] = [];
  for await (const page of pages) rows.push(...page);
  return rows;
}

function queueThatCounts(published: Map<string, number>): ReadyQueue {
  return {
    connected: () => true,
    publish: async (messages) => {
      for (const { jobId } of messages) published.set(jobId, (published.get(jobId) ?? 0) + 1);
      return messages.map(() => 'stored');
    },
    ensureQueue: nothingToAsk,
    oldestMessageAt: nothingToAsk,
    depths: nothingToAsk,
    pull: nothingToAsk,
    readMessages: nothingToAsk,
    removeMessages: nothingToAsk,
    incarnation: nothingToAsk,
  };
}

function nothingToAsk(): never {
  throw new Error('not asked for here');
}

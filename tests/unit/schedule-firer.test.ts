// Design section 9: schedules are fired by dispatchers that may be two, late, or killed half-way, and each slot is decided once.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { JobStatus } from '../../services/core/domain/job-status.ts';
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '../../services/core/domain/limits.ts';
import type { ScheduleRow } from '../../services/core/domain/schedule.ts';
import { iso } from '../support/schedule-pass.ts';
import { newScheduleCohort, scheduleRow } from '../support/schedule-row.ts';
import { ScheduleWorld } from '../support/schedule-world.ts';

const START = Date.parse('2026-11-15T06:00:30Z');
const at = (text: string): number => Date.parse(`2026-11-15T${text}Z`);
const slot = (text: string, rest = 'fired'): string => `2026-11-15T${text}Z ${rest}`;

/** Every minute, from 06:01 on. */
function minutely(overrides: Partial<ScheduleRow> = {}): ScheduleRow {
  return scheduleRow(newScheduleCohort(), 0, { nextRunAt: at('06:01:00'), ...overrides });
}

/** A world with the schedules, a dispatcher and, if wanted, a reaper. */
async function worldOf(...schedules: readonly ScheduleRow[]): Promise<ScheduleWorld> {
  const world = new ScheduleWorld(START);
  world.add(...schedules);
  await world.startDispatcher();
  return world;
}

describe('a schedule that is due', () => {
  it('makes an occurrence with an id of its slot, enqueued and published at the millisecond', async () => {
    const schedule = minutely({ labels: { team: 'a' }, traceparent: '00-x', onOverlap: 'allow' });
    const world = await worldOf(schedule);
    await world.run(29);
    assert.deepEqual(world.occurrences(schedule), []);
    await world.run(2);
    const [occurrence, ...others] = world.occurrences(schedule);
    assert.deepEqual(others, []);
    assert.equal(occurrence?.jobId, `${schedule.scheduleId}@2026-11-15T06:01:00Z`);
    assert.deepEqual(
      [occurrence.status, occurrence.scheduledFor, occurrence.runAt, occurrence.payload, occurrence.labels],
      [JobStatus.enqueued, at('06:01:00'), at('06:01:00'), schedule.payload, { team: 'a' }],
    );
    assert.deepEqual(world.published(), new Map([[occurrence.jobId, 1]]));
    const { nextRunAt, lastSlot, lastJobId, runs } = world.schedule(schedule)!;
    assert.deepEqual([nextRunAt, lastSlot, lastJobId, runs], [at('06:02:00'), at('06:01:00'), occurrence.jobId, 1]);
    assert.deepEqual(world.told(schedule), [slot('06:01:00')]);
  });

  it('has its occurrence and the wake-up row of the next slot written before its next_run_at moves', async () => {
    const schedule = minutely();
    const world = new ScheduleWorld(START);
    world.add(schedule);
    const { calls } = await world.startDispatcher();
    await world.run(32);
    const effects = calls.filter((call) => /apply|writeDue|publish/.test(call));
    assert.deepEqual(effects, [
      'timers.writeDue',
      'cohorts.apply',
      'queue.publish',
      'timers.writeDue',
      'scheduleCohorts.apply',
    ]);
    const due = world.stores.due.all().map(({ jobId, runAt, direct }) => [jobId, iso(runAt), direct]);
    assert.deepEqual(due, [
      [schedule.scheduleId, '2026-11-15T06:01:00Z', false],
      [`${schedule.scheduleId}@2026-11-15T06:01:00Z`, '2026-11-15T06:01:00Z', true],
      [schedule.scheduleId, '2026-11-15T06:02:00Z', false],
    ]);
  });

  it('fires at its second, by the second', async () => {
    const schedule = minutely({ cron: '*/2 * * * * *', nextRunAt: at('06:00:34'), onOverlap: 'allow' });
    const world = await worldOf(schedule);
    await world.run(14);
    const stored = [...world.bus.subjects.values()].flat().map(({ storedAt }) => iso(storedAt));
    assert.deepEqual(
      stored,
      ['34', '36', '38', '40', '42', '44'].map((second) => `2026-11-15T06:00:${second}Z`),
    );
  });

  it('waits as scheduled for its jitter or its hashed second, under a timer of its own', async () => {
    // Of ids whose share of the jitter, and whose hashed second, are not 0.
    const [jittered, hashed] = [{ jitterS: 20 }, { cron: 'H/1 * * * *' }].map((overrides, member) =>
      scheduleRow('s_0123456789abc', member, { nextRunAt: at('06:01:00'), onOverlap: 'allow', ...overrides }),
    ) as [ScheduleRow, ScheduleRow];
    const world = await worldOf(jittered, hashed);
    await world.run(95);
    for (const schedule of [jittered, hashed]) {
      const [occurrence] = world.occurrences(schedule);
      const { status, runAt, scheduledFor } = occurrence!;
      assert.deepEqual([status, scheduledFor], [JobStatus.enqueued, at('06:01:00')]);
      const message = [...world.bus.subjects.values()]
        .flat()
        .find(({ message: { jobId } }) => jobId === occurrence!.jobId);
      assert.ok(runAt > scheduledFor && message?.storedAt === runAt);
    }
  });

  it('leaves its occurrence to the dispatcher where its queue is held back', async () => {
    const schedule = minutely();
    const world = new ScheduleWorld(START);
    world.add(schedule);
    const { connection } = await world.startDispatcher();
    connection.disconnect();
    await world.run(32);
    const [occurrence] = world.occurrences(schedule);
    const row = world.stores.due.all().find(({ jobId }) => jobId === occurrence?.jobId);
    assert.deepEqual([row?.direct, world.published().size], [false, 0]);
    connection.reconnect();
    await world.run(5);
    assert.deepEqual(world.published(), new Map([[occurrence!.jobId, 1]]));
  });

  it('is fired with all that share its cohort in as many writes as one', async () => {
    const cohort = newScheduleCohort();
    const schedules = Array.from({ length: 64 }, (_, member) =>
      scheduleRow(cohort, member, { nextRunAt: at('06:01:00') }),
    );
    const world = new ScheduleWorld(START);
    world.add(...schedules);
    const { calls } = await world.startDispatcher();
    await world.run(32);
    assert.equal(world.published().size, 64);
    assert.equal(new Set(world.occurrences(schedules[0]!).map(({ cohort: of }) => of)).size, 1);
    const writes = calls.filter((call) => /apply/.test(call));
    assert.deepEqual(writes, ['cohorts.apply', 'scheduleCohorts.apply']);
  });

  it('is left alone once it is deleted, whatever rows of it are left', async () => {
    const schedule = minutely();
    const world = await worldOf(schedule);
    world.stores.scheduleTables.rows.delete(schedule.scheduleId);
    await world.run(60);
    assert.deepEqual([world.occurrences(schedule), world.told(schedule)], [[], []]);
  });

  it('is waited for where its wake-up row came first', async () => {
    const schedule = minutely();
    const world = await worldOf(schedule);
    const row = world.schedule(schedule)!;
    world.stores.scheduleTables.rows.delete(schedule.scheduleId);
    await world.run(35);
    world.stores.scheduleTables.rows.set(schedule.scheduleId, row);
    await world.run(3);
    assert.deepEqual(world.told(schedule), [slot('06:01:00')]);
  });

  it('does not keep others of its shard from firing when it cannot be read', async () => {
    const broken = minutely({ timeZone: 'Mars/Phobos' });
    const fine = minutely();
    const world = await worldOf(broken, fine);
    await world.run(32);
    assert.deepEqual([world.told(broken), world.told(fine)], [[], [slot('06:01:00')]]);
  });
});

describe('dispatchers', () => {
  it('R040 fire late and once what was due when the owner died a second before', async () => {
    const schedule = minutely();
    const world = new ScheduleWorld(START);
    world.add(schedule);
    const first = await world.startDispatcher();
    await world.run(29);
    first.kill();
    world.pass(8 * SECOND_MS);
    await world.startDispatcher();
    await world.run(3);
    assert.deepEqual(world.told(schedule), [slot('06:01:00')]);
    assert.deepEqual([...world.published().values()], [1]);
  });

  it('R042 fire a weekly schedule once and on time, though they are restarted every day', async () => {
    const monday = Date.parse('2026-11-23T09:00:00Z');
    const weekly = minutely({ cron: '0 9 * * 1', nextRunAt: monday });
    const world = new ScheduleWorld(START);
    world.add(weekly);
    for (let day = 0; day < 9; day += 1) {
      const process = await world.startDispatcher();
      await world.run(3);
      if (monday - world.clock.now() < DAY_MS && monday > world.clock.now()) {
        world.pass(monday - world.clock.now() - 5 * SECOND_MS);
        await world.run(10);
      }
      process.kill();
      world.pass(DAY_MS - 3 * SECOND_MS);
    }
    assert.deepEqual(world.told(weekly), ['2026-11-23T09:00:00Z fired']);
    const [stored] = [...world.bus.subjects.values()].flat();
    assert.equal(stored?.storedAt, monday);
  });

  it('R048 run nothing again that was made good, when others create schedules', async () => {
    const schedule = minutely({ cron: '0 * * * *', nextRunAt: at('06:00:00') });
    const world = new ScheduleWorld(START + 10 * MINUTE_MS);
    world.add(schedule);
    await world.startDispatcher();
    await world.run(3);
    assert.deepEqual(world.told(schedule), [slot('06:00:00')]);
    world.add(...Array.from({ length: 5 }, () => minutely({ nextRunAt: at('06:12:00') })));
    await world.run(120);
    assert.deepEqual(world.told(schedule), [slot('06:00:00')]);
  });

  it('decide each slot once though two own the shard, their clocks seconds apart', async () => {
    const schedules = [
      minutely({ onOverlap: 'allow' }),
      minutely({ cron: '*/5 * * * * *', nextRunAt: at('06:00:35'), onOverlap: 'allow' }),
      minutely({ cron: '* * * * * *', nextRunAt: at('06:00:31'), onOverlap: 'allow' }),
    ];
    const world = new ScheduleWorld(START);
    world.add(...schedules);
    await world.startDispatcher();
    await world.startDispatcher({ aheadMs: 4 * SECOND_MS });
    await world.startDispatcher({ aheadMs: -4 * SECOND_MS });
    await world.run(200);
    for (const [schedule, everyMs] of [
      [schedules[0]!, MINUTE_MS],
      [schedules[1]!, 5 * SECOND_MS],
      [schedules[2]!, SECOND_MS],
    ] as const) {
      const slots = world.occurrences(schedule).map(({ scheduledFor }) => scheduledFor);
      assert.deepEqual(
        slots,
        slots.map((_, index) => schedule.nextRunAt! + index * everyMs),
      );
      assert.ok(slots.length >= Math.floor((200 * SECOND_MS) / everyMs) - 1);
      assert.equal(world.schedule(schedule)?.runs, slots.length);
      assert.deepEqual(new Set(world.told(schedule).map((line) => line.split(' ')[1])), new Set(['fired']));
    }
  });
});

describe('a dispatcher that is killed at any of its calls', () => {
  const policies: readonly Partial<ScheduleRow>[] = [
    { onOverlap: 'allow' },
    { onOverlap: 'skip' },
    { onOverlap: 'queue' },
    { onOverlap: 'replace' },
  ];
  for (const policy of policies) {
    for (const effect of ['lost', 'taken'] as const) {
      it(`leaves the slots as they are without it: ${policy.onOverlap}, its last call ${effect}`, async () => {
        const expected = await afterKill(policy, null);
        assert.ok(expected.calls > 10 && expected.told.length === 2);
        for (let call = 1; call <= expected.calls; call += 1) {
          const { told, published, state } = await afterKill(policy, { call, effect });
          assert.deepEqual({ call, told, state }, { call, told: expected.told, state: expected.state });
          // A message may come twice, but none is missing.
          assert.deepEqual(published, expected.published, `call ${call}`);
        }
      });
    }
  }
});

/** Two slots, the first one's occurrence running on; the first dispatcher dies, and another takes over at once. */
async function afterKill(policy: Partial<ScheduleRow>, killedAt: { call: number; effect: 'lost' | 'taken' } | null) {
  const first = at('06:01:00');
  const row = { cron: '*/5 * * * * *', nextRunAt: first, endAt: first + 5 * SECOND_MS };
  const schedule = scheduleRow('s_0123456789abc', 0, { ...row, ...policy });
  const world = new ScheduleWorld(first - 2 * SECOND_MS);
  world.add(schedule);
  const process = await world.startDispatcher(killedAt === null ? {} : { killedAt });
  let hasSuccessor = false;
  for (let second = 0; second < 14; second += 1) {
    await world.run(1);
    begin(world, schedule);
    if (!hasSuccessor && (second === 8 || !process.isAlive())) {
      hasSuccessor = true;
      process.kill();
      await world.startDispatcher();
    }
  }
  const { nextRunAt, runs, lastJobId, waiting } = world.schedule(schedule)!;
  return {
    calls: process.calls.length,
    told: world.told(schedule),
    published: [...world.published().keys()].toSorted(),
    state: { nextRunAt, runs, lastJobId, waiting },
  };
}

/** The first occurrence, once its message is there, is taken by a worker and never ends. */
function begin(world: ScheduleWorld, schedule: ScheduleRow): void {
  const [first] = world.occurrences(schedule);
  if (first?.status === JobStatus.enqueued && world.published().has(first.jobId)) world.begin(first);
}

/** Ends each occurrence a second after it was enqueued; never two are. Returns their slots in the order of their turns. */
async function endOneByOne(world: ScheduleWorld, schedule: ScheduleRow, seconds: number): Promise<readonly string[]> {
  const order: string[] = [];
  for (let second = 0; second < seconds; second += 1) {
    await world.run(1);
    const enqueued = world.occurrences(schedule).filter(({ status }) => status === JobStatus.enqueued);
    assert.ok(enqueued.length <= 1);
    for (const occurrence of enqueued) {
      order.push(occurrence.jobId.split('@')[1]!);
      await world.end(occurrence);
    }
  }
  return order;
}

describe('an outage', () => {
  const cases: readonly (readonly [string, Partial<ScheduleRow>, readonly string[]])[] = [
    ['skip', { onMissed: 'skip' }, ['2026-11-15T06:01:00Z..2026-11-22T06:00:00Z missed', '2026-11-22T06:01:00Z fired']],
    [
      'run_once',
      { onMissed: 'run_once' },
      ['2026-11-15T06:01:00Z..2026-11-22T05:59:00Z missed', '2026-11-22T06:00:00Z fired', '2026-11-22T06:01:00Z fired'],
    ],
    [
      'run_all, of which the latest three',
      { onMissed: 'run_all', missedLimit: 3 },
      [
        '2026-11-15T06:01:00Z..2026-11-22T05:56:00Z missed (missed_limit)',
        '2026-11-22T05:57:00Z fired',
        '2026-11-22T05:58:00Z fired',
        '2026-11-22T05:59:00Z fired',
        '2026-11-22T06:00:00Z fired',
        '2026-11-22T06:01:00Z fired',
      ],
    ],
    [
      'run_once within an hour',
      { onMissed: 'run_once', missedWindowS: 3_600, cron: '0 0 * * *', nextRunAt: Date.parse('2026-11-16T00:00:00Z') },
      ['2026-11-16T00:00:00Z..2026-11-22T00:00:00Z missed (missed_window)'],
    ],
  ];
  for (const [name, overrides, expected] of cases) {
    it(`of a week leaves the slots exactly right: ${name}`, async () => {
      const schedule = minutely({ onOverlap: 'allow', ...overrides });
      const world = await worldOf(schedule);
      await world.run(5);
      world.pass(7 * DAY_MS);
      await world.run(40);
      assert.deepEqual(world.told(schedule), expected);
      const decided = world
        .occurrences(schedule)
        .map(({ jobId, slotUntil, status }) => [
          jobId.split('@')[1],
          slotUntil === null ? JobStatus.enqueued : JobStatus.cancelled,
          status,
        ]);
      assert.deepEqual(
        decided.map(([text]) => text),
        expected.map((line) => line.slice(0, 20)),
      );
      assert.ok(decided.every(([, wanted, status]) => wanted === status));
    });
  }

  it('of an hour ends with all missed slots run one after the other, where no two may run at once', async () => {
    const schedule = minutely({
      onMissed: 'run_all',
      onOverlap: 'skip',
      cron: '*/20 * * * *',
      nextRunAt: at('06:20:00'),
    });
    const world = await worldOf(schedule);
    world.startReaper();
    world.pass(HOUR_MS + 10 * MINUTE_MS);
    assert.deepEqual(await endOneByOne(world, schedule, 60), [
      '2026-11-15T06:20:00Z',
      '2026-11-15T06:40:00Z',
      '2026-11-15T07:00:00Z',
    ]);
  });

  it('of half a minute ends so, too: its slots are late, though none was missed', async () => {
    const schedule = minutely({
      onMissed: 'run_all',
      onOverlap: 'skip',
      cron: '*/5 * * * * *',
      nextRunAt: START + 5 * SECOND_MS,
    });
    const world = await worldOf(schedule);
    world.startReaper();
    world.pass(40 * SECOND_MS);
    const order = await endOneByOne(world, schedule, 30);
    const expected = Array.from({ length: 5 }, (_, index) => iso(START + (index + 1) * 5 * SECOND_MS));
    assert.deepEqual(order.slice(0, expected.length), expected);
  });

  it('is decided by whoever comes first, though another comes in the middle of it', async () => {
    const schedule = minutely({ onMissed: 'run_once', onOverlap: 'allow' });
    const world = new ScheduleWorld(START);
    world.add(schedule);
    world.pass(HOUR_MS);
    await world.startDispatcher({ killedAt: { call: 7, effect: 'taken' } });
    await world.run(10);
    world.pass(5 * MINUTE_MS);
    await world.startDispatcher();
    await world.startDispatcher({ aheadMs: 2_000 });
    await world.run(5);
    const fired = world.told(schedule).filter((line) => line.endsWith('fired'));
    const slots = world.occurrences(schedule);
    for (const [index, { slotUntil, scheduledFor }] of slots.entries()) {
      const next = slots[index + 1]?.scheduledFor ?? world.schedule(schedule)!.nextRunAt!;
      assert.equal((slotUntil ?? scheduledFor) + MINUTE_MS, next, 'slots are decided without a gap and once each');
    }
    assert.ok(fired.length >= 1 && fired.length <= 2, fired.join());
  });
});

// A schedule whose firer, or whose wake-up row, is lost is woken again by the reaper's second look.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { MINUTE_MS, SECOND_LOOK_AFTER_MS, SECOND_MS } from '../../services/core/domain/limits.ts';
import { wakeUpRow } from '../../services/core/domain/schedule-plan.ts';
import type { ScheduleRow } from '../../services/core/domain/schedule.ts';
import { ScheduleWaker } from '../../services/reaper/schedule-waker.ts';
import type { Found } from '../../services/reaper/settle.ts';
import { coreBench } from '../support/core-bench.ts';
import { FAKE_START } from '../support/fake-clock.ts';
import { newScheduleCohort, scheduleRow } from '../support/schedule-row.ts';
import { ScheduleWorld } from '../support/schedule-world.ts';

const found = ({ scheduleId, shard, nextRunAt }: ScheduleRow): Found => ({
  jobId: scheduleId,
  shard,
  table: 'due',
  at: nextRunAt ?? FAKE_START,
  publishedAt: null,
});

function overdue(overrides: Partial<ScheduleRow> = {}): ScheduleRow {
  return scheduleRow(newScheduleCohort(), 0, { nextRunAt: FAKE_START - 90 * SECOND_MS, ...overrides });
}

function bench(...schedules: readonly ScheduleRow[]) {
  const core = coreBench();
  for (const row of schedules) core.stores.scheduleTables.rows.set(row.scheduleId, row);
  return {
    ...core,
    settle: (...rows: readonly Found[]) => core.clock.until(core.parts.waker.settle(rows)),
    armed: () => core.stores.due.all().map(({ jobId, runAt, direct }) => [jobId, runAt - FAKE_START, direct]),
  };
}

describe('a schedule that an old timer names', () => {
  it('is woken where it is due, once however many rows name it', async () => {
    const schedule = overdue();
    const core = bench(schedule);
    assert.deepEqual(await core.settle(found(schedule), found(schedule)), ['settled', 'settled']);
    assert.deepEqual(core.armed(), [[schedule.scheduleId, 0, false]]);
  });

  it('is left to its own wake-up row where it lies ahead, is paused, or has ended', async () => {
    const idle = [
      overdue({ nextRunAt: FAKE_START + 1 }),
      overdue({ paused: true }),
      overdue({ paused: true, pausedUntil: FAKE_START + MINUTE_MS }),
      overdue({ nextRunAt: null }),
    ];
    const core = bench(...idle);
    assert.deepEqual(new Set(await core.settle(...idle.map(found))), new Set(['settled']));
    assert.deepEqual(core.armed(), []);
  });

  it('is woken where its pause is over', async () => {
    const schedule = overdue({ paused: true, pausedUntil: FAKE_START - 1 });
    const core = bench(schedule);
    await core.settle(found(schedule));
    assert.equal(core.armed().length, 1);
  });

  it('is absent when a serial read says so, and not before', async () => {
    const [present, absent] = [overdue(), overdue()];
    const core = bench(present);
    assert.deepEqual(await core.settle(found(present), found(absent)), ['settled', 'settled']);
    const reads = core.stores.calls.filter(({ method }) => method === 'schedules.read').map(({ args }) => args);
    assert.deepEqual(reads, [
      [[present.scheduleId, absent.scheduleId], undefined],
      [[absent.scheduleId], { serial: true }],
    ]);
  });

  it('is woken when its round was still in flight', async () => {
    const schedule = overdue();
    const { parts, stores, clock, armed } = bench(schedule);
    const schedules = {
      read: (ids: readonly string[], how = {}) => stores.schedules.read('serial' in how ? ids : [], how),
    };
    await clock.until(new ScheduleWaker({ ...parts, schedules }).settle([found(schedule)]));
    assert.equal(armed().length, 1);
  });

  it('is looked at again a second later where the store cannot read it, or take its timer', async () => {
    const schedule = overdue();
    for (const method of ['schedules.read', 'timers.writeDue'] as const) {
      const core = coreBench({ strikes: (call) => (call.method === method ? { kind: 'unavailable' } : undefined) });
      core.stores.scheduleTables.rows.set(schedule.scheduleId, schedule);
      const [settled] = await core.clock.until(core.parts.waker.settle([found(schedule)]));
      assert.ok(typeof settled === 'object' && settled.again > FAKE_START, method);
    }
  });
});

describe('a wake-up row that its reader has passed', () => {
  it('is found by the second look, and its schedule fires as after an outage', async () => {
    const start = Date.parse('2026-11-15T06:00:30Z');
    const world = new ScheduleWorld(start);
    await world.startDispatcher();
    world.startReaper();
    await world.run(40);
    // Its writer stalled: by now the dispatcher has read past 06:01.
    const schedule = scheduleRow(newScheduleCohort(), 0, { nextRunAt: start + 30 * SECOND_MS, onOverlap: 'allow' });
    world.stores.scheduleTables.rows.set(schedule.scheduleId, { ...schedule, shard: 0 });
    world.stores.due.write([wakeUpRow({ ...schedule, shard: 0 }, schedule.nextRunAt!)]);
    await world.run(Math.ceil((2 * SECOND_LOOK_AFTER_MS) / SECOND_MS) + 10);
    const told = world.told(schedule);
    assert.equal(told[0]?.slice(0, 20), '2026-11-15T06:01:00Z');
    assert.ok(told.length >= 2 && world.schedule(schedule)!.nextRunAt! > world.clock.now(), told.join());
  });
});

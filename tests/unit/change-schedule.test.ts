// Callers change schedules while slots of theirs are overdue: whatever dies on the way, each slot has one row that decides it.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '../../services/core/domain/limits.ts';
import type { ScheduleDefinition, ScheduleRow } from '../../services/core/domain/schedule.ts';
import { timetableOf } from '../../services/core/domain/timetable.ts';
import type { EpochMs } from '../../services/core/domain/time.ts';
import { iso } from '../support/schedule-pass.ts';
import { definitionOf, newScheduleCohort, scheduleRow } from '../support/schedule-row.ts';
import { type CallerProcess, type ProcessOptions, ScheduleWorld } from '../support/schedule-world.ts';

const START = Date.parse('2026-11-15T06:00:30Z');
const at = (text: string): EpochMs => Date.parse(`2026-11-15T${text}Z`);
const slots = (text: string, rest: string): string =>
  `${text
    .split('..')
    .map((time) => `2026-11-15T${time}Z`)
    .join('..')} ${rest}`;

function minutely(overrides: Partial<ScheduleRow> = {}): ScheduleRow {
  return scheduleRow(newScheduleCohort(), 0, { nextRunAt: at('06:01:00'), onOverlap: 'allow', ...overrides });
}

/** Nobody fired since 06:00:30; it is now 06:05:30, and five slots of a minutely schedule are overdue. */
function afterOutage(...schedules: readonly ScheduleRow[]): ScheduleWorld {
  const world = new ScheduleWorld(START);
  world.add(...schedules);
  world.pass(5 * MINUTE_MS);
  return world;
}

type Act = (caller: CallerProcess, schedule: ScheduleRow) => Promise<{ readonly ok: boolean }>;

const target = ({ owner, scheduleId }: ScheduleRow) => ({ owner, schedule: scheduleId, revision: null });
const redefine =
  (changes: Partial<ScheduleDefinition>): Act =>
  ({ changer }, schedule) =>
    changer.change(target(schedule), (row) => ({ ok: true, value: { ...definitionOf(row), ...changes } }));
const remove: Act = ({ changer }, schedule) => changer.remove(target(schedule), false);
const pause: Act = ({ changer }, schedule) => changer.pause(target(schedule), { reason: 'holidays', until: null });
const resume: Act = ({ changer }, schedule) => changer.resume(target(schedule));

async function act(world: ScheduleWorld, schedule: ScheduleRow, what: Act): Promise<void> {
  const result = await world.clock.until(what(world.startCaller(), schedule));
  assert.ok(result.ok, JSON.stringify(result));
}

describe('a schedule with overdue slots', () => {
  it('gets another timetable: one row says what became of them, and the new slots follow', async () => {
    const schedule = minutely();
    const world = afterOutage(schedule);
    await act(world, schedule, redefine({ cron: '*/10 * * * *' }));
    assert.deepEqual(world.told(schedule), [slots('06:01:00..06:05:00', 'skipped_by_change (schedule_changed)')]);
    const { nextRunAt, runs, revision } = world.schedule(schedule)!;
    assert.deepEqual([nextRunAt, runs, revision], [at('06:10:00'), 0, 2]);
    await world.startDispatcher();
    await world.run(5 * 60);
    assert.deepEqual(world.told(schedule).slice(1), [slots('06:10:00', 'fired')]);
    assert.equal(world.occurrences(schedule).length, 2);
  });

  it('keeps them where the timetable stays, whatever else is changed', async () => {
    const schedule = minutely();
    const world = afterOutage(schedule);
    await act(world, schedule, redefine({ labels: { team: 'b' }, onMissed: 'run_all', jitterS: 5 }));
    assert.deepEqual([world.told(schedule), world.schedule(schedule)?.nextRunAt], [[], at('06:01:00')]);
    await world.startDispatcher();
    await world.run(10);
    assert.deepEqual(
      world.told(schedule),
      ['06:01:00', '06:02:00', '06:03:00', '06:04:00', '06:05:00'].map((time) => slots(time, 'fired')),
    );
  });

  it('may have no run left by the new max_runs: then they are told as well', async () => {
    const schedule = minutely({ runs: 3 });
    const world = afterOutage(schedule);
    await act(world, schedule, redefine({ maxRuns: 3 }));
    assert.deepEqual(world.told(schedule), [slots('06:01:00..06:05:00', 'skipped_by_change (schedule_changed)')]);
    assert.equal(world.schedule(schedule)?.nextRunAt, null);
    await act(world, schedule, redefine({ maxRuns: 4 }));
    assert.equal(world.schedule(schedule)?.nextRunAt, at('06:06:00'));
  });

  it('is deleted: one row says what became of them', async () => {
    const schedule = minutely();
    const world = afterOutage(schedule);
    await act(world, schedule, remove);
    assert.equal(world.schedule(schedule), undefined);
    assert.deepEqual(world.told(schedule), [slots('06:01:00..06:05:00', 'skipped_by_change (schedule_deleted)')]);
    await world.startDispatcher();
    await world.run(60);
    assert.equal(world.occurrences(schedule).length, 1);
  });

  it('is deleted though its zone is known no longer', async () => {
    const schedule = minutely({ timeZone: 'Mars/Phobos' });
    const world = afterOutage(schedule);
    await act(world, schedule, remove);
    assert.deepEqual(world.told(schedule), [slots('06:01:00', 'skipped_by_change (schedule_deleted)')]);
  });

  it('is paused, changed while it is paused, and resumed: each slot is told once, by what kept it from running', async () => {
    const schedule = minutely();
    const world = afterOutage(schedule);
    await act(world, schedule, pause);
    await world.startDispatcher();
    await world.run(60);
    await act(world, schedule, redefine({ cron: '*/2 * * * *' }));
    await world.run(60);
    await act(world, schedule, resume);
    await world.run(90);
    assert.deepEqual(world.told(schedule), [
      slots('06:01:00..06:06:00', 'skipped_paused (schedule_paused)'),
      slots('06:08:00', 'fired'),
    ]);
    const paused = minutely({ paused: true, pausedUntil: at('06:03:30') });
    const other = afterOutage(paused);
    await act(other, paused, redefine({ cron: '*/2 * * * *' }));
    assert.deepEqual(other.told(paused), [
      slots('06:01:00..06:03:00', 'skipped_paused (schedule_paused)'),
      slots('06:04:00..06:05:00', 'skipped_by_change (schedule_changed)'),
    ]);
    const { paused: isStill, pausedUntil } = other.schedule(paused)!;
    assert.deepEqual([isStill, pausedUntil], [false, null]);
  });

  it('has run one that no firer lived to record: the run counts, and the others are told', async () => {
    const schedule = minutely({ onMissed: 'run_all', maxRuns: 5 });
    const world = afterOutage(schedule);
    const dispatcher = await world.startDispatcher({ killedAt: { call: 5, effect: 'lost' } });
    await world.run(3);
    assert.ok(!dispatcher.isAlive() && world.schedule(schedule)?.nextRunAt === at('06:01:00'));
    assert.equal(world.occurrences(schedule).length, 1);
    await act(world, schedule, redefine({ cron: '*/10 * * * *' }));
    assert.deepEqual(world.told(schedule), [
      slots('06:01:00', 'fired'),
      slots('06:02:00..06:05:00', 'skipped_by_change (schedule_changed)'),
    ]);
    const { runs, lastSlot } = world.schedule(schedule)!;
    assert.deepEqual([runs, lastSlot], [1, at('06:01:00')]);
  });
});

describe('an api process that is killed at any of its calls', () => {
  const acts: readonly (readonly [string, Partial<ScheduleRow>, Act, Partial<ScheduleDefinition>])[] = [
    ['a new timetable', {}, redefine({ cron: '*/2 * * * *' }), { cron: '*/2 * * * *' }],
    [
      'a new timetable for one whose pause is over',
      { paused: true, pausedUntil: at('06:03:30') },
      redefine({ cron: '*/2 * * * *' }),
      { cron: '*/2 * * * *' },
    ],
    ['a delete', {}, remove, {}],
    ['a pause, then a resume', { onMissed: 'run_all' }, pause, {}],
  ];
  for (const [name, overrides, what, definition] of acts) {
    for (const withFirer of [false, true]) {
      for (const effect of ['lost', 'taken'] as const) {
        const title = `${name}, ${withFirer ? 'a dispatcher at work meanwhile' : 'no dispatcher yet'}, its last call ${effect}`;
        it(`leaves each slot decided once: ${title}`, async () => {
          const whole = await afterKill({ overrides, what, definition, withFirer, killedAt: null });
          assert.ok(whole.calls >= 3, String(whole.calls));
          for (let call = 1; call <= whole.calls; call += 1) {
            await afterKill({ overrides, what, definition, withFirer, killedAt: { call, effect } });
          }
        });
      }
    }
  }
});

interface Scene {
  readonly overrides: Partial<ScheduleRow>;
  readonly what: Act;
  readonly definition: Partial<ScheduleDefinition>;
  readonly withFirer: boolean;
  readonly killedAt: NonNullable<ProcessOptions['killedAt']> | null;
}

/** The caller's process dies; 50 s later the caller repeats the call elsewhere, resumes what is paused, and time goes on. */
async function afterKill({ overrides, what, definition, withFirer, killedAt }: Scene): Promise<{ calls: number }> {
  const schedule = minutely(overrides);
  const world = afterOutage(schedule);
  if (withFirer) await world.startDispatcher();
  const caller = world.startCaller(killedAt === null ? {} : { killedAt });
  // In the very turn in which the dispatcher begins.
  const tick = world.run(1);
  const first = what(caller, schedule);
  await tick;
  assert.equal(caller.isAlive(), killedAt === null, JSON.stringify(killedAt));
  if (killedAt === null) assert.ok((await first).ok);
  const removed = { by: world.schedule(schedule) === undefined ? at('06:05:30') : Infinity };
  if (!withFirer) await world.startDispatcher();
  await later(world, 49);
  const again = await world.clock.until(what(world.startCaller(), schedule));
  const isGone = world.schedule(schedule) === undefined;
  assert.ok(again.ok || isGone);
  if (isGone) removed.by = Math.min(removed.by, world.clock.now());
  if (world.schedule(schedule)?.paused === true) await act(world, schedule, resume);
  await later(world, 100);
  await later(world, 50);
  assertDecidedOnce(world, schedule, { changedTo: definition, removedBy: removed.by });
  return { calls: caller.calls.length };
}

/** So many seconds, of which only the first and the last few are looked at one by one. */
async function later(world: ScheduleWorld, seconds: number): Promise<void> {
  await world.run(4);
  world.pass((seconds - 9) * SECOND_MS);
  await world.run(5);
}

/** Every slot of the timetable that stood at its time is in exactly one row, and no other is. */
function assertDecidedOnce(
  world: ScheduleWorld,
  schedule: ScheduleRow,
  { changedTo, removedBy }: { changedTo: Partial<ScheduleDefinition>; removedBy: EpochMs },
): void {
  const now = Math.min(world.clock.now() - 2 * SECOND_MS, removedBy);
  const changedAt = world.schedule(schedule)?.updatedAt ?? removedBy;
  const before = slotsOf(schedule, schedule.nextRunAt! - 1, Math.min(changedAt, now));
  const after = slotsOf({ ...schedule, ...changedTo }, changedAt, now);
  const rows = world
    .occurrences(schedule)
    .map(({ scheduledFor, slotUntil }) => ({ from: scheduledFor, to: slotUntil ?? scheduledFor }));
  rows.forEach(({ from }, index) => {
    assert.ok(
      from > (rows[index - 1]?.to ?? 0),
      `rows overlap: ${rows.map((row) => `${iso(row.from)}..${iso(row.to)}`).join()}`,
    );
  });
  for (const slot of [...before, ...after]) {
    const deciding = rows.filter(({ from, to }) => from <= slot && slot <= to);
    assert.equal(deciding.length, 1, `${iso(slot)}: ${JSON.stringify(world.told(schedule))}`);
  }
  const known = new Set([...before, ...after]);
  for (const { from } of rows.filter(({ from }) => from <= now)) assert.ok(known.has(from), iso(from));
  assert.deepEqual(
    world.told(schedule).map((line) => line.slice(0, 20)),
    rows.map(({ from }) => iso(from)),
  );
}

function slotsOf(definition: ScheduleRow, after: EpochMs, until: EpochMs): readonly EpochMs[] {
  const timetable = timetableOf(definition, definition.scheduleId);
  const slots: EpochMs[] = [];
  for (let slot = timetable.next(after); slot !== null && slot <= until; slot = timetable.next(slot)) slots.push(slot);
  return slots;
}

describe('a schedule that is changed, paused or deleted in an outage', () => {
  const outages = [
    ['ten minutes', 10 * MINUTE_MS, '* * * * *'],
    ['five hours', 5 * HOUR_MS, '30 * * * *'],
    ['eight days', 8 * DAY_MS, '30 2 * * *'],
  ] as const;
  /** The last hour or night before clocks go forward, and before they go back. */
  const changes = [
    ['America/New_York', '2027-03-14T06:10:20Z'],
    ['America/New_York', '2026-11-01T05:10:20Z'],
    ['Australia/Lord_Howe', '2027-04-03T14:40:20Z'],
    ['Australia/Lord_Howe', '2026-10-03T15:10:20Z'],
  ] as const;
  const acts: readonly (readonly [string, Act, Partial<ScheduleDefinition>])[] = [
    ['changed', redefine({ cron: '15 1-2 * * *' }), { cron: '15 1-2 * * *' }],
    ['paused', pause, {}],
    ['deleted', remove, {}],
  ];
  for (const [lasting, outageMs, cron] of outages) {
    for (const [timeZone, start] of changes) {
      // Its dispatcher reads every minute of an outage, 0.1 ms each.
      const policies = outageMs > DAY_MS ? (['run_once'] as const) : (['skip', 'run_once', 'run_all'] as const);
      for (const onMissed of policies) {
        it(`has each slot decided once: ${lasting}, ${timeZone} at ${start}, on_missed ${onMissed}`, async () => {
          for (const [name, what, definition] of acts) {
            const base = minutely({ cron, timeZone, onMissed });
            const nextRunAt = timetableOf(base, base.scheduleId).next(Date.parse(start));
            const schedule = { ...base, nextRunAt };
            const world = new ScheduleWorld(Date.parse(start));
            world.add(schedule);
            world.pass(outageMs / 2);
            await act(world, schedule, what);
            const removedBy = name === 'deleted' ? world.clock.now() : Infinity;
            world.pass(outageMs / 2);
            if (name === 'paused') await act(world, schedule, resume);
            await world.startDispatcher();
            await world.run(6);
            assertDecidedOnce(world, schedule, { changedTo: definition, removedBy });
          }
        });
      }
    }
  }
});

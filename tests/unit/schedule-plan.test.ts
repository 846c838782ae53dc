// Design section 9: what becomes of the slots of a schedule, by its policies, over outages, pauses and changes of the clock.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { occurrenceId } from '../../services/core/domain/ids.ts';
import { JobStatus, type JobStatus as Status } from '../../services/core/domain/job-status.ts';
import { OVERLAP_WAITING_MAX, SECOND_MS } from '../../services/core/domain/limits.ts';
import { occurrenceRow, startOf } from '../../services/core/domain/occurrence.ts';
import { isPaused, planOverlap, stateWithRun } from '../../services/core/domain/schedule-plan.ts';
import type { ScheduleRow } from '../../services/core/domain/schedule.ts';
import { timetableOf } from '../../services/core/domain/timetable.ts';
import { jobRow } from '../support/job-row.ts';
import { iso, passOf, told } from '../support/schedule-pass.ts';
import { newScheduleCohort, scheduleRow } from '../support/schedule-row.ts';

const COHORT = 's_0123456789abc';
const at = (text: string): number => Date.parse(text);

/** A schedule whose next slot to decide is given as a time. */
function schedule(next: string, overrides: Partial<ScheduleRow> = {}): ScheduleRow {
  return scheduleRow(COHORT, 0, { nextRunAt: at(next), ...overrides });
}

/** What one pass at `now` tells, and the slot it leaves as the next. */
function pass(row: ScheduleRow, now: string): { readonly told: readonly string[]; readonly next: string | null } {
  const done = passOf(row, at(now));
  const { nextRunAt } = done.row;
  return { told: done.runs.map(told), next: nextRunAt === null ? null : iso(nextRunAt) };
}

describe('a slot at its time', () => {
  it('is run, and the next follows from it', () => {
    assert.deepEqual(pass(schedule('2026-01-01T00:05:00Z'), '2026-01-01T00:05:00.120Z'), {
      told: ['2026-01-01T00:05:00Z fired'],
      next: '2026-01-01T00:06:00Z',
    });
  });

  it('is left alone before', () => {
    assert.deepEqual(pass(schedule('2026-01-01T00:05:00Z'), '2026-01-01T00:04:59.999Z').told, []);
  });

  it('R013 is not run before its time, nor twice: the next one follows from the slot, not from now', () => {
    const daily = schedule('2026-05-01T04:00:00Z', { cron: '0 4 * * *' });
    assert.deepEqual(pass(daily, '2026-05-01T03:59:52.900Z'), { told: [], next: '2026-05-01T04:00:00Z' });
    const done = passOf(daily, at('2026-05-01T04:00:00Z'));
    assert.deepEqual(done.runs.map(told), ['2026-05-01T04:00:00Z fired']);
    // Woken again by a clock that is eight seconds behind.
    assert.deepEqual(pass(done.row, '2026-05-01T03:59:52.900Z'), { told: [], next: '2026-05-02T04:00:00Z' });
    assert.equal(done.runs[0]?.jobId, `${daily.scheduleId}@2026-05-01T04:00:00Z`);
  });

  it('is run up to a minute late whatever on_missed says, and missed later than that', () => {
    for (const onMissed of ['skip', 'run_once', 'run_all'] as const) {
      const daily = schedule('2026-05-01T04:00:00Z', { cron: '0 4 * * *', onMissed });
      assert.deepEqual(pass(daily, '2026-05-01T04:01:00Z').told, ['2026-05-01T04:00:00Z fired']);
    }
    const daily = schedule('2026-05-01T04:00:00Z', { cron: '0 4 * * *', onMissed: 'skip' });
    assert.deepEqual(pass(daily, '2026-05-01T04:01:00.001Z').told, ['2026-05-01T04:00:00Z missed']);
  });
});

describe('R038 dispatchers that are down from 00:00:30 to 01:41:30', () => {
  const outage = (overrides: Partial<ScheduleRow>): ReturnType<typeof pass> =>
    pass(schedule('2026-01-01T00:01:00Z', overrides), '2026-01-01T01:41:30Z');

  it('leave out all 101 slots where they are skipped, in one row', () => {
    assert.deepEqual(outage({ onMissed: 'skip' }), {
      told: ['2026-01-01T00:01:00Z..2026-01-01T01:41:00Z missed'],
      next: '2026-01-01T01:42:00Z',
    });
  });

  it('run the latest where one makes good for all', () => {
    assert.deepEqual(outage({ onMissed: 'run_once' }), {
      told: ['2026-01-01T00:01:00Z..2026-01-01T01:40:00Z missed', '2026-01-01T01:41:00Z fired'],
      next: '2026-01-01T01:42:00Z',
    });
  });

  it('run 101 slots, each once, where all are run', () => {
    const { told, next } = outage({ onMissed: 'run_all' });
    const first = at('2026-01-01T00:01:00Z');
    assert.deepEqual(
      told,
      Array.from({ length: 101 }, (_, index) => `${iso(first + index * 60_000)} fired`),
    );
    assert.equal(next, '2026-01-01T01:42:00Z');
  });

  it('drop the oldest beyond missed_limit, and say so', () => {
    assert.deepEqual(outage({ onMissed: 'run_all', missedLimit: 2 }).told, [
      '2026-01-01T00:01:00Z..2026-01-01T01:38:00Z missed (missed_limit)',
      '2026-01-01T01:39:00Z fired',
      '2026-01-01T01:40:00Z fired',
      '2026-01-01T01:41:00Z fired',
    ]);
  });

  it('drop what is older than missed_window_s, and say so', () => {
    assert.deepEqual(outage({ onMissed: 'run_all', missedWindowS: 150 }).told, [
      '2026-01-01T00:01:00Z..2026-01-01T01:38:00Z missed (missed_window)',
      '2026-01-01T01:39:00Z fired',
      '2026-01-01T01:40:00Z fired',
      '2026-01-01T01:41:00Z fired',
    ]);
  });
});

describe('an outage', () => {
  it('of hours makes good for an hourly schedule once, however many hours it was', () => {
    for (const [now, until] of [
      ['2026-01-01T02:10:00Z', '2026-01-01T02:00:00Z'],
      ['2026-01-02T17:59:00Z', '2026-01-02T17:00:00Z'],
    ] as const) {
      const { told } = pass(schedule('2026-01-01T01:00:00Z', { cron: '0 * * * *' }), now);
      assert.equal(told.length, 2);
      assert.match(told[0]!, /^2026-01-01T01:00:00Z(\.\.\S+)? missed$/);
      assert.equal(told[1], `${until} fired`);
    }
  });

  it('of one slot makes good for it', () => {
    const nightly = schedule('2026-01-01T03:00:00Z', { cron: '0 3 * * *' });
    assert.deepEqual(pass(nightly, '2026-01-01T11:00:00Z'), {
      told: ['2026-01-01T03:00:00Z fired'],
      next: '2026-01-02T03:00:00Z',
    });
    assert.deepEqual(pass({ ...nightly, missedWindowS: 3_600 }, '2026-01-01T11:00:00Z').told, [
      '2026-01-01T03:00:00Z missed (missed_window)',
    ]);
  });

  it('over the night in which clocks go back, looked back upon days later, counts its slot', () => {
    const sundays = ['2026-10-18T05:30:00Z', '2026-10-25T05:30:00Z', '2026-11-01T05:30:00Z'] as const;
    const weekly = { cron: '30 1 * * 0', timeZone: 'America/New_York' };
    const outage = (overrides: Partial<ScheduleRow>): ReturnType<typeof pass> =>
      pass(schedule(sundays[0], { ...weekly, ...overrides }), '2026-11-04T12:00:00Z');
    const next = '2026-11-08T06:30:00Z';
    assert.deepEqual(outage({ onMissed: 'run_once' }), {
      told: [`${sundays[0]}..${sundays[1]} missed`, `${sundays[2]} fired`],
      next,
    });
    assert.deepEqual(outage({ onMissed: 'run_all', missedLimit: 2 }), {
      told: [`${sundays[0]} missed (missed_limit)`, `${sundays[1]} fired`, `${sundays[2]} fired`],
      next,
    });
    assert.deepEqual(outage({ onMissed: 'skip' }), { told: [`${sundays[0]}..${sundays[2]} missed`], next });
  });

  it('that ends within 10 s of a slot leaves that slot to itself', () => {
    const minutely = schedule('2026-01-01T00:01:00Z', { onMissed: 'skip' });
    assert.deepEqual(pass(minutely, '2026-01-01T00:30:05Z').told, [
      '2026-01-01T00:01:00Z..2026-01-01T00:29:00Z missed',
      '2026-01-01T00:30:00Z fired',
    ]);
  });

  it('of a week is decided by a few steps, by the second or by the minute', () => {
    const now = '2026-01-08T00:00:30.500Z';
    const started = performance.now();
    const everySecond = schedule('2026-01-01T00:00:01Z', { cron: '* * * * * *' });
    assert.deepEqual(pass(everySecond, now).told.slice(0, 2), [
      '2026-01-01T00:00:01Z..2026-01-08T00:00:19Z missed',
      '2026-01-08T00:00:20Z fired',
    ]);
    const all = pass({ ...everySecond, onMissed: 'run_all' }, now);
    assert.equal(all.told.filter((line) => line.endsWith('fired')).length, 160);
    assert.equal(all.told[0], '2026-01-01T00:00:01Z..2026-01-07T23:57:50Z missed (missed_limit)');
    assert.ok(performance.now() - started < 2_000);
  });

  it('across a night of 25 hours runs the repeated hour as the cron rule says', () => {
    const berlin = { timeZone: 'Europe/Berlin', onMissed: 'run_all' } as const;
    const halfHourly = schedule('2026-10-25T00:00:00Z', { ...berlin, cron: '30 * * * *' });
    assert.deepEqual(pass(halfHourly, '2026-10-25T03:00:00Z').told, [
      '2026-10-25T00:00:00Z fired',
      '2026-10-25T00:30:00Z fired',
      '2026-10-25T01:30:00Z fired',
      '2026-10-25T02:30:00Z fired',
    ]);
    const nightly = schedule('2026-10-25T00:30:00Z', { ...berlin, cron: '30 2 * * *' });
    assert.deepEqual(pass(nightly, '2026-10-26T12:00:00Z'), {
      told: ['2026-10-25T00:30:00Z fired', '2026-10-26T01:30:00Z fired'],
      next: '2026-10-27T01:30:00Z',
    });
  });

  it('across a night of 23 hours runs the time that was skipped once, at the end of the gap', () => {
    const nightly = schedule('2026-03-28T01:30:00Z', {
      cron: '30 2 * * *',
      timeZone: 'Europe/Berlin',
      onMissed: 'run_all',
    });
    assert.deepEqual(pass(nightly, '2026-03-30T12:00:00Z').told, [
      '2026-03-28T01:30:00Z fired',
      '2026-03-29T01:00:00Z fired',
      '2026-03-30T00:30:00Z fired',
    ]);
    assert.deepEqual(pass({ ...nightly, onDstGap: 'skip' }, '2026-03-30T12:00:00Z').told, [
      '2026-03-28T01:30:00Z fired',
      '2026-03-30T00:30:00Z fired',
    ]);
  });
});

describe('an interval', () => {
  it('is anchored at start_at and counts real time', () => {
    const started = { cron: null, timeZone: null, everyS: 7_200, startAt: at('2026-03-08T05:00:00Z') };
    const timetable = timetableOf(schedule('2026-03-08T07:00:00Z', started), 'any');
    assert.equal(iso(timetable.next(at('2026-03-08T05:00:00Z'))!), '2026-03-08T07:00:00Z');
    assert.equal(iso(timetable.next(at('2026-03-08T07:00:00Z'))!), '2026-03-08T09:00:00Z');
    assert.equal(iso(timetable.next(at('2026-03-01T00:00:00Z'))!), '2026-03-08T05:00:00Z');
    assert.equal(iso(timetable.previous(at('2026-03-08T09:00:00Z'))!), '2026-03-08T07:00:00Z');
    assert.equal(iso(timetable.previous(at('2026-03-08T09:00:00.001Z'))!), '2026-03-08T09:00:00Z');
    assert.equal(timetable.previous(at('2026-03-08T05:00:00Z')), null);
  });

  it('stays on its beat after an outage', () => {
    const beat = { cron: null, timeZone: null, everyS: 90, startAt: at('2026-01-01T00:00:00Z') };
    assert.deepEqual(pass(schedule('2026-01-01T00:01:30Z', beat), '2026-01-01T01:00:31Z'), {
      told: ['2026-01-01T00:01:30Z..2026-01-01T00:58:30Z missed', '2026-01-01T01:00:00Z fired'],
      next: '2026-01-01T01:01:30Z',
    });
  });
});

describe('a schedule', () => {
  it('names no slot before start_at or after end_at', () => {
    const bounds = { startAt: at('2026-01-01T10:00:00Z'), endAt: at('2026-01-01T10:02:00Z') };
    const timetable = timetableOf(schedule('2026-01-01T10:00:00Z', bounds), 'any');
    assert.equal(iso(timetable.next(0)!), '2026-01-01T10:00:00Z');
    assert.equal(timetable.next(at('2026-01-01T10:02:00Z')), null);
    assert.equal(iso(timetable.previous(at('2030-01-01T00:00:00Z'))!), '2026-01-01T10:02:00Z');
    assert.equal(timetable.previous(at('2026-01-01T10:00:00Z')), null);
    const last = schedule('2026-01-01T10:02:00Z', bounds);
    assert.deepEqual(pass(last, '2026-01-01T10:02:00Z'), { told: ['2026-01-01T10:02:00Z fired'], next: null });
  });

  it('ends after max_runs occurrences, not counting slots that were not run', () => {
    const limited = schedule('2026-01-01T00:01:00Z', { maxRuns: 3, runs: 1, skipSlot: at('2026-01-01T00:01:00Z') });
    const first = passOf(limited, at('2026-01-01T00:01:00Z'));
    assert.deepEqual([first.runs.map(told), first.row.runs], [['2026-01-01T00:01:00Z skipped_by_request'], 1]);
    const second = passOf(first.row, at('2026-01-01T00:03:05Z'));
    assert.deepEqual([second.row.runs, second.row.nextRunAt], [3, null]);
    assert.deepEqual(passOf(second.row, at('2027-01-01T00:00:00Z')).runs, []);
  });

  it('skips the slot that a caller named, and no other', () => {
    const row = schedule('2026-01-01T00:01:00Z', { skipSlot: at('2026-01-01T00:02:00Z') });
    const done = passOf(row, at('2026-01-01T00:02:03Z'));
    assert.deepEqual(done.runs.map(told), ['2026-01-01T00:01:00Z fired', '2026-01-01T00:02:00Z skipped_by_request']);
    assert.equal(done.row.skipSlot, null);
    // Nor one that went by in an outage, or is no slot any more.
    assert.equal(passOf(row, at('2026-01-01T01:00:00Z')).row.skipSlot, null);
  });
});

describe('a pause', () => {
  const paused = { paused: true, pausedReason: 'holidays' };

  it('decides nothing', () => {
    const row = schedule('2026-01-01T00:01:00Z', paused);
    assert.deepEqual(pass(row, '2026-02-01T00:00:00Z'), { told: [], next: '2026-01-01T00:01:00Z' });
  });

  it('ends at its until: what it left out is one row, and the slots after it are as any others', () => {
    const row = schedule('2026-01-01T00:01:00Z', { ...paused, pausedUntil: at('2026-01-01T00:10:00Z') });
    const done = passOf(row, at('2026-01-01T00:10:00Z'));
    assert.deepEqual(done.runs.map(told), [
      '2026-01-01T00:01:00Z..2026-01-01T00:09:00Z skipped_paused (schedule_paused)',
      '2026-01-01T00:10:00Z fired',
    ]);
    const { paused: isStill, pausedReason, pausedUntil } = done.row;
    assert.deepEqual([isStill, pausedReason, pausedUntil], [false, null, null]);
  });

  it('that ends in an outage leaves the slots after it to on_missed', () => {
    const row = schedule('2026-01-01T00:01:00Z', { ...paused, pausedUntil: at('2026-01-01T00:10:00Z') });
    assert.deepEqual(pass(row, '2026-01-01T00:20:30Z').told, [
      '2026-01-01T00:01:00Z..2026-01-01T00:09:00Z skipped_paused (schedule_paused)',
      '2026-01-01T00:10:00Z..2026-01-01T00:19:00Z missed',
      '2026-01-01T00:20:00Z fired',
    ]);
  });

  it('between two slots leaves out none', () => {
    const row = schedule('2026-01-02T00:00:00Z', {
      ...paused,
      cron: '0 0 * * *',
      pausedUntil: at('2026-01-01T12:00:00Z'),
    });
    assert.ok(!isPaused(row, at('2026-01-01T12:00:00Z')));
    assert.deepEqual(pass(row, '2026-01-02T00:00:00Z').told, ['2026-01-02T00:00:00Z fired']);
    assert.equal(passOf(row, at('2026-01-02T00:00:00Z')).row.paused, false);
  });
});

describe('a slot whose predecessor has not ended', () => {
  const row = schedule('2026-01-01T00:01:00Z');
  const previous = (status: Status) => jobRow('j_0123456789abc', 0, { status });
  const LIVE = [JobStatus.scheduled, JobStatus.enqueued, JobStatus.running];
  const OVER = [JobStatus.succeeded, JobStatus.cancelled, JobStatus.dead];

  it('goes by on_overlap while the other lives, and not any longer', () => {
    const plans = {
      skip: { kind: 'leave_out', reason: 'overlap' },
      queue: { kind: 'wait', replaces: false },
      allow: { kind: 'run' },
      replace: { kind: 'wait', replaces: true },
    } as const;
    for (const onOverlap of ['skip', 'queue', 'allow', 'replace'] as const) {
      for (const status of LIVE) {
        assert.deepEqual(planOverlap({ ...row, onOverlap }, previous(status), 0, false), plans[onOverlap]);
      }
      for (const other of [null, ...OVER.map(previous)]) {
        assert.deepEqual(planOverlap({ ...row, onOverlap }, other, 0, false), { kind: 'run' });
      }
    }
  });

  it('waits with 99 others at most', () => {
    const queued = { ...row, onOverlap: 'queue' } as const;
    const most = OVERLAP_WAITING_MAX;
    assert.equal(planOverlap(queued, previous('running'), most - 1, false).kind, 'wait');
    assert.deepEqual(planOverlap(queued, previous('running'), most, false), {
      kind: 'leave_out',
      reason: 'overlap_queue_full',
    });
  });

  it('waits where all missed slots are run and no two may run at once', () => {
    const all = { ...row, onMissed: 'run_all', missedLimit: 500 } as const;
    assert.deepEqual(planOverlap(all, previous('running'), 499, true), { kind: 'wait', replaces: false });
    assert.equal(planOverlap(all, previous('running'), 500, true).kind, 'leave_out');
    assert.deepEqual(planOverlap(all, previous('running'), 0, false), { kind: 'leave_out', reason: 'overlap' });
  });
});

describe('the start of an occurrence', () => {
  it('is moved by its own share of the jitter, the same whenever it is asked for', () => {
    const row = schedule('2026-01-01T00:00:00Z', { jitterS: 30 });
    const timetable = timetableOf(row, row.scheduleId);
    const slots = Array.from({ length: 200 }, (_, index) => row.nextRunAt! + index * 60_000);
    const shares = slots.map((slot) => startOf(row, timetable, slot) - slot);
    assert.deepEqual(
      shares,
      slots.map((slot) => startOf(row, timetable, slot) - slot),
    );
    assert.ok(shares.every((share) => share >= 0 && share < 30 * SECOND_MS));
    assert.ok(new Set(shares).size > 150);
  });

  it('is at a hashed second of the minute with H, and the slot stays the minute', () => {
    const row = schedule('2026-01-01T00:00:00Z', { cron: 'H * * * *' });
    const timetable = timetableOf(row, row.scheduleId);
    const slot = timetable.next(at('2026-01-01T00:00:00Z'))!;
    assert.equal(slot % 60_000, 0);
    assert.equal(startOf(row, timetable, slot), slot + timetable.startOffsetMs);
    assert.ok(timetable.startOffsetMs >= 0 && timetable.startOffsetMs < 60_000);
  });

  it('is spread by H: of 1,000 schedules the busiest minute of the hour holds 40 at most, and it stays so', () => {
    const minutes = (ids: readonly string[]): readonly number[] =>
      ids.map(
        (id) => (timetableOf(schedule('2026-01-01T00:00:00Z', { cron: 'H * * * *' }), id).next(0)! / 60_000) % 60,
      );
    for (let series = 0; series < 2; series += 1) {
      const ids = Array.from({ length: 1_000 }, (_, index) => scheduleRow(newScheduleCohort(), index % 64).scheduleId);
      const counts = Map.groupBy(minutes(ids), (minute) => minute);
      assert.ok(Math.max(...[...counts.values()].map(({ length }) => length)) <= 40);
      assert.ok(counts.size > 55);
      assert.deepEqual(minutes(ids.slice(0, 20)), minutes(ids.slice(0, 20)));
    }
    assert.deepEqual(minutes(['s_0123456789abc_00', 's_0123456789abc_01', 's_zyxwvtsrqpnmk_1z']), HASHED_MINUTES);
  });
});

/** Written down, so that another process, machine or version says the same. */
const HASHED_MINUTES = [40, 33, 42];

describe('a run that a change of the timetable went past', () => {
  const fired = (row: ScheduleRow, slot: string) =>
    occurrenceRow(
      row,
      { kind: 'run', slot: at(slot), startAt: at(slot), onOverlap: 'skip', isOpen: true, waitsFor: null },
      { now: at(slot), shards: 64, createToken: 'x' },
    );

  it('counts, and on_overlap looks at it', () => {
    const row = schedule('2026-01-02T00:00:00Z', { runs: 4, lastSlot: at('2026-01-01T00:00:00Z'), maxRuns: 5 });
    const occurrence = fired(row, '2026-01-01T09:00:00Z');
    const state = stateWithRun(row, occurrence);
    assert.equal(state?.lastJobId, occurrenceId(row.scheduleId, at('2026-01-01T09:00:00Z')));
    assert.deepEqual([state.runs, state.lastSlot, state.nextRunAt], [5, at('2026-01-01T09:00:00Z'), null]);
    assert.equal(stateWithRun({ ...row, maxRuns: 6 }, occurrence)?.nextRunAt, row.nextRunAt);
  });

  it('is not counted where the schedule knows of it or has yet to come to it', () => {
    const row = schedule('2026-01-01T09:00:00Z');
    const occurrence = fired(row, '2026-01-01T09:00:00Z');
    assert.equal(stateWithRun(row, occurrence), null);
    const known = { ...row, nextRunAt: at('2026-01-02T00:00:00Z'), lastSlot: at('2026-01-01T09:00:00Z') };
    assert.equal(stateWithRun(known, occurrence), null);
    assert.equal(stateWithRun({ ...known, lastSlot: null }, { ...occurrence, slotUntil: 1 }), null);
  });
});

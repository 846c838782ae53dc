// Design section 9, on_overlap: what becomes of a slot whose predecessor has not ended, with dispatchers that die, a reaper that looks after
// what waits, and workers that end or do not.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { JobStatus } from '../../services/core/domain/job-status.ts';
import type { JobRow } from '../../services/core/domain/job.ts';
import {
  MINUTE_MS,
  OVERLAP_FIRST_LOOK_MS,
  OVERLAP_LOOK_MS,
  OVERLAP_WAITING_MAX,
  SECOND_MS,
} from '../../services/core/domain/limits.ts';
import type { ScheduleRow } from '../../services/core/domain/schedule.ts';
import { iso } from '../support/schedule-pass.ts';
import { definitionOf, newScheduleCohort, scheduleRow } from '../support/schedule-row.ts';
import { ScheduleWorld, type ProcessOptions } from '../support/schedule-world.ts';

const START = Date.parse('2026-11-15T06:00:30Z');
const at = (text: string): number => Date.parse(`2026-11-15T${text}Z`);
const slot = (text: string, rest = 'fired'): string => `2026-11-15T${text}Z ${rest}`;

function minutely(overrides: Partial<ScheduleRow> = {}): ScheduleRow {
  return scheduleRow(newScheduleCohort(), 0, { nextRunAt: at('06:01:00'), ...overrides });
}

/** A worker takes whatever has its message, and nothing ends unless a test says so. */
function beginAll(world: ScheduleWorld, schedule: ScheduleRow): void {
  const messages = world.published();
  for (const row of world.occurrences(schedule)) {
    if (row.status === JobStatus.enqueued && messages.has(row.jobId)) world.begin(row);
  }
}

async function runWithWorker(world: ScheduleWorld, schedule: ScheduleRow, seconds: number): Promise<void> {
  for (let second = 0; second < seconds; second += 1) {
    await world.run(1);
    beginAll(world, schedule);
    assert.ok(running(world, schedule).length <= 1, `two at once at ${iso(world.clock.now())}`);
  }
}

const running = (world: ScheduleWorld, schedule: ScheduleRow): readonly JobRow[] =>
  world.occurrences(schedule).filter(({ status }) => status === JobStatus.running);

const slotsOf = (rows: readonly JobRow[]): readonly string[] =>
  rows.map(({ scheduledFor }) => iso(scheduledFor).slice(11, 19));

describe('R046 on_overlap skip', () => {
  /** Two dispatchers; the first occurrence lasts three slots. */
  async function threeSlots(killedAt: ProcessOptions['killedAt'] | null): Promise<number> {
    const schedule = minutely({ onOverlap: 'skip' });
    const world = new ScheduleWorld(START);
    world.add(schedule);
    const mortal = await world.startDispatcher(killedAt === null || killedAt === undefined ? {} : { killedAt });
    await world.startDispatcher({ aheadMs: -2 * SECOND_MS });
    await runWithWorker(world, schedule, 190);
    const [first] = world.occurrences(schedule);
    await world.end(first!);
    await runWithWorker(world, schedule, 60);
    assert.deepEqual(world.told(schedule), [
      slot('06:01:00'),
      slot('06:02:00', 'skipped_overlap (overlap)'),
      slot('06:03:00', 'skipped_overlap (overlap)'),
      slot('06:04:00'),
    ]);
    return mortal.calls.length;
  }

  it('lets one run, and tells the slots that it skipped', async () => {
    assert.ok((await threeSlots(null)) > 20);
  });

  for (const effect of ['lost', 'taken'] as const) {
    it(`lets one run, whichever call of a dispatcher between create and record is its last (${effect})`, async () => {
      const calls = await threeSlots(null);
      for (let call = 1; call <= calls; call += 1) await threeSlots({ call, effect });
    });
  }
});

describe('R044 a schedule that is put again and again', () => {
  it('has one pending run for its slot, however often it is put around that slot', async () => {
    const schedule = minutely({ onOverlap: 'allow' });
    const world = new ScheduleWorld(START);
    world.add(schedule);
    await world.startDispatcher();
    await world.startDispatcher();
    await world.run(25);
    for (let again = 0; again < 20; again += 1) {
      const row = world.schedule(schedule)!;
      const target = { owner: row.owner, schedule: row.scheduleId, revision: null };
      // Every other time with another label, so that it is written.
      const definition = { ...definitionOf(row), labels: again % 2 === 0 ? { release: String(again) } : row.labels };
      const result = world.startCaller().changer.put(target, row, definition);
      await world.run(1);
      assert.ok((await result).ok);
    }
    assert.deepEqual(world.told(schedule), [slot('06:01:00')]);
    assert.deepEqual([...world.published().values()], [1]);
    assert.equal(world.schedule(schedule)?.runs, 1);
  });

  it('has one pending run where it is deleted and made again within one slot', async () => {
    const schedule = minutely({ onOverlap: 'allow' });
    const world = new ScheduleWorld(START);
    world.add(schedule);
    await world.startDispatcher();
    await world.run(20);
    const target = { owner: schedule.owner, schedule: schedule.scheduleId, revision: null };
    assert.ok((await world.clock.until(world.startCaller().changer.remove(target, true))).ok);
    const again = minutely({ onOverlap: 'allow' });
    world.add(again);
    await world.run(20);
    assert.deepEqual([world.told(schedule), world.told(again)], [[], [slot('06:01:00')]]);
    assert.equal(world.published().size, 1);
  });
});

describe('on_overlap replace', () => {
  it('asks a running predecessor to stop, and starts when it has', async () => {
    const schedule = minutely({ onOverlap: 'replace' });
    const world = new ScheduleWorld(START);
    world.add(schedule);
    await world.startDispatcher();
    world.startReaper();
    await runWithWorker(world, schedule, 95);
    const [first, second] = world.occurrences(schedule);
    assert.deepEqual([first?.status, first?.cancelRequested], [JobStatus.running, true]);
    assert.deepEqual([second?.status, second?.waitsFor], [JobStatus.scheduled, first?.jobId]);
    await world.end(first!);
    await runWithWorker(world, schedule, 3);
    assert.deepEqual(slotsOf(running(world, schedule)), ['06:02:00']);
    assert.deepEqual(world.told(schedule), [slot('06:01:00'), slot('06:02:00')]);
  });

  it('cancels one that waits at once: of all that came meanwhile the latest runs', async () => {
    const schedule = minutely({ onOverlap: 'replace' });
    const world = new ScheduleWorld(START);
    world.add(schedule);
    await world.startDispatcher();
    world.startReaper();
    await runWithWorker(world, schedule, 4 * 60);
    const rows = world.occurrences(schedule);
    assert.deepEqual(
      rows.map(({ status, reason }) => [status, reason]),
      [
        [JobStatus.running, null],
        [JobStatus.cancelled, 'replaced'],
        [JobStatus.cancelled, 'replaced'],
        [JobStatus.scheduled, null],
      ],
    );
    await world.end(rows[0]!, false);
    await runWithWorker(world, schedule, Math.ceil(OVERLAP_LOOK_MS / SECOND_MS) + 5);
    assert.ok(['06:04:00', '06:05:00'].includes(slotsOf(running(world, schedule))[0]!));
  });

  it('needs nobody to stop where the predecessor ended by itself meanwhile', async () => {
    const schedule = minutely({ onOverlap: 'replace' });
    const world = new ScheduleWorld(START);
    world.add(schedule);
    await world.startDispatcher();
    await runWithWorker(world, schedule, 40);
    await world.end(world.occurrences(schedule)[0]!);
    await runWithWorker(world, schedule, 60);
    assert.deepEqual(slotsOf(running(world, schedule)), ['06:02:00']);
  });
});

describe('on_overlap queue', () => {
  const everySecond = { cron: '* * * * * *', nextRunAt: at('06:00:31'), onOverlap: 'queue' } as const;

  it('lets 100 wait, drops what comes beyond and says so, and runs them one by one in order', async () => {
    const schedule = minutely({ ...everySecond, endAt: at('06:02:30') });
    const world = new ScheduleWorld(START);
    world.add(schedule);
    await world.startDispatcher();
    world.startReaper();
    await runWithWorker(world, schedule, 130);
    const told = world.told(schedule);
    assert.equal(told.length, 120);
    assert.equal(told.filter((line) => line.endsWith('fired')).length, 1 + OVERLAP_WAITING_MAX);
    assert.deepEqual(
      new Set(told.slice(1 + OVERLAP_WAITING_MAX).map((line) => line.slice(21))),
      new Set(['skipped_overlap (overlap_queue_full)']),
    );
    const order: string[] = [];
    for (let ended = 0; ended <= OVERLAP_WAITING_MAX; ended += 1) {
      const [now] = running(world, schedule);
      assert.ok(now !== undefined, `after ${order.at(-1)} none was started`);
      order.push(iso(now.scheduledFor));
      await world.end(now);
      await runWithWorker(world, schedule, 2);
    }
    assert.deepEqual(
      order,
      Array.from({ length: 1 + OVERLAP_WAITING_MAX }, (_, index) => iso(at('06:00:31') + index * SECOND_MS)),
    );
    assert.deepEqual(world.live(schedule), []);
  });

  it('goes on where whoever ended the predecessor did not live to hurry the next', async () => {
    const schedule = minutely({ onOverlap: 'queue', endAt: at('06:03:00') });
    const world = new ScheduleWorld(START);
    world.add(schedule);
    await world.startDispatcher();
    world.startReaper();
    await runWithWorker(world, schedule, 170);
    assert.deepEqual(slotsOf(running(world, schedule)), ['06:01:00']);
    const startedAfter: number[] = [];
    for (const next of ['06:02:00', '06:03:00']) {
      const [now] = running(world, schedule);
      const endedAt = world.clock.now();
      await world.end(now!, false);
      while (running(world, schedule).length === 0) {
        assert.ok(world.clock.now() - endedAt <= OVERLAP_LOOK_MS + 10 * SECOND_MS, `${next} was not started`);
        await runWithWorker(world, schedule, 1);
      }
      assert.deepEqual(slotsOf(running(world, schedule)), [next]);
      startedAfter.push(world.clock.now() - endedAt);
    }
    assert.ok(Math.max(...startedAfter) >= OVERLAP_FIRST_LOOK_MS / 2, 'its timer did it, not a hurry');
  });

  it('lets those go that were cancelled while they waited, and the next one waits on', async () => {
    const schedule = minutely({ onOverlap: 'queue' });
    const world = new ScheduleWorld(START);
    world.add(schedule);
    await world.startDispatcher();
    world.startReaper();
    await runWithWorker(world, schedule, 160);
    const [first, second, third] = world.occurrences(schedule);
    world.stores.rows.set(second!.jobId, { ...second!, status: JobStatus.cancelled, finishedAt: world.clock.now() });
    await runWithWorker(world, schedule, 90);
    assert.deepEqual(slotsOf(running(world, schedule)), ['06:01:00'], 'the one before the cancelled one still runs');
    await world.end(first!);
    await runWithWorker(world, schedule, Math.ceil((OVERLAP_LOOK_MS + MINUTE_MS) / SECOND_MS));
    assert.deepEqual(slotsOf(running(world, schedule)), [iso(third!.scheduledFor).slice(11, 19)]);
  });
});

describe('a slot whose last predecessor was cancelled while it waited', () => {
  for (const onOverlap of ['queue', 'replace'] as const) {
    it(`waits for the one before that, which runs: ${onOverlap}`, async () => {
      const schedule = minutely({ onOverlap });
      const world = new ScheduleWorld(START);
      world.add(schedule);
      await world.startDispatcher();
      await runWithWorker(world, schedule, 100);
      const [first, second] = world.occurrences(schedule);
      assert.deepEqual([first!.status, second!.status], [JobStatus.running, JobStatus.scheduled]);
      const finishedAt = world.clock.now();
      world.stores.rows.set(second!.jobId, { ...second!, status: JobStatus.cancelled, finishedAt });
      await runWithWorker(world, schedule, 60);
      const third = world.occurrences(schedule)[2];
      assert.deepEqual([third?.status, third?.waitsFor], [JobStatus.scheduled, first!.jobId]);
      await world.end(world.occurrences(schedule)[0]!);
      await runWithWorker(world, schedule, 10);
      assert.deepEqual(slotsOf(running(world, schedule)), ['06:03:00']);
    });
  }
});

describe('on_overlap allow', () => {
  it('starts each at its time, whatever runs', async () => {
    const schedule = minutely({ onOverlap: 'allow' });
    const world = new ScheduleWorld(START);
    world.add(schedule);
    await world.startDispatcher();
    await world.run(160);
    for (const row of world.occurrences(schedule)) world.begin(row);
    assert.deepEqual(slotsOf(running(world, schedule)), ['06:01:00', '06:02:00', '06:03:00']);
  });
});

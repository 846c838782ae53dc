// Design section 6, rules 1 to 3: the pause stands at the await where it hurts, on the clock that shows it.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import {
  DAY_MS,
  DEADLINE_CLEARANCE_MS,
  DUE_MINUTE_PASSED_MS,
  HOUR_MS,
  MINUTE_MS,
  OPERATION_DEADLINE_MS,
  UNAVAILABLE_WAIT_MS,
  TRAILING_READ_EVERY_MS,
  SECOND_MS,
} from '../../services/core/domain/limits.ts';
import type { DeadlineEntry, DueEntry } from '../../services/core/domain/operation.ts';
import { StoreError } from '../../services/core/ports/store-error.ts';
import { Timers } from '../../services/core/timers/timers.ts';
import { FAKE_START, FakeClock } from '../support/fake-clock.ts';
import { MemoryStores } from '../support/memory-store.ts';

/** FAKE_START is the first instant of a minute. */
const dueAt = (runAt: number, member = 0): DueEntry => ({
  jobId: `j_0123456789abc_0${member}`,
  shard: 3,
  runAt,
  queue: 'mail',
  priority: 'normal',
  attempt: 0,
  direct: false,
});
const deadlineAt = (at: number, member = 0): DeadlineEntry => ({
  jobId: `j_0123456789abc_0${member}`,
  shard: 3,
  at,
  publishedAt: null,
});

function bench(isClockRight = (): boolean => true) {
  const clock = new FakeClock();
  const stores = new MemoryStores({ clock });
  const hinted: DueEntry[] = [];
  const hints = { send: (rows: readonly DueEntry[]) => void hinted.push(...rows), listen: () => () => undefined };
  return {
    clock,
    stores,
    hinted,
    timers: new Timers({ store: stores.timers, hints, clock, isClockRight }),
    due: () => stores.due.all().map(({ runAt }) => runAt - FAKE_START),
    deadlines: () => stores.deadlines.all().map(({ at }) => at - FAKE_START),
  };
}

describe('rule 1', () => {
  it('writes a timer at the time wanted, or now when that is past, and says what it wrote', async () => {
    const { timers, clock, due, deadlines } = bench();
    const wanted = [-HOUR_MS, -1, 0, 1, 365 * DAY_MS, 2 ** 31];
    const expected = [0, 0, 0, 1, 365 * DAY_MS, 2 ** 31];
    const rows = await clock.until(timers.armDue(wanted.map((ms, member) => dueAt(FAKE_START + ms, member))));
    assert.deepEqual(
      rows.entries.map(({ runAt }) => runAt - FAKE_START),
      expected,
    );
    assert.deepEqual(due().toSorted(), expected.toSorted());
    const looks = await clock.until(
      timers.armDeadlines([deadlineAt(FAKE_START - 1), deadlineAt(FAKE_START + DAY_MS, 1)]),
    );
    assert.deepEqual(
      looks.entries.map(({ at }) => at - FAKE_START),
      [0, DAY_MS],
    );
    assert.ok(deadlines().includes(0) && deadlines().includes(DAY_MS));
  });

  it('acknowledges when the store has, repeating a write that may have failed', async () => {
    for (const kind of ['answer_lost', 'request_lost', 'unavailable', 'overloaded'] as const) {
      const { timers, clock, stores, due } = bench();
      stores.failNext('timers.writeDue', { kind });
      stores.failNext('timers.writeDue', { kind });
      stores.failNext('timers.writeDue', { kind: 'slow', afterMs: 3_000 });
      await clock.until(timers.armDue([dueAt(FAKE_START + HOUR_MS)]));
      assert.deepEqual(due(), [HOUR_MS]);
      assert.ok(clock.now() >= FAKE_START + 3_000);
    }
  });

  it('gives up after a bounded time, by either clock, and at once what can never be written', async () => {
    for (const [kind, givesUpAtOnce, waitsMs] of [
      ['unavailable', false, UNAVAILABLE_WAIT_MS],
      ['unavailable', true, 0],
      ['request_lost', false, OPERATION_DEADLINE_MS],
      ['request_lost', true, 0],
      // Elsewhere is no better.
      ['overloaded', true, OPERATION_DEADLINE_MS],
    ] as const) {
      const clock = new FakeClock();
      const stores = new MemoryStores({ clock, plan: () => ({ kind }) });
      const hints = { send: () => undefined, listen: () => () => undefined };
      const timers = new Timers({ store: stores.timers, hints, clock });
      const arm = (): Promise<unknown> => timers.armDue([dueAt(FAKE_START)], { givesUpAtOnce });
      await assert.rejects(clock.until(arm()), StoreError);
      const tookMs = clock.now() - FAKE_START;
      assert.ok(tookMs >= waitsMs && tookMs < waitsMs + SECOND_MS, `${kind}: ${tookMs} ms`);

      const suspended = assert.rejects(arm(), StoreError);
      await clock.advance(0);
      clock.step({ wallMs: HOUR_MS });
      await clock.until(suspended, SECOND_MS);
    }

    const refusing = bench();
    refusing.stores.failNext('timers.writeDue', { kind: 'invalid' });
    await assert.rejects(refusing.timers.armDue([dueAt(FAKE_START)]), StoreError);
    assert.equal(refusing.stores.calls.length, 1);
  });
});

describe('timers of a machine whose clock is wrong', () => {
  function wrongClockBench(rightAfterMs: number) {
    const clock = new FakeClock();
    const stores = new MemoryStores({ clock });
    const hints = { send: () => undefined, listen: () => () => undefined };
    const isClockRight = (): boolean => clock.now() >= FAKE_START + rightAfterMs;
    return { clock, stores, timers: new Timers({ store: stores.timers, hints, clock, isClockRight }) };
  }

  it('are chosen once the clock is right', async () => {
    const { clock, stores, timers } = wrongClockBench(SECOND_MS);
    await clock.until(timers.armDue([dueAt(FAKE_START)]));
    await clock.until(timers.armDeadlines([deadlineAt(FAKE_START)]));
    const [due] = stores.due.all();
    assert.equal(due?.runAt, FAKE_START + SECOND_MS);
    assert.ok(stores.deadlines.all().every(({ at }) => at >= FAKE_START + SECOND_MS));
  });

  it('are refused when that takes long, and nothing is written', async () => {
    const { clock, stores, timers } = wrongClockBench(HOUR_MS);
    const unavailable = { kind: 'unavailable' };
    await assert.rejects(clock.until(timers.armDue([dueAt(FAKE_START)])), unavailable);
    await assert.rejects(clock.until(timers.armDeadlines([deadlineAt(FAKE_START)])), unavailable);
    await assert.rejects(clock.until(timers.afterDispatch([dueAt(FAKE_START)])), unavailable);
    assert.deepEqual(stores.calls, []);
  });
});

describe('rule 2', () => {
  /** Arms while each write of the row stands still so long, on the wall clock, before it lands. */
  async function armed(table: 'due' | 'deadlines', wantedMs: readonly number[], stallsMs: readonly number[]) {
    const left = [...stallsMs];
    const clock = new FakeClock();
    const stores = new MemoryStores({
      clock,
      plan: () => {
        clock.step({ wallMs: left.shift() ?? 0 });
        return undefined;
      },
    });
    const hints = { send: () => undefined, listen: () => () => undefined };
    const timers = new Timers({ store: stores.timers, hints, clock });
    const at = wantedMs.map((ms) => FAKE_START + ms);
    if (table === 'due') {
      const { entries } = await clock.until(timers.armDue(at.map(dueAt)));
      return { rows: stores.due.all().map(({ runAt }) => runAt), entries: entries.map(({ runAt }) => runAt) };
    }
    const { entries } = await clock.until(timers.armDeadlines(at.map(deadlineAt)));
    return { rows: stores.deadlines.all().map((row) => row.at), entries: entries.map((row) => row.at) };
  }

  const passed = MINUTE_MS + DUE_MINUTE_PASSED_MS;
  const CASES: readonly {
    readonly table: 'due' | 'deadlines';
    readonly what: string;
    readonly wantedMs: readonly number[];
    readonly stallsMs: readonly number[];
    readonly rowsMs: readonly number[];
  }[] = [
    { table: 'due', what: 'in time', wantedMs: [0], stallsMs: [], rowsMs: [0] },
    { table: 'due', what: 'just in time', wantedMs: [0], stallsMs: [passed], rowsMs: [0] },
    { table: 'due', what: 'too late', wantedMs: [0], stallsMs: [passed + 1], rowsMs: [0, passed + 1 + 10_000] },
    {
      table: 'due',
      what: 'too late twice',
      wantedMs: [0],
      stallsMs: [HOUR_MS, HOUR_MS],
      rowsMs: [0, HOUR_MS + 10_000, 2 * HOUR_MS + 10_000],
    },
    {
      table: 'due',
      what: 'too late for one of two',
      wantedMs: [MINUTE_MS - 1, MINUTE_MS],
      stallsMs: [passed + 1],
      rowsMs: [MINUTE_MS - 1, MINUTE_MS, passed + 1 + 10_000],
    },
    { table: 'deadlines', what: 'in time', wantedMs: [30_000], stallsMs: [], rowsMs: [30_000] },
    {
      table: 'deadlines',
      what: 'just in time',
      wantedMs: [30_000],
      stallsMs: [30_000 - DEADLINE_CLEARANCE_MS],
      rowsMs: [30_000],
    },
    {
      table: 'deadlines',
      what: 'too late',
      wantedMs: [30_000],
      stallsMs: [30_001 - DEADLINE_CLEARANCE_MS],
      rowsMs: [30_000, 29_001 + 10_000],
    },
    {
      table: 'deadlines',
      what: 'too late twice, for one of two',
      wantedMs: [30_000, 2 * HOUR_MS],
      stallsMs: [40_000, 9_500],
      rowsMs: [30_000, 2 * HOUR_MS, 50_000, 59_500],
    },
  ];
  for (const { table, what, wantedMs, stallsMs, rowsMs } of CASES) {
    it(`${table}: acknowledged ${what}`, async () => {
      const { rows, entries } = await armed(table, wantedMs, stallsMs);
      assert.deepEqual(
        rows.map((at) => at - FAKE_START).toSorted((one, other) => one - other),
        rowsMs.toSorted((one, other) => one - other),
      );
      // What was rewritten is a spare: the job's time stays the one first written.
      assert.deepEqual(
        entries.map((at) => at - FAKE_START),
        wantedMs,
      );
    });
  }
});

describe('rule 3', () => {
  const PAUSES: readonly (readonly [string, { wallMs?: number; monotonicMs?: number }, number | null])[] = [
    ['20 s', { wallMs: 20_000, monotonicMs: 20_000 }, null],
    ['a stall of more than 20 s', { wallMs: 20_001, monotonicMs: 20_001 }, 80_001],
    ['a suspended machine, whose monotonic clock stood still', { wallMs: 200_000 }, 260_000],
    ['a wall clock set back during a stall', { wallMs: -HOUR_MS, monotonicMs: 21_000 }, MINUTE_MS - HOUR_MS],
  ];
  for (const [what, pause, spareMs] of PAUSES) {
    it(`after ${what}: ${spareMs === null ? 'nothing' : 'another deadline row a minute from now'}`, async () => {
      const { timers, clock, deadlines } = bench();
      const { chosenAt } = await clock.until(timers.armDue([dueAt(FAKE_START + HOUR_MS)]));
      clock.step(pause);
      await clock.until(timers.afterRound(chosenAt, [{ jobId: 'j_0123456789abc_00', shard: 3 }]));
      assert.deepEqual(deadlines(), spareMs === null ? [] : [spareMs]);
    });
  }

  it('is done by a clock that is not trusted, however short it calls the time', async () => {
    let isRight = true;
    const { timers, clock, deadlines } = bench(() => isRight);
    const { chosenAt } = await clock.until(timers.armDue([dueAt(FAKE_START + HOUR_MS)]));
    isRight = false;
    clock.after(SECOND_MS, () => (isRight = true));
    await clock.until(timers.afterRound(chosenAt, [{ jobId: 'j_0123456789abc_00', shard: 3 }]));
    assert.deepEqual(deadlines(), [SECOND_MS + MINUTE_MS]);
  });

  it('is not done before its row is acknowledged', async () => {
    const { timers, clock, stores, deadlines } = bench();
    const { chosenAt } = await clock.until(timers.armDue([dueAt(FAKE_START + HOUR_MS)]));
    clock.step({ wallMs: 200_000 });
    stores.failNext('timers.writeDeadlines', { kind: 'request_lost' });
    stores.failNext('timers.writeDeadlines', { kind: 'slow', afterMs: 1_000 });
    await clock.until(timers.afterRound(chosenAt, [dueAt(0), dueAt(0, 1)]));
    assert.equal(deadlines().length, 2);
  });

  it('goes by the minute of the due row where that is the timer', async () => {
    const { timers, clock, stores, deadlines } = bench();
    const passed = MINUTE_MS + DUE_MINUTE_PASSED_MS;
    clock.step({ wallMs: passed });
    await clock.until(timers.afterDispatch([dueAt(FAKE_START)]));
    assert.deepEqual(deadlines(), []);
    clock.step({ wallMs: 1 });
    await clock.until(timers.afterDispatch([dueAt(FAKE_START), dueAt(FAKE_START + MINUTE_MS, 1)]));
    assert.deepEqual(deadlines(), [passed + 1 + MINUTE_MS]);
    assert.deepEqual(
      stores.deadlines.all().map(({ jobId }) => jobId),
      ['j_0123456789abc_00'],
    );
  });
});

describe('a hint', () => {
  it('tells of rows that the next tick could find late, and of no other', () => {
    const { timers, hinted } = bench();
    const rows = [-1_000, 0, TRAILING_READ_EVERY_MS - 1, TRAILING_READ_EVERY_MS, HOUR_MS].map((ms, index) =>
      dueAt(FAKE_START + ms, index),
    );
    timers.hint([...rows, { ...dueAt(FAKE_START, 9), direct: true }]);
    assert.deepEqual(hinted, rows.slice(0, 3));
  });
});

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import {
  DAY_MS,
  HOUR_MS,
  MINUTE_MS,
  NEWEST_ROWS_MAX,
  SECOND_MS,
  TRAILING_EDGE_MS,
  TRAILING_READ_EVERY_MS,
} from '../../services/core/domain/limits.ts';
import { RowPool } from '../../services/core/scan/row-pool.ts';
import { ShardScanner } from '../../services/core/scan/shard-scanner.ts';
import { FAKE_START } from '../support/fake-clock.ts';
import { RowSource, type TimerRow } from '../support/row-source.ts';

const noPause = (): void => undefined;

function bench(options: { capacity?: number; from?: number } = {}) {
  const source = new RowSource();
  const scanner = new ShardScanner<TimerRow>({
    source,
    shard: 0,
    from: options.from ?? FAKE_START,
    readAheadMs: 2 * SECOND_MS,
    capacity: options.capacity ?? 20_000,
  });
  let made = 0;
  return {
    source,
    scanner,
    /** A row that has landed, so many ms after the start. */
    row: (afterMs: number, id = `row-${(made += 1)}`): TimerRow => {
      const row = { id, at: FAKE_START + afterMs };
      source.rows.add(row);
      return row;
    },
    /** Reads, and settles all that is due; returns their ids. */
    handle: async (afterMs: number): Promise<readonly string[]> => {
      await scanner.read(FAKE_START + afterMs, noPause);
      const due = scanner.takeDue(FAKE_START + afterMs, Infinity);
      for (const held of due) scanner.settle(held);
      return due.map((held) => held.row.id);
    },
  };
}

describe('the scanner of a shard', () => {
  it('holds what lies ahead until its millisecond, and reads no further ahead than it is told', async () => {
    const { scanner, row } = bench();
    const near = row(1_500);
    row(2_001);
    row(2 ** 31);
    await scanner.read(FAKE_START, noPause);
    assert.equal(scanner.nextFireAt(), near.at);
    assert.deepEqual(scanner.takeDue(near.at - 1, 10), []);
    assert.deepEqual(scanner.takeDue(near.at, 10), [
      // Nothing of the farther rows: one of them is due in 24.8 days.
      { row: near, at: near.at, key: `${near.id} ${near.at}`, lane: '', late: false, fireAt: near.at, settled: false },
    ]);
    assert.equal(scanner.nextFireAt(), null);
  });

  it('takes up where the cursor stands, minute by minute, whatever the outage', async () => {
    const { source, handle, row, scanner } = bench({ from: FAKE_START - DAY_MS });
    for (let hours = 24; hours > 0; hours--) row(-hours * HOUR_MS, `${hours} h`);
    source.rows.add({ id: 'before the cursor', at: FAKE_START - DAY_MS - 1 });
    assert.deepEqual(
      await handle(0),
      Array.from({ length: 24 }, (_, index) => `${24 - index} h`),
    );
    assert.equal(scanner.position(), FAKE_START - TRAILING_EDGE_MS);
  });

  it('lets each minute of an outage be handled before the next is read', async () => {
    const { scanner, row } = bench({ from: FAKE_START - 3 * MINUTE_MS });
    for (const minutes of [3, 1]) row(-minutes * MINUTE_MS, `${minutes} min`);
    const handled: string[][] = [];
    await scanner.read(FAKE_START, async () => {
      await Promise.resolve();
      const due = scanner.takeDue(FAKE_START, 10);
      handled.push(due.map((held) => held.row.id));
      for (const held of due) scanner.settle(held);
    });
    assert.deepEqual(handled, [['3 min'], [], ['1 min'], []]);
  });

  it('tells what was due long before it began from what it reads late itself', async () => {
    const { scanner, row } = bench({ from: FAKE_START - MINUTE_MS });
    row(-TRAILING_EDGE_MS - 1, 'late');
    row(-TRAILING_EDGE_MS, 'in time');
    await scanner.read(FAKE_START, noPause);
    assert.deepEqual(
      scanner.takeDue(FAKE_START, 10).map(({ row: { id }, late }) => [id, late]),
      [
        ['late', true],
        ['in time', false],
      ],
    );
    row(1_000, 'ours');
    await scanner.read(FAKE_START + MINUTE_MS, noPause);
    assert.deepEqual(
      scanner.takeDue(FAKE_START + MINUTE_MS, 10).map(({ row: { id }, late }) => [id, late]),
      [['ours', false]],
    );
  });

  it('hands out as many late rows as are wanted, and what is not late in its turn', async () => {
    const { scanner, row } = bench({ from: FAKE_START - MINUTE_MS });
    for (const before of [30, 20, 10]) row(-before * SECOND_MS, `late ${before}`);
    row(-1, 'in time');
    await scanner.read(FAKE_START, noPause);
    const take = (mostLate: number) => scanner.takeDue(FAKE_START, 10, '', mostLate).map(({ row: { id } }) => id);
    assert.deepEqual([take(0), take(2), take(2)], [[], ['late 30', 'late 20'], ['late 10', 'in time']]);
  });

  it('finds rows written while it stood still for times that it had read already', async () => {
    const { handle, row } = bench();
    assert.deepEqual(await handle(0), []);
    // Ten seconds without the lease, or without an answer from the store.
    row(-TRAILING_EDGE_MS, 'landed late');
    row(500, 'in time');
    row(1_999, 'just below where it had read to');
    row(2_001, 'beyond');
    assert.deepEqual(await handle(10_000), ['landed late', 'in time', 'just below where it had read to', 'beyond']);
  });

  it('finds a row that lands late while it is full, once it has room again', async () => {
    const { scanner, handle, row } = bench({ capacity: 2 });
    row(1_000);
    row(1_001);
    await scanner.read(FAKE_START, noPause);
    const [first, second] = scanner.takeDue(FAKE_START + 1_001, 10);
    row(900, 'landed late');
    for (let afterMs = 2_000; afterMs <= 60_000; afterMs += 1_000) assert.deepEqual(await handle(afterMs), []);
    assert.ok(scanner.position() <= FAKE_START + 900);
    scanner.settle(first!);
    scanner.settle(second!);
    assert.deepEqual(await handle(61_000), ['landed late']);
  });

  it('hands out more rows of one millisecond than it can hold', async () => {
    const { handle, row, scanner } = bench({ capacity: 100 });
    const ids = Array.from({ length: 1_001 }, (_, index) => row(500, `row-${String(index).padStart(4, '0')}`).id);
    const handled: string[] = [];
    for (let reads = 0; reads < 11; reads++) {
      const some = await handle(1_000 + reads);
      assert.ok(some.length <= 100);
      handled.push(...some);
    }
    assert.deepEqual(handled.toSorted(), ids);
    assert.deepEqual(await handle(5_000), []);
    assert.equal(scanner.position(), FAKE_START + 5_000 - TRAILING_EDGE_MS);
  });

  it('reads a row a few times, and finds one that lands late within seconds', async () => {
    const { source, handle, row } = bench();
    for (let afterMs = 0; afterMs < 60_000; afterMs += 100) row(afterMs);
    const foundAfter: number[] = [];
    for (let afterMs = 0; afterMs < 60_000; afterMs += 1_000) {
      row(afterMs - 500, `late ${afterMs}`);
      for (const id of await handle(afterMs)) if (id.startsWith('late')) foundAfter.push(afterMs - Number(id.slice(5)));
    }
    assert.ok(source.given < 4 * source.rows.size, `${source.given} rows read of ${source.rows.size}`);
    assert.ok(foundAfter.length >= 57 && Math.max(...foundAfter) < TRAILING_READ_EVERY_MS, String(foundAfter));
  });

  it('goes on where a failed read broke off', async () => {
    const { source, handle, row } = bench({ from: FAKE_START - 3 * MINUTE_MS });
    for (let minutes = 3; minutes >= 0; minutes--) row(-minutes * MINUTE_MS, `${minutes} min`);
    source.pagesLeft = 2;
    await assert.rejects(handle(0), /could not be read/);
    assert.deepEqual(await handle(0), ['3 min', '2 min', '1 min', '0 min']);
  });

  it('hands no row out twice where a read broke off behind the place that it had once been full at', async () => {
    const source = new RowSource(3);
    const scanner = new ShardScanner<TimerRow>({ source, shard: 0, from: FAKE_START, readAheadMs: 0, capacity: 3 });
    const land = (...afterMs: readonly number[]): void => {
      for (const ms of afterMs) source.rows.add({ id: `row-${ms}`, at: FAKE_START + ms });
    };
    const due = (afterMs: number) => scanner.takeDue(FAKE_START + afterMs, Infinity);
    land(9_000, 9_001, 9_002, 9_010);
    await scanner.read(FAKE_START + 10_000, noPause);
    const first = due(10_000);
    for (const held of first) scanner.settle(held);
    land(9_020, 9_030, 15_000);
    source.pagesLeft = 2;
    await assert.rejects(scanner.read(FAKE_START + 15_500, noPause));
    const second = due(15_500);
    await scanner.read(FAKE_START + 16_500, noPause);
    for (const held of second) scanner.settle(held);
    await scanner.read(FAKE_START + 17_500, noPause);
    assert.deepEqual(
      [...first, ...second, ...due(17_500)].map(({ row }) => row.at - FAKE_START),
      [9_000, 9_001, 9_002, 9_010, 9_020, 9_030, 15_000],
    );
  });

  it('reads what is written after the wall clock was set back', async () => {
    const { handle, row } = bench();
    await handle(HOUR_MS);
    row(1_000, 'now');
    assert.deepEqual(await handle(1_000), ['now']);
  });

  it('finds what was due behind a flood before it began, and what is due since', async () => {
    const { scanner, source, row } = bench({ capacity: 10, from: FAKE_START - MINUTE_MS });
    for (let flood = 0; flood < 50; flood += 1) row(-30_000, `flood ${flood}`);
    for (const before of [20_000, 8_000, 500]) row(-before, `other ${before}`);
    const others = (now: number) =>
      scanner
        .takeDue(now, 100)
        .map(({ row: { id } }) => id)
        .filter((id) => id.startsWith('other'));
    await scanner.read(FAKE_START, noPause);
    assert.deepEqual(others(FAKE_START), ['other 20000', 'other 8000', 'other 500']);
    const { given } = source;
    row(900, 'other later');
    await scanner.read(FAKE_START + 1_000, noPause);
    assert.deepEqual(others(FAKE_START + 1_000), ['other later']);
    assert.ok(source.given - given <= 3, `${source.given - given} rows read`);
  });

  it('of many shards that wait for room only as many read as there is room for', async () => {
    const pool = new RowPool(2_000);
    const source = new RowSource(1_000);
    const rows = Array.from({ length: 10_000 }, (_, index) => ({ id: `row-${index}`, at: FAKE_START - 10_000 }));
    for (const row of rows) source.rows.add(row);
    const scanners = Array.from({ length: 8 }, () => {
      return new ShardScanner({ source, shard: 0, from: FAKE_START - 20_000, readAheadMs: 0, capacity: 1_000, pool });
    });
    const handled = new Map(scanners.map((scanner) => [scanner, 0]));
    for (let beat = 0; beat < 150; beat += 1) {
      const now = FAKE_START + beat * 100;
      await Promise.all(
        scanners.map(async (scanner) => {
          if (beat === 0 || scanner.hasRoomAgain()) await scanner.read(now, noPause);
          for (const held of scanner.takeDue(now, 100)) {
            scanner.settle(held);
            handled.set(scanner, (handled.get(scanner) ?? 0) + 1);
          }
        }),
      );
    }
    assert.deepEqual([...new Set(handled.values())], [rows.length]);
    assert.equal(pool.room, 2_000);
    assert.ok(source.given < 2 * scanners.length * rows.length, `${source.given} rows read of ${rows.length}`);
  });

  it('takes a hint once', async () => {
    const { scanner, source, handle } = bench();
    const hinted = { id: 'hinted', at: FAKE_START + 100 };
    assert.equal(scanner.add(hinted, FAKE_START), true);
    assert.equal(scanner.add({ ...hinted }, FAKE_START), false);
    source.rows.add({ ...hinted });
    assert.deepEqual(await handle(100), ['hinted']);
    assert.deepEqual(await handle(200), []);
  });

  it('takes some hints though it is full, so that a new row does not wait behind a flood', async () => {
    const { scanner, row } = bench({ capacity: 2 });
    for (let index = 0; index < 10; index += 1) row(0);
    await scanner.read(FAKE_START, noPause);
    const added = Array.from({ length: 2 * NEWEST_ROWS_MAX }, (_, index) =>
      scanner.add({ id: `hinted-${index}`, at: FAKE_START + 1 }, FAKE_START),
    );
    assert.equal(added[0], true);
    assert.equal(added.at(-1), false);
    // Beside the two of the flood, and as many of those behind it.
    assert.ok(scanner.takeDue(FAKE_START + 1, Infinity).length <= 2 + NEWEST_ROWS_MAX);
  });

  it('forgets what is settled, though an old row stays in its custody', async () => {
    setFlagsFromString('--expose-gc');
    const collect = runInNewContext('gc') as () => void;
    const { scanner } = bench({ capacity: 10 });
    scanner.add({ id: 'stuck', at: FAKE_START }, FAKE_START);
    scanner.takeDue(FAKE_START, 1);
    const kept: WeakRef<TimerRow>[] = [];
    for (let index = 1; index <= 20_000; index++) {
      const now = FAKE_START + index;
      const row = { id: `row-${index}`, at: now };
      kept.push(new WeakRef(row));
      scanner.add(row, now);
      for (const held of scanner.takeDue(now, 1)) scanner.settle(held);
    }
    // A weak reference keeps its target until the turn of the event loop ends.
    await new Promise((resolve) => setImmediate(resolve));
    collect();
    const alive = kept.filter((each) => each.deref() !== undefined).length;
    assert.ok(alive < 2_000, `${alive} of 20,000 settled rows are still held`);
    assert.equal(scanner.oldest(), FAKE_START);
  });
});

// Rule 5 (design section 6): a timer row may land behind its reader, and the reader may stand still, fail or be full; no row
// that lands within the trailing edge after its time is passed over.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { TRAILING_EDGE_MS } from '../../services/core/domain/limits.ts';
import { ShardScanner, type Held } from '../../services/core/scan/shard-scanner.ts';
import { FAKE_START } from '../support/fake-clock.ts';
import { RowSource, type TimerRow } from '../support/row-source.ts';

interface Arrival {
  readonly atMs: number;
  /** How long after its time the row lands; before it when negative. */
  readonly lateMs: number;
  /** The scanner is told of it at its time. */
  readonly hinted: boolean;
}

interface Turn {
  readonly afterMs: number;
  readonly reads: boolean;
  /** The read fails after so many pages. */
  readonly failsAfter: number | null;
  /** What becomes of each row that is due, in turns; held rows are decided on at a later turn. */
  readonly fates: readonly ('settle' | 'put_back' | 'hold')[];
}

const arrivals = fc.array(
  fc.record<Arrival>({
    atMs: fc.oneof(fc.integer({ min: 0, max: 150_000 }), fc.constantFrom(59_999, 60_000, 60_001)),
    lateMs: fc.oneof(fc.integer({ min: -200_000, max: TRAILING_EDGE_MS }), fc.constantFrom(0, TRAILING_EDGE_MS)),
    hinted: fc.constantFrom(false, false, true),
  }),
  { maxLength: 30, size: 'max' },
);
const turns = fc.array(
  fc.record<Turn>({
    afterMs: fc.oneof(fc.constant(1_000), fc.constant(1_000), fc.integer({ min: 1, max: 15_000 })),
    reads: fc.constantFrom(true, true, true, false),
    failsAfter: fc.constantFrom(null, null, null, null, 0, 1, 3),
    fates: fc.array(fc.constantFrom('settle', 'settle', 'put_back', 'hold'), { minLength: 1, maxLength: 5 }),
  }),
  { maxLength: 60, size: 'max' },
);

describe('a scanned shard', () => {
  it('hands out every row once, in order, not before its time, and its position passes no row that is not settled', async () => {
    await fc.assert(
      fc.asyncProperty(
        arrivals,
        turns,
        fc.integer({ min: 1, max: 6 }),
        fc.integer({ min: 1, max: 3 }),
        async (arriving, taken, capacity, pageRows) => {
          const source = new RowSource(pageRows);
          const scanner = new ShardScanner<TimerRow>({
            source,
            shard: 0,
            from: FAKE_START,
            readAheadMs: 2_000,
            capacity,
          });
          const rows = arriving.map(({ atMs, lateMs, hinted }, index) => ({
            row: { id: `row-${index}`, at: FAKE_START + atMs },
            landsAt: FAKE_START + atMs + lateMs,
            hinted,
          }));
          let now = FAKE_START;
          const inHand = new Set<TimerRow>();
          const waiting = new Map<TimerRow, number>();
          const settled = new Set<TimerRow>();
          const held: Held<TimerRow>[] = [];

          const land = (until: number): void => {
            for (const { row, landsAt, hinted } of rows) {
              if (landsAt <= until) source.rows.add(row);
              if (hinted && row.at > now && row.at <= until && scanner.add(row, row.at)) inHand.add(row);
            }
          };
          const decide = (one: Held<TimerRow>, fate: Turn['fates'][number]): void => {
            if (fate === 'hold') held.push(one);
            else if (fate === 'put_back') {
              waiting.set(one.row, now + 700);
              scanner.putBack(one, now + 700);
            } else {
              assert.ok(!settled.has(one.row), `${one.row.id} was handed out twice`);
              settled.add(one.row);
              scanner.settle(one);
            }
          };
          const turn = async ({ afterMs, reads, failsAfter, fates }: Turn): Promise<void> => {
            land(now + afterMs);
            now += afterMs;
            source.pagesLeft = failsAfter ?? Infinity;
            if (reads) await scanner.read(now, () => undefined).catch(() => undefined);
            const due = scanner.takeDue(now, 1_000);
            assert.deepEqual(
              due.map(({ row }) => waiting.get(row) ?? row.at),
              due.map(({ row }) => waiting.get(row) ?? row.at).toSorted((one, other) => one - other),
            );
            for (const one of [...held.splice(0), ...due]) {
              assert.ok(one.at <= now && (waiting.get(one.row) ?? 0) <= now, `${one.row.id} came early`);
              decide(one, fates[one.row.at % fates.length]!);
            }
            const position = scanner.position();
            for (const { row } of rows) {
              assert.ok(row.at >= position || settled.has(row), `the position passed ${row.id}`);
            }
          };

          for (const each of taken) await turn(each);
          const calm: Turn = { afterMs: 1_000, reads: true, failsAfter: null, fates: ['settle'] };
          const until = Math.max(now, ...rows.map(({ row, landsAt }) => Math.max(row.at, landsAt)));
          while (now < until) await turn(calm);
          for (let rest = 0; rest < rows.length + 5; rest += 1) await turn(calm);
          assert.equal(settled.size, rows.length);
          assert.equal(scanner.oldest(), null);
          assert.equal(scanner.nextFireAt(), null);
        },
      ),
      { numRuns: 200 },
    );
  });
});

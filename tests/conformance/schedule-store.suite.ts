import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { it } from 'node:test';
import { memberId } from '../../services/core/domain/ids.ts';
import {
  bearsScheduleMark,
  judgeScheduleCondition,
  type ScheduleConditionColumns,
  type ScheduleOperation,
} from '../../services/core/domain/schedule-operation.ts';
import { stateOf, type ScheduleRow, type ScheduleState } from '../../services/core/domain/schedule.ts';
import type { ApplyResultOf } from '../../services/core/ports/cohort-table.ts';
import type { ScheduleRun } from '../../services/core/domain/occurrence.ts';
import type { ScheduleReader, ScheduleRunStore, ScheduleStore } from '../../services/core/ports/schedule-store.ts';
import { definitionOf, fullScheduleRow, newScheduleCohort, scheduleRow } from '../support/schedule-row.ts';

export interface ScheduleStoreHarness {
  readonly scheduleCohorts: ScheduleStore;
  readonly schedules: ScheduleReader;
  readonly scheduleRuns: ScheduleRunStore;
}

const MINUTE_MS = 60_000;

/** What every ScheduleStore, ScheduleReader and ScheduleRunStore promise; run on the fake and on a real server. */
export function scheduleStoreSuite(harness: () => ScheduleStoreHarness): void {
  const apply = (...operations: ScheduleOperation[]): Promise<ApplyResultOf<ScheduleConditionColumns>> =>
    harness().scheduleCohorts.apply(operations[0]!.scheduleId.slice(0, -3), operations);
  const applies = async (...operations: ScheduleOperation[]): Promise<void> => {
    assert.deepEqual(await apply(...operations), { applied: true });
  };
  const loses = async (...operations: ScheduleOperation[]): Promise<ReadonlyMap<string, ScheduleConditionColumns>> => {
    const result = await apply(...operations);
    assert.ok(!result.applied);
    return result.rows;
  };
  const read = async ({ scheduleId }: ScheduleRow): Promise<ScheduleRow | undefined> =>
    (await harness().schedules.read([scheduleId], { serial: true })).get(scheduleId);
  const created = async (overrides: Partial<ScheduleRow> = {}): Promise<ScheduleRow> => {
    const row = scheduleRow(newScheduleCohort(), 0, overrides);
    await applies(create(row));
    return row;
  };

  it('creates schedules of one cohort together and reads back every column', async () => {
    const cohort = newScheduleCohort();
    const rows = [
      fullScheduleRow(cohort, 0),
      scheduleRow(cohort, 1),
      scheduleRow(cohort, 63, { payload: null, payloadBytes: 0, nextRunAt: null }),
    ];
    await applies(...rows.map(create));
    const absent = [memberId(cohort, 5), memberId(newScheduleCohort(), 0)];
    const found = await harness().schedules.read([...rows.map(({ scheduleId }) => scheduleId), ...absent]);
    assert.deepEqual([...found.values()], rows);
  });

  it('creates a schedule once, and tells a repeat by its mark', async () => {
    const row = await created();
    const other = { ...scheduleRow(row.cohort, 0), queue: 'other' };
    const fresh = scheduleRow(row.cohort, 1);
    const found = await loses(create(other), create(fresh));
    assert.deepEqual([...found.keys()], [row.scheduleId]);
    assert.equal(judgeScheduleCondition(create(fresh), found.get(fresh.scheduleId)), 'holds');
    assert.deepEqual(await read(row), row);
    assert.ok(bearsScheduleMark(create(row), await read(row)));
    assert.ok(!bearsScheduleMark(create(other), await read(row)));
  });

  it('changes all that a caller says, and takes away what he no longer does', async () => {
    const row = await created();
    const full = fullScheduleRow(row.cohort, 0);
    const { cohort, scheduleId, owner, key, shard, createToken, traceparent, createdAt } = row;
    const same = { cohort, scheduleId, owner, key, shard, createToken, traceparent, createdAt };
    const first = change(row, full);
    await applies(first);
    const changed = await read(row);
    assert.deepEqual(changed, { ...full, ...same, revision: 2, changeToken: first.changeToken });
    assert.ok(bearsScheduleMark(first, changed));

    const plain = { ...row, payload: null, payloadBytes: 0 };
    const second = change(changed, plain);
    await applies(second);
    assert.deepEqual(await read(row), { ...plain, revision: 3, changeToken: second.changeToken });
    assert.ok(!bearsScheduleMark(first, await read(row)));
  });

  it('moves next_run_at on once, whoever comes with it', async () => {
    const row = await created();
    const next = (row.nextRunAt ?? 0) + MINUTE_MS;
    const step = advance(row, { nextRunAt: next, lastSlot: row.nextRunAt, lastJobId: 'x', runs: 1, waiting: ['x'] });
    await applies(step);
    assert.deepEqual(await loses(step), new Map([[row.scheduleId, { revision: 1, nextRunAt: next }]]));
    const found = await read(row);
    assert.deepEqual(found, { ...row, ...step.state });
    assert.ok(bearsScheduleMark(step, found));
    assert.ok(!bearsScheduleMark(advance(row, { nextRunAt: next, lastJobId: 'y' }), found));
  });

  it('refuses a firer who does not know of a change, and a caller who does not know of a slot', async () => {
    const row = await created();
    await applies(change(row, row));
    assert.equal((await loses(advance(row, { nextRunAt: 1 }))).get(row.scheduleId)?.revision, 2);
    const changed = await read(row);
    await applies(advance(changed!, { nextRunAt: 1_000 }));
    assert.deepEqual(
      await loses(change(changed!, row)),
      new Map([[row.scheduleId, { revision: 2, nextRunAt: 1_000 }]]),
    );
  });

  it('ends a schedule, and lets a caller start it again', async () => {
    const row = await created();
    await applies(advance(row, { nextRunAt: null }));
    const ended = await read(row);
    assert.equal(ended?.nextRunAt, null);
    assert.deepEqual(await loses(change(row, row)), new Map([[row.scheduleId, { revision: 1, nextRunAt: null }]]));
    await applies(change(ended, row));
    assert.equal((await read(row))?.nextRunAt, row.nextRunAt);
  });

  it('makes no row by changing, moving or removing one that is not there', async () => {
    for (const nextRunAt of [null, 5_000]) {
      const row = scheduleRow(newScheduleCohort(), 0, { nextRunAt });
      for (const operation of [change(row, row), advance(row, { nextRunAt: 1 }), remove(row)]) {
        assert.deepEqual(await loses(operation), new Map());
        assert.equal(await read(row), undefined);
      }
    }
  });

  it('removes a schedule as it was read, and only then', async () => {
    const row = await created();
    const neighbour = scheduleRow(row.cohort, 1);
    await applies(create(neighbour));
    await applies(change(row, row));
    await loses(remove(row));
    const changed = await read(row);
    await applies(remove(changed!));
    assert.equal(await read(row), undefined);
    assert.ok(bearsScheduleMark(remove(changed!), undefined));
    assert.deepEqual(await read(neighbour), neighbour);
  });

  it('applies all of a batch or nothing', async () => {
    const cohort = newScheduleCohort();
    const rows = [0, 1, 2].map((member) => scheduleRow(cohort, member));
    await applies(...rows.map(create));
    await applies(change(rows[2]!, rows[2]!));
    const steps = rows.map((row) => advance(row, { nextRunAt: 7_000 }));
    const found = await loses(...steps);
    assert.deepEqual(
      steps.map((step) => judgeScheduleCondition(step, found.get(step.scheduleId))),
      ['holds', 'holds', 'fails'],
    );
    assert.deepEqual(await read(rows[0]!), rows[0]);
    await applies(...steps.slice(0, 2));
    assert.equal((await read(rows[1]!))?.nextRunAt, 7_000);
  });

  it('reports what became of slots, once each, the latest first', async () => {
    const { scheduleRuns } = harness();
    const { scheduleId } = scheduleRow(newScheduleCohort(), 0);
    const monthEnd = Date.parse('2026-12-01T00:00:00Z');
    const run = (slot: number, overrides: Partial<ScheduleRun> = {}): ScheduleRun => ({
      ...{ scheduleId, slot, slotUntil: null, jobId: `${scheduleId}@${slot}`, outcome: 'fired', reason: null },
      decidedAt: slot + 12,
      ...overrides,
    });
    const runs = [
      run(monthEnd - 2 * MINUTE_MS, { outcome: 'missed', slotUntil: monthEnd - MINUTE_MS, reason: 'missed_limit' }),
      run(monthEnd - MINUTE_MS),
      run(monthEnd),
    ];
    await Promise.all([scheduleRuns.write(runs), scheduleRuns.write(runs.slice(1))]);
    const found = async (from: number, to: number): Promise<readonly ScheduleRun[]> => {
      const read: ScheduleRun[] = [];
      for await (const page of scheduleRuns.read({ scheduleId, from, to })) read.push(...page);
      return read;
    };
    assert.deepEqual(await found(0, monthEnd - 1), [runs[1], runs[0]]);
    assert.deepEqual(await found(0, monthEnd), [runs[2]]);
    assert.deepEqual(await found(monthEnd - MINUTE_MS, monthEnd - MINUTE_MS), [runs[1]]);
    assert.deepEqual(await found(0, monthEnd - 3 * MINUTE_MS), []);
  });
}

function create(schedule: ScheduleRow): Extract<ScheduleOperation, { edge: 'schedule_create' }> {
  return { edge: 'schedule_create', scheduleId: schedule.scheduleId, schedule };
}

/** From the row as read to what another row says. */
function change(read: ScheduleRow, to: ScheduleRow): Extract<ScheduleOperation, { edge: 'schedule_change' }> {
  const { scheduleId, revision, nextRunAt } = read;
  return {
    edge: 'schedule_change',
    scheduleId,
    expect: { revision, nextRunAt },
    definition: definitionOf(to),
    state: stateOf(to),
    requestHash: to.requestHash,
    updatedAt: to.updatedAt,
    changeToken: randomUUID(),
  };
}

function advance(
  read: ScheduleRow,
  state: Partial<ScheduleState>,
): Extract<ScheduleOperation, { edge: 'schedule_advance' }> {
  const { scheduleId, revision, nextRunAt } = read;
  return {
    edge: 'schedule_advance',
    scheduleId,
    expect: { revision, nextRunAt },
    state: { ...stateOf(read), ...state },
  };
}

function remove({ scheduleId, revision, nextRunAt }: ScheduleRow): ScheduleOperation {
  return { edge: 'schedule_remove', scheduleId, expect: { revision, nextRunAt } };
}

// The tables `schedules` and `schedule_runs` in memory; a part of MemoryStores.

import { monthOf } from '../../services/core/domain/bucket.ts';
import { cohortOf } from '../../services/core/domain/ids.ts';
import {
  judgeScheduleCondition,
  type ScheduleConditionColumns,
  type ScheduleOperation,
} from '../../services/core/domain/schedule-operation.ts';
import type { ScheduleRow } from '../../services/core/domain/schedule.ts';
import type { ApplyResultOf } from '../../services/core/ports/cohort-table.ts';
import type { ScheduleRun, ScheduleRunRange } from '../../services/core/ports/schedule-store.ts';

export class MemorySchedules {
  readonly rows = new Map<string, ScheduleRow>();
  readonly runs = new Map<string, ScheduleRun>();

  apply(cohort: string, operations: readonly ScheduleOperation[]): ApplyResultOf<ScheduleConditionColumns> {
    const ids = new Set(operations.map(({ scheduleId }) => scheduleId));
    if (ids.size !== operations.length) throw new Error(`two operations on one row of ${cohort}`);
    for (const id of ids) if (cohortOf(id) !== cohort) throw new Error(`${id} is not of ${cohort}`);
    const holds = (operation: ScheduleOperation): boolean =>
      judgeScheduleCondition(operation, this.rows.get(operation.scheduleId)) === 'holds';
    if (operations.every(holds)) {
      for (const operation of operations) this.#carryOut(operation);
      return { applied: true };
    }
    const found = [...ids].map((id) => this.rows.get(id)).filter((row) => row !== undefined);
    return {
      applied: false,
      rows: new Map(found.map(({ scheduleId, revision, nextRunAt }) => [scheduleId, { revision, nextRunAt }])),
    };
  }

  read(ids: readonly string[]): ReadonlyMap<string, ScheduleRow> {
    const found = ids.map((id) => this.rows.get(id)).filter((row) => row !== undefined);
    return new Map(found.map((row) => [row.scheduleId, row]));
  }

  writeRuns(runs: readonly ScheduleRun[]): void {
    for (const run of runs) this.runs.set(`${run.scheduleId} ${run.slot}`, run);
  }

  readRuns({ scheduleId, from, to }: ScheduleRunRange): readonly ScheduleRun[] {
    return [...this.runs.values()]
      .filter((run) => run.scheduleId === scheduleId && monthOf(run.slot) === monthOf(to))
      .filter(({ slot }) => slot >= from && slot <= to)
      .sort((one, other) => other.slot - one.slot);
  }

  #carryOut(operation: ScheduleOperation): void {
    const { scheduleId } = operation;
    const row = this.rows.get(scheduleId);
    if (operation.edge === 'schedule_create') {
      this.rows.set(scheduleId, operation.schedule);
      return;
    }
    if (row === undefined) throw new Error(`no row ${scheduleId}`);
    switch (operation.edge) {
      case 'schedule_change': {
        const { definition, state, requestHash, updatedAt, changeToken } = operation;
        const marks = { requestHash, updatedAt, changeToken, revision: row.revision + 1 };
        this.rows.set(scheduleId, { ...row, ...definition, ...state, ...marks });
        return;
      }
      case 'schedule_advance':
        this.rows.set(scheduleId, { ...row, ...operation.state });
        return;
      case 'schedule_remove':
        this.rows.delete(scheduleId);
    }
  }
}

// The tables of schedules in memory; a part of MemoryStores.

import { monthOf, scheduleStripe } from '../../services/core/domain/bucket.ts';
import { cohortOf } from '../../services/core/domain/ids.ts';
import {
  judgeScheduleCondition,
  type ScheduleConditionColumns,
  type ScheduleOperation,
} from '../../services/core/domain/schedule-operation.ts';
import type { ScheduleRow } from '../../services/core/domain/schedule.ts';
import type { ApplyResultOf } from '../../services/core/ports/cohort-table.ts';
import type { ScheduleIndexEntry, ScheduleIndexRange } from '../../services/core/ports/schedule-index.ts';
import type { ScheduleName } from '../../services/core/ports/schedule-names.ts';
import type { ScheduleRun } from '../../services/core/domain/occurrence.ts';
import type { ScheduleRunRange } from '../../services/core/ports/schedule-store.ts';

export class MemorySchedules {
  readonly rows = new Map<string, ScheduleRow>();
  readonly runs = new Map<string, ScheduleRun>();
  readonly names = new Map<string, ScheduleName>();
  readonly #index = new Map<string, { readonly entry: ScheduleIndexEntry; readonly removed: boolean }>();

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

  claimName(name: ScheduleName): ScheduleName {
    const standing = this.names.get(name.keyHash) ?? name;
    this.names.set(name.keyHash, standing);
    return standing;
  }

  moveName(from: ScheduleName, to: ScheduleName): boolean {
    if (!this.#names(from)) return false;
    this.names.set(from.keyHash, to);
    return true;
  }

  markNameWritten(name: ScheduleName): boolean {
    const standing = this.names.get(name.keyHash);
    if (standing === undefined || !this.#names(name)) return false;
    this.names.set(name.keyHash, { ...standing, written: true });
    return true;
  }

  releaseName(name: Pick<ScheduleName, 'keyHash' | 'scheduleId'>): void {
    if (this.#names(name)) this.names.delete(name.keyHash);
  }

  /** Entries and removals are stamped with written_at: the later one stands, and of two at once the removal. */
  writeIndex(entries: readonly ScheduleIndexEntry[], removed: boolean): void {
    for (const entry of entries) {
      const key = `${entry.queue} ${entry.scheduleId}`;
      const standing = this.#index.get(key);
      const earlier = standing === undefined || standing.entry.writtenAt < entry.writtenAt;
      if (earlier || (removed && standing.entry.writtenAt === entry.writtenAt))
        this.#index.set(key, { entry, removed });
    }
  }

  readIndex({ queue, stripe, after, limit }: ScheduleIndexRange): readonly ScheduleIndexEntry[] {
    return [...this.#index.values()]
      .flatMap(({ entry, removed }) => (removed ? [] : [entry]))
      .filter((entry) => entry.queue === queue && scheduleStripe(entry.scheduleId) === stripe)
      .filter(({ scheduleId }) => scheduleId > after)
      .sort((one, other) => (one.scheduleId < other.scheduleId ? -1 : 1))
      .slice(0, limit);
  }

  #names({ keyHash, scheduleId }: Pick<ScheduleName, 'keyHash' | 'scheduleId'>): boolean {
    return this.names.get(keyHash)?.scheduleId === scheduleId;
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

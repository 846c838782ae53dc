import type { ScheduleDefinition, ScheduleRow, ScheduleState } from './schedule.ts';
import type { ConditionVerdict } from './operation.ts';
import type { EpochMs } from './time.ts';

/**
 * The conditional writes of the table `schedules`. All but the first name what their writer read, positively: the revision,
 * which grows with every change by a caller, and next_run_at, which moves with every decided slot.
 */
export type ScheduleOperation = ScheduleCreate | ScheduleChange | ScheduleAdvance | ScheduleRemove;
export type ScheduleEdge = ScheduleOperation['edge'];

export interface ScheduleCreate {
  readonly edge: 'schedule_create';
  readonly scheduleId: string;
  readonly schedule: ScheduleRow;
}

/** The row as it was read for a write. */
export interface ExpectedSchedule {
  readonly revision: number;
  readonly nextRunAt: EpochMs | null;
}

/** By a caller: another definition, a pause, a slot to skip. The revision grows by one. */
export interface ScheduleChange {
  readonly edge: 'schedule_change';
  readonly scheduleId: string;
  readonly expect: ExpectedSchedule;
  readonly definition: ScheduleDefinition;
  readonly state: ScheduleState;
  readonly requestHash: string | null;
  readonly updatedAt: EpochMs;
  /** This change's own mark. */
  readonly changeToken: string;
}

/** By the firer: slots are decided, and next_run_at moves on. */
export interface ScheduleAdvance {
  readonly edge: 'schedule_advance';
  readonly scheduleId: string;
  readonly expect: ExpectedSchedule;
  readonly state: ScheduleState;
}

/** Its occurrences stay. */
export interface ScheduleRemove {
  readonly edge: 'schedule_remove';
  readonly scheduleId: string;
  readonly expect: ExpectedSchedule;
}

/** The columns that conditions name: what a failed batch returns for each of its rows that exists. */
export type ScheduleConditionColumns = Partial<Pick<ScheduleRow, 'revision' | 'nextRunAt'>>;

/** Judges an operation's own condition on the columns that a failed batch returned (undefined: the row is absent). */
export function judgeScheduleCondition(
  operation: ScheduleOperation,
  row: ScheduleConditionColumns | undefined,
): ConditionVerdict {
  if (operation.edge === 'schedule_create') return row === undefined ? 'holds' : 'fails';
  const { revision, nextRunAt } = operation.expect;
  return row !== undefined && row.revision === revision && row.nextRunAt === nextRunAt ? 'holds' : 'fails';
}

/** Whether the row bears the operation's own mark: an "applied, then timed out" is settled by it. */
export function bearsScheduleMark(operation: ScheduleOperation, row: ScheduleRow | undefined): boolean {
  switch (operation.edge) {
    case 'schedule_create':
      return row?.createToken === operation.schedule.createToken;
    case 'schedule_change':
      return row?.changeToken === operation.changeToken;
    case 'schedule_advance':
      // Whoever decides the slot derives the same from its occurrence's row: another's step is as good as ours.
      return (
        row !== undefined &&
        row.nextRunAt === operation.state.nextRunAt &&
        row.lastJobId === operation.state.lastJobId &&
        row.runs === operation.state.runs
      );
    case 'schedule_remove':
      return row === undefined;
  }
}

/** Bytes that the operation adds to a round, near enough to keep a round below its bound. */
export function scheduleOperationBytes(operation: ScheduleOperation): number {
  const fixed = 300;
  switch (operation.edge) {
    case 'schedule_create':
      return fixed + 800 + operation.schedule.payloadBytes;
    case 'schedule_change':
      return fixed + 800 + operation.definition.payloadBytes + textBytes(operation.state.waiting);
    case 'schedule_advance':
      return fixed + textBytes(operation.state.waiting);
    case 'schedule_remove':
      return fixed;
  }
}

function textBytes(texts: readonly string[]): number {
  return texts.reduce((bytes, text) => bytes + text.length, 0);
}

import { cohortOf } from '../../domain/ids.ts';
import type { ScheduleAdvance, ScheduleChange, ScheduleOperation } from '../../domain/schedule-operation.ts';
import { timestamp } from '../row-codec.ts';
import {
  DEFINITION_COLUMNS,
  encodeDefinition,
  encodeSchedule,
  encodeState,
  SCHEDULE_COLUMNS,
  STATE_COLUMNS,
} from '../schedule-codec.ts';
import type { Bound } from '../statement.ts';
import { memberReads, readMembers } from './member-reads.ts';

// The table `schedules`: LWT only, LOCAL_QUORUM with LOCAL_SERIAL (session.conditional). `next_run_at = null` holds on an absent
// row, which is why the revision, that every row has, stands beside it.

const CREATE = `
  INSERT INTO schedules (${SCHEDULE_COLUMNS.join(', ')}) VALUES (${SCHEDULE_COLUMNS.map(() => '?').join(', ')})
  IF NOT EXISTS`;

const CHANGE = `
  UPDATE schedules SET ${assignments([...DEFINITION_COLUMNS, ...STATE_COLUMNS])}, request_hash = ?, updated_at = ?,
    change_token = ?, revision = ?
  WHERE cohort = ? AND schedule_id = ?
  IF revision = ? AND next_run_at = ?`;

const ADVANCE = `
  UPDATE schedules SET ${assignments(STATE_COLUMNS)}
  WHERE cohort = ? AND schedule_id = ?
  IF revision = ? AND next_run_at = ?`;

const REMOVE = `
  DELETE FROM schedules
  WHERE cohort = ? AND schedule_id = ?
  IF revision = ? AND next_run_at = ?`;

const READ_SCHEDULES = memberReads('schedules', 'schedule_id', SCHEDULE_COLUMNS);

export const SCHEDULE_STATEMENTS: readonly string[] = [CREATE, CHANGE, ADVANCE, REMOVE, ...READ_SCHEDULES];

export function readSchedules(cohort: string, scheduleIds: readonly string[]): Bound {
  return readMembers(READ_SCHEDULES, cohort, scheduleIds);
}

export function scheduleOperationStatement(operation: ScheduleOperation): Bound {
  switch (operation.edge) {
    case 'schedule_create':
      return { cql: CREATE, values: encodeSchedule(operation.schedule) };
    case 'schedule_change':
      return { cql: CHANGE, values: [...changedValues(operation), ...keyAndCondition(operation)] };
    case 'schedule_advance':
      return { cql: ADVANCE, values: [...encodeState(operation.state), ...keyAndCondition(operation)] };
    case 'schedule_remove':
      return { cql: REMOVE, values: keyAndCondition(operation) };
  }
}

function changedValues({ definition, state, requestHash, updatedAt, changeToken, expect }: ScheduleChange): unknown[] {
  const marks = [requestHash, timestamp(updatedAt), changeToken, expect.revision + 1];
  return [...encodeDefinition(definition), ...encodeState(state), ...marks];
}

function keyAndCondition({ scheduleId, expect }: Pick<ScheduleAdvance, 'scheduleId' | 'expect'>): unknown[] {
  return [cohortOf(scheduleId), scheduleId, expect.revision, timestamp(expect.nextRunAt)];
}

function assignments(columns: readonly string[]): string {
  return columns.map((column) => `${column} = ?`).join(', ');
}

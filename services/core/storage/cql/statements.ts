import { AUDIT_STATEMENTS } from './audit-statements.ts';
import { JOB_STATEMENTS } from './job-statements.ts';
import { KEY_STATEMENTS } from './key-statements.ts';
import { HELD_STATEMENTS } from './held-statements.ts';
import { HISTORY_STATEMENTS } from './history-statements.ts';
import { QUEUE_COUNT_STATEMENTS } from './queue-count-statements.ts';
import { QUEUE_STATEMENTS } from './queue-statements.ts';
import { SCHEDULE_INDEX_STATEMENTS } from './schedule-index-statements.ts';
import { SCHEDULE_KEY_STATEMENTS } from './schedule-key-statements.ts';
import { SCHEDULE_RUN_STATEMENTS } from './schedule-run-statements.ts';
import { SCHEDULE_STATEMENTS } from './schedule-statements.ts';
import { OPERATION_LIST_STATEMENTS, OPERATION_STATEMENTS } from './operation-statements.ts';
import { SLOT_STATEMENTS } from './slot-statements.ts';
import { SETTINGS_STATEMENTS } from './settings-statements.ts';
import { TIMER_STATEMENTS } from './timer-statements.ts';

/** Prepared only where it is read, before the schema is known to be there. */
export const READ_SCHEMA_VERSION = `SELECT version FROM schema_migrations WHERE scope = 'cassandra'`;

/** Every statement a service sends: prepared at its start. */
export const STATEMENTS: readonly string[] = [
  ...JOB_STATEMENTS,
  ...TIMER_STATEMENTS,
  ...HISTORY_STATEMENTS,
  ...KEY_STATEMENTS,
  ...SCHEDULE_STATEMENTS,
  ...SCHEDULE_KEY_STATEMENTS,
  ...SCHEDULE_INDEX_STATEMENTS,
  ...SCHEDULE_RUN_STATEMENTS,
  ...SETTINGS_STATEMENTS,
  ...OPERATION_STATEMENTS,
  ...OPERATION_LIST_STATEMENTS,
  ...QUEUE_STATEMENTS,
  ...QUEUE_COUNT_STATEMENTS,
  ...SLOT_STATEMENTS,
  ...AUDIT_STATEMENTS,
  ...HELD_STATEMENTS,
];

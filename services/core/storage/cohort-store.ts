import type { CohortStore, JobReader, JobState, JobTerms, StateReader, TermsReader } from '../ports/job-store.ts';
import type { ScheduleReader, ScheduleStore } from '../ports/schedule-store.ts';
import { createCohortTable, readByCohort } from './cohort-table.ts';
import { operationStatement, readJobs, readStates, readTerms } from './cql/job-statements.ts';
import { readSchedules, scheduleOperationStatement } from './cql/schedule-statements.ts';
import { decodeConditionColumns, decodeJob, decodeState, decodeTerms } from './row-codec.ts';
import { decodeSchedule, decodeScheduleColumns } from './schedule-codec.ts';
import type { Session } from './session.ts';

/** The ports of the table `jobs`. */
export function createCohortStore(session: Session): CohortStore & JobReader & TermsReader & StateReader {
  const table = createCohortTable(session, {
    idColumn: 'job_id',
    idOf: ({ jobId }) => jobId,
    statement: operationStatement,
    readStatement: readJobs,
    decode: decodeJob,
    storedId: ({ jobId }) => jobId,
    decodeColumns: decodeConditionColumns,
  });
  const terms = { readStatement: readTerms, decode: decodeTerms, storedId: ({ jobId }: JobTerms) => jobId };
  const states = { readStatement: readStates, decode: decodeState, storedId: ({ jobId }: JobState) => jobId };
  return {
    ...table,
    readTerms: (jobIds) => readByCohort(session, terms, jobIds),
    readStates: (jobIds) => readByCohort(session, states, jobIds),
  };
}

/** The ports of the table `schedules`. */
export function createScheduleStore(session: Session): ScheduleStore & ScheduleReader {
  return createCohortTable(session, {
    idColumn: 'schedule_id',
    idOf: ({ scheduleId }) => scheduleId,
    statement: scheduleOperationStatement,
    readStatement: readSchedules,
    decode: decodeSchedule,
    storedId: ({ scheduleId }) => scheduleId,
    decodeColumns: decodeScheduleColumns,
  });
}

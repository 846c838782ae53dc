import type { CohortStore, EndsReader, JobReader, StateReader, TermsReader } from '../ports/job-store.ts';
import type { ScheduleReader, ScheduleStore } from '../ports/schedule-store.ts';
import { createCohortTable, readByCohort } from './cohort-table.ts';
import { operationStatement, readEnds, readJobs, readStates, readTerms } from './cql/job-statements.ts';
import { readSchedules, scheduleOperationStatement } from './cql/schedule-statements.ts';
import { decodeConditionColumns, decodeJob, decodeJobEnd, decodeState, decodeTerms } from './row-codec.ts';
import { decodeSchedule, decodeScheduleColumns } from './schedule-codec.ts';
import type { Session } from './session.ts';

/** The ports of the table `jobs`. */
export function createCohortStore(session: Session): CohortStore & JobReader & TermsReader & StateReader & EndsReader {
  const table = createCohortTable(session, {
    idColumn: 'job_id',
    idOf: ({ jobId }) => jobId,
    statement: operationStatement,
    readStatement: readJobs,
    decode: decodeJob,
    decodeColumns: decodeConditionColumns,
  });
  const terms = { idColumn: 'job_id', readStatement: readTerms, decode: decodeTerms };
  const states = { idColumn: 'job_id', readStatement: readStates, decode: decodeState };
  const ends = { idColumn: 'job_id', readStatement: readEnds, decode: decodeJobEnd };
  return {
    ...table,
    readTerms: (jobIds) => readByCohort(session, terms, jobIds),
    readEnds: (jobIds) => readByCohort(session, ends, jobIds),
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
    decodeColumns: decodeScheduleColumns,
  });
}

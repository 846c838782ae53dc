import { cohortOf } from '../domain/ids.ts';
import type { JobRow } from '../domain/job.ts';
import type { ConditionColumns, Operation } from '../domain/operation.ts';
import type { ApplyResult, CohortStore, JobReader, ReadOptions } from '../ports/job-store.ts';
import { operationStatement, readJobs } from './cql/job-statements.ts';
import { decodeConditionColumns, decodeJob, text } from './row-codec.ts';
import type { Session } from './session.ts';
import type { Row } from './statement.ts';

/** The ports of the table `jobs`. */
export function createCohortStore(session: Session): CohortStore & JobReader {
  return {
    apply: (cohort, operations) => apply(session, cohort, operations),
    read: (jobIds, options) => read(session, jobIds, options),
  };
}

async function apply(session: Session, cohort: string, operations: readonly Operation[]): Promise<ApplyResult> {
  assertOneRowEach(cohort, operations);
  const rows = await session.conditional(operations.map(operationStatement));
  if (rows === null) return { applied: true };
  return { applied: false, rows: foundRows(rows, operations) };
}

/**
 * A lost batch names its rows and leaves out those that do not exist; when none exists it returns one row that says nothing
 * but [applied] = false. A single statement does not name its row, except for IF NOT EXISTS.
 */
function foundRows(rows: readonly Row[], operations: readonly Operation[]): ReadonlyMap<string, ConditionColumns> {
  const found = new Map<string, ConditionColumns>();
  for (const row of rows) {
    const names = row.keys();
    if (names.length === 1) continue;
    const jobId = names.includes('job_id') ? text(row, 'job_id') : operations[0]?.jobId;
    if (jobId !== undefined) found.set(jobId, decodeConditionColumns(row));
  }
  return found;
}

/** Two operations on one row both report applied and tear it. */
function assertOneRowEach(cohort: string, operations: readonly Operation[]): void {
  const jobIds = new Set(operations.map(({ jobId }) => jobId));
  if (jobIds.size !== operations.length) throw new Error(`two operations on one row of ${cohort}`);
  for (const jobId of jobIds) if (cohortOf(jobId) !== cohort) throw new Error(`${jobId} is not of ${cohort}`);
}

async function read(
  session: Session,
  jobIds: readonly string[],
  options: ReadOptions = {},
): Promise<ReadonlyMap<string, JobRow>> {
  const cohorts = Map.groupBy(new Set(jobIds), cohortOf);
  const rows = await Promise.all(
    Array.from(cohorts, ([cohort, members]) => session.read(readJobs(cohort, members), options)),
  );
  return new Map(
    rows
      .flat()
      .map(decodeJob)
      .map((job) => [job.jobId, job]),
  );
}

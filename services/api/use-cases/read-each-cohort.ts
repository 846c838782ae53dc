import { ok, type Problem } from '../../core/contract/problems.ts';
import { cohortOf } from '../../core/domain/ids.ts';
import { withStore } from './store-problems.ts';

/** What was read of some jobs, and why others could not be read now. Those that are in neither do not exist. */
export interface JobsRead<Row> {
  readonly rows: ReadonlyMap<string, Row>;
  readonly problems: ReadonlyMap<string, Problem>;
}

/** For jobs of many callers together: a cohort whose replicas are away keeps none of the others waiting. It costs no more reads. */
export async function readEachCohort<Row>(
  jobIds: readonly string[],
  read: (jobIds: readonly string[]) => Promise<ReadonlyMap<string, Row>>,
): Promise<JobsRead<Row>> {
  const rows = new Map<string, Row>();
  const problems = new Map<string, Problem>();
  const readOne = async (members: readonly string[]): Promise<void> => {
    const found = await withStore(async () => ok(await read(members)));
    if (found.ok) for (const [jobId, row] of found.value) rows.set(jobId, row);
    else for (const jobId of members) problems.set(jobId, found.problem);
  };
  await Promise.all(Array.from(Map.groupBy(jobIds, cohortOf).values(), readOne));
  return { rows, problems };
}

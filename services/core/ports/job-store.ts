import type { JobRow } from '../domain/job.ts';
import type { ConditionColumns, Operation } from '../domain/operation.ts';
import type { ApplyResultOf, CohortReader, CohortTable } from './cohort-table.ts';

/** The table `jobs`. */
export type CohortStore = CohortTable<Operation, ConditionColumns>;
export type JobReader = CohortReader<JobRow>;
export type ApplyResult = ApplyResultOf<ConditionColumns>;

import type { ConditionColumns, Operation } from '../domain/operation.ts';
import type { JobRow } from '../domain/job.ts';

export type ApplyResult =
  | { readonly applied: true }
  /** The rows of the batch that exist, by job id, with the columns that its conditions name. */
  | { readonly applied: false; readonly rows: ReadonlyMap<string, ConditionColumns> };

/**
 * The table `jobs`, one cohort at a time. Only core/rounds calls apply: everybody else submits operations there.
 * All methods throw StoreError (store-error.ts).
 */
export interface CohortStore {
  /** One conditional write for all operations, which are of one cohort, each on another row: all apply or none does. */
  apply(cohort: string, operations: readonly Operation[]): Promise<ApplyResult>;
}

export interface ReadOptions {
  /** LOCAL_SERIAL: completes or sees conditional writes still in flight. Without it LOCAL_QUORUM. */
  readonly serial?: boolean;
}

export interface JobReader {
  /** The rows that exist, by job id; reads are grouped by cohort, one each. Throws StoreError. */
  read(jobIds: readonly string[], options?: ReadOptions): Promise<ReadonlyMap<string, JobRow>>;
}

export type ApplyResultOf<Columns> =
  | { readonly applied: true }
  /** The rows of the batch that exist, by id, with the columns that its conditions name. */
  | { readonly applied: false; readonly rows: ReadonlyMap<string, Columns> };

/**
 * A table of conditional writes, one cohort at a time. Only core/rounds calls apply: everybody else submits operations there.
 * All methods throw StoreError (store-error.ts).
 */
export interface CohortTable<Operation, Columns> {
  /** One conditional write for all operations, which are of one cohort, each on another row: all apply or none does. */
  apply(cohort: string, operations: readonly Operation[]): Promise<ApplyResultOf<Columns>>;
}

export interface ReadOptions {
  /** LOCAL_SERIAL: completes or sees conditional writes still in flight. Without it LOCAL_QUORUM. */
  readonly serial?: boolean;
}

export interface CohortReader<Row> {
  /** The rows that exist, by id; reads are grouped by cohort, one each. Throws StoreError. */
  read(ids: readonly string[], options?: ReadOptions): Promise<ReadonlyMap<string, Row>>;
}

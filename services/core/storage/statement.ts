import type { types } from 'cassandra-driver';

/** A statement of cql/ with its values. */
export interface Bound {
  readonly cql: string;
  readonly values: readonly unknown[];
}

export type Row = types.Row;

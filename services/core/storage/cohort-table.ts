import { cohortOf } from '../domain/ids.ts';
import type { ApplyResultOf, CohortReader, CohortTable, ReadOptions } from '../ports/cohort-table.ts';
import type { Session } from './session.ts';
import type { Bound, Row } from './statement.ts';
import { text } from './row-codec.ts';

/** A table whose rows lie in cohorts and are written by conditional writes only. */
export interface CohortTableRules<Operation, Stored, Columns> {
  /** The column of a row's id. */
  readonly idColumn: string;
  readonly idOf: (operation: Operation) => string;
  readonly statement: (operation: Operation) => Bound;
  /** May read more rows of the cohort than those named. */
  readonly readStatement: (cohort: string, ids: readonly string[]) => Bound;
  readonly decode: (row: Row) => Stored;
  /** The columns that a lost conditional write brought back. */
  readonly decodeColumns: (row: Row) => Columns;
}

export function createCohortTable<Operation, Stored, Columns>(
  session: Session,
  rules: CohortTableRules<Operation, Stored, Columns>,
): CohortTable<Operation, Columns> & CohortReader<Stored> {
  return {
    async apply(cohort, operations): Promise<ApplyResultOf<Columns>> {
      assertOneRowEach(cohort, operations.map(rules.idOf));
      const rows = await session.conditional(operations.map(rules.statement));
      return rows === null ? { applied: true } : { applied: false, rows: foundRows(rows, operations, rules) };
    },
    read: (ids, options) => readByCohort(session, rules, ids, options),
  };
}

type ReadRules<Stored> = Pick<CohortTableRules<never, Stored, never>, 'idColumn' | 'readStatement' | 'decode'>;

/** The rows that exist, by id: one read for each cohort. */
export async function readByCohort<Stored>(
  session: Session,
  { idColumn, readStatement, decode }: ReadRules<Stored>,
  ids: readonly string[],
  options?: ReadOptions,
): Promise<ReadonlyMap<string, Stored>> {
  const wanted = new Set(ids);
  const cohorts = Map.groupBy(wanted, cohortOf);
  const pages = await Promise.all(
    Array.from(cohorts, ([cohort, members]) => session.read(readStatement(cohort, members), options)),
  );
  const found = new Map<string, Stored>();
  for (const rows of pages) {
    for (const row of rows) {
      const id = text(row, idColumn);
      if (!wanted.has(id)) continue;
      found.set(id, decode(row));
    }
  }
  return found;
}

/**
 * A lost batch names its rows and leaves out those that do not exist; when none exists it returns one row that says nothing
 * but [applied] = false. A single statement does not name its row, except for IF NOT EXISTS.
 */
function foundRows<Operation, Stored, Columns>(
  rows: readonly Row[],
  operations: readonly Operation[],
  { idColumn, idOf, decodeColumns }: CohortTableRules<Operation, Stored, Columns>,
): ReadonlyMap<string, Columns> {
  const found = new Map<string, Columns>();
  const [first] = operations;
  for (const row of rows) {
    const names = row.keys();
    if (names.length === 1 || first === undefined) continue;
    found.set(names.includes(idColumn) ? text(row, idColumn) : idOf(first), decodeColumns(row));
  }
  return found;
}

/** Two operations on one row both report applied and tear it. */
function assertOneRowEach(cohort: string, ids: readonly string[]): void {
  if (new Set(ids).size !== ids.length) throw new Error(`two operations on one row of ${cohort}`);
  for (const id of ids) if (cohortOf(id) !== cohort) throw new Error(`${id} is not of ${cohort}`);
}

import { memberOf } from '../../domain/ids.ts';
import type { Bound } from '../statement.ts';

/** The reads of some members of a cohort: by name, and as a stretch from one member to another. */
export type MemberReads = readonly [byName: string, asStretch: string];

export function memberReads(table: string, idColumn: string, columns: readonly string[]): MemberReads {
  const select = `SELECT ${columns.join(', ')} FROM ${table} WHERE cohort = ?`;
  return [`${select} AND ${idColumn} IN ?`, `${select} AND ${idColumn} >= ? AND ${idColumn} <= ?`];
}

/** Of a stretch so many must be wanted: a row by name costs Cassandra up to 1.4 times what it costs in a stretch. */
const WANTED_SHARE = 3 / 4;

/** May also read rows that lie between those named. */
export function readMembers([byName, asStretch]: MemberReads, cohort: string, ids: readonly string[]): Bound {
  const inOrder = ids.toSorted();
  const [first, last] = [inOrder[0], inOrder.at(-1)];
  if (first === undefined || last === undefined) return { cql: byName, values: [cohort, ids] };
  const stretch = memberOf(last) - memberOf(first) + 1;
  return ids.length < stretch * WANTED_SHARE || ids.length === 1
    ? { cql: byName, values: [cohort, ids] }
    : { cql: asStretch, values: [cohort, first, last] };
}

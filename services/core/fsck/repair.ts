import type { Finding, Repair } from '../domain/fsck.ts';
import type { DeadlineEntry, DueEntry } from '../domain/operation.ts';
import type { Timers } from '../timers/timers.ts';

const ROWS_AT_ONCE = 100;

/** The timers that put the findings right, one of a kind for each subject. */
export function repairsOf(findings: readonly Finding[]): readonly Repair[] {
  const repairs = findings.flatMap(({ subject, repair }) =>
    repair === null ? [] : [[`${subject} ${repair.table}`, repair] as const],
  );
  return [...new Map(repairs).values()];
}

/** Writes the timers; whoever reads them does the rest. Repeating it only writes more of them. Throws StoreError. */
export async function armRepairs(repairs: readonly Repair[], timers: Timers): Promise<void> {
  const due: DueEntry[] = [];
  const deadlines: DeadlineEntry[] = [];
  for (const repair of repairs) {
    if (repair.table === 'due') due.push(repair.entry);
    else deadlines.push(repair.entry);
  }
  for (const rows of chunks(due)) await timers.armDue(rows);
  for (const rows of chunks(deadlines)) await timers.armDeadlines(rows);
}

function* chunks<Row>(rows: readonly Row[]): Generator<readonly Row[]> {
  for (let start = 0; start < rows.length; start += ROWS_AT_ONCE) yield rows.slice(start, start + ROWS_AT_ONCE);
}

import type { Finding, Repair } from '../core/domain/fsck.ts';
import type { FsckReport } from '../core/fsck/fsck.ts';
import type { Options } from './options.ts';

export interface Outcome {
  readonly keyspace: string;
  readonly report: FsckReport;
  readonly repairs: readonly Repair[];
  readonly mode: Options['repair'];
  readonly seconds: number;
}

export function asJson({ keyspace, report, repairs, mode, seconds }: Outcome): string {
  return JSON.stringify({
    keyspace,
    clean: report.findings.length === 0,
    rows: report.rows,
    findings: report.findings.map(({ damage, subject, shard, detail, repair }) => ({
      ...{ damage, subject, shard, detail },
      repair: repair === null ? null : { table: repair.table, at: timeOf(repair) },
    })),
    truncated: report.truncated,
    busy: report.busy,
    orphan_timers: report.orphans,
    repair: mode === 'no' ? null : { written: mode === 'write', timers: repairs.length },
    seconds,
  });
}

export function asText({ keyspace, report, repairs, mode, seconds }: Outcome): string {
  const { rows, findings, truncated, busy, orphans } = report;
  const { jobs, schedules, operations } = rows;
  const lines = [
    `${keyspace}: ${jobs} jobs, ${schedules} schedules, ${operations} operations, ${rows.due + rows.deadlines} timer rows in ${seconds} s`,
    findings.length === 0 ? 'nothing is damaged' : `${findings.length}${truncated ? ' or more' : ''} findings:`,
    ...findings.flatMap((finding) => findingLines(finding, mode)),
  ];
  if (busy.length > 0) lines.push(`${busy.length} changed whenever they were looked at, such as ${busy[0] ?? ''}`);
  if (orphans.count > 0) {
    lines.push(`${orphans.count} timer rows name what does not exist (harmless), such as ${orphans.samples[0] ?? ''}`);
  }
  if (mode === 'plan' && repairs.length > 0) lines.push(`would write ${repairs.length} timers: repeat it with --yes`);
  if (mode === 'write') lines.push(`wrote ${repairs.length} timers; run it again in a few minutes`);
  return lines.join('\n');
}

function findingLines({ damage, subject, shard, detail, repair }: Finding, mode: Options['repair']): string[] {
  const line = `  ${damage.padEnd(26)} ${subject}  shard ${shard}: ${detail}`;
  if (mode === 'no') return [line];
  return [line, repair === null ? '    no timer helps' : `    a row in ${repair.table} at ${timeOf(repair)}`];
}

function timeOf(repair: Repair): string {
  return new Date(repair.table === 'due' ? repair.entry.runAt : repair.entry.at).toISOString();
}

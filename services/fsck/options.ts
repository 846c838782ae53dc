import type { FsckOptions } from '../core/fsck/fsck.ts';
import {
  FSCK_GRACE_DEFAULT_MS,
  FSCK_GRACE_MAX_MS,
  FSCK_PAGE_ROWS_DEFAULT,
  FSCK_PAGE_ROWS_MAX,
  FSCK_ROWS_PER_S_DEFAULT,
  FSCK_ROWS_PER_S_MAX,
  SECOND_MS,
} from '../core/domain/limits.ts';
import { readCommandLine, UsageError } from '../core/runtime/command-line.ts';

export interface Options extends FsckOptions {
  readonly json: boolean;
  /** plan: says what would be written. */
  readonly repair: 'no' | 'plan' | 'write';
}

export const HELP = `usage: punctual fsck [--repair [--yes]] [--json] [--rate <rows/s>] [--page <rows>] [--grace-s <seconds>]

Reads everything that is stored, slowly and beside a system at work, and tells what is damaged: jobs, schedules and bulk
operations that nobody will look at again, histories that deny their status, ends and dead letters that no audit finds. What looks
damaged is read again, serially and after a grace, before it is reported. It asks Cassandra alone, no service.

  --repair          prints the timers that would put the findings right; with --yes writes them, and the services do the rest
  --rate <rows/s>   rows read a second (default ${FSCK_ROWS_PER_S_DEFAULT}, at most ${FSCK_ROWS_PER_S_MAX})
  --page <rows>     rows read at once (default ${FSCK_PAGE_ROWS_DEFAULT}, at most ${FSCK_PAGE_ROWS_MAX})
  --grace-s <s>     how long what looks damaged is left alone before it is read again (default ${FSCK_GRACE_DEFAULT_MS / SECOND_MS})
  --json            the report as JSON on standard output; progress goes to standard error

PUNCTUAL_CASSANDRA_CONTACT_POINTS, _KEYSPACE, _LOCAL_DATACENTER, _USERNAME, _PASSWORD and _TLS* say where Cassandra is, as for the
services.

exit codes: 0 nothing is damaged, 1 something is, 2 it could not be found out
`;

const OPTIONS = {
  repair: { type: 'boolean' },
  yes: { type: 'boolean' },
  json: { type: 'boolean' },
  rate: { type: 'string' },
  page: { type: 'string' },
  'grace-s': { type: 'string' },
  help: { type: 'boolean', short: 'h' },
} as const;

/** Null: help is wanted. Throws UsageError. */
export function readOptions(args: readonly string[]): Options | null {
  const { values, positionals } = readCommandLine(args, OPTIONS);
  if (values.help === true) return null;
  if (positionals.length > 0) throw new UsageError(`takes no argument ${positionals[0] ?? ''}`);
  if (values.yes === true && values.repair !== true) throw new UsageError('--yes belongs to --repair');
  return {
    json: values.json === true,
    repair: values.repair !== true ? 'no' : values.yes === true ? 'write' : 'plan',
    pageRows: wholeNumber('--page', values.page, FSCK_PAGE_ROWS_DEFAULT, 1, FSCK_PAGE_ROWS_MAX),
    rowsPerS: wholeNumber('--rate', values.rate, FSCK_ROWS_PER_S_DEFAULT, 1, FSCK_ROWS_PER_S_MAX),
    graceMs:
      SECOND_MS *
      wholeNumber('--grace-s', values['grace-s'], FSCK_GRACE_DEFAULT_MS / SECOND_MS, 0, FSCK_GRACE_MAX_MS / SECOND_MS),
  };
}

function wholeNumber(option: string, text: string | undefined, fallback: number, least: number, most: number): number {
  if (text === undefined) return fallback;
  const number = /^\d{1,9}$/.test(text) ? Number(text) : NaN;
  if (number >= least && number <= most) return number;
  throw new UsageError(`${option} ${text}: must be a whole number from ${least} to ${most}`);
}

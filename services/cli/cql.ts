import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { closest } from '../core/domain/closest.ts';
import { parseInstant } from '../core/contract/instant.ts';
import { bucketOf, dayOf, hourOf } from '../core/domain/bucket.ts';
import { cohortOf, isJobId } from '../core/domain/ids.ts';
import type { EpochMs } from '../core/domain/time.ts';
import { ConfigError, loadConfig } from '../core/runtime/config.ts';
import { readCommandLine, UsageError } from '../core/runtime/command-line.ts';
import { type Command, ExitCode } from './command.ts';

const OPTIONS = { keyspace: { type: 'string' } } as const;
const AUDITS_DIR = resolve(import.meta.dirname, '../../scripts/audit');

/** An audit of scripts/audit: the words it takes, and the CQL literals that they make. */
interface Audit {
  readonly file: string;
  readonly words: readonly string[];
  readonly about: string;
  literals(...words: string[]): Readonly<Record<string, string>>;
}

/** All of them are string work: nothing is asked of a server. */
const AUDITS: Readonly<Record<string, Audit>> = {
  job: {
    file: 'job.cql',
    words: ['job_id'],
    about: 'a job with all its attempts',
    literals: (jobId = '') => ({ cohort: quoted(cohortOfJob(jobId)), job_id: quoted(jobId) }),
  },
  cohort: {
    file: 'cohort.cql',
    words: ['job_id'],
    about: 'the jobs that were accepted with it',
    literals: (jobId = '') => ({ cohort: quoted(cohortOfJob(jobId)) }),
  },
  minute: {
    file: 'due-minute.cql',
    words: ['shard', 'time'],
    about: "a shard's due rows of one minute",
    literals: (shard = '', time = '') => ({ shard: wholeNumber(shard), bucket: timestamp(bucketOf(utc(time))) }),
  },
  deadlines: {
    file: 'deadlines-minute.cql',
    words: ['shard', 'time'],
    about: "a shard's deadline rows of one minute",
    literals: (shard = '', time = '') => ({ shard: wholeNumber(shard), bucket: timestamp(bucketOf(utc(time))) }),
  },
  'dead-letters': {
    file: 'dead-letters.cql',
    words: ['queue', 'day'],
    about: "a queue's dead jobs of one day",
    literals: (queue = '', day = '') => ({ queue: quoted(queue), day: quoted(dayOf(utc(day))) }),
  },
  history: {
    file: 'job-history.cql',
    words: ['queue', 'time'],
    about: 'what finished in a queue in one hour',
    literals: (queue = '', time = '') => ({ queue: quoted(queue), hour: timestamp(hourOf(utc(time))) }),
  },
  cursors: {
    file: 'cursors.cql',
    words: ['shard'],
    about: "how far a shard's timers have been read",
    literals: (shard = '') => ({ shard: wholeNumber(shard) }),
  },
};

export const cqlCommand: Command = {
  name: 'cql',
  usage: [
    ...Object.entries(AUDITS).map(([name, { words, about }]) => `${callOf(name, words).padEnd(34)} ${about}`),
    '  prints an audit for cqlsh, filled in; times are UTC: 2026-11-15T06:00 or 2026-11-15',
    '  --keyspace <name>                if not PUNCTUAL_CASSANDRA_KEYSPACE (punctual)',
  ],
  run(args, output) {
    const { positionals, values } = readCommandLine(args, OPTIONS);
    const [name = '', ...words] = positionals;
    output.write(auditCql(name, words, values.keyspace ?? configuredKeyspace()));
    return ExitCode.ok;
  },
};

/** The audit's text with every placeholder filled in. Throws UsageError. */
export function auditCql(name: string, words: readonly string[], keyspace: string): string {
  const audit = Object.hasOwn(AUDITS, name) ? AUDITS[name] : undefined;
  if (audit === undefined) {
    const meant = closest(name, Object.keys(AUDITS));
    throw new UsageError(`no audit ${name}${meant === undefined ? '' : `; did you mean ${meant}?`}`);
  }
  if (words.length !== audit.words.length) throw new UsageError(`it is: punctual ${callOf(name, audit.words)}`);
  if (!/^[a-z][a-z0-9_]{0,47}$/.test(keyspace)) throw new UsageError(`no keyspace name: ${keyspace}`);
  const literals: Readonly<Record<string, string>> = { ...audit.literals(...words), keyspace };
  return readFileSync(resolve(AUDITS_DIR, audit.file), 'utf8').replace(
    /:([a-z_]+)/g,
    (placeholder, variable: string) => literals[variable] ?? placeholder,
  );
}

function configuredKeyspace(): string {
  try {
    return loadConfig('api').config.cassandra.keyspace;
  } catch (error) {
    if (error instanceof ConfigError) throw new UsageError([error.message, ...error.faults].join('\n  '));
    throw error;
  }
}

function callOf(name: string, words: readonly string[]): string {
  return ['cql', name, ...words.map((word) => `<${word}>`)].join(' ');
}

function cohortOfJob(jobId: string): string {
  if (!isJobId(jobId)) throw new UsageError(`no job id: ${jobId}`);
  return cohortOf(jobId);
}

function wholeNumber(text: string): string {
  if (!/^\d{1,9}$/.test(text)) throw new UsageError(`no shard number: ${text}`);
  return text;
}

/** A time without a zone is UTC as well: what a person's own zone would make of it is never meant here. */
function utc(text: string): EpochMs {
  const [, day, time = '00:00'] =
    /^(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}:\d{2})(?::\d{2}(?:\.\d+)?)?(?:Z|\+00:?00)?)?$/.exec(text) ?? [];
  const parsed = parseInstant(`${day}T${time}:00Z`);
  if (!parsed.ok) throw new UsageError(`no UTC time such as 2026-11-15T06:00 or 2026-11-15: ${text}`);
  return parsed.epochMs;
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}

function timestamp(at: EpochMs): string {
  return quoted(new Date(at).toISOString().replace('Z', '+0000'));
}

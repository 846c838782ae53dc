import type { Job } from '../client/types.ts';
import { formatInstant } from '../core/contract/instant.ts';
import { bucketOf, dayOf, hourOf } from '../core/domain/bucket.ts';
import { SECOND_MS } from '../core/domain/limits.ts';
import type { EpochMs } from '../core/domain/time.ts';

/** Where something that concerns a job lies, and the command that prints the query for it. */
export interface Place {
  readonly what: string;
  readonly at: string | null;
  readonly where: string;
  readonly command: string;
}

/** All rows, timers and history of a job. Timers lie in the minute for which they were written, under the job's shard. */
export function placesOf(job: Job): readonly Place[] {
  const { job_id: jobId, shard, queue } = job;
  const finishedAt = instant(job.finished_at);
  return [
    { what: 'job', at: null, where: `cohort ${job.cohort}`, command: audit('job', jobId) },
    timer('due row', 'minute', shard, instant(job.run_at)),
    ...deadlinesOf(job).map(([what, at]) => timer(what, 'deadlines', shard, at)),
    ...(finishedAt === null
      ? []
      : [
          {
            what: 'history row',
            at: job.finished_at,
            where: `queue ${queue}, hour ${minuteText(hourOf(finishedAt))}`,
            command: audit('history', queue, minuteText(hourOf(finishedAt))),
          },
        ]),
    ...(job.status === 'dead' && finishedAt !== null
      ? [
          {
            what: 'dead letter',
            at: job.finished_at,
            where: `queue ${queue}, day ${dayOf(finishedAt)}`,
            command: audit('dead-letters', queue, dayOf(finishedAt)),
          },
        ]
      : []),
    { what: 'cursors', at: null, where: `shard ${shard}`, command: audit('cursors', String(shard)) },
  ];
}

/** A claim writes its row; heartbeats write none, so later rows follow when that one is read. */
function deadlinesOf(job: Job): readonly (readonly [what: string, at: EpochMs | null])[] {
  if (job.status !== 'running') return [];
  const startedAt = instant(job.attempts.at(-1)?.started_at ?? null);
  const first = startedAt === null ? null : startedAt + Math.min(job.lease_s, job.timeout_s) * SECOND_MS;
  return [
    ["claim's deadline", first],
    ['end of lease', instant(job.lease_until)],
    ['end of time', instant(job.deadline_at)],
  ];
}

function timer(what: string, name: 'minute' | 'deadlines', shard: number, at: EpochMs | null): Place {
  const bucket = minuteText(bucketOf(at ?? 0));
  return {
    what,
    at: at === null ? null : formatInstant(at),
    where: `shard ${shard}, minute ${bucket}`,
    command: audit(name, String(shard), bucket),
  };
}

function audit(...words: readonly string[]): string {
  return ['./scripts/punctual cql', ...words].join(' ');
}

function instant(text: string | null): EpochMs | null {
  return text === null ? null : Date.parse(text);
}

/** 2026-11-15T06:07, as the audits take it. */
function minuteText(at: EpochMs): string {
  return formatInstant(at).slice(0, 16);
}

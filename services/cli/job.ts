import type { PunctualClient } from '../client/client.ts';
import type { Job, JobFilter, ListedJob, NewJob } from '../client/types.ts';
import { JobStatus } from '../core/domain/job-status.ts';
import type { Command } from './command.ts';
import { exactJson } from './exact-json.ts';
import { REPLAY, replayFields } from './operation.ts';
import { facts, table } from './table.ts';
import { placesOf } from './trace.ts';
import {
  API_OPTIONS,
  API_USAGE,
  JOB_OPTIONS,
  jobFields,
  labelsText,
  numberFields,
  moreText,
  parse,
  runVerb,
  show,
  type Values,
  type Verbs,
  wholeNumber,
  withoutUndefined,
} from './verbs.ts';
import { dayWindow, type Window, windowText } from './window.ts';

const LIST_DEFAULT_ROWS = 50;
const PAGE_MAX_ROWS = 500;

const CREATE = {
  ...API_OPTIONS,
  ...JOB_OPTIONS,
  'run-at': { type: 'string' },
  delay: { type: 'string' },
  jitter: { type: 'string' },
  'expires-at': { type: 'string' },
  key: { type: 'string' },
} as const;
const GET = { ...API_OPTIONS, key: { type: 'string' } } as const;
const LIST = {
  ...API_OPTIONS,
  from: { type: 'string' },
  to: { type: 'string' },
  status: { type: 'string' },
  label: { type: 'string' },
  limit: { type: 'string' },
} as const;
const RELEASE = { ...API_OPTIONS, attempt: { type: 'string' } } as const;

const VERBS: Verbs = {
  create: async (args, output) => {
    const { words, values, client } = parse(args, ['queue'], CREATE);
    const job = await client.createJob(newJobOf(words[0] ?? '', values));
    const note = job.replayed ? 'the key had been used for this job before' : 'created';
    show(output, values, withExactPayload(job), () => `${note}\n${jobText(job)}`);
  },
  get: async (args, output) => {
    const { words, values, client } = parse(args, args.some(isKeyOption) ? [] : ['job_id'], GET);
    const job = values.key === undefined ? await client.getJob(words[0] ?? '') : await client.findJobByKey(values.key);
    show(output, values, withExactPayload(job), () => jobText(job));
  },
  list: async (args, output) => {
    const { words, values, client } = parse(args, ['queue'], LIST);
    const limit = values.limit === undefined ? LIST_DEFAULT_ROWS : wholeNumber('--limit', values.limit);
    const window = windowOf(values);
    const { status, label } = values;
    const filter = withoutUndefined({ queue: words[0] ?? '', ...window, status, label });
    const jobs = await listed(client, filter as JobFilter, limit);
    show(output, values, jobs, () => listText(jobs, { window, limit }));
  },
  cancel: async (args, output) => {
    const { words, values, client } = parse(args, ['job_id'], API_OPTIONS);
    const job = await client.requestCancel(words[0] ?? '');
    const note = job.requested ? 'its worker is asked to stop' : 'cancelled';
    show(output, values, job, () => `${note}\n${jobText(job)}`);
  },
  run: async (args, output) => {
    const { words, values, client } = parse(args, ['job_id'], API_OPTIONS);
    const job = await client.runJob(words[0] ?? '');
    show(output, values, job, () => `due now\n${jobText(job)}`);
  },
  replay: async (args, output) => {
    const { words, values, client } = parse(args, ['job_id'], { ...API_OPTIONS, ...REPLAY });
    const job = await client.replayJob(words[0] ?? '', withoutUndefined(replayFields(values)));
    show(output, values, job, () => `due again\n${jobText(job)}`);
  },
  release: async (args, output) => {
    const { words, values, client } = parse(args, ['job_id'], RELEASE);
    const jobId = words[0] ?? '';
    // The attempt is the fence: if the job moves on between the two calls, the second is refused.
    const attempt =
      values.attempt === undefined ? (await client.getJob(jobId)).attempt : wholeNumber('--attempt', values.attempt);
    const answer = await client.release(jobId, attempt);
    show(output, values, answer, () => facts({ job_id: jobId, attempt, status: answer.job_status }));
  },
  trace: async (args, output) => {
    const { words, values, client } = parse(args, ['job_id'], API_OPTIONS);
    const job = await client.getJob(words[0] ?? '');
    const places = placesOf(job);
    const rows = places.map(({ what, at, where, command }) => [what, at, where, command]);
    const text = (): string => `${jobText(job)}\n${table(['LOOK AT', 'TIME', 'LIES IN', 'COMMAND'], rows)}`;
    show(output, values, { job: withExactPayload(job), places }, text);
  },
};

export const jobCommand: Command = {
  name: 'job',
  usage: [
    'job create <queue> [options]       --payload <json> --run-at <time> | --delay <s>, --jitter <s>, --priority, --key <text>,',
    '                                   --max-attempts <n> --timeout <s> --lease <s> --expires-at <time> --label <name=value>',
    'job get <job_id> | --key <text>    a job with all its attempts',
    'job list <queue> [options]         by run_at: --from <time> --to <time> (default: the last 24 hours; of those scheduled the next),',
    '                                   --status, --label <name=value>, --limit <n> (default 50)',
    'job cancel <job_id>                also a running one: its worker is asked to stop',
    'job run <job_id>                   makes a scheduled job due now',
    'job replay <job_id>                makes a dead job due now, with as many tries again: --payload <json>, --queue <name>',
    'job release <job_id>               gives a running attempt back to the queue: --attempt <n> (default: the current one)',
    'job trace <job_id>                 a job, its attempts, and where its rows and timers lie',
    ...API_USAGE,
  ],
  run: (words, output) => runVerb('job', VERBS, words, output),
};

function isKeyOption(arg: string): boolean {
  return arg === '--key' || arg.startsWith('--key=');
}

/** Numbers and words are only told apart here: what is right is the API's to say. */
function newJobOf(queue: string, values: Values<typeof CREATE>): NewJob {
  return withoutUndefined({
    queue,
    ...jobFields(values),
    ...numberFields({ delay: 'delay_s', jitter: 'jitter_s' }, values),
    run_at: values['run-at'],
    expires_at: values['expires-at'],
    idempotency_key: values.key,
  }) as unknown as NewJob;
}

/** What is scheduled lies ahead, everything else behind. */
function windowOf(values: Values<typeof LIST>): Window {
  return dayWindow(values, values.status === JobStatus.scheduled ? 'ahead' : 'past');
}

/** Page after page; a page may be empty and still have a next one. */
async function listed(client: PunctualClient, filter: JobFilter, limit: number): Promise<readonly ListedJob[]> {
  const jobs: ListedJob[] = [];
  let token: string | null = null;
  do {
    const more: { page_token?: string } = token === null ? {} : { page_token: token };
    const page = await client.listJobs({ ...filter, page_size: Math.min(PAGE_MAX_ROWS, limit - jobs.length), ...more });
    jobs.push(...page.jobs);
    token = page.next_page_token;
  } while (token !== null && jobs.length < limit);
  return jobs;
}

function withExactPayload(job: Job): object {
  return job.payloadText === null ? job : { ...job, payload: exactJson(job.payloadText) };
}

function jobText(job: Job): string {
  const { attempts } = job;
  const top = facts({
    job_id: job.job_id,
    queue: `${job.queue} (${job.priority})`,
    status: job.status,
    reason: job.reason,
    run_at: job.run_at,
    created_at: job.created_at,
    finished_at: job.finished_at,
    expires_at: job.expires_at,
    tries: `${job.tries} of ${job.max_attempts}`,
    worker: job.worker,
    lease_until: job.lease_until,
    cancel_requested: job.cancel_requested ? 'yes' : null,
    labels: labelsText(job.labels),
    idempotency_key: job.idempotency_key,
    last_error: job.last_error,
    payload: job.payloadText,
  });
  const rows = attempts.map(({ attempt, worker, started_at: start, ended_at: end, outcome, error }) => [
    attempt,
    outcome ?? 'running',
    worker,
    start,
    end,
    error,
  ]);
  const columns = ['ATTEMPT', 'OUTCOME', 'WORKER', 'STARTED', 'ENDED', 'ERROR'];
  return attempts.length === 0 ? top : `${top}\n${table(columns, rows)}`;
}

function listText(
  jobs: readonly ListedJob[],
  { window, limit }: { readonly window: Window; readonly limit: number },
): string {
  if (jobs.length === 0) return `no jobs with a run_at ${windowText(window)}\n`;
  const rows = jobs.map((job) => [job.job_id, job.status, job.priority, job.run_at, job.attempt, job.last_error]);
  return `${table(['JOB', 'STATUS', 'PRIORITY', 'RUN AT', 'ATTEMPT', 'LAST ERROR'], rows)}${moreText(jobs, limit)}run_at ${windowText(window)}\n`;
}

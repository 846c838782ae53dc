// The tour: what Punctual does, shown on running services through their public doors.

import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { PunctualClient } from '../../services/client/index.ts';
import { ROOT } from '../embedded/settings.ts';
import { tiedToUs } from '../embedded/tied-child.ts';
import { BURST_JOBS, burstBody, type Ending, QUEUE, TOUR_JOBS } from './jobs.ts';
import { showSchedule } from './schedule-step.ts';
import { LiveTable, type Row } from './table.ts';

export interface TourPlaces {
  readonly apiUrl: string;
  readonly natsServers: string;
  /** The cqlsh program with the arguments that lead it to Cassandra. */
  readonly cqlsh: readonly string[];
  readonly stopping: AbortSignal;
}

type Job = Awaited<ReturnType<PunctualClient['getJob']>>;

interface Followed {
  readonly what: string;
  readonly ids: readonly string[];
  readonly ends: Ending;
  readonly attempts: number;
  readonly seen: Map<string, Job>;
}

const LIMIT_MS = 45_000;
const LOOK_EVERY_MS = 250;
const POSTS_AT_ONCE = 20;
const WORKER_CONCURRENCY = 50;

/** Resolves with what went otherwise than it should; empty when every job ended as it should. */
export async function runTour(places: TourPlaces): Promise<readonly string[]> {
  const client = new PunctualClient({ apiUrl: places.apiUrl });
  const worker = startSampleWorker(places);
  try {
    await seeItWork(client);
    const followed = await postAll(client);
    await followToTheEnd(client, followed, places.stopping);
    if (places.stopping.aborted) return ['the tour was interrupted'];
    const scheduleFaults = await showSchedule(client, places.stopping);
    const audited = followed.find(({ attempts }) => attempts === 3)?.ids[0] ?? '';
    await showAudit(audited, places.cqlsh);
    return [...followed.flatMap(faultsOf), ...scheduleFaults];
  } finally {
    worker.kill('SIGTERM');
    await once(worker, 'exit');
  }
}

function startSampleWorker({ apiUrl, natsServers }: TourPlaces): ChildProcess {
  const program = join(ROOT, 'services/client/sample-worker.ts');
  const args = [program, '--queue', QUEUE, '--api', apiUrl, '--nats', natsServers, '--name', 'tour-worker'];
  const concurrency = ['--concurrency', String(WORKER_CONCURRENCY)];
  const worker = spawn(...tiedToUs(process.execPath, [...args, ...concurrency]), {
    // Its lines tell each start and finish; the table shows the same from the jobs' own history.
    stdio: 'ignore',
    // A process group of its own: Ctrl-C at our terminal is ours to pass on.
    detached: true,
  });
  console.log(`\nA worker takes the jobs of the queue "${QUEUE}" from JetStream:`);
  console.log(
    `  ./node_modules/.bin/node services/client/sample-worker.ts --queue ${QUEUE} --api ${apiUrl} --nats ${natsServers}\n`,
  );
  return worker;
}

/** A first job goes all the way before the others are sent, so that their lags are not those of a worker starting up. */
async function seeItWork(client: PunctualClient): Promise<void> {
  const { job_id } = await client.createJob({ queue: QUEUE });
  const limit = Date.now() + LIMIT_MS;
  while ((await client.getJob(job_id)).status !== 'succeeded') {
    if (Date.now() > limit) throw new Error(`the first job, ${job_id}, does not run`);
    await sleep(LOOK_EVERY_MS);
  }
}

async function postAll(client: PunctualClient): Promise<readonly Followed[]> {
  const now = Date.now();
  const singles = TOUR_JOBS.map(async ({ what, body, ends, attempts, deleted }): Promise<Followed> => {
    const { job_id } = await client.createJob({ queue: QUEUE, ...body(now) });
    if (deleted === true) await client.cancelJob(job_id);
    return { what, ids: [job_id], ends, attempts, seen: new Map() };
  });
  const burst: string[] = [];
  let posted = 0;
  const posters = Array.from({ length: POSTS_AT_ONCE }, async () => {
    while (posted++ < BURST_JOBS) burst.push((await client.createJob({ queue: QUEUE, ...burstBody(now) })).job_id);
  });
  const followed = await Promise.all(singles);
  await Promise.all(posters);
  return [...followed, { what: `burst of ${BURST_JOBS}`, ids: burst, ends: 'succeeded', attempts: 1, seen: new Map() }];
}

async function followToTheEnd(
  client: PunctualClient,
  followed: readonly Followed[],
  stopping: AbortSignal,
): Promise<void> {
  const table = new LiveTable();
  const limit = Date.now() + LIMIT_MS;
  for (;;) {
    await Promise.all(followed.map((each) => look(client, each)));
    const rows = followed.map(rowOf);
    if (followed.every(isOver) || Date.now() > limit || stopping.aborted) {
      table.finish(rows);
      return;
    }
    table.draw(rows);
    await sleep(LOOK_EVERY_MS);
  }
}

/** Reads again the jobs that have not ended, a few at a time. */
async function look(client: PunctualClient, { ids, seen }: Followed): Promise<void> {
  const open = ids.filter((id) => !isTerminal(seen.get(id)));
  await Promise.all(
    Array.from({ length: Math.min(POSTS_AT_ONCE, open.length) }, async () => {
      for (let id = open.pop(); id !== undefined; id = open.pop()) seen.set(id, await client.getJob(id));
    }),
  );
}

function isTerminal(job: Job | undefined): boolean {
  return job !== undefined && ['succeeded', 'dead', 'cancelled'].includes(job.status);
}

function isOver({ ids, seen }: Followed): boolean {
  return ids.every((id) => isTerminal(seen.get(id)));
}

function rowOf({ what, ids, seen }: Followed): Row {
  const jobs = [...seen.values()];
  const lags = jobs.flatMap((job) => firstLagMs(job) ?? []).sort((a, b) => a - b);
  const [only] = jobs;
  const statuses = Map.groupBy(jobs, ({ status }) => status);
  return {
    what,
    jobId: ids.length === 1 ? (ids[0] ?? '') : '',
    due: only === undefined ? '' : only.scheduled_for.slice(11, 23),
    startLag: lagText(lags),
    attempts:
      ids.length === 1 ? String(only?.attempt ?? 0) : String(Math.max(0, ...jobs.map(({ attempt }) => attempt))),
    status:
      ids.length === 1
        ? (only?.status ?? '')
        : [...statuses].map(([status, { length }]) => `${length} ${status}`).join(', '),
  };
}

function lagText(lags: readonly number[]): string {
  const [first] = lags;
  if (first === undefined) return '-';
  if (lags.length === 1) return `${first} ms`;
  return `p50 ${lags[lags.length >> 1]} max ${lags.at(-1)} ms`;
}

/** From the time asked for to the first start, as the job's history has it. */
function firstLagMs(job: Job): number | undefined {
  const startedAt = job.attempts[0]?.started_at;
  return typeof startedAt !== 'string' ? undefined : Date.parse(startedAt) - Date.parse(job.scheduled_for);
}

function faultsOf({ what, ids, ends, attempts, seen }: Followed): string[] {
  return ids.flatMap((id) => {
    const job = seen.get(id);
    if (job?.status === ends && job.attempt === attempts) return [];
    return [`${what}: ${id} is ${job?.status} after ${job?.attempt} attempts, should be ${ends} after ${attempts}`];
  });
}

/** The same history by cqlsh, as an auditor reads it. */
async function showAudit(jobId: string, cqlsh: readonly string[]): Promise<void> {
  console.log(`\nThe audit of one job: ./scripts/punctual cql job ${jobId} | ${cqlsh.join(' ')}\n`);
  const audit = spawn(join(ROOT, 'scripts/punctual'), ['cql', 'job', jobId], { stdio: ['ignore', 'pipe', 'inherit'] });
  const [program = '', ...args] = cqlsh;
  const shell = spawn(program, args, { stdio: [audit.stdout, 'inherit', 'inherit'] });
  const [code] = (await once(shell, 'exit')) as [number | null];
  if (code !== 0) throw new Error(`cqlsh ended with code ${code ?? 'unknown'}`);
}

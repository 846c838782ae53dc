// The load of a benchmark: posts jobs, as fast as it is answered or at a rate.

import { setTimeout as sleep } from 'node:timers/promises';
import { answerQuestions } from './child-program.ts';
import type { Priority } from '../../services/client/index.ts';
import { KeepAliveConnection } from './keep-alive-connection.ts';

/** When the jobs are due: one moment for all, each at a random moment of a span, so long after its POST, or now. */
export type Due =
  { readonly at: number } | { readonly from: number; readonly to: number } | { readonly delayMs: number } | 'now';

export interface Batches {
  readonly apiUrl: string;
  /** A batch is of one queue; they take turns. */
  readonly queues: readonly string[];
  /** It ends with either. */
  readonly jobs: number;
  readonly seconds?: number;
  readonly batchJobs: number;
  readonly concurrency: number;
  readonly due: Due;
  readonly priority?: Priority;
}

export interface Singles {
  readonly apiUrl: string;
  readonly queues: readonly string[];
  readonly concurrency: number;
  readonly seconds: number;
  readonly due: Due;
}

export interface Steady {
  readonly apiUrl: string;
  readonly queues: readonly string[];
  readonly jobsPerS: number;
  readonly seconds: number;
  readonly due: Due;
  readonly priority?: Priority;
}

export interface Sequence {
  readonly apiUrl: string;
  readonly queue: string;
  readonly jobs: number;
  readonly pauseMs: number;
}

export interface Posted {
  readonly jobIds: readonly string[];
  readonly seconds: number;
}

export interface SequencePosted {
  readonly jobIds: readonly string[];
  /** When each POST was sent, in milliseconds of the epoch with fractions. */
  readonly sentAt: readonly number[];
}

/** With the JSON around it the payload is 300 bytes. */
const FILLER = 'x'.repeat(253);
const STEADY_CONNECTIONS = 64;
const STEADY_LOOK_MS = 4;

export const loadMethods = {
  batches: postBatches,
  singles: postSingles,
  steady: postSteadily,
  sequence: postSequence,
};
export type LoadMethods = typeof loadMethods;

/** Throws when any item is not accepted. */
async function postBatches(load: Batches): Promise<Posted> {
  const { apiUrl, queues, jobs, seconds = Infinity, batchJobs, concurrency, due, priority } = load;
  const jobIds: string[] = [];
  let asked = 0;
  let batches = 0;
  const startedAt = performance.now();
  const end = startedAt + seconds * 1_000;
  await withConnections(apiUrl, concurrency, async (connection) => {
    while (asked < jobs && performance.now() < end) {
      const first = asked;
      const count = Math.min(batchJobs, jobs - first);
      asked += count;
      const queue = queues[batches++ % queues.length] ?? '';
      const items = Array.from({ length: count }, (_, index) =>
        jobText({ queue, index: first + index, due, priority }),
      );
      const { status, body } = await connection.post('/jobs/batch', `{"jobs":[${items.join(',')}]}`);
      const results =
        status === 200 ? (JSON.parse(body) as { results: { status: number; job_id: string }[] }).results : [];
      const refusal = results.find((result) => result.status !== 201);
      if (refusal !== undefined || results.length < count) {
        throw new Error(
          `not all of a batch was accepted: ${status} ${refusal === undefined ? body.slice(0, 500) : JSON.stringify(refusal)}`,
        );
      }
      for (const { job_id } of results) jobIds.push(job_id);
    }
  });
  return { jobIds, seconds: (performance.now() - startedAt) / 1_000 };
}

/** As fast as they are answered. */
async function postSingles(load: Singles): Promise<Posted> {
  const { apiUrl, queues, concurrency, seconds, due } = load;
  const jobIds: string[] = [];
  const startedAt = performance.now();
  const end = startedAt + seconds * 1_000;
  let asked = 0;
  await withConnections(apiUrl, concurrency, async (connection) => {
    while (performance.now() < end)
      jobIds.push(await postJob(connection, { queue: nextQueue(queues, asked), index: asked++, due }));
  });
  return { jobIds, seconds: (performance.now() - startedAt) / 1_000 };
}

/** At the rate, whether or not the earlier ones are answered; what finds no free connection is posted late. */
async function postSteadily(load: Steady): Promise<Posted> {
  const { apiUrl, queues, jobsPerS, seconds, due, priority } = load;
  const jobIds: string[] = [];
  const jobs = Math.round(jobsPerS * seconds);
  const startedAt = performance.now();
  let asked = 0;
  await withConnections(apiUrl, STEADY_CONNECTIONS, async (connection) => {
    while (asked < jobs) {
      if (asked >= ((performance.now() - startedAt) / 1_000) * jobsPerS) {
        await sleep(STEADY_LOOK_MS);
        continue;
      }
      jobIds.push(await postJob(connection, { queue: nextQueue(queues, asked), index: asked++, due, priority }));
    }
  });
  return { jobIds, seconds: (performance.now() - startedAt) / 1_000 };
}

async function postSequence({ apiUrl, queue, jobs, pauseMs }: Sequence): Promise<SequencePosted> {
  const jobIds: string[] = [];
  const sentAt: number[] = [];
  await withConnections(apiUrl, 1, async (connection) => {
    for (let index = 0; index < jobs; index += 1) {
      sentAt.push(performance.timeOrigin + performance.now());
      jobIds.push(await postJob(connection, { queue, index, due: 'now' }));
      await sleep(pauseMs);
    }
  });
  return { jobIds, sentAt };
}

async function withConnections(
  apiUrl: string,
  count: number,
  work: (connection: KeepAliveConnection) => Promise<void>,
): Promise<void> {
  const connections = await Promise.all(Array.from({ length: count }, () => KeepAliveConnection.open(apiUrl)));
  try {
    await Promise.all(connections.map(work));
  } finally {
    for (const connection of connections) connection.close();
  }
}

interface OneJob {
  readonly queue: string;
  readonly index: number;
  readonly due: Due;
  readonly priority?: Priority | undefined;
}

async function postJob(connection: KeepAliveConnection, job: OneJob): Promise<string> {
  const { status, body } = await connection.post('/jobs', jobText(job));
  // Parsing all of it would cost more than sending it did.
  const jobId = /"job_id":"([^"]+)"/.exec(body)?.[1];
  if (status !== 201 || jobId === undefined) throw new Error(`a job was not accepted: ${status} ${body.slice(0, 500)}`);
  return jobId;
}

function nextQueue(queues: readonly string[], index: number): string {
  return queues[index % queues.length] ?? '';
}

function jobText({ queue, index, due, priority = 'normal' }: OneJob): string {
  return `{"queue":"${queue}","priority":"${priority}"${dueText(due)},"payload":{"order":"${String(index).padStart(8, '0')}","note":"${FILLER}","n":[1,2,3]}}`;
}

function dueText(due: Due): string {
  if (due === 'now') return '';
  const at = 'at' in due ? due.at : 'delayMs' in due ? Date.now() + due.delayMs : between(due.from, due.to);
  return `,"run_at":"${new Date(at).toISOString()}"`;
}

function between(from: number, to: number): number {
  return Math.round(from + Math.random() * (to - from));
}

answerQuestions(loadMethods);

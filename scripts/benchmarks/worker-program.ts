// The workers of a benchmark: handlers that do nothing but remember that they were started.

import { parseArgs } from 'node:util';
import { Worker } from '../../services/client/index.ts';
import { answerQuestions } from './child-program.ts';

export interface Starts {
  readonly jobIds: readonly string[];
  /** By the worker's clock, in milliseconds of the epoch with fractions. */
  readonly startedAt: readonly number[];
  readonly scheduledFor: readonly number[];
  /** Index into `queues`. */
  readonly queueOf: readonly number[];
  readonly queues: readonly string[];
}

const { values } = parseArgs({
  options: {
    api: { type: 'string', default: '' },
    nats: { type: 'string', default: '' },
    queues: { type: 'string', default: '' },
    concurrency: { type: 'string', default: '100' },
  },
});
const queues = values.queues.split(',');
let starts = emptyStarts();
let count = 0;
const TOLD_EVERY_MS = 10_000;
let toldAt = -Infinity;

function emptyStarts() {
  return {
    jobIds: [] as string[],
    startedAt: [] as number[],
    scheduledFor: [] as number[],
    queueOf: [] as number[],
    queues,
  };
}

/** One of many: under overload each claim of a batch fails with words of its own. */
function tell(message: string, fields: Readonly<Record<string, unknown>>): void {
  if (performance.now() - toldAt < TOLD_EVERY_MS) return;
  toldAt = performance.now();
  process.stderr.write(`  worker: ${message} ${JSON.stringify(fields)}\n`);
}

const workers = queues.map((queue, index) => {
  const worker = new Worker({
    apiUrl: values.api,
    natsServers: values.nats.split(','),
    queue,
    concurrency: Number(values.concurrency),
    log: tell,
    handler: (job) => {
      starts.jobIds.push(job.job_id);
      starts.startedAt.push(performance.timeOrigin + performance.now());
      starts.scheduledFor.push(Date.parse(job.scheduled_for));
      starts.queueOf.push(index);
      count += 1;
    },
  });
  worker.start();
  return worker;
});

export const workerMethods = {
  /** How many handlers were started so far. */
  count: (): number => count,
  /** Those started since they were last taken. */
  take: (): Starts => {
    const taken = starts;
    starts = emptyStarts();
    return taken;
  },
};
export type WorkerMethods = typeof workerMethods;

answerQuestions(workerMethods);
process.once('SIGTERM', () => {
  void Promise.all(workers.map((worker) => worker.stop())).then(() => process.exit());
});

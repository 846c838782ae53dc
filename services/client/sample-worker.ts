// A worker to try things with: what a job does stands in its payload. Prints one line of JSON for each start and finish.

import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { type ClaimedJob, type JobContext, JobFailure, Worker } from './index.ts';

const HELP = `usage: ./node_modules/.bin/node services/client/sample-worker.ts [--queue <name>] [options]

Works the jobs of a queue, until SIGINT or SIGTERM: then it finishes those in hand.

  --queue <name>        PUNCTUAL_QUEUE         queue to work (default: default)
  --api <url,...>       PUNCTUAL_API_URL       API addresses (default: http://127.0.0.1:7400)
  --nats <host:port,...> PUNCTUAL_NATS_SERVERS NATS servers (default: 127.0.0.1:4222)
  --concurrency <n>     PUNCTUAL_CONCURRENCY   jobs at once (default: 10)
  --name <text>         PUNCTUAL_WORKER        name in the jobs' history (default: host and process)
  --help

A job's payload says what it does, all fields optional:

  {"work_ms": 250, "fail": true, "fail_until_attempt": 3, "fail_retryable": false}

  work_ms               takes this long
  fail                  fails every attempt
  fail_until_attempt    fails the attempts before this one
  fail_retryable        false: a failure ends the job as dead at once
`;

interface SamplePayload {
  readonly work_ms?: number;
  readonly fail?: boolean;
  readonly fail_until_attempt?: number;
  readonly fail_retryable?: boolean;
}

function print(event: 'start' | 'finish', job: ClaimedJob, fields: Readonly<Record<string, unknown>>): void {
  const { job_id, attempt, queue, priority } = job;
  process.stdout.write(`${JSON.stringify({ event, job_id, attempt, queue, priority, ...fields })}\n`);
}

async function work(job: ClaimedJob, { signal, worker }: JobContext): Promise<{ readonly worked_ms: number }> {
  const startedAt = Date.now();
  print('start', job, { started_at: startedAt, scheduled_for: job.scheduled_for, worker });
  try {
    const payload = (job.payload ?? {}) as SamplePayload;
    await sleep(payload.work_ms ?? 0, undefined, { signal }).catch(() => signal.throwIfAborted());
    const fails = payload.fail === true || job.attempt < (payload.fail_until_attempt ?? 0);
    if (fails) throw new JobFailure(`attempt ${job.attempt} fails, as its payload asks`, retryableOf(payload));
    print('finish', job, { finished_at: Date.now(), outcome: 'succeeded' });
    return { worked_ms: Date.now() - startedAt };
  } catch (error) {
    print('finish', job, { finished_at: Date.now(), outcome: 'failed', error: String(error) });
    throw error;
  }
}

function retryableOf({ fail_retryable: retryable }: SamplePayload): { readonly retryable?: boolean } {
  return retryable === undefined ? {} : { retryable };
}

function main(): void {
  const { values } = parseArgs({
    options: {
      queue: { type: 'string', default: process.env['PUNCTUAL_QUEUE'] ?? 'default' },
      api: { type: 'string', default: process.env['PUNCTUAL_API_URL'] ?? 'http://127.0.0.1:7400' },
      nats: { type: 'string', default: process.env['PUNCTUAL_NATS_SERVERS'] ?? '127.0.0.1:4222' },
      concurrency: { type: 'string', default: process.env['PUNCTUAL_CONCURRENCY'] ?? '10' },
      name: { type: 'string', default: process.env['PUNCTUAL_WORKER'] },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) {
    process.stdout.write(HELP);
    return;
  }
  const worker = new Worker({
    apiUrl: values.api.split(','),
    natsServers: values.nats.split(','),
    queue: values.queue,
    concurrency: Number(values.concurrency),
    name: values.name,
    handler: work,
  });
  worker.start();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => void worker.stop());
}

main();

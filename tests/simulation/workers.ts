// Workers, good and bad ones: by ready messages or by lease calls, slow, forgetful, dying, and living on after their lease.

import type { ClaimedJob, Report } from '../../services/api/use-cases/types.ts';
import type { Result } from '../../services/core/contract/problems.ts';
import { Outcome, PRIORITIES } from '../../services/core/domain/job-status.ts';
import { SECOND_MS } from '../../services/core/domain/limits.ts';
import type { PulledMessage } from '../../services/core/ports/ready-queue.ts';
import { callApi } from './rpc.ts';
import type { Host, ProcessKind, Running } from './world.ts';

export const STREAM_QUEUE = 'mail';
export const LEASE_QUEUE = 'sms';

export const WORKERS: readonly ProcessKind[] = [
  { name: 'worker', instances: 2, start: (host) => startWorker(host, pullMessages) },
  { name: 'lease-worker', instances: 2, start: (host) => startWorker(host, leaseJobs) },
];

const PULL_WAIT_MS = 2 * SECOND_MS;
const PULL_MAX = 8;
const CONCURRENCY = 30;
const LEASE_MAX = 3;
const CLAIM_TRIES = 2;
const REPORT_TRIES = 6;
const TROUBLE_PAUSE_MS = SECOND_MS / 2;
/** Refusals after which nobody knows what became of the request, or that say: later. */
const PASSING = [
  'store_unavailable',
  'outcome_unknown',
  'too_many_requests',
  'ready_stream_unavailable',
  'wrong_clock',
];

interface Worker extends Host {
  running: number;
  readonly inHand: Set<string>;
}

async function startWorker(host: Host, takeWork: (worker: Worker) => Promise<void>): Promise<Running> {
  const worker: Worker = { ...host, running: 0, inHand: new Set() };
  const { machine, world } = worker;
  let isStopping = false;
  const loop = async (): Promise<void> => {
    while (!isStopping) {
      if (worker.running < CONCURRENCY) await takeWork(worker);
      await machine.clock.sleep(worker.random.between(0, TROUBLE_PAUSE_MS));
    }
  };
  loop().catch((error: unknown) => {
    world.report({ rule: 'an error of our own', detail: `a worker: ${String((error as Error).stack)}`, subject: null });
  });
  return {
    problem: () => null,
    stop: async () => {
      isStopping = true;
    },
  };
}

/** Ready message, claim, acknowledgement whatever came of it, run. */
async function pullMessages(worker: Worker): Promise<void> {
  const { connections, machine } = worker;
  try {
    const messages = await connections.queue.pull({
      queue: STREAM_QUEUE,
      priorities: PRIORITIES,
      max: PULL_MAX,
      waitMs: PULL_WAIT_MS,
      signal: new AbortController().signal,
    });
    for (const message of messages) void workOn(worker, message);
  } catch {
    await machine.clock.sleep(TROUBLE_PAUSE_MS);
  }
}

async function workOn(worker: Worker, pulled: PulledMessage): Promise<void> {
  const { machine, random, inHand } = worker;
  const { jobId, attempt } = pulled.message;
  const key = `${jobId} ${attempt}`;
  if (inHand.has(key)) {
    pulled.nakAfter(4 * SECOND_MS);
    return;
  }
  inHand.add(key);
  worker.running += 1;
  const claimed = await claim(worker, jobId, attempt);
  if (claimed === 'later') pulled.nakAfter(random.between(0.5 * SECOND_MS, 4 * SECOND_MS));
  else pulled.ack();
  await machine.gate();
  if (typeof claimed === 'object') await run(worker, claimed);
  worker.running -= 1;
  inHand.delete(key);
}

async function claim(worker: Worker, jobId: string, attempt: number): Promise<ClaimedJob | 'lost' | 'later'> {
  const { machine, world, random } = worker;
  // The same for every try and every delivery of the message to this worker.
  const claimId = `${machine.name} ${jobId} ${attempt}`;
  for (let tries = 0; tries < CLAIM_TRIES; tries += 1) {
    const answer = await callApi(world, {
      what: `claim ${jobId}#${attempt} for ${machine.name}`,
      from: machine,
      chance: random,
      ask: (useCases) => useCases.claimJobs([{ jobId, attempt, claimId }], machine.name),
      promised: ([result]) => {
        if (result?.ok === true) world.ledger.claimed(jobId, attempt, claimId);
        else if (result?.problem.code === 'job_not_found') world.ledger.notFound(jobId);
      },
    });
    const result = answer?.value[0];
    if (result?.ok === true) return result.value;
    if (result !== undefined && !PASSING.includes(result.problem.code)) return 'lost';
  }
  return 'later';
}

async function leaseJobs(worker: Worker): Promise<void> {
  const { machine, world, random } = worker;
  const claimId = `${machine.name} ${random.token()}`;
  const hungUp = new AbortController();
  const answer = await callApi(world, {
    what: `lease to ${machine.name}`,
    from: machine,
    chance: random,
    timeoutMs: PULL_WAIT_MS + 3 * SECOND_MS,
    ask: (useCases) =>
      useCases.leaseJobs({
        queue: LEASE_QUEUE,
        priorities: PRIORITIES,
        max: LEASE_MAX,
        waitMs: PULL_WAIT_MS,
        worker: machine.name,
        claimId,
        signal: hungUp.signal,
      }),
    promised: (result) => {
      if (!result.ok) return;
      for (const { job, attempt } of result.value) world.ledger.claimed(job.jobId, attempt, claimId);
    },
  });
  if (answer === null) hungUp.abort();
  if (answer?.value.ok !== true) return;
  for (const job of answer.value.value) void runLeased(worker, job);
}

async function runLeased(worker: Worker, job: ClaimedJob): Promise<void> {
  worker.running += 1;
  await run(worker, job);
  worker.running -= 1;
}

/** How a worker treats a job: while things go wrong in many ways, afterwards well. */
interface Manner {
  readonly workMs: number;
  readonly heartbeats: boolean;
  /** Goes on, and reports, though it was told to stop. */
  readonly isDeaf: boolean;
  readonly end: Report | 'release' | 'nothing';
  readonly repeats: boolean;
}

async function run(worker: Worker, claimed: ClaimedJob): Promise<void> {
  const { machine } = worker;
  const { job, attempt } = claimed;
  const manner = mannerOf(worker, job, attempt);
  const state = { isLost: false, cancelRequested: false };
  for (let left = manner.workMs; left > 0 && (!state.isLost || manner.isDeaf);) {
    const step = Math.min(left, claimed.heartbeatS * SECOND_MS);
    await machine.clock.sleep(step);
    left -= step;
    if (left > 0 && manner.heartbeats) Object.assign(state, await heartbeat(worker, job.jobId, attempt));
  }
  if (manner.end === 'nothing' || (state.isLost && !manner.isDeaf)) return;
  const isCancelled = state.cancelRequested && !manner.isDeaf;
  const end: Report | 'release' = isCancelled ? { jobId: job.jobId, attempt, kind: 'cancelled' } : manner.end;
  await report(worker, job.jobId, attempt, end);
  if (manner.repeats) await report(worker, job.jobId, attempt, end);
}

function mannerOf({ world, random }: Worker, job: ClaimedJob['job'], attempt: number): Manner {
  const { jobId } = job;
  const succeeded: Report = { jobId, attempt, kind: 'succeeded', result: null };
  const isGood = !world.chaos.isOn || random.happens(0.4);
  if (isGood) {
    const workMs = random.between(10, 2 * SECOND_MS);
    return { workMs, heartbeats: true, isDeaf: false, end: succeeded, repeats: random.happens(0.1) };
  }
  const length = random.weighted({ short: 6, lease: 2, timeout: 1 });
  const longMs = length === 'lease' ? job.leaseS * SECOND_MS : job.timeoutS * SECOND_MS;
  const failed = { jobId, attempt, kind: 'failed', error: `failure of attempt ${attempt}` } as const;
  const ends: Record<string, Manner['end']> = {
    succeeded,
    failed: { ...failed, retryable: true, retryAfterMs: null },
    hopeless: { ...failed, retryable: false, retryAfterMs: null },
    later: { ...failed, retryable: true, retryAfterMs: random.whole(0, 20 * SECOND_MS) },
    snoozed: { jobId, attempt, kind: 'snoozed', delayMs: random.whole(0, 30 * SECOND_MS) },
    cancelled: { jobId, attempt, kind: 'cancelled' },
    release: 'release',
    nothing: 'nothing',
  };
  const weights = {
    succeeded: 5,
    failed: 3,
    hopeless: 0.5,
    later: 1,
    snoozed: 1,
    cancelled: 0.3,
    release: 1,
    nothing: 2,
  };
  return {
    workMs: length === 'short' ? random.between(10, 4 * SECOND_MS) : longMs * random.between(0.8, 2),
    heartbeats: random.happens(0.6),
    isDeaf: random.happens(0.4),
    end: ends[random.weighted(weights) ?? 'succeeded'] ?? succeeded,
    repeats: random.happens(0.2),
  };
}

async function heartbeat(
  { world, machine, random }: Worker,
  jobId: string,
  attempt: number,
): Promise<{ readonly isLost: boolean; readonly cancelRequested: boolean }> {
  const answer = await callApi(world, {
    what: `heartbeat ${jobId}#${attempt}`,
    from: machine,
    chance: random,
    ask: (useCases) => useCases.heartbeatJobs([{ jobId, attempt, progress: null }]),
    promised: ([result], askedAt) => {
      if (result?.ok === true) world.ledger.heartbeat(jobId, attempt, askedAt);
      else if (result?.problem.code === 'job_not_found') world.ledger.notFound(jobId);
    },
  });
  const result = answer?.value[0];
  if (result?.ok === true) return { isLost: false, cancelRequested: result.value.cancelRequested };
  return { isLost: result !== undefined && !PASSING.includes(result.problem.code), cancelRequested: false };
}

/** Again and again until it is accepted or refused. */
async function report(worker: Worker, jobId: string, attempt: number, end: Report | 'release'): Promise<void> {
  const { world, machine, random } = worker;
  const kind = end === 'release' ? end : end.kind;
  for (let tries = 0; tries < REPORT_TRIES; tries += 1) {
    const answer = await callApi(world, {
      what: `report ${jobId}#${attempt} ${kind}`,
      from: machine,
      chance: random,
      ask: (useCases) =>
        end === 'release' ? useCases.releaseJobs([{ jobId, attempt }]) : useCases.completeJobs([end]),
      promised: ([result]) => {
        if (result?.ok === true) world.ledger.ended(jobId, attempt, outcomeOf(end), result.value.replayed);
        else if (result?.problem.code === 'job_not_found') world.ledger.notFound(jobId);
      },
    });
    const result: Result<unknown> | undefined = answer?.value[0];
    if (result !== undefined && (result.ok || !PASSING.includes(result.problem.code))) return;
    await machine.clock.sleep(random.between(0.2 * SECOND_MS, 2 * SECOND_MS));
  }
}

function outcomeOf(end: Report | 'release'): Outcome {
  if (end === 'release') return Outcome.released;
  return end.kind === 'succeeded'
    ? Outcome.succeeded
    : { failed: Outcome.failed, snoozed: Outcome.snoozed, cancelled: Outcome.cancelled }[end.kind];
}

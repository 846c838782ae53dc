// What clients ask for. A new kind of work is one more entry of ACTIONS.

import type { CreateJob, When } from '../../services/api/use-cases/types.ts';
import { ok, type Result } from '../../services/core/contract/problems.ts';
import { JobStatus, PRIORITIES } from '../../services/core/domain/job-status.ts';
import { MINUTE_MS, SECOND_MS } from '../../services/core/domain/limits.ts';
import type { RetryPolicy } from '../../services/core/domain/job.ts';
import type { Chance } from './chance.ts';
import { callApi } from './rpc.ts';
import { LEASE_QUEUE, STREAM_QUEUE } from './workers.ts';
import type { World } from './world.ts';

export interface Client {
  readonly world: World;
  readonly chance: Chance;
}

export interface Action {
  readonly name: string;
  readonly weight: number;
  readonly run: (client: Client) => Promise<void>;
}

export const ACTIONS: readonly Action[] = [
  { name: 'create now', weight: 5, run: (client) => create(client, { delayMs: 0 }) },
  { name: 'create soon', weight: 5, run: (client) => create(client, soon(client)) },
  { name: 'create at', weight: 3, run: (client) => create(client, oddTime(client)) },
  { name: 'create with a key', weight: 3, run: createKeyed },
  { name: 'batch', weight: 1, run: createBatch },
  { name: 'batch with a key', weight: 1, run: createKeyedBatch },
  { name: 'cancel', weight: 2, run: cancel },
  { name: 'request cancel', weight: 2, run: requestCancel },
  { name: 'change', weight: 3, run: change },
  { name: 'run now', weight: 1, run: runNow },
  { name: 'replay', weight: 2, run: replay },
  { name: 'read', weight: 1, run: read },
];

const BETWEEN_ACTIONS_MAX_MS = 1.3 * SECOND_MS;
const KEYS = 15;
const KEYED_TRIES = 4;
const BATCH_MAX = 12;

/** Acts until the world is closed; no action waits for another. */
export async function workload(world: World, actions: readonly Action[]): Promise<void> {
  const chance = world.chance('workload');
  const weights = Object.fromEntries(actions.map(({ name, weight }) => [name, weight]));
  for (let number = 0; world.isOpen; number += 1) {
    const action = actions.find(({ name }) => name === chance.weighted(weights));
    if (action !== undefined) void action.run({ world, chance: world.chance(`client ${number}`) });
    await world.clock.sleep(chance.between(0, BETWEEN_ACTIONS_MAX_MS));
  }
}

/** A job that somebody was promised. */
function anyJob({ world, chance }: Client): string | null {
  const jobs = [...world.ledger.accepted];
  return jobs.length === 0 ? null : chance.pick(jobs.slice(-60));
}

export function jobRequest(client: Client, when: When): CreateJob {
  const { chance, world } = client;
  const retry: RetryPolicy = { kind: 'fixed', baseS: chance.pick([1, 5]), factor: 2, capS: 10, jitter: 'equal' };
  const expiresIn = chance.happens(0.1) ? chance.between(5 * SECOND_MS, 2 * MINUTE_MS) : null;
  return {
    owner: 'default',
    idempotencyKey: null,
    requestHash: null,
    queue: chance.pick([STREAM_QUEUE, LEASE_QUEUE]),
    priority: chance.pick(PRIORITIES),
    payload: '{}',
    payloadBytes: 2,
    when,
    jitterMs: chance.happens(0.1) ? 5 * SECOND_MS : 0,
    maxAttempts: chance.pick([1, 3, 1_000]),
    timeoutS: chance.pick([10, 20, 60]),
    leaseS: chance.pick([5, 10, 30]),
    retry,
    labels: {},
    expiresAt: expiresIn === null ? null : Math.floor(world.clock.now() + expiresIn),
    scheduleId: null,
    traceparent: null,
  };
}

function soon({ chance }: Client): When {
  return { delayMs: Math.floor(chance.between(0, 90 * SECOND_MS)) };
}

/** The past, and the edges of minutes. */
function oddTime({ world, chance }: Client): When {
  const now = Math.floor(world.clock.now());
  const minute = Math.ceil(now / MINUTE_MS) * MINUTE_MS;
  return { at: chance.pick([now - chance.whole(0, 10 * MINUTE_MS), minute, minute - 1, minute - MINUTE_MS, now]) };
}

export async function create(client: Client, when: When, overrides: Partial<CreateJob> = {}): Promise<void> {
  await createOnce(client, { ...jobRequest(client, when), ...overrides }, null);
}

async function createOnce({ world, chance }: Client, request: CreateJob, key: string | null): Promise<boolean> {
  const answer = await callApi(world, {
    what: `create a job ${key === null ? '' : `as ${key}`}`,
    from: null,
    chance,
    ask: (useCases) => useCases.createJob(key === null ? world.ledger.marked(request) : request),
    promised: (result) => {
      if (result.ok) world.ledger.created(result.value.job, key);
    },
  });
  return answer?.value.ok === true;
}

/** One of few keys, each with content of its own, tried again until it is answered, by several clients at once perhaps. */
async function createKeyed(client: Client): Promise<void> {
  const { world, chance } = client;
  const key = `key-${chance.whole(1, KEYS)}`;
  const content = world.chance(key);
  const request = {
    ...jobRequest({ world, chance: content }, { delayMs: content.pick([0, 20 * SECOND_MS]) }),
    expiresAt: null,
    scheduleId: null,
    idempotencyKey: key,
    requestHash: key,
  };
  for (let tries = 0; tries < KEYED_TRIES; tries += 1) {
    if (await createOnce(client, request, key)) return;
    await world.clock.sleep(chance.between(0.2 * SECOND_MS, 5 * SECOND_MS));
  }
}

async function createBatch(client: Client): Promise<void> {
  await batch(client, null, client.chance);
}

async function createKeyedBatch(client: Client): Promise<void> {
  const { world, chance } = client;
  const key = `batch-${chance.whole(1, KEYS)}`;
  for (let tries = 0; tries < KEYED_TRIES; tries += 1) {
    if (await batch(client, key, world.chance(key))) return;
    await world.clock.sleep(chance.between(0.2 * SECOND_MS, 5 * SECOND_MS));
  }
}

async function batch({ world, chance }: Client, key: string | null, content: Chance): Promise<boolean> {
  const size = content.whole(1, BATCH_MAX);
  const jobs: Result<CreateJob>[] = Array.from({ length: size }, () => {
    const request = jobRequest({ world, chance: content }, { delayMs: content.pick([0, 5, 40]) * SECOND_MS });
    return ok({ ...request, expiresAt: null });
  });
  const answer = await callApi(world, {
    what: `create ${size} jobs ${key ?? ''}`,
    from: null,
    chance,
    ask: (useCases) => useCases.createJobs({ owner: 'default', idempotencyKey: key, requestHash: key, jobs }),
    promised: (result) => {
      if (!result.ok) return;
      result.value.forEach((item, index) => {
        if (item.ok) world.ledger.created(item.value.job, key === null ? null : `${key}/${index}`);
      });
    },
  });
  return answer?.value.ok === true && answer.value.value.every((item) => item.ok);
}

async function cancel(client: Client): Promise<void> {
  const { world, chance } = client;
  const jobId = anyJob(client);
  if (jobId === null) return;
  await callApi(world, {
    what: `cancel ${jobId}`,
    from: null,
    chance,
    ask: (useCases) => useCases.cancelJob(jobId),
    promised: (result) => {
      if (result.ok) world.ledger.cancelled(jobId);
      else if (result.problem.code === 'job_not_found') world.ledger.notFound(jobId);
    },
  });
}

async function requestCancel(client: Client): Promise<void> {
  const { world, chance } = client;
  const jobId = anyJob(client);
  if (jobId === null) return;
  await callApi(world, {
    what: `request to cancel ${jobId}`,
    from: null,
    chance,
    ask: (useCases) => useCases.requestCancel(jobId),
    promised: (result) => {
      if (!result.ok) return;
      const { job, requested } = result.value;
      if (requested) world.ledger.cancelRequested(jobId, job.attempt);
      else world.ledger.cancelled(jobId);
    },
  });
}

async function change(client: Client): Promise<void> {
  const { world, chance } = client;
  const jobId = anyJob(client);
  if (jobId === null) return;
  const when = chance.happens(0.7) ? soon(client) : oddTime(client);
  const priority = chance.happens(0.3) ? chance.pick(PRIORITIES) : null;
  await callApi(world, {
    what: `change ${jobId}`,
    from: null,
    chance,
    ask: (useCases) => useCases.changeJob(jobId, () => ok({ when, ...(priority === null ? {} : { priority }) })),
    promised: () => undefined,
  });
}

async function runNow(client: Client): Promise<void> {
  const { world, chance } = client;
  const jobId = anyJob(client);
  if (jobId === null) return;
  await callApi(world, {
    what: `run ${jobId} now`,
    from: null,
    chance,
    ask: (useCases) => useCases.runJobNow(jobId),
    promised: () => undefined,
  });
}

/** Dead jobs most of all: there are few. */
async function replay(client: Client): Promise<void> {
  const { world, chance } = client;
  const dead = [...world.ledger.accepted].filter((id) => world.stores.rows.get(id)?.status === JobStatus.dead);
  const jobId = dead.length > 0 ? chance.pick(dead) : anyJob(client);
  if (jobId === null) return;
  await callApi(world, {
    what: `replay ${jobId}`,
    from: null,
    chance,
    ask: (useCases) => {
      world.ledger.replayAsked(jobId);
      return useCases.replayJob(jobId, {});
    },
    promised: (result) => {
      if (result.ok) world.ledger.replayed(jobId);
      else if (result.problem.code !== 'outcome_unknown') world.ledger.replayRefused(jobId);
    },
  });
}

async function read(client: Client): Promise<void> {
  const { world, chance } = client;
  const jobId = anyJob(client);
  if (jobId === null) return;
  await callApi(world, {
    what: `read ${jobId}`,
    from: null,
    chance,
    ask: (useCases) => useCases.getJob(jobId),
    promised: (result) => {
      if (!result.ok && result.problem.code === 'job_not_found') world.ledger.notFound(jobId);
    },
  });
}

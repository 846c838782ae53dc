// The api's HTTP layer on a real listening server, over use-cases that the test holds.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type IncomingMessage, request as httpRequest } from 'node:http';
import type { AddressInfo } from 'node:net';
import { AuditTrail } from '../../services/api/use-cases/audit-trail.ts';
import { buildApp } from '../../services/api/app.ts';
import type {
  ChangeJob,
  ClaimItem,
  CreateJob,
  CreateJobs,
  HeartbeatItem,
  LeaseRequest,
  ListDeadLetters,
  ListJobs,
  ReleaseItem,
  ReplayJob,
  Report,
  StartOperation,
  UseCases,
} from '../../services/api/use-cases/types.ts';
import { QueueCounters } from '../../services/api/use-cases/queue-counters.ts';
import { StartLags } from '../../services/api/use-cases/start-lags.ts';
import { QueueManager } from '../../services/api/use-cases/manage-queues.ts';
import { jobNotFound } from '../../services/api/use-cases/worker-refusals.ts';
import { ok, refused } from '../../services/core/contract/problems.ts';
import type { BulkTask } from '../../services/core/domain/bulk.ts';
import type { JobRow } from '../../services/core/domain/job.ts';
import type { DeadLetter } from '../../services/core/ports/history-store.ts';
import { jobDefaultsOf } from '../../services/core/domain/queue-settings.ts';
import type { ReadyConsumer } from '../../services/core/ports/ready-queue.ts';
import { QueueBook } from '../../services/core/queues/queue-book.ts';
import { systemRandom } from '../../services/core/runtime/system-random.ts';
import type { Readiness } from '../../services/core/runtime/readiness.ts';
import { createTelemetry, type PrometheusTelemetry } from '../../services/core/telemetry/prometheus-telemetry.ts';
import { bulkOperation } from './bulk-operation.ts';
import { type CoreBench, coreBench } from './core-bench.ts';
import type { FakeClock } from './fake-clock.ts';
import { jobRow, newCohort } from './job-row.ts';
import { assertDocumented } from './openapi-check.ts';
import { silentLog } from './silent-telemetry.ts';
import type { MemoryStores } from './memory-store.ts';
import { scheduleUseCases } from './schedule-api.ts';
import type { Cleanup } from './servers.ts';

export interface Received {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  /** The parsed text; {} where there is none. */
  readonly body: Readonly<Record<string, unknown>>;
}

export interface Sent {
  /** An object goes as JSON, a text or bytes as they are. */
  readonly body?: object | string | Uint8Array;
  readonly headers?: Readonly<Record<string, string | string[]>>;
}

/** What routes asked of the use-cases, in order. */
export interface Asked {
  readonly created: CreateJob[];
  readonly claimed: ClaimItem[];
  readonly heartbeats: HeartbeatItem[];
  readonly reports: Report[];
  readonly batches: CreateJobs[];
  readonly changes: ChangeJob[];
  readonly replays: ReplayJob[];
  readonly released: ReleaseItem[];
  readonly leases: LeaseRequest[];
  readonly lists: ListJobs[];
  readonly deadLists: ListDeadLetters[];
  readonly operations: StartOperation[];
  readonly dryRuns: BulkTask[];
}

export interface HttpApi {
  readonly url: string;
  readonly clock: FakeClock;
  readonly telemetry: PrometheusTelemetry;
  readonly asked: Asked;
  /** Jobs by id: what was created, and what the test puts in. */
  readonly jobs: Map<string, JobRow>;
  /** Of the queues' settings, the schedules and the audit log. */
  readonly stores: MemoryStores;
  /** What stores and bus were asked, by port and method. */
  readonly events: readonly string[];
  /** What was logged as error. */
  readonly errors: Readonly<Record<string, unknown>>[];
  readonly useCases: UseCases;
  /** Replaces what a use-case does. */
  override(useCases: Partial<UseCases>): void;
  readiness: Readiness;
  /** As when the process is told to stop. */
  stop(): void;
  /** Every answer is held against openapi.yaml. */
  call(method: string, path: string, sent?: Sent): Promise<Received>;
}

export async function serveApi(test: Cleanup, options: { horizonDays?: number } = {}): Promise<HttpApi> {
  const core = coreBench();
  const { clock, stores } = core;
  const telemetry = createTelemetry();
  const jobs = new Map<string, JobRow>();
  const asked: Asked = {
    created: [],
    claimed: [],
    heartbeats: [],
    reports: [],
    batches: [],
    changes: [],
    replays: [],
    released: [],
    leases: [],
    lists: [],
    deadLists: [],
    operations: [],
    dryRuns: [],
  };
  const stopping = new AbortController();
  const errors: Readonly<Record<string, unknown>>[] = [];
  const useCases = stubUseCases(jobs, asked, core);
  const quiet = (): void => undefined;
  const app = buildApp({
    useCases,
    clock,
    random: systemRandom,
    telemetry,
    log: { debug: quiet, info: quiet, warn: quiet, error: (_, fields = {}) => errors.push(fields) },
    horizonDays: options.horizonDays ?? 365,
    keyspace: 'punctual',
    readiness: async () => api.readiness,
    stopping: stopping.signal,
  });
  const server = createServer(app);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  test.after(async () => {
    server.closeAllConnections();
    server.close();
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const api: HttpApi = {
    url,
    clock,
    telemetry,
    asked,
    jobs,
    stores,
    events: core.events,
    errors,
    useCases: { ...useCases },
    override: (replacement) => void Object.assign(useCases, replacement),
    readiness: { ready: true, checks: [] },
    stop: () => stopping.abort(),
    call: async (method, path, sent = {}) => {
      const received = await send(url, method, path, sent);
      const contentType = received.headers['content-type'] ?? '';
      if (method !== 'HEAD') {
        assertDocumented(method, path, { status: received.status, contentType, value: received.body });
      }
      return received;
    },
  };
  return api;
}

/** Paths are sent as they are, which fetch does not do. */
async function send(url: string, method: string, path: string, { body, headers = {} }: Sent): Promise<Received> {
  const isPlain = body === undefined || typeof body === 'string' || body instanceof Uint8Array;
  const bytes = isPlain ? body : JSON.stringify(body);
  const { hostname, port } = new URL(url);
  const request = httpRequest({
    hostname,
    port,
    method,
    path,
    headers: {
      ...(bytes === undefined
        ? {}
        : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(bytes) }),
      ...headers,
    },
  });
  request.end(bytes);
  const [response] = (await once(request, 'response')) as [IncomingMessage];
  const chunks: Buffer[] = [];
  for await (const chunk of response) chunks.push(chunk as Buffer);
  const text = Buffer.concat(chunks).toString();
  const parsed: unknown = text === '' ? {} : JSON.parse(text);
  assert.ok(typeof parsed === 'object' && parsed !== null);
  return {
    status: response.statusCode ?? 0,
    headers: response.headers,
    text,
    body: parsed as Received['body'],
  };
}

function deadLetterOf({ jobId, queue, finishedAt, attempt, reason, lastError }: JobRow): DeadLetter {
  return { jobId, queue, deadAt: finishedAt ?? 0, attempt, reason: reason ?? 'attempts', error: lastError };
}

function stubUseCases(jobs: Map<string, JobRow>, asked: Asked, core: CoreBench): UseCases {
  const { clock, stores } = core;
  const book = new QueueBook({ store: stores.queues, clock });
  const queues = new QueueManager({
    store: stores.queues,
    book,
    queue: { ensureQueue: async (queue) => [consumerOf(queue)] },
    counters: new QueueCounters({
      counts: stores.queueCounts,
      queue: core.connection.queue,
      board: core.parts.heldBoard,
      startLags: new StartLags(clock),
      clock,
      shards: 4,
    }),
    trail: new AuditTrail({ audit: stores.audit, clock, log: silentLog }),
    clock,
    random: systemRandom,
  });
  const find = (jobId: string) => {
    const job = jobs.get(jobId);
    return job === undefined ? refused(jobNotFound(jobId)) : ok(job);
  };
  const create = ({ when, jitterMs: _, ...fields }: CreateJob): JobRow => {
    const runAt = 'at' in when ? when.at : clock.now() + when.delayMs;
    const job = jobRow(newCohort(), 0, { ...fields, runAt, scheduledFor: runAt, createdAt: clock.now() });
    jobs.set(job.jobId, job);
    return job;
  };
  const byTime = ({ queue, from, to }: { queue: string; from: number; to: number }, at: (job: JobRow) => number) =>
    [...jobs.values()]
      .filter((job) => job.queue === queue && at(job) >= from && at(job) < to)
      .toSorted((one, other) => at(one) - at(other) || (one.jobId < other.jobId ? -1 : 1));
  return {
    ...scheduleUseCases(core, systemRandom),
    createJob: async (request) => {
      asked.created.push(request);
      return ok({ job: create(request), replayed: false });
    },
    createJobs: async (batch) => {
      asked.batches.push(batch);
      return ok(batch.jobs.map((job) => (job.ok ? ok({ job: create(job.value), replayed: false }) : job)));
    },
    requestCancel: async (jobId) => {
      const found = find(jobId);
      return found.ok ? ok({ job: found.value, requested: found.value.status === 'running' }) : found;
    },
    changeJob: async (jobId, changeOf) => {
      const found = find(jobId);
      const change = found.ok ? changeOf(found.value) : found;
      if (!found.ok || !change.ok) return change.ok ? found : change;
      asked.changes.push(change.value);
      return found;
    },
    runJobNow: async (jobId) => find(jobId),
    replayJob: async (jobId, changes) => {
      asked.replays.push(changes);
      return find(jobId);
    },
    releaseJobs: async (items) => {
      asked.released.push(...items);
      return items.map(() => ok({ outcome: 'released', status: 'enqueued', replayed: false }));
    },
    leaseJobs: async (request) => {
      asked.leases.push(request);
      const ready = [...jobs.values()].filter(({ queue }) => queue === request.queue).slice(0, request.max);
      return ok(ready.map((job) => ({ job, attempt: 1, leaseUntil: clock.now() + 30_000, heartbeatS: 10 })));
    },
    listJobs: async (request) => {
      asked.lists.push(request);
      const all = byTime(request, (job) => job.runAt);
      const start = request.after === null ? 0 : all.findIndex(({ jobId }) => jobId === request.after?.jobId) + 1;
      const page = all.slice(start, start + request.pageSize);
      const last = start + page.length < all.length ? page.at(-1) : undefined;
      return ok({ jobs: page, next: last === undefined ? null : { at: last.runAt, jobId: last.jobId } });
    },
    listDeadLetters: async (request) => {
      asked.deadLists.push(request);
      const dead = byTime(request, (job) => job.finishedAt ?? Infinity);
      const start = request.after === null ? 0 : dead.findIndex(({ jobId }) => jobId === request.after?.jobId) + 1;
      const page = dead.slice(start, start + request.pageSize).map((job) => ({ letter: deadLetterOf(job), job }));
      const last = start + page.length < dead.length ? page.at(-1)?.letter : undefined;
      return ok({ deadJobs: page, next: last === undefined ? null : { at: last.deadAt, jobId: last.jobId } });
    },
    startOperation: async (request) => {
      asked.operations.push(request);
      return ok({ operation: bulkOperation({ ...request, createdAt: clock.now() }), replayed: false });
    },
    dryRun: async (task) => {
      asked.dryRuns.push(task);
      const samples = [...jobs.values()];
      return ok({ matched: samples.length, refused: 0, reached: null, samples });
    },
    getOperation: async (operationId) => ok(bulkOperation({ operationId })),
    listOperations: async () => ok({ operations: [bulkOperation()], next: null }),
    stopOperation: async (operationId) => ok(bulkOperation({ operationId, status: 'stopping' })),
    getJob: async (jobId) => find(jobId),
    findJobByKey: async (owner, key) => {
      const job = [...jobs.values()].find((row) => row.owner === owner && row.idempotencyKey === key);
      return job === undefined ? refused({ code: 'job_not_found', detail: 'No job stands under the key.' }) : ok(job);
    },
    cancelJob: async (jobId) => find(jobId),
    claimJobs: async (items) => {
      asked.claimed.push(...items);
      return items.map(({ jobId, attempt }) => {
        const found = find(jobId);
        return found.ok ? ok({ job: found.value, attempt, leaseUntil: clock.now() + 30_000, heartbeatS: 10 }) : found;
      });
    },
    heartbeatJobs: async (items) => {
      asked.heartbeats.push(...items);
      const answer = { leaseUntil: clock.now() + 30_000, deadline: clock.now() + 60_000, cancelRequested: false };
      return items.map(() => ok(answer));
    },
    completeJobs: async (items) => {
      asked.reports.push(...items);
      return items.map(({ kind }) => ok({ outcome: kind, status: 'succeeded', replayed: false }));
    },
    describeQueue: (queue) => queues.describe(queue),
    listQueues: (request) => queues.list(request),
    changeQueue: (request) => queues.change(request),
    pauseQueue: (request) => queues.pause(request),
    resumeQueue: (queue) => queues.resume(queue),
    jobDefaultsOf: (queue) => jobDefaultsOf(book.settingsOf(queue)),
  };
}

function consumerOf(queue: string): ReadyConsumer {
  return { priority: 'high', stream: 'READY_0', subject: `ready.${queue}.high`, consumer: `q_${queue}_p_high` };
}

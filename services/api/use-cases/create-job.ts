import { createHash } from 'node:crypto';
import { ok, refused, type Result } from '../../core/contract/problems.ts';
import { bucketOf } from '../../core/domain/bucket.ts';
import { cohortOf, shardOf } from '../../core/domain/ids.ts';
import type { JobRow } from '../../core/domain/job.ts';
import { JobStatus } from '../../core/domain/job-status.ts';
import { DAY_MS, SECOND_MS } from '../../core/domain/limits.ts';
import type { DueEntry } from '../../core/domain/operation.ts';
import type { EpochMs, Moment } from '../../core/domain/time.ts';
import type { ReadyPublisher } from '../../core/moves/ready-publisher.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type { JobReader } from '../../core/ports/job-store.ts';
import type { JobKey, KeyStore } from '../../core/ports/key-store.ts';
import type { Random } from '../../core/ports/random.ts';
import type { ReadyQueue } from '../../core/ports/ready-queue.ts';
import type { Log, Telemetry } from '../../core/ports/telemetry.ts';
import type { Rounds } from '../../core/rounds/rounds.ts';
import { waitAtMost } from '../../core/runtime/wait-at-most.ts';
import type { Timers } from '../../core/timers/timers.ts';
import type { OpenCohorts, Place } from './open-cohorts.ts';
import { OUTCOME_UNKNOWN, problemOfRound, withStore } from './store-problems.ts';
import type { CreatedJob, CreateJob } from './types.ts';

export interface CreateJobParts {
  readonly rounds: Rounds;
  readonly reader: JobReader;
  readonly timers: Timers;
  readonly keys: KeyStore;
  readonly cohorts: OpenCohorts;
  readonly queue: ReadyQueue;
  readonly publisher: ReadyPublisher;
  readonly clock: Clock;
  readonly random: Random;
  readonly telemetry: Telemetry;
  readonly log: Log;
  readonly shards: number;
}

const KEY_REMEMBERED_MS = 7 * DAY_MS;
/** An unkeyed create that was surely not written takes another cohort, hence other replicas, this many times. */
const OTHER_COHORTS_MAX = 2;
/** How long the answer waits for the ready stream; the publish itself goes on being tried after that. */
const PUBLISH_WAIT_MS = 2 * SECOND_MS;

/**
 * POST /jobs: the idempotency key first, then the due row, then the job, then (for a job due now) the ready message, then
 * the answer. Dying in between leaves an orphan timer, or a key that the caller's retry completes; never a lost job.
 */
export class JobCreator {
  readonly #parts: CreateJobParts;
  /** Requests with one key in this process go one after the other: a key's partition takes one conditional write at a time. */
  readonly #keysInWork = new Map<string, Promise<unknown>>();

  constructor(parts: CreateJobParts) {
    this.#parts = parts;
  }

  async create(request: CreateJob): Promise<Result<CreatedJob>> {
    const { telemetry } = this.#parts;
    const result = await withStore(() =>
      request.idempotencyKey === null
        ? this.#createUnkeyed(request)
        : this.#createKeyed(request, request.idempotencyKey),
    );
    const outcome = !result.ok ? 'refused' : result.value.replayed ? 'replayed' : 'created';
    telemetry.count('punctual_jobs_created_total', { queue: request.queue, outcome });
    return result;
  }

  async findByKey(owner: string, key: string): Promise<Result<JobRow>> {
    return withStore(async () => {
      const known = await this.#parts.keys.find(keyHashOf(owner, key));
      const row = known === null ? undefined : (await this.#parts.reader.read([known.jobId])).get(known.jobId);
      if (row !== undefined) return ok(row);
      return refused({ code: 'job_not_found', detail: `No job stands under the idempotency key "${key}".` });
    });
  }

  async #createUnkeyed(request: CreateJob): Promise<Result<CreatedJob>> {
    for (let other = 0; ; other += 1) {
      const { jobId, cohort } = this.#place(request, this.#parts.clock.now());
      const result = await withStore(() => this.#write(jobId, request, this.#parts.clock.now()));
      const elsewhere = !result.ok && result.problem.code === 'store_unavailable' && other < OTHER_COHORTS_MAX;
      if (!elsewhere) return result;
      this.#parts.cohorts.leave(cohort);
    }
  }

  async #createKeyed(request: CreateJob, key: string): Promise<Result<CreatedJob>> {
    const keyHash = keyHashOf(request.owner, key);
    const before = this.#keysInWork.get(keyHash);
    const work = (async () => {
      if (before !== undefined) await before.catch(() => undefined);
      return this.#createUnderKey(request, keyHash);
    })();
    this.#keysInWork.set(keyHash, work);
    try {
      return await work;
    } finally {
      if (this.#keysInWork.get(keyHash) === work) this.#keysInWork.delete(keyHash);
    }
  }

  async #createUnderKey(request: CreateJob, keyHash: string): Promise<Result<CreatedJob>> {
    const { keys, reader } = this.#parts;
    const standing = (await keys.find(keyHash)) ?? (await keys.claim(this.#newKey(request, keyHash)));
    if (standing.requestHash !== request.requestHash) {
      return refused({
        code: 'idempotency_key_reused',
        detail: 'This idempotency key stands for a job with other content. Use a new key, or send the same content.',
        members: { job_id: standing.jobId },
      });
    }
    if (standing.written) {
      const row = (await reader.read([standing.jobId])).get(standing.jobId);
      if (row !== undefined) return ok({ job: row, replayed: true });
      // Written once and gone by retention: the key still answers for it, and never creates it again.
      const job = this.#jobRow(standing.jobId, request, standing.createdAt, JobStatus.succeeded);
      return ok({ job: { ...job, reason: 'removed_by_retention' }, replayed: true });
    }
    // Whoever finds the key unwritten makes sure the job exists; the key's own base time makes a repeat exact.
    const result = await this.#write(standing.jobId, request, standing.createdAt);
    if (result.ok) await keys.markWritten(standing);
    return result;
  }

  #newKey(request: CreateJob, keyHash: string): JobKey {
    const createdAt = this.#parts.clock.now();
    return {
      keyHash,
      jobId: this.#place(request, createdAt).jobId,
      requestHash: request.requestHash,
      createdAt,
      expiresAt: Math.max(createdAt, wantedAt(request, createdAt)) + KEY_REMEMBERED_MS,
      written: false,
    };
  }

  /** Timer, job, message: in that order. @param baseTime what delay_s counts from, and created_at. */
  async #write(jobId: string, request: CreateJob, baseTime: EpochMs): Promise<Result<CreatedJob>> {
    const { rounds, timers, clock } = this.#parts;
    const direct = this.#takesFastPath(wantedAt(request, baseTime));
    const planned = this.#jobRow(jobId, request, baseTime, direct ? JobStatus.enqueued : JobStatus.scheduled);
    const armed = await timers.armDue([dueRow(planned, direct)]);
    const runAt = armed.entries[0]?.runAt ?? planned.runAt;
    const job = { ...planned, runAt, enqueuedAt: direct ? clock.now() : null };

    const outcome = await rounds.submit({ edge: 'create', jobId, job });
    if (outcome.kind === 'not_written') return refused(problemOfRound(outcome));
    const guarded = await this.#guard(armed.chosenAt, job);
    if (outcome.kind === 'unknown' || !guarded) return refused(OUTCOME_UNKNOWN);

    void this.#prepareQueue(job.queue);
    if (outcome.kind === 'lost') {
      // Only a keyed create can find its id taken: by the same job, written by another process or an earlier try.
      const row = outcome.row ?? job;
      if (row.status === JobStatus.enqueued && row.attempt === 0) await this.#publish(row);
      return ok({ job: row, replayed: true });
    }
    if (direct) await this.#publish(job);
    else timers.hint([dueRow(job, false)]);
    return ok({ job, replayed: false });
  }

  /** Rule 3. False when its row could not be written: the job may exist without a timer, so it is not accepted. */
  async #guard(chosenAt: Moment, job: JobRow): Promise<boolean> {
    try {
      await this.#parts.timers.afterRound(chosenAt, [job]);
      return true;
    } catch (error) {
      this.#parts.log.error('a spare deadline could not be written', { job_id: job.jobId, error: String(error) });
      return false;
    }
  }

  /** The stream holds no truth: the answer does not depend on it, and the second look finds what was never published. */
  async #publish(job: JobRow): Promise<void> {
    const { jobId, runAt, queue, priority } = job;
    const published = this.#parts.publisher.publish({ jobId, attempt: job.attempt + 1, runAt, queue, priority });
    await waitAtMost(this.#parts.clock, PUBLISH_WAIT_MS, published);
  }

  /** A queue's first job makes its consumers, so that workers find them; later calls are remembered. */
  async #prepareQueue(queue: string): Promise<void> {
    try {
      if (this.#parts.queue.connected()) await this.#parts.queue.ensureQueue(queue);
    } catch (error) {
      this.#parts.log.warn('the consumers of a queue could not be made yet', { queue, error: String(error) });
    }
  }

  /** Due now and the stream is there: the job is born enqueued and published here, without waiting for a tick. */
  #takesFastPath(at: EpochMs): boolean {
    return at <= this.#parts.clock.now() && this.#parts.queue.connected();
  }

  #place(request: CreateJob, baseTime: EpochMs): Place {
    const at = wantedAt(request, baseTime);
    const bucket = this.#takesFastPath(at) ? null : bucketOf(Math.max(at, baseTime));
    return this.#parts.cohorts.place({ queue: request.queue, priority: request.priority, bucket });
  }

  #jobRow(jobId: string, request: CreateJob, createdAt: EpochMs, status: JobStatus): JobRow {
    const at = wantedAt(request, createdAt);
    const cohort = cohortOf(jobId);
    return {
      cohort,
      jobId,
      owner: request.owner,
      queue: request.queue,
      priority: request.priority,
      payload: request.payload,
      payloadBytes: request.payloadBytes,
      target: null,
      labels: request.labels,
      idempotencyKey: request.idempotencyKey,
      runAt: at,
      scheduledFor: at,
      shard: shardOf(cohort, this.#parts.shards),
      status,
      attempt: 0,
      tries: 0,
      lapses: 0,
      lostClaims: 0,
      heard: false,
      maxAttempts: request.maxAttempts,
      timeoutS: request.timeoutS,
      leaseS: request.leaseS,
      retry: request.retry,
      leaseUntil: null,
      deadlineAt: null,
      worker: null,
      cancelRequested: false,
      lastError: null,
      result: null,
      progress: null,
      reason: null,
      scheduleId: null,
      traceparent: request.traceparent,
      createToken: this.#parts.random.token(),
      requestHash: request.idempotencyKey === null ? null : request.requestHash,
      expiresAt: request.expiresAt,
      createdAt,
      enqueuedAt: null,
      finishedAt: null,
      starts: new Map(),
      ends: new Map(),
    };
  }
}

function wantedAt(request: CreateJob, baseTime: EpochMs): EpochMs {
  return 'at' in request.when ? request.when.at : baseTime + request.when.delayMs;
}

function dueRow(job: JobRow, direct: boolean): DueEntry {
  const { jobId, shard, runAt, queue, priority, attempt } = job;
  return { jobId, shard, runAt, queue, priority, attempt, direct };
}

/** The scope of a key is the owner and the route. */
function keyHashOf(owner: string, key: string): string {
  return createHash('sha256')
    .update(JSON.stringify([owner, 'POST /jobs', key]))
    .digest('hex');
}

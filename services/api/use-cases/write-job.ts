import { ok, refused, type Result } from '../../core/contract/problems.ts';
import { bucketOf } from '../../core/domain/bucket.ts';
import { cohortOf, shardOf } from '../../core/domain/ids.ts';
import type { JobRow } from '../../core/domain/job.ts';
import { JobStatus } from '../../core/domain/job-status.ts';
import { SECOND_MS } from '../../core/domain/limits.ts';
import type { DueEntry } from '../../core/domain/operation.ts';
import { stableFraction } from '../../core/domain/stable-fraction.ts';
import type { EpochMs, Moment } from '../../core/domain/time.ts';
import type { ReadyPublisher } from '../../core/moves/ready-publisher.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type { Random } from '../../core/ports/random.ts';
import type { ReadyQueue } from '../../core/ports/ready-queue.ts';
import type { Log } from '../../core/ports/telemetry.ts';
import type { QueueGate } from '../../core/queues/queue-gate.ts';
import type { Rounds } from '../../core/rounds/rounds.ts';
import type { ArmOptions, Timers } from '../../core/timers/timers.ts';
import type { OpenCohorts, Place } from './open-cohorts.ts';
import { OUTCOME_UNKNOWN, problemOfRound } from './store-problems.ts';
import type { CreatedJob, CreateJob } from './types.ts';
import type { WaitingLimit } from './waiting-limit.ts';

export interface JobWriterParts {
  readonly rounds: Rounds;
  readonly timers: Timers;
  readonly cohorts: OpenCohorts;
  readonly queue: ReadyQueue;
  readonly gate: QueueGate;
  readonly waitingLimit: Pick<WaitingLimit, 'refusal'>;
  readonly publisher: ReadyPublisher;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly shards: number;
}

/** How long the answer waits for the ready stream; the publish itself goes on being tried after that. */
const PUBLISH_WAIT_MS = 2 * SECOND_MS;

/**
 * Writes a new job under an id: the due row, then the job, then (for a job due now) the ready message. Dying in between
 * leaves an orphan timer, never a lost job. The same job may be written twice under its id: the second finds the first.
 */
export class JobWriter {
  readonly #parts: JobWriterParts;

  constructor(parts: JobWriterParts) {
    this.#parts = parts;
  }

  /** An id for the job beside others of its kind. */
  place(request: CreateJob, baseTime: EpochMs): Place {
    const at = wantedAt(request, baseTime);
    const bucket = this.#takesFastPath(request, at) ? null : bucketOf(Math.max(at, baseTime));
    return this.#parts.cohorts.place({ queue: request.queue, priority: request.priority, bucket });
  }

  /** The cohort's replicas cannot take writes: later jobs go elsewhere. */
  leave(cohort: string): void {
    this.#parts.cohorts.leave(cohort);
  }

  /** Timer, job, message: in that order. @param baseTime what delay_s counts from, and created_at. */
  async write(
    jobId: string,
    request: CreateJob,
    baseTime: EpochMs,
    timer: ArmOptions = {},
  ): Promise<Result<CreatedJob>> {
    const { rounds, timers, waitingLimit, clock } = this.#parts;
    const refusal = await waitingLimit.refusal(request.queue);
    if (refusal !== null) return refused(refusal);
    const planned = this.rowOf(jobId, request, baseTime, JobStatus.scheduled);
    const { chosenAt, runAt, direct } = await this.#arm(planned, this.#takesFastPath(request, planned.runAt), timer);
    const job = { ...planned, runAt, ...(direct && { status: JobStatus.enqueued, enqueuedAt: clock.now() }) };

    const outcome = await rounds.submit({ edge: 'create', jobId, job });
    if (outcome.kind === 'not_written') return refused(problemOfRound(outcome));
    const guarded = await this.#guard(chosenAt, job);
    if (outcome.kind === 'unknown' || !guarded) return refused(OUTCOME_UNKNOWN);

    void this.#prepareQueue(job.queue);
    if (outcome.kind === 'lost') {
      // Only a keyed create can find its id taken: by the same job, written by another process or an earlier try.
      const row = outcome.row ?? job;
      if (row.status === JobStatus.enqueued && row.attempt === 0) await this.#publish(row);
      // Our due row may have taken the place of the other's and says that somebody publishes it.
      if (row.status === JobStatus.scheduled && direct) await this.#makeDue(row);
      return ok({ job: row, replayed: true });
    }
    if (direct) await this.#publish(job);
    else timers.hint([dueRow(job, false)]);
    return ok({ job, replayed: false });
  }

  async #arm(
    planned: JobRow,
    direct: boolean,
    options: ArmOptions,
  ): Promise<{ readonly chosenAt: Moment; readonly runAt: EpochMs; readonly direct: boolean }> {
    const { timers, clock } = this.#parts;
    const armed = await timers.armDue([dueRow(planned, direct)], options);
    const runAt = armed.entries[0]?.runAt ?? planned.runAt;
    if (!direct || runAt <= clock.now()) return { chosenAt: armed.chosenAt, runAt, direct };
    // The clock was ahead as it called the job due, and was set right since: its time is still to come.
    return this.#arm({ ...planned, runAt }, false, options);
  }

  async #makeDue(job: JobRow): Promise<void> {
    const armed = await this.#parts.timers.armDue([dueRow(job, false)]);
    this.#parts.timers.hint(armed.entries);
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
    const waited = new AbortController();
    await Promise.race([published, this.#parts.clock.sleep(PUBLISH_WAIT_MS, waited.signal)]);
    waited.abort();
  }

  /** A queue's first job makes its consumers, so that workers find them; later calls are remembered. */
  async #prepareQueue(queue: string): Promise<void> {
    try {
      if (this.#parts.queue.connected()) await this.#parts.queue.ensureQueue(queue);
    } catch (error) {
      this.#parts.log.warn('the consumers of a queue could not be made yet', { queue, error: String(error) });
    }
  }

  /** Due now, and its queue takes it: the job is born enqueued and published here, without waiting for a tick. */
  #takesFastPath(request: CreateJob, at: EpochMs): boolean {
    return at <= this.#parts.clock.now() && this.#parts.gate.isOpen(request);
  }

  /** The job as it begins. */
  rowOf(jobId: string, request: CreateJob, createdAt: EpochMs, status: JobStatus): JobRow {
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
      runAt: dueAt(jobId, request, createdAt),
      scheduledFor: wantedAt(request, createdAt),
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
      scheduleId: request.scheduleId,
      onOverlap: null,
      waitsFor: null,
      slotUntil: null,
      traceparent: request.traceparent,
      createToken: this.#parts.random.token(),
      requestHash: request.idempotencyKey === null ? null : request.requestHash,
      expiresAt: request.expiresAt,
      createdAt,
      enqueuedAt: null,
      finishedAt: null,
      bulkMarks: [],
      starts: new Map(),
      ends: new Map(),
    };
  }
}

/** The time asked for. @param baseTime what delay_s counts from. */
export function wantedAt(request: CreateJob, baseTime: EpochMs): EpochMs {
  return 'at' in request.when ? request.when.at : baseTime + request.when.delayMs;
}

function dueRow(job: JobRow, direct: boolean): DueEntry {
  const { jobId, shard, runAt, queue, priority, attempt } = job;
  return { jobId, shard, runAt, queue, priority, attempt, direct };
}

/** The time asked for, moved by the job's own share of the jitter: the same whenever the job is written. */
function dueAt(jobId: string, request: CreateJob, baseTime: EpochMs): EpochMs {
  const at = wantedAt(request, baseTime);
  if (request.jitterMs === 0) return at;
  return at + Math.floor(stableFraction(jobId) * request.jitterMs);
}

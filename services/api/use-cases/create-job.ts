import { ok, refused, type Result } from '../../core/contract/problems.ts';
import type { JobRow } from '../../core/domain/job.ts';
import { JobStatus } from '../../core/domain/job-status.ts';
import { CREATES_APART_MAX_MS, DAY_MS, IDEMPOTENCY_KEY_KEPT_DAYS } from '../../core/domain/limits.ts';
import type { EpochMs } from '../../core/domain/time.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type { JobReader } from '../../core/ports/job-store.ts';
import type { KeyStore } from '../../core/ports/key-store.ts';
import type { Telemetry } from '../../core/ports/telemetry.ts';
import { GroupTurns } from '../../core/runtime/group-turns.ts';
import { batchItemId, batchSeedId } from './batch-items.ts';
import { type KeyedCalls, keyHashOf, type KeyedRoute } from './keyed-calls.ts';
import type { Random } from '../../core/ports/random.ts';
import { inSomePlace } from './in-some-place.ts';
import { withStore } from './store-problems.ts';
import type { CreatedJob, CreateJob, CreateJobs } from './types.ts';
import { type JobWriter, wantedAt } from './write-job.ts';

export interface CreateJobParts {
  readonly writer: JobWriter;
  readonly keyed: KeyedCalls;
  readonly keys: KeyStore;
  readonly reader: JobReader;
  readonly clock: Clock;
  readonly random: Random;
  readonly telemetry: Telemetry;
}

const KEY_REMEMBERED_MS = IDEMPOTENCY_KEY_KEPT_DAYS * DAY_MS;

/** POST /jobs and POST /jobs/batch: the idempotency key first, then what JobWriter writes, then the answer. */
export class JobCreator {
  readonly #parts: CreateJobParts;
  readonly #turns: GroupTurns;

  constructor(parts: CreateJobParts) {
    this.#parts = parts;
    this.#turns = new GroupTurns(parts.clock, CREATES_APART_MAX_MS);
  }

  /** @param route the scope of its key. */
  async create(request: CreateJob, route: KeyedRoute = 'POST /jobs'): Promise<Result<CreatedJob>> {
    await this.#turns.turn();
    return this.#create(request, route);
  }

  async #create(request: CreateJob, route: KeyedRoute): Promise<Result<CreatedJob>> {
    const { idempotencyKey } = request;
    return this.#counted(
      request,
      await withStore(() =>
        idempotencyKey === null ? this.#createUnkeyed(request) : this.#createKeyed(request, idempotencyKey, route),
      ),
    );
  }

  /** Refused as a whole only for its key; else each item has its own result. */
  async createBatch(
    batch: CreateJobs,
    route: KeyedRoute = 'POST /jobs/batch',
  ): Promise<Result<readonly Result<CreatedJob>[]>> {
    await this.#turns.turn();
    const { idempotencyKey, jobs } = batch;
    if (idempotencyKey !== null) return withStore(() => this.#createKeyedBatch(batch, idempotencyKey, route));
    return ok(await Promise.all(jobs.map(async (job) => (job.ok ? this.#create(job.value, 'POST /jobs') : job))));
  }

  /** The job of a key, or with `<key>/<i>` item i of a batch's key. */
  async findByKey(owner: string, key: string): Promise<Result<JobRow>> {
    return withStore(async () => {
      const jobId = (await this.#jobIdOfKey(owner, key)) ?? (await this.#jobIdOfBatchItem(owner, key));
      const row = jobId === null ? undefined : (await this.#parts.reader.read([jobId])).get(jobId);
      if (row !== undefined) return ok(row);
      return refused({ code: 'job_not_found', detail: `No job stands under the idempotency key "${key}".` });
    });
  }

  #createUnkeyed(request: CreateJob): Promise<Result<CreatedJob>> {
    const { writer, clock } = this.#parts;
    return inSomePlace(
      { choose: () => writer.place(request, clock.now()), leave: ({ cohort }) => writer.leave(cohort) },
      ({ jobId }, options) => writer.write(jobId, request, clock.now(), options),
    );
  }

  #createKeyed(request: CreateJob, key: string, route: KeyedRoute): Promise<Result<CreatedJob>> {
    const { writer, keyed, reader, clock } = this.#parts;
    const now = clock.now();
    return keyed.run({
      keyHash: keyHashOf(request.owner, route, key),
      requestHash: contentHashOf(request),
      newKey: () => ({
        jobId: writer.place(request, now).jobId,
        createdAt: now,
        expiresAt: keyExpiry(now, [request]),
      }),
      replay: async ({ jobId, createdAt }) => {
        const row = (await reader.read([jobId])).get(jobId);
        return ok({ job: row ?? this.#removed(jobId, request, createdAt), replayed: true });
      },
      write: async ({ jobId, createdAt }) => {
        const result = await writer.write(jobId, request, createdAt);
        return { result, complete: result.ok };
      },
    });
  }

  /**
   * One key for all items. Their ids follow from the key's seed and their place alone, and their times from its base time, so
   * that a repeat is exact; an item whose cohort cannot be written is refused, never moved.
   */
  #createKeyedBatch(batch: CreateJobs, key: string, route: KeyedRoute): Promise<Result<readonly Result<CreatedJob>[]>> {
    const { writer, keyed, reader, clock, random } = this.#parts;
    const now = clock.now();
    return keyed.run({
      keyHash: keyHashOf(batch.owner, route, key),
      requestHash: contentHashOf(batch),
      newKey: () => ({
        jobId: batchSeedId(random),
        createdAt: now,
        expiresAt: keyExpiry(
          now,
          batch.jobs.flatMap((job) => (job.ok ? [job.value] : [])),
        ),
      }),
      replay: async ({ jobId: seedId, createdAt }) => {
        const rows = await reader.read(batch.jobs.map((_, index) => batchItemId(seedId, index)));
        return ok(
          batch.jobs.map((job, index) => {
            if (!job.ok) return job;
            const jobId = batchItemId(seedId, index);
            return ok({ job: rows.get(jobId) ?? this.#removed(jobId, job.value, createdAt), replayed: true });
          }),
        );
      },
      write: async ({ jobId: seedId, createdAt }) => {
        const results = await Promise.all(
          batch.jobs.map(async (job, index) => {
            if (!job.ok) return job;
            const written = () => writer.write(batchItemId(seedId, index), job.value, createdAt);
            return this.#counted(job.value, await withStore(written));
          }),
        );
        // An item refused for its content is refused again; one that the store could not take is still to be written.
        const complete = results.every((result, index) => result.ok || batch.jobs[index]?.ok === false);
        return { result: ok(results), complete };
      },
    });
  }

  async #jobIdOfKey(owner: string, key: string): Promise<string | null> {
    return (await this.#parts.keys.find(keyHashOf(owner, 'POST /jobs', key)))?.jobId ?? null;
  }

  async #jobIdOfBatchItem(owner: string, key: string): Promise<string | null> {
    const [, batchKey, index] = /^(.+)\/(\d{1,4})$/.exec(key) ?? [];
    if (batchKey === undefined) return null;
    const seed = await this.#parts.keys.find(keyHashOf(owner, 'POST /jobs/batch', batchKey));
    return seed === null ? null : batchItemId(seed.jobId, Number(index));
  }

  /** Written once and gone by retention: the key still answers for it, and never creates it again. */
  #removed(jobId: string, request: CreateJob, createdAt: EpochMs): JobRow {
    const job = this.#parts.writer.rowOf(jobId, request, createdAt, JobStatus.succeeded);
    return { ...job, reason: 'removed_by_retention' };
  }

  #counted(request: CreateJob, result: Result<CreatedJob>): Result<CreatedJob> {
    const outcome = !result.ok ? 'refused' : result.value.replayed ? 'replayed' : 'created';
    this.#parts.telemetry.count('punctual_jobs_created_total', { queue: request.queue, outcome });
    return result;
  }
}

/** Remembered for 7 days, or 7 days from the latest time asked for. */
function keyExpiry(now: EpochMs, requests: readonly CreateJob[]): EpochMs {
  return requests.reduce((latest, request) => Math.max(latest, wantedAt(request, now)), now) + KEY_REMEMBERED_MS;
}

/** What is sent under a key comes with the hash of its content. */
function contentHashOf({ requestHash }: Pick<CreateJob, 'requestHash'>): string {
  if (requestHash === null) throw new Error('a keyed request without the hash of its content');
  return requestHash;
}

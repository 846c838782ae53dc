import { COHORT_ENTROPY_BYTES, jobCohort, memberId, shardOf } from '../../core/domain/ids.ts';
import { COHORT_OPEN_MAX_MS } from '../../core/domain/limits.ts';
import type { Priority } from '../../core/domain/job-status.ts';
import { msBetween, type MonotonicMs } from '../../core/domain/time.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type { Random } from '../../core/ports/random.ts';

export interface Place {
  readonly jobId: string;
  readonly cohort: string;
  readonly shard: number;
}

interface OpenCohort {
  readonly cohort: string;
  readonly shard: number;
  readonly openedAt: MonotonicMs;
  readonly key: string;
  readonly isDueNow: boolean;
  members: number;
}

/** More groups of (queue, priority, minute) than this within a second are not worth sharing cohorts for. */
const OPEN_MAX = 10_000;

/**
 * Gives new jobs their ids. Jobs of one (queue, priority, bucket) that arrive within a second share a cohort, so that
 * later one round moves them all. Jobs due now leave theirs as its first round starts: workers will soon write there.
 */
export class OpenCohorts {
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #shards: number;
  readonly #size: number;
  readonly #open = new Map<string, OpenCohort>();
  readonly #byCohort = new Map<string, OpenCohort>();

  constructor(parts: { clock: Clock; random: Random; shards: number; size: number }) {
    this.#clock = parts.clock;
    this.#random = parts.random;
    this.#shards = parts.shards;
    this.#size = parts.size;
  }

  /** @param bucket the minute the job is due in; null for a job due now. */
  place(job: { readonly queue: string; readonly priority: Priority; readonly bucket: number | null }): Place {
    const key = `${job.queue} ${job.priority} ${job.bucket ?? 'now'}`;
    let open = this.#open.get(key);
    if (open === undefined || open.members >= this.#size || this.#isOld(open)) {
      open = this.#renew(key, job.bucket === null);
    }
    const { cohort, shard } = open;
    const jobId = memberId(cohort, open.members);
    open.members += 1;
    return { jobId, cohort, shard };
  }

  /** A round on the cohort starts. */
  roundStarts(cohort: string): void {
    if (this.#byCohort.get(cohort)?.isDueNow === true) this.leave(cohort);
  }

  /** New jobs go elsewhere from now on, for example because the cohort's replicas are away. */
  leave(cohort: string): void {
    const open = this.#byCohort.get(cohort);
    if (open === undefined) return;
    this.#byCohort.delete(cohort);
    this.#open.delete(open.key);
  }

  #renew(key: string, isDueNow: boolean): OpenCohort {
    const former = this.#open.get(key);
    if (former !== undefined) this.leave(former.cohort);
    if (this.#open.size >= OPEN_MAX) {
      this.#open.clear();
      this.#byCohort.clear();
    }
    const cohort = jobCohort(this.#random.bytes(COHORT_ENTROPY_BYTES));
    const shard = shardOf(cohort, this.#shards);
    const open = { cohort, shard, openedAt: this.#clock.monotonic(), key, isDueNow, members: 0 };
    this.#open.set(key, open);
    this.#byCohort.set(cohort, open);
    return open;
  }

  #isOld(open: OpenCohort): boolean {
    return msBetween(open.openedAt, this.#clock.monotonic()) > COHORT_OPEN_MAX_MS;
  }
}

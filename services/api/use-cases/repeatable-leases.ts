import { ok, type Result } from '../../core/contract/problems.ts';
import type { JobClaimer } from './claim-jobs.ts';
import type { JobLeaser } from './lease-jobs.ts';
import { isUndecided } from './store-problems.ts';
import type { ClaimedJob, ClaimItem, LeaseRequest } from './types.ts';

/** Claims that are remembered for a repeat, of all leases together: about 10 MB. */
const CLAIMS_KEPT_MAX = 50_000;

/**
 * A lease names no jobs, so that a caller who lost the answer could not claim them again by itself, and they would run out
 * their leases unheard of. What was handed out under a claim_id is remembered here: a repeat claims the same jobs again, which
 * gives those that still are the caller's. Another process knows nothing of it, and hands out other jobs.
 */
export class RepeatableLeases {
  readonly #leaser: Pick<JobLeaser, 'lease'>;
  readonly #claimer: Pick<JobClaimer, 'claim'>;
  /** By queue and claim_id, oldest first. */
  readonly #handedOut = new Map<string, readonly ClaimItem[]>();
  #kept = 0;
  /** A repeat may overtake the call that it repeats: it waits for it. */
  readonly #inWork = new Map<string, Promise<unknown>>();

  constructor(parts: { leaser: Pick<JobLeaser, 'lease'>; claimer: Pick<JobClaimer, 'claim'> }) {
    this.#leaser = parts.leaser;
    this.#claimer = parts.claimer;
  }

  async lease(request: LeaseRequest): Promise<Result<readonly ClaimedJob[]>> {
    if (request.claimId === null) return this.#leaser.lease(request);
    const key = `${request.queue} ${request.claimId}`;
    const before = this.#inWork.get(key);
    const work = (async () => {
      if (before !== undefined) await before.catch(() => undefined);
      return (await this.#again(key, request)) ?? this.#first(key, request);
    })();
    this.#inWork.set(key, work);
    try {
      return await work;
    } finally {
      if (this.#inWork.get(key) === work) this.#inWork.delete(key);
    }
  }

  /** Null when nothing was handed out under the key, or nothing of it is the caller's any more. */
  async #again(key: string, { worker }: LeaseRequest): Promise<Result<readonly ClaimedJob[]> | null> {
    const items = this.#handedOut.get(key);
    if (items === undefined) return null;
    const results = await this.#claimer.claim(items, worker);
    const undecided = results.find((result) => !result.ok && isUndecided(result.problem.code));
    if (undecided?.ok === false) return undecided;
    const claimed = results.flatMap((result) => (result.ok ? [result.value] : []));
    return claimed.length === 0 ? null : ok(claimed);
  }

  async #first(key: string, request: LeaseRequest): Promise<Result<readonly ClaimedJob[]>> {
    const result = await this.#leaser.lease(request);
    if (result.ok) {
      const { claimId } = request;
      this.#remember(
        key,
        result.value.map(({ job, attempt }) => ({ jobId: job.jobId, attempt, claimId })),
      );
    }
    return result;
  }

  #remember(key: string, items: readonly ClaimItem[]): void {
    this.#forget(key);
    if (items.length === 0) return;
    this.#handedOut.set(key, items);
    this.#kept += items.length;
    for (const oldest of this.#handedOut.keys()) {
      if (this.#kept <= CLAIMS_KEPT_MAX) return;
      this.#forget(oldest);
    }
  }

  #forget(key: string): void {
    this.#kept -= this.#handedOut.get(key)?.length ?? 0;
    this.#handedOut.delete(key);
  }
}

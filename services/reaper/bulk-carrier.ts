import { decideBulk, type BulkTask, type FoundJob } from '../core/domain/bulk.ts';
import type { JobRow } from '../core/domain/job.ts';
import { SPARE_DEADLINE_AHEAD_MS } from '../core/domain/limits.ts';
import type { Discard } from '../core/domain/operation.ts';
import { CancelReason, type WaitingCanceller } from '../core/moves/cancel-waiting.ts';
import type { JobMover } from '../core/moves/move-job.ts';
import type { Clock } from '../core/ports/clock.ts';
import type { JobReader } from '../core/ports/job-store.ts';
import { StoreError } from '../core/ports/store-error.ts';
import type { RoundOutcome, Rounds } from '../core/rounds/rounds.ts';
import type { Timers } from '../core/timers/timers.ts';

export interface BulkCarrierParts {
  readonly reader: JobReader;
  readonly rounds: Rounds;
  readonly timers: Timers;
  readonly mover: JobMover;
  readonly canceller: WaitingCanceller;
  readonly clock: Clock;
}

/** What became of the jobs that some rows of the index name. */
export interface Carried {
  readonly changed: number;
  readonly failed: number;
  /** Why the last of those that failed did. */
  readonly error: string | null;
}

type One = 'changed' | 'left' | { readonly failed: string };

/** A job that others keep moving while it is to be changed counts as failed. */
const TRIES_MAX = 5;

/** Carries out what a bulk operation decides about each job. */
export class BulkCarrier {
  readonly #parts: BulkCarrierParts;

  constructor(parts: BulkCarrierParts) {
    this.#parts = parts;
  }

  /**
   * Throws StoreError when the store could not do all of it now: to be called again with the same rows, of which those that
   * are done are found so.
   */
  async carryOut(task: BulkTask, rows: readonly { readonly at: number; readonly jobId: string }[]): Promise<Carried> {
    const jobs = await this.#parts.reader.read(rows.map(({ jobId }) => jobId));
    const results = await Promise.allSettled(
      rows.flatMap(({ at, jobId }) => {
        const job = jobs.get(jobId);
        return job === undefined ? [] : [this.#carryOne(task, { at, job })];
      }),
    );
    const done: One[] = [];
    for (const result of results) {
      if (result.status === 'rejected') throw result.reason;
      done.push(result.value);
    }
    const failures = done.flatMap((one) => (typeof one === 'object' ? [one.failed] : []));
    return {
      changed: done.filter((one) => one === 'changed').length,
      failed: failures.length,
      error: failures.at(-1) ?? null,
    };
  }

  async #carryOne(task: BulkTask, found: FoundJob): Promise<One> {
    let job: JobRow | null = found.job;
    for (let tries = 0; tries < TRIES_MAX; tries += 1) {
      if (job === null) return 'left';
      const decision = decideBulk(task, { ...found, job }, this.#parts.clock.now());
      switch (decision.kind) {
        case 'leave':
          return 'left';
        case 'done':
          return 'changed';
        case 'refuse':
          return { failed: `${job.jobId}: ${decision.reason}` };
        default: {
          const outcome = await this.#act(job, decision);
          if (outcome.kind === 'applied') return 'changed';
          if (outcome.kind !== 'lost') return unwritten(job, outcome);
          job = outcome.row;
        }
      }
    }
    return { failed: `${found.job.jobId}: others kept changing it` };
  }

  async #act(job: JobRow, decision: Acting): Promise<RoundOutcome> {
    const { rounds, mover, canceller } = this.#parts;
    switch (decision.kind) {
      case 'cancel': {
        const outcome = await canceller.cancel(job, CancelReason.byRequest, decision.bulkMarks);
        if (outcome === null) throw new Error(`${job.jobId} was to be cancelled, and does not wait`);
        return outcome.kind === 'cancelled' ? { kind: 'applied' } : outcome;
      }
      case 'request_cancel':
        return rounds.submit(decision.operation);
      case 'discard':
        return this.#discard(job, decision.operation);
      case 'move': {
        const outcome = await mover.move(job, decision.operation);
        return outcome.kind === 'moved' ? { kind: 'applied' } : outcome;
      }
    }
  }

  /** The timers of a dead job came long ago: one more tells its history of this end, whatever becomes of the operation. */
  async #discard({ jobId, shard }: JobRow, operation: Discard): Promise<RoundOutcome> {
    const { rounds, timers, clock } = this.#parts;
    const at = clock.now() + SPARE_DEADLINE_AHEAD_MS;
    const armed = await timers.armDeadlines([{ jobId, shard, at, publishedAt: null }]);
    const outcome = await rounds.submit(operation);
    if (outcome.kind !== 'not_written') await timers.afterRound(armed.chosenAt, [{ jobId, shard }]);
    return outcome;
  }
}

type Acting = Exclude<ReturnType<typeof decideBulk>, { readonly kind: 'leave' | 'done' | 'refuse' }>;

/** What the store refuses for itself it will refuse again; everything else is tried until it is known. */
function unwritten(job: JobRow, outcome: Extract<RoundOutcome, { kind: 'unknown' | 'not_written' }>): One {
  if (outcome.kind === 'not_written' && outcome.reason === 'invalid') {
    return { failed: `${job.jobId}: the store refused the write` };
  }
  throw new StoreError('unavailable', `${job.jobId} could not be changed now`, { cause: outcome.cause });
}

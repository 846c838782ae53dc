import { hasEnded, type BulkOperation } from '../core/domain/bulk.ts';
import { isOperationId } from '../core/domain/ids.ts';
import { ABSENT_JOB_GRACE_MS, OPERATIONS_AT_ONCE_MAX, SECOND_MS } from '../core/domain/limits.ts';
import type { EpochMs } from '../core/domain/time.ts';
import type { OperationStore } from '../core/ports/operation-store.ts';
import type { Random } from '../core/ports/random.ts';
import { OperationRun, type OperationRunParts } from './operation-run.ts';
import type { Found, Settled, Settles } from './settle.ts';

export interface OperationsParts extends OperationRunParts {
  readonly store: OperationStore;
  readonly random: Random;
  /** Whether our lease on the shard certainly stands. */
  readonly holds: (shard: number) => boolean;
}

/** Operations waited for that are not there yet; beyond it the oldest are forgotten, and begin anew. */
const AWAITED_MAX = 1_000;

/**
 * The bulk operations of the shards that this process owns: each has timers like a job, and whoever owns their shard runs it; after a
 * crash the next owner goes on from where it was saved.
 */
export class Operations {
  readonly #parts: OperationsParts;
  readonly #running = new Map<string, { readonly run: OperationRun; readonly ended: Promise<void> }>();
  /** Since when a timer was found of an operation that was not there: its creation may be under way. */
  readonly #awaited = new Map<string, EpochMs>();
  #stopped = false;

  constructor(parts: OperationsParts) {
    this.#parts = parts;
  }

  /** What a timer of an operation leads to. Never throws for the store's sake. */
  async settle({ jobId: operationId, shard }: Found): Promise<Settled> {
    const { log } = this.#parts;
    try {
      return await this.#settle(operationId, shard);
    } catch (error) {
      log.warn('an operation could not be taken up; trying again', { operation_id: operationId, error: String(error) });
      return this.#again();
    }
  }

  /** Ends what runs, at the next chunk; the next owner goes on. */
  async stop(): Promise<void> {
    this.#stopped = true;
    await Promise.all([...this.#running.values()].map(({ ended }) => ended));
  }

  async #settle(operationId: string, shard: number): Promise<Settled> {
    const running = this.#running.get(operationId);
    if (running !== undefined) return running.run.isArmed() ? 'settled' : this.#again();
    if (this.#stopped || this.#running.size >= OPERATIONS_AT_ONCE_MAX) return this.#again();
    const operation = await this.#parts.store.find(operationId);
    if (operation === null) return this.#await(operationId);
    this.#awaited.delete(operationId);
    if (hasEnded(operation)) return 'settled';
    return this.#take(operation, shard);
  }

  /** Its timer comes again until the run has written a later one. */
  async #take(operation: BulkOperation, shard: number): Promise<Settled> {
    const { register, random, log, holds } = this.#parts;
    const { operationId } = operation;
    const outcome = await register.change(operation, { runner: random.token() });
    // Another timer of it may have been settled meanwhile.
    if (outcome.kind === 'lost' || this.#running.has(operationId)) return this.#again();
    const mayGoOn = (): boolean => !this.#stopped && holds(shard);
    const run = new OperationRun(this.#parts, { operation: outcome.operation, shard, mayGoOn });
    const ended = run.run().finally(() => this.#running.delete(operationId));
    this.#running.set(operationId, { run, ended });
    log.info('running an operation', { operation_id: operationId, verb: operation.verb, position: operation.position });
    return this.#again();
  }

  #await(operationId: string): Settled {
    const now = this.#parts.clock.now();
    const since = this.#awaited.get(operationId) ?? now;
    if (now - since >= ABSENT_JOB_GRACE_MS) {
      this.#awaited.delete(operationId);
      return 'settled';
    }
    if (this.#awaited.size >= AWAITED_MAX) {
      const oldest = this.#awaited.keys().next();
      if (oldest.done !== true) this.#awaited.delete(oldest.value);
    }
    this.#awaited.set(operationId, since);
    return this.#again();
  }

  #again(): Settled {
    return { again: this.#parts.clock.now() + SECOND_MS };
  }
}

/** In the timer tables stand jobs and operations. */
export function settlesAll(jobs: Settles, operations: Pick<Operations, 'settle'>): Settles {
  return {
    settle: async (found) => {
      if (!found.some(({ jobId }) => isOperationId(jobId))) return jobs.settle(found);
      const ofJobs = found.filter(({ jobId }) => !isOperationId(jobId));
      const settled = new Map<Found, Settled>();
      await Promise.all([
        jobs.settle(ofJobs).then((results) => {
          results.forEach((result, index) => ofJobs[index] !== undefined && settled.set(ofJobs[index], result));
        }),
        ...found.map(async (each) => {
          if (isOperationId(each.jobId)) settled.set(each, await operations.settle(each));
        }),
      ]);
      return found.map((each) => settled.get(each) ?? 'settled');
    },
  };
}

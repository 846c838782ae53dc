import { bulkPage } from '../core/bulk/bulk-page.ts';
import type { OperationRegister } from '../core/bulk/operation-register.ts';
import { BulkStatus, type BulkOperation, type BulkPosition } from '../core/domain/bulk.ts';
import {
  OPERATION_CHUNK_MAX_JOBS,
  OPERATION_LOOK_AHEAD_MS,
  OPERATION_SAVE_EVERY_MS,
  SECOND_MS,
} from '../core/domain/limits.ts';
import { elapsedMs, type EpochMs, type Moment } from '../core/domain/time.ts';
import type { Clock } from '../core/ports/clock.ts';
import type { Log } from '../core/ports/telemetry.ts';
import type { JobIndex } from '../core/scan/job-index.ts';
import type { Timers } from '../core/timers/timers.ts';
import type { BulkCarrier } from './bulk-carrier.ts';

export interface OperationRunParts {
  readonly register: OperationRegister;
  readonly index: JobIndex;
  readonly carrier: BulkCarrier;
  readonly timers: Timers;
  readonly clock: Clock;
  readonly log: Log;
}

const RETRY_PAUSE_MS = SECOND_MS;

/**
 * One operation being run by this process: page after page of the index, chunk after chunk, at its rate. Its progress is saved each
 * second, behind what is done, so that whoever goes on after a crash meets some jobs again and finds the mark on them.
 */
export class OperationRun {
  readonly #parts: OperationRunParts;
  readonly #shard: number;
  readonly #mayGoOn: () => boolean;
  #operation: BulkOperation;
  #saved: Moment;
  #armedUntil: EpochMs = 0;

  /** @param operation with this run's own token as its runner, saved. */
  constructor(parts: OperationRunParts, start: { operation: BulkOperation; shard: number; mayGoOn: () => boolean }) {
    this.#parts = parts;
    this.#operation = start.operation;
    this.#shard = start.shard;
    this.#mayGoOn = start.mayGoOn;
    this.#saved = parts.clock.moment();
  }

  /** Whether a timer of the operation is ahead: only then may one that has come be dropped. */
  isArmed(): boolean {
    return this.#armedUntil > this.#parts.clock.now() + SECOND_MS;
  }

  /** Until the operation has ended, or is another's. Never rejects. */
  async run(): Promise<void> {
    const { clock, log } = this.#parts;
    while (this.#mayGoOn()) {
      try {
        if (await this.#step()) return;
      } catch (error) {
        const { operationId } = this.#operation;
        log.warn('an operation cannot go on now; trying again', { operation_id: operationId, error: String(error) });
        await clock.sleep(RETRY_PAUSE_MS);
      }
    }
    // Handed over: what is not saved is found done by the next runner, which only takes longer.
    await this.#save({}).catch(() => undefined);
  }

  /** One page of the index; true when nothing is left to be done here. */
  async #step(): Promise<boolean> {
    await this.#keepArmed();
    if (this.#isStopping()) return this.#end(BulkStatus.stopped);
    const { rows, next } = await bulkPage(this.#parts.index, this.#operation, this.#operation.position);
    for (let start = 0; start < rows.length; start += this.#chunkSize()) {
      if (!this.#mayGoOn()) return false;
      await this.#carryOut(rows.slice(start, start + this.#chunkSize()));
      if (!(await this.#saveNowAndThen())) return true;
      if (this.#isStopping()) return false;
    }
    if (next === null) return this.#end(BulkStatus.done);
    this.#operation = { ...this.#operation, position: next };
    return !(await this.#saveNowAndThen());
  }

  #isStopping(): boolean {
    return this.#operation.status === BulkStatus.stopping;
  }

  /** The jobs of one chunk, and then the time that they may take at the operation's rate. */
  async #carryOut(chunk: readonly BulkPosition[]): Promise<void> {
    const { carrier, clock } = this.#parts;
    const startedAt = clock.moment();
    const { changed, failed, error } = await carrier.carryOut(this.#operation, chunk);
    const before = this.#operation;
    this.#operation = {
      ...before,
      position: chunk.at(-1) ?? before.position,
      changed: before.changed + changed,
      failed: before.failed + failed,
      lastError: error ?? before.lastError,
    };
    const paceMs = ((changed + failed) * SECOND_MS) / before.ratePerS - elapsedMs(startedAt, clock.moment());
    if (paceMs > 0) await clock.sleep(paceMs);
  }

  /** At low rates as many as a second takes, so that a stop is heeded soon. */
  #chunkSize(): number {
    return Math.max(1, Math.min(OPERATION_CHUNK_MAX_JOBS, Math.floor(this.#operation.ratePerS)));
  }

  async #saveNowAndThen(): Promise<boolean> {
    await this.#keepArmed();
    const { clock } = this.#parts;
    if (elapsedMs(this.#saved, clock.moment()) < OPERATION_SAVE_EVERY_MS) return true;
    return this.#save({});
  }

  async #end(status: typeof BulkStatus.done | typeof BulkStatus.stopped): Promise<boolean> {
    const { clock, log } = this.#parts;
    const { operationId, verb, changed, failed } = this.#operation;
    if (!(await this.#save({ status, finishedAt: clock.now() }))) return true;
    // A request to stop came in between: the next step heeds it.
    if (this.#operation.status !== status) return false;
    log.info('an operation has ended', { operation_id: operationId, verb, status, changed, failed });
    return true;
  }

  /** False when the operation is another's now, or gone. Of what is being saved, a request to stop is let stand. */
  async #save(end: Partial<Pick<BulkOperation, 'status' | 'finishedAt'>>): Promise<boolean> {
    const { register, clock } = this.#parts;
    const { position, changed, failed, lastError, runner } = this.#operation;
    const outcome = await register.change(this.#operation, { position, changed, failed, lastError, runner, ...end });
    if (outcome.kind === 'saved') {
      this.#operation = outcome.operation;
      this.#saved = clock.moment();
      return true;
    }
    if (outcome.found?.runner !== runner) return false;
    const { status, revision, updatedAt } = outcome.found;
    this.#operation = { ...this.#operation, status, revision, updatedAt };
    return true;
  }

  async #keepArmed(): Promise<void> {
    const { timers, clock } = this.#parts;
    const now = clock.now();
    if (this.#armedUntil > now + OPERATION_LOOK_AHEAD_MS / 2) return;
    const at = now + OPERATION_LOOK_AHEAD_MS;
    const { operationId } = this.#operation;
    await timers.armDeadlines([{ jobId: operationId, shard: this.#shard, at, publishedAt: null }]);
    this.#armedUntil = at;
  }
}

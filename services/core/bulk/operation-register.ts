import type { BulkOperation } from '../domain/bulk.ts';
import { OPERATION_DEADLINE_MS, SECOND_MS } from '../domain/limits.ts';
import { elapsedMs } from '../domain/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { OperationProgress, OperationStore } from '../ports/operation-store.ts';
import type { Random } from '../ports/random.ts';
import { StoreError } from '../ports/store-error.ts';

/** saved: as it is now. Lost: as somebody else left it, null when it is gone. */
export type RegisterOutcome =
  | { readonly kind: 'saved'; readonly operation: BulkOperation }
  | { readonly kind: 'lost'; readonly found: BulkOperation | null };

const RETRY_PAUSE_MS = SECOND_MS / 4;

/** Writes to operations; one without an answer is settled by its own mark. */
export class OperationRegister {
  readonly #store: OperationStore;
  readonly #clock: Clock;
  readonly #random: Random;

  constructor(parts: { store: OperationStore; clock: Clock; random: Random }) {
    this.#store = parts.store;
    this.#clock = parts.clock;
    this.#random = parts.random;
  }

  /** Writes it unless it exists, and returns the one that stands. Throws StoreError. */
  create(operation: BulkOperation): Promise<BulkOperation> {
    return this.#retried(() => this.#store.create(operation));
  }

  /** Changes it if it is still as it was read. Throws StoreError: it may be changed then. */
  async change(
    before: BulkOperation,
    changes: Partial<Omit<OperationProgress, 'updatedAt'>>,
  ): Promise<RegisterOutcome> {
    const token = this.#random.token();
    const after: BulkOperation = {
      ...before,
      ...changes,
      updatedAt: this.#clock.now(),
      revision: before.revision + 1,
    };
    return this.#retried(async () => {
      const lost = await this.#store.save(before, after, token);
      // An earlier try of ours may have been written without an answer.
      if (lost === null || (await this.#store.bearsToken(before.operationId, token))) {
        return { kind: 'saved', operation: after };
      }
      return { kind: 'lost', found: lost.found };
    });
  }

  async #retried<Result>(write: () => Promise<Result>): Promise<Result> {
    const startedAt = this.#clock.moment();
    for (;;) {
      try {
        return await write();
      } catch (error) {
        const retryable = error instanceof StoreError && error.kind !== 'invalid';
        if (!retryable || elapsedMs(startedAt, this.#clock.moment()) > OPERATION_DEADLINE_MS) throw error;
        await this.#clock.sleep(RETRY_PAUSE_MS);
      }
    }
  }
}

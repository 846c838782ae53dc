import { createHash } from 'node:crypto';
import { refused, type Result } from '../../core/contract/problems.ts';
import { storePauseMs } from '../../core/domain/backoff.ts';
import { isScheduleId } from '../../core/domain/ids.ts';
import { OPERATION_DEADLINE_MS } from '../../core/domain/limits.ts';
import { msBetween } from '../../core/domain/time.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type { JobKey, KeyStore } from '../../core/ports/key-store.ts';
import { StoreError } from '../../core/ports/store-error.ts';

export interface KeyedCall<T> {
  readonly keyHash: string;
  readonly requestHash: string;
  /** What the key stands for. */
  readonly names?: 'job_id' | 'operation_id';
  /** The key to be written when there is none yet. */
  readonly newKey: () => Omit<JobKey, 'keyHash' | 'requestHash' | 'written'>;
  /** The call has been carried out before: its answer again. */
  readonly replay: (standing: JobKey) => Promise<Result<T>>;
  /** Carries the call out under the key that stands; exact when repeated. `complete`: nothing is left to be done. */
  readonly write: (standing: JobKey) => Promise<{ readonly result: Result<T>; readonly complete: boolean }>;
}

/**
 * Calls under an idempotency key: the key is written before anything else, and marked as written after everything else. Whoever
 * finds it unmarked carries the call out again, so that a crash in between heals on the caller's retry.
 */
export class KeyedCalls {
  readonly #keys: KeyStore;
  readonly #clock: Clock;
  /** Calls with one key in this process go one after the other: a key's partition takes one conditional write at a time. */
  readonly #inWork = new Map<string, Promise<unknown>>();

  constructor(keys: KeyStore, clock: Clock) {
    this.#keys = keys;
    this.#clock = clock;
  }

  /** Throws StoreError when the key could not be read or written. */
  async run<T>(call: KeyedCall<T>): Promise<Result<T>> {
    const before = this.#inWork.get(call.keyHash);
    const work = (async () => {
      if (before !== undefined) await before.catch(() => undefined);
      return this.#carryOut(call);
    })();
    this.#inWork.set(call.keyHash, work);
    try {
      return await work;
    } finally {
      if (this.#inWork.get(call.keyHash) === work) this.#inWork.delete(call.keyHash);
    }
  }

  async #carryOut<T>(call: KeyedCall<T>): Promise<Result<T>> {
    const { keyHash, requestHash, names = 'job_id', newKey, replay, write } = call;
    const standing = (await this.#keys.find(keyHash)) ?? (await this.#claim({ ...newKey(), keyHash, requestHash }));
    if (standing.requestHash !== requestHash) {
      return refused({
        code: 'idempotency_key_reused',
        detail: 'This idempotency key stands for other content. Use a new key, or send the same content.',
        members: isScheduleId(standing.jobId) ? { schedule_id: standing.jobId } : { [names]: standing.jobId },
      });
    }
    if (standing.written) return replay(standing);
    const { result, complete } = await write(standing);
    if (complete) await this.#answered(() => this.#keys.markWritten(standing));
    return result;
  }

  #claim(key: Omit<JobKey, 'written'>): Promise<JobKey> {
    return this.#answered(() => this.#keys.claim({ ...key, written: false }));
  }

  /**
   * Both writes of a key come out the same when repeated: one without an answer is repeated until there is one, for a bounded time. It
   * may be that only its connection broke, and there is no other for a moment.
   */
  async #answered<T>(write: () => Promise<T>): Promise<T> {
    const startedAt = this.#clock.monotonic();
    let unanswered: StoreError | null = null;
    for (let failures = 1; ; failures += 1) {
      try {
        return await write();
      } catch (error) {
        if (!(error instanceof StoreError)) throw error;
        if (error.kind === 'unknown') unanswered ??= error;
        if (unanswered === null) throw error;
        if (msBetween(startedAt, this.#clock.monotonic()) > OPERATION_DEADLINE_MS) throw unanswered;
        await this.#clock.sleep(storePauseMs(failures));
      }
    }
  }
}

export type KeyedRoute = `POST /${string}`;

/** The scope of a key is the owner and the route. */
export function keyHashOf(owner: string, route: KeyedRoute, key: string): string {
  return createHash('sha256')
    .update(JSON.stringify([owner, route, key]))
    .digest('hex');
}

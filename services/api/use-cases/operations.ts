import type { OperationRegister } from '../../core/bulk/operation-register.ts';
import { ok, type Problem, refused, type Result } from '../../core/contract/problems.ts';
import { BulkStatus, type BulkOperation } from '../../core/domain/bulk.ts';
import { COHORT_ENTROPY_BYTES, operationId as operationIdOf, shardOf } from '../../core/domain/ids.ts';
import { DAY_MS, IDEMPOTENCY_KEY_KEPT_DAYS, OPERATION_KEPT_DAYS } from '../../core/domain/limits.ts';
import type { EpochMs } from '../../core/domain/time.ts';
import type { AuditLog } from '../../core/ports/audit-log.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type { ListedOperation, OperationStore } from '../../core/ports/operation-store.ts';
import type { Random } from '../../core/ports/random.ts';
import { StoreError } from '../../core/ports/store-error.ts';
import type { Timers } from '../../core/timers/timers.ts';
import { type KeyedCalls, keyHashOf } from './keyed-calls.ts';
import { OUTCOME_UNKNOWN, withStore } from './store-problems.ts';
import type { ListOperations, OperationPage, OperationPosition, StartedOperation, StartOperation } from './types.ts';

export interface OperationKeeperParts {
  readonly store: OperationStore;
  readonly register: OperationRegister;
  readonly keyed: KeyedCalls;
  readonly timers: Timers;
  readonly audit: AuditLog;
  readonly clock: Clock;
  readonly random: Random;
  readonly shards: number;
}

/** A running operation saves itself each second, so a stop can lose to it a few times. */
const STOP_TRIES_MAX = 5;

/** Bulk operations as callers see them: started, watched and stopped here, run by the reaper that owns their shard. */
export class OperationKeeper {
  readonly #parts: OperationKeeperParts;

  constructor(parts: OperationKeeperParts) {
    this.#parts = parts;
  }

  start(request: StartOperation): Promise<Result<StartedOperation>> {
    const { clock, random, keyed } = this.#parts;
    const { key, owner } = request;
    const now = clock.now();
    const newId = (): string => operationIdOf(random.bytes(COHORT_ENTROPY_BYTES));
    return withStore(async () => {
      if (key === null) return this.#write(newId(), now, request);
      return keyed.run<StartedOperation>({
        keyHash: keyHashOf(owner, key.route, key.text),
        requestHash: key.requestHash,
        names: 'operation_id',
        newKey: () => ({ jobId: newId(), createdAt: now, expiresAt: now + IDEMPOTENCY_KEY_KEPT_DAYS * DAY_MS }),
        replay: async ({ jobId }) => {
          const found = await this.get(jobId);
          return found.ok ? ok({ operation: found.value, replayed: true }) : found;
        },
        write: async ({ jobId, createdAt }) => {
          const result = await this.#write(jobId, createdAt, request);
          return { result, complete: result.ok };
        },
      });
    });
  }

  get(operationId: string): Promise<Result<BulkOperation>> {
    return withStore(async () => {
      const operation = await this.#parts.store.find(operationId);
      return operation === null ? refused(operationNotFound(operationId)) : ok(operation);
    });
  }

  /** The newest first. */
  list({ pageSize, after }: ListOperations): Promise<Result<OperationPage>> {
    return withStore(async () => {
      const { store, clock } = this.#parts;
      const entries: ListedOperation[] = [];
      const oldest = clock.now() - (OPERATION_KEPT_DAYS + 1) * DAY_MS;
      let upTo = after?.at ?? clock.now() + DAY_MS;
      for (; upTo >= oldest && entries.length <= pageSize; upTo = Math.floor(upTo / DAY_MS) * DAY_MS - 1) {
        for await (const page of store.readList(upTo)) {
          entries.push(...page.filter((entry) => after === null || comesAfter(entry, after)));
          if (entries.length > pageSize) break;
        }
      }
      const page = entries.slice(0, pageSize);
      const found = await Promise.all(page.map(({ operationId }) => store.find(operationId)));
      const last = entries.length > pageSize ? page.at(-1) : undefined;
      return ok({
        operations: found.filter((operation) => operation !== null),
        next: last === undefined ? null : { at: last.createdAt, operationId: last.operationId },
      });
    });
  }

  stop(operationId: string, owner: string): Promise<Result<BulkOperation>> {
    return withStore(async () => {
      const { store, register } = this.#parts;
      let operation = await store.find(operationId);
      for (let tries = 0; tries < STOP_TRIES_MAX; tries += 1) {
        if (operation === null) return refused(operationNotFound(operationId));
        if (operation.status === BulkStatus.done) return refused(operationFinished(operation));
        if (operation.status !== BulkStatus.running) return ok(operation);
        if (tries === 0) await this.#record('operation.stop', operationId, owner, {});
        const outcome = await register.change(operation, { status: BulkStatus.stopping });
        if (outcome.kind === 'saved') return ok(outcome.operation);
        operation = outcome.found;
      }
      return refused({ code: 'too_many_requests', detail: 'The operation kept changing; ask again.' });
    });
  }

  /** Timer first, then the operation: an orphan timer is dropped, an operation without one would never run. */
  async #write(operationId: string, createdAt: EpochMs, request: StartOperation): Promise<Result<StartedOperation>> {
    const { store, register, timers, shards } = this.#parts;
    const { owner, verb, filter, newTime, replayChanges, ratePerS } = request;
    const operation: BulkOperation = {
      operationId,
      owner,
      verb,
      filter,
      newTime,
      replayChanges,
      ratePerS,
      status: BulkStatus.running,
      position: null,
      changed: 0,
      failed: 0,
      lastError: null,
      runner: null,
      revision: 0,
      createdAt,
      updatedAt: createdAt,
      finishedAt: null,
      expiresAt: createdAt + OPERATION_KEPT_DAYS * DAY_MS,
    };
    // Payloads are in no log: the operation tells it, for as long as it is kept.
    const { payload: _, ...changes } = replayChanges ?? {};
    const detail = { verb, filter, newTime, replayChanges: replayChanges === null ? null : changes, ratePerS };
    await this.#record('operation.start', operationId, owner, detail);
    await store.list(operation);
    const shard = shardOf(operationId, shards);
    const armed = await timers.armDeadlines([{ jobId: operationId, shard, at: createdAt, publishedAt: null }]);
    try {
      const standing = await register.create(operation);
      await timers.afterRound(armed.chosenAt, [{ jobId: operationId, shard }]);
      return ok({ operation: standing, replayed: false });
    } catch (error) {
      if (error instanceof StoreError && error.kind === 'unknown') return refused(OUTCOME_UNKNOWN);
      throw error;
    }
  }

  /** Before the act: one that then fails was still asked for. */
  async #record(
    verb: 'operation.start' | 'operation.stop',
    subject: string,
    owner: string,
    detail: Readonly<Record<string, unknown>>,
  ): Promise<void> {
    const { audit, clock, random } = this.#parts;
    const entryId = random.token();
    await audit.write({ at: clock.now(), entryId, owner, actor: null, verb, subject, detail });
  }
}

function comesAfter({ createdAt, operationId }: ListedOperation, after: OperationPosition): boolean {
  return createdAt < after.at || (createdAt === after.at && operationId < after.operationId);
}

function operationNotFound(operationId: string): Problem {
  const detail = `There is no operation ${operationId}. It is removed ${OPERATION_KEPT_DAYS} days after its start.`;
  return { code: 'operation_not_found', detail };
}

function operationFinished({ operationId, changed }: BulkOperation): Problem {
  return { code: 'operation_finished', detail: `Operation ${operationId} is done: it changed ${changed} jobs.` };
}

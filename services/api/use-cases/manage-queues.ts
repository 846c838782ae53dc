import { ok, refused, type Problem, type Result } from '../../core/contract/problems.ts';
import { QUEUES_CONFIGURED_MAX } from '../../core/domain/limits.ts';
import { defaultSettings, isPaused, type QueueSettings } from '../../core/domain/queue-settings.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type { QueueStore } from '../../core/ports/queue-store.ts';
import type { Random } from '../../core/ports/random.ts';
import { BusError, type ReadyQueue } from '../../core/ports/ready-queue.ts';
import { StoreError } from '../../core/ports/store-error.ts';
import type { QueueBook } from '../../core/queues/queue-book.ts';
import type { AuditTrail } from './audit-trail.ts';
import type { QueueCounters, QueueCounts } from './queue-counters.ts';
import { OUTCOME_UNKNOWN, withStore } from './store-problems.ts';
import type { ChangeQueue, ListQueues, PauseQueue, QueueDescription, QueuePage } from './types.ts';

export interface ManageQueuesParts {
  readonly store: QueueStore;
  readonly book: QueueBook;
  readonly queue: Pick<ReadyQueue, 'ensureQueue'>;
  readonly counters: Pick<QueueCounters, 'one' | 'of' | 'inUse'>;
  readonly trail: AuditTrail;
  readonly clock: Clock;
  readonly random: Random;
}

const READY_RETRY_AFTER_S = 2;
/** Others may change the same queue meanwhile; more often than this nobody does. */
const TRIES_MAX = 5;

/** What people set for queues. Every change is in the audit log, and takes effect everywhere within a few seconds. */
export class QueueManager {
  readonly #parts: ManageQueuesParts;

  constructor(parts: ManageQueuesParts) {
    this.#parts = parts;
  }

  async describe(queue: string): Promise<Result<QueueDescription>> {
    return withStore(async () => {
      const settings = (await this.#parts.store.read(queue)) ?? defaultSettings(queue);
      try {
        const ready = await this.#parts.queue.ensureQueue(queue);
        return ok({ settings, counts: await this.#parts.counters.one(queue), ready });
      } catch (error) {
        if (!(error instanceof BusError)) throw error;
        return refused({
          code: 'ready_stream_unavailable',
          detail: 'NATS is away, so the ready consumers of the queue cannot be named now.',
          retryAfterS: READY_RETRY_AFTER_S,
        });
      }
    });
  }

  /** Configured queues and those that have jobs, by name. */
  list({ pageSize, after }: ListQueues): Promise<Result<QueuePage>> {
    return withStore(async () => {
      const { store, counters } = this.#parts;
      const [configured, inUse] = await Promise.all([store.readAll(), counters.inUse()]);
      const known = new Map(configured.map((settings) => [settings.queue, settings]));
      const names = [...new Set([...known.keys(), ...inUse.queues])]
        .filter((queue) => after === null || queue > after)
        .sort();
      const page = names.slice(0, pageSize);
      const counts = await counters.of(page, inUse.depths);
      const queues = page.map((queue, index) => ({
        settings: known.get(queue) ?? defaultSettings(queue),
        counts: counts[index] as QueueCounts,
      }));
      return ok({ queues, next: names.length > page.length ? (page.at(-1) ?? null) : null });
    });
  }

  change({ queue, revision, changeOf }: ChangeQueue): Promise<Result<QueueSettings>> {
    return this.#change('queue.set', queue, revision, changeOf);
  }

  pause({ queue, reason, until }: PauseQueue): Promise<Result<QueueSettings>> {
    const at = this.#parts.clock.now();
    return this.#change('queue.pause', queue, null, (settings) => ok({ ...settings, pause: { at, reason, until } }));
  }

  /** Of a queue that is not paused nothing changes. */
  resume(queue: string): Promise<Result<QueueSettings>> {
    const now = this.#parts.clock.now();
    return this.#change('queue.resume', queue, null, (settings) =>
      ok(isPaused(settings, now) ? { ...settings, pause: null, resumedAt: now } : settings),
    );
  }

  /** @param revision what the caller read; null: whatever it is. */
  async #change(
    verb: string,
    queue: string,
    revision: number | null,
    nextOf: (settings: QueueSettings) => Result<QueueSettings>,
  ): Promise<Result<QueueSettings>> {
    return withStore(async () => {
      for (let tries = 0; tries < TRIES_MAX; tries += 1) {
        const before = (await this.#parts.store.read(queue)) ?? defaultSettings(queue);
        if (revision !== null && before.revision !== revision) return refused(changedMeanwhile(before));
        const next = nextOf(before);
        if (!next.ok) return next;
        if (Object.keys(changedFields(before, next.value)).length === 0) return ok(before);
        if (before.revision === 0 && this.#parts.book.size() >= QUEUES_CONFIGURED_MAX) return refused(tooManyQueues());
        const changed = await this.#write(verb, before, next.value);
        if (changed !== 'lost') return changed;
      }
      return refused({ code: 'changed_meanwhile', detail: 'Others keep changing this queue; nothing was changed.' });
    });
  }

  async #write(verb: string, before: QueueSettings, wanted: QueueSettings): Promise<Result<QueueSettings> | 'lost'> {
    const { store, book, clock, random } = this.#parts;
    const now = clock.now();
    const token = random.token();
    const createdAt = before.createdAt ?? now;
    const next: QueueSettings = { ...wanted, revision: before.revision + 1, createdAt, updatedAt: now };
    try {
      if (!(await store.change({ next, token }))) return 'lost';
    } catch (error) {
      if (error instanceof StoreError && error.kind === 'unknown') return refused(OUTCOME_UNKNOWN);
      throw error;
    }
    await this.#record(verb, before, next, token);
    // The others follow within seconds; the one that answers knows at once. If it cannot read now, it follows too.
    await book.refresh().catch(() => undefined);
    return ok(next);
  }

  #record(verb: string, before: QueueSettings, next: QueueSettings, token: string): Promise<void> {
    const at = next.updatedAt ?? this.#parts.clock.now();
    const detail = { revision: next.revision, before: changedFields(before, next), after: changedFields(next, before) };
    return this.#parts.trail.record({ at, entryId: token, owner: 'default', verb, subject: next.queue, detail });
  }
}

function changedMeanwhile({ queue, revision }: QueueSettings): Problem {
  return {
    code: 'changed_meanwhile',
    detail: `The queue ${queue} is at revision ${revision}. Read it again, and change what is there now.`,
    members: { revision },
  };
}

function tooManyQueues(): Problem {
  return {
    code: 'too_many_queues',
    detail: `${QUEUES_CONFIGURED_MAX} queues are configured, which is the most. A queue needs no settings to be used.`,
  };
}

/** What of the one is not so in the other. */
function changedFields(one: QueueSettings, other: QueueSettings): Record<string, unknown> {
  const names = Object.keys(one) as (keyof QueueSettings)[];
  const bookkeeping: readonly string[] = ['revision', 'createdAt', 'updatedAt'];
  const changed = names.filter(
    (name) => !bookkeeping.includes(name) && JSON.stringify(one[name]) !== JSON.stringify(other[name]),
  );
  return Object.fromEntries(changed.map((name) => [name, one[name]]));
}

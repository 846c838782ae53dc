import {
  defaultSettings,
  isPaused,
  RETENTION_DEFAULT,
  retentionOf,
  type QueueSettings,
  type RetentionTerms,
} from '../domain/queue-settings.ts';
import { msBetween, type MonotonicMs } from '../domain/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { QueueStore } from '../ports/queue-store.ts';

/**
 * What every process knows of the queues' settings: all of them, read again whenever one changed. While the store is away
 * the last known ones stand.
 */
export class QueueBook {
  readonly #store: QueueStore;
  readonly #clock: Clock;
  #settings: ReadonlyMap<string, QueueSettings> = new Map();
  #shortestDays = shortestOf([]);
  #readAfter: string | null = null;
  #readAt: MonotonicMs | null = null;

  constructor(parts: { store: QueueStore; clock: Clock }) {
    this.#store = parts.store;
    this.#clock = parts.clock;
  }

  /** A duty of the loop, every QUEUE_SETTINGS_EVERY_MS. Throws StoreError. */
  async refresh(): Promise<void> {
    // Read first: a change that comes in between is then read once more, never missed.
    const readAt = this.#clock.monotonic();
    const lastChange = await this.#store.lastChange();
    const settings = lastChange === this.#readAfter ? null : await this.#store.readAll();
    // Whoever set out later knows better.
    if (this.#readAt !== null && msBetween(readAt, this.#readAt) > 0) return;
    this.#readAt = readAt;
    if (settings === null) return;
    this.#settings = new Map(settings.map((each) => [each.queue, each]));
    this.#shortestDays = shortestOf(settings.map(retentionOf));
    this.#readAfter = lastChange;
  }

  settingsOf(queue: string): QueueSettings {
    return this.#settings.get(queue) ?? defaultSettings(queue);
  }

  retentionOf(queue: string): RetentionTerms {
    return retentionOf(this.settingsOf(queue));
  }

  /** What ended less than this ago is kept, whatever its queue and its end. */
  shortestRetentionDays(): number {
    return this.#shortestDays;
  }

  /** Whether it knows of every change that was made before then. */
  isReadSince(then: MonotonicMs): boolean {
    return this.#readAt !== null && msBetween(then, this.#readAt) >= 0;
  }

  /** How many queues are configured. */
  size(): number {
    return this.#settings.size;
  }

  isPaused(queue: string): boolean {
    const settings = this.#settings.get(queue);
    return settings !== undefined && isPaused(settings, this.#clock.now());
  }
}

/** Of the defaults as well: most queues have nothing else. */
function shortestOf(configured: readonly RetentionTerms[]): number {
  return [RETENTION_DEFAULT, ...configured].reduce(
    (least, { finishedDays, deadDays }) => Math.min(least, finishedDays, deadDays),
    Infinity,
  );
}

import { PRIORITIES, type Priority } from '../domain/job-status.ts';
import { HELD_REPORT_STANDS_MS } from '../domain/limits.ts';
import { msBetween, type MonotonicMs } from '../domain/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { HeldDepth, HeldReport } from '../ports/held-reports.ts';

interface Told {
  readonly at: MonotonicMs;
  readonly shards: number;
  readonly byQueue: ReadonlyMap<string, readonly HeldDepth[]>;
}

/** What the dispatchers told of their held jobs in the last seconds. Soft: whoever told nothing lately holds nothing here. */
export class HeldBoard {
  readonly #clock: Clock;
  readonly #told = new Map<string, Told>();

  constructor({ clock }: { clock: Clock }) {
    this.#clock = clock;
  }

  note({ member, shards, held }: HeldReport): void {
    for (const [other, { at }] of this.#told) if (!this.#stands(at)) this.#told.delete(other);
    this.#told.set(member, {
      at: this.#clock.monotonic(),
      shards,
      byQueue: Map.groupBy(held, ({ queue }) => queue),
    });
  }

  /** Of which jobs are held. */
  queues(): readonly string[] {
    return this.#standing().flatMap(([, { byQueue }]) => [...byQueue.keys()]);
  }

  /** By priority, over all dispatchers. */
  heldIn(queue: string): readonly HeldDepth[] {
    const depths = this.#standing().flatMap(([, { byQueue }]) => byQueue.get(queue) ?? []);
    return [...Map.groupBy(depths, ({ priority }) => priority).values()].map((ofPriority) =>
      ofPriority.reduce((sum, each) => ({
        ...sum,
        count: sum.count + each.count,
        oldestAt: Math.min(sum.oldestAt, each.oldestAt),
      })),
    );
  }

  /** Whether jobs of this or a higher priority wait: a new one goes behind them. */
  hasWaiting({ queue, priority }: { readonly queue: string; readonly priority: Priority }): boolean {
    const higher = PRIORITIES.slice(0, PRIORITIES.indexOf(priority) + 1);
    return this.#standing().some(([, { byQueue }]) =>
      byQueue.get(queue)?.some((each) => higher.includes(each.priority)),
    );
  }

  /** Shards of other dispatchers that hold nothing of the queue: their share of it is not used. */
  sparedShards(queue: string, self: string): number {
    return this.#standing().reduce(
      (sum, [member, { shards, byQueue }]) => (member === self || byQueue.has(queue) ? sum : sum + shards),
      0,
    );
  }

  #standing(): readonly [string, Told][] {
    return [...this.#told].filter(([, { at }]) => this.#stands(at));
  }

  #stands(at: MonotonicMs): boolean {
    return msBetween(at, this.#clock.monotonic()) <= HELD_REPORT_STANDS_MS;
  }
}

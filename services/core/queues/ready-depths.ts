import { READY_DEPTHS_KEPT_MS, READY_DEPTHS_STAND_MS, READY_DEPTHS_WAIT_MS } from '../domain/limits.ts';
import { msBetween, type MonotonicMs } from '../domain/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { ReadyQueue } from '../ports/ready-queue.ts';
import type { Log } from '../ports/telemetry.ts';

/** How many messages of each queue nobody claimed yet: as the ready stream told a moment ago, and what we added since. */
export class ReadyDepths {
  readonly #queue: Pick<ReadyQueue, 'depths'>;
  readonly #clock: Clock;
  readonly #log: Log;
  #told: ReadonlyMap<string, number> = new Map();
  readonly #added = new Map<string, number>();
  #askedAt: MonotonicMs | null = null;
  /** When what it told was asked for. */
  #toldAt: MonotonicMs | null = null;
  #asking: { readonly since: MonotonicMs; readonly done: Promise<void> } | null = null;

  constructor(parts: { queue: Pick<ReadyQueue, 'depths'>; clock: Clock; log: Log }) {
    this.#queue = parts.queue;
    this.#clock = parts.clock;
    this.#log = parts.log;
  }

  /** As it is known; what is too old is asked for again meanwhile. */
  of(queue: string): number {
    void this.#refresh();
    return this.known(queue);
  }

  /** The same, and nothing is asked. */
  known(queue: string): number {
    return (this.#told.get(queue) ?? 0) + (this.#added.get(queue) ?? 0);
  }

  /** The same, once what is too old has been asked for again. */
  async freshOf(queue: string): Promise<number> {
    await this.#refresh();
    return this.of(queue);
  }

  /** As it was a second ago at most, if need be after a short wait for the stream's word; null while the stream does not tell. */
  async recentOf(queue: string): Promise<number | null> {
    const refreshed = this.#refresh();
    if (!this.#isRecent()) await this.#shortly(refreshed);
    return this.#isRecent() ? this.known(queue) : null;
  }

  /** So many more are on their way to the stream; negative: so many are not. */
  added(queue: string, count: number): void {
    const sum = (this.#added.get(queue) ?? 0) + count;
    if (sum === 0) this.#added.delete(queue);
    else this.#added.set(queue, sum);
  }

  #isRecent(): boolean {
    return this.#toldAt !== null && msBetween(this.#toldAt, this.#clock.monotonic()) < READY_DEPTHS_STAND_MS;
  }

  /** Whoever comes while a question has been out for as long as this already does not wait at all. */
  async #shortly(refreshed: Promise<void>): Promise<void> {
    if (this.#asking === null) return;
    const leftMs = READY_DEPTHS_WAIT_MS - msBetween(this.#asking.since, this.#clock.monotonic());
    if (leftMs <= 0) return;
    const isThere = new AbortController();
    await Promise.race([refreshed, this.#clock.sleep(leftMs, isThere.signal)]);
    isThere.abort();
  }

  async #refresh(): Promise<void> {
    const now = this.#clock.monotonic();
    if (this.#askedAt !== null && msBetween(this.#askedAt, now) < READY_DEPTHS_KEPT_MS) return;
    this.#asking ??= { since: now, done: this.#ask(now).finally(() => (this.#asking = null)) };
    await this.#asking.done;
  }

  async #ask(now: MonotonicMs): Promise<void> {
    const before = [...this.#added];
    try {
      const depths = await this.#queue.depths();
      const byQueue = Map.groupBy(depths, ({ queue }) => queue);
      this.#told = new Map(
        [...byQueue].map(([queue, of]) => [queue, of.reduce((sum, { messages }) => sum + messages, 0)]),
      );
      // What was added before is in the answer; what came meanwhile may be as well, and counts twice for a moment.
      for (const [queue, count] of before) this.added(queue, -count);
      this.#toldAt = now;
    } catch (error) {
      this.#log.debug('the depths of the ready stream are not known', { error: String(error) });
    }
    this.#askedAt = now;
  }
}

import { msBetween, type MonotonicMs } from '../domain/time.ts';
import type { Clock } from '../ports/clock.ts';

/** Something that many want to know at once: asked by one for all of them, and no more often than every so many milliseconds. */
export class SharedQuestion {
  readonly #clock: Clock;
  readonly #everyMs: number;
  readonly #ask: (now: MonotonicMs) => Promise<void>;
  #askedAt: MonotonicMs | null = null;
  #asking: { readonly since: MonotonicMs; readonly done: Promise<void> } | null = null;

  /** @param parts.ask never rejects. */
  constructor(parts: { clock: Clock; everyMs: number; ask: (now: MonotonicMs) => Promise<void> }) {
    this.#clock = parts.clock;
    this.#everyMs = parts.everyMs;
    this.#ask = parts.ask;
  }

  /** Resolves once it is answered, or at once where it was asked a moment ago. */
  async asked(): Promise<void> {
    const now = this.#clock.monotonic();
    if (this.#askedAt !== null && msBetween(this.#askedAt, now) < this.#everyMs) return;
    this.#asking ??= { since: now, done: this.#ask(now).finally(() => this.#end(now)) };
    await this.#asking.done;
  }

  /** The same, and no later than so long after it was asked: whoever comes while it has been out for that long does not wait at all. */
  async shortly(waitMs: number): Promise<void> {
    const asked = this.asked();
    if (this.#asking === null) return;
    const leftMs = waitMs - msBetween(this.#asking.since, this.#clock.monotonic());
    if (leftMs <= 0) return;
    const isThere = new AbortController();
    await Promise.race([asked, this.#clock.sleep(leftMs, isThere.signal)]);
    isThere.abort();
  }

  #end(askedAt: MonotonicMs): void {
    this.#askedAt = askedAt;
    this.#asking = null;
  }
}

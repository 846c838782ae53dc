import type { Clock } from '../ports/clock.ts';
import { Spacing } from './spacing.ts';

/** Lets callers go on in groups. What those of a group do in their first turn of the event loop shares rounds, writes and messages. */
export class GroupTurns {
  readonly #clock: Clock;
  readonly #spacing: Spacing;
  #next: { readonly turn: Promise<void>; members: number } | null = null;

  /** @param apartMaxMs nobody waits longer. */
  constructor(clock: Clock, apartMaxMs: number) {
    this.#clock = clock;
    this.#spacing = new Spacing(apartMaxMs);
  }

  /** Resolves when the caller's group begins. */
  turn(): Promise<void> {
    if (this.#next !== null) {
      this.#next.members += 1;
      return this.#next.turn;
    }
    const now = this.#clock.monotonic();
    const waitMs = this.#spacing.waitMs(now);
    if (waitMs === 0) {
      this.#spacing.begin(now, 1);
      return Promise.resolve();
    }
    const turn = this.#clock.sleep(waitMs).then(() => this.#begin());
    this.#next = { turn, members: 1 };
    return turn;
  }

  #begin(): void {
    this.#spacing.begin(this.#clock.monotonic(), this.#next?.members ?? 0);
    this.#next = null;
  }
}

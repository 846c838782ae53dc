import { SECOND_MS } from '../domain/limits.ts';
import { elapsedMs, type Moment } from '../domain/time.ts';
import type { Clock } from '../ports/clock.ts';

/** Keeps reading to so many rows a second, whatever reads them. */
export class Pacer {
  readonly #clock: Clock;
  readonly #rowsPerS: number;
  readonly #startedAt: Moment;
  #spent = 0;

  constructor({ clock, rowsPerS }: { clock: Clock; rowsPerS: number }) {
    this.#clock = clock;
    this.#rowsPerS = rowsPerS;
    this.#startedAt = clock.moment();
  }

  /** After so many rows were read; a read that found none costs as much as a row. */
  async spend(rows: number): Promise<void> {
    this.#spent += Math.max(1, rows);
    const aheadMs = (this.#spent * SECOND_MS) / this.#rowsPerS - elapsedMs(this.#startedAt, this.#clock.moment());
    if (aheadMs > WORTH_A_PAUSE_MS) await this.#clock.sleep(Math.min(aheadMs, SECOND_MS));
  }
}

const WORTH_A_PAUSE_MS = 20;

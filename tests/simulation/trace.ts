// What happened, line by line, and a hash of it: two runs of one seed must agree in every line.

import { createHash } from 'node:crypto';
import type { Clock } from '../../services/core/ports/clock.ts';
import type { EpochMs } from '../../services/core/domain/time.ts';

/** What is only wanted of a failure is put into words only then. */
type Words = string | (() => string);

interface Line {
  readonly at: EpochMs;
  readonly who: string;
  readonly what: string;
  readonly details: Words;
}

/** Lines kept for a failure's report. */
const KEPT_MAX = 60_000;
const SHOWN_MAX = 120;
const HASHED_AT_ONCE = 4_096;

export const BLOW = '!!';

export class Trace {
  steps = 0;
  readonly #clock: Clock;
  readonly #startedAt: EpochMs;
  readonly #hash = createHash('sha256');
  #unhashed: string[] = [];
  readonly #onLine: ((line: string) => void) | undefined;
  #lines: Line[] = [];

  constructor(clock: Clock, onLine?: (line: string) => void) {
    this.#clock = clock;
    this.#startedAt = clock.now();
    this.#onLine = onLine;
  }

  /** @param who the process, or `-` for the world around. */
  add(who: string, what: string, details: Words = ''): void {
    const line = { at: this.#clock.now() - this.#startedAt, who, what, details };
    this.steps += 1;
    this.#unhashed.push(`${Math.round(line.at * 1_000)} ${who} ${what}\n`);
    if (this.#unhashed.length >= HASHED_AT_ONCE) this.#hashOn();
    this.#onLine?.(textOf(line));
    this.#lines.push(line);
    if (this.#lines.length > KEPT_MAX) this.#lines = this.#lines.slice(KEPT_MAX / 2);
  }

  /** How many lines of the kept ones say so. */
  count(what: string): number {
    return this.#lines.filter((line) => line.what === what).length;
  }

  hash(): string {
    this.#hashOn();
    return this.#hash.copy().digest('hex').slice(0, 16);
  }

  /** The last lines that name the subject or a fault; without a subject the last lines of all. */
  excerpt(subject: string | null): readonly string[] {
    const lines = this.#lines.map(textOf);
    const telling = subject === null ? lines : lines.filter((line) => line.includes(subject) || line.includes(BLOW));
    return telling.slice(-SHOWN_MAX);
  }

  #hashOn(): void {
    this.#hash.update(this.#unhashed.join(''));
    this.#unhashed = [];
  }
}

function textOf({ at, who, what, details }: Line): string {
  const words = typeof details === 'string' ? details : details();
  return `${(at / 1_000).toFixed(3).padStart(8)} ${who.padEnd(15)} ${what} ${words}`.trimEnd();
}

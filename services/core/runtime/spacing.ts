import { msBetween, type MonotonicMs } from '../domain/time.ts';

/** For each member of a group the next one is so much later: where fewer than 250 a second come nobody waits for long. */
const APART_MS_PER_MEMBER = 4;

/**
 * How far apart groups of work begin. Work that comes now and then goes on at once; where much comes it waits for others, for a
 * group costs hardly more rounds, writes and messages than one of its members.
 */
export class Spacing {
  readonly #apartMaxMs: number;
  #beganAt: MonotonicMs | null = null;
  #members = 0;

  constructor(apartMaxMs: number) {
    this.#apartMaxMs = apartMaxMs;
  }

  /** How long the next group has to wait. */
  waitMs(now: MonotonicMs): number {
    if (this.#beganAt === null) return 0;
    const apartMs = Math.min(this.#apartMaxMs, this.#members * APART_MS_PER_MEMBER);
    return Math.max(0, apartMs - msBetween(this.#beganAt, now));
  }

  begin(now: MonotonicMs, members: number): void {
    this.#beganAt = now;
    this.#members = members;
  }
}

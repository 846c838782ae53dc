import { msBetween, type MonotonicMs } from '../domain/time.ts';

/** Groups are never further apart. */
const APART_MAX_MS = 30;
/** For each member of a group the next one is so much later: where fewer than 250 a second come nobody waits for long. */
const APART_MS_PER_MEMBER = 4;

/**
 * How far apart groups of work begin. Work that comes now and then goes on at once; where much comes it waits up to 30 ms for
 * others, for a group costs hardly more rounds, writes and messages than one of its members.
 */
export class Spacing {
  #beganAt: MonotonicMs | null = null;
  #members = 0;

  /** How long the next group has to wait. */
  waitMs(now: MonotonicMs): number {
    if (this.#beganAt === null) return 0;
    const apartMs = Math.min(APART_MAX_MS, this.#members * APART_MS_PER_MEMBER);
    return Math.max(0, apartMs - msBetween(this.#beganAt, now));
  }

  begin(now: MonotonicMs, members: number): void {
    this.#beganAt = now;
    this.#members = members;
  }
}

// One process on one machine: it has a clock of its own, may stand still, and may die at any await.

import { monotonicMs, msBetween, type EpochMs, type MonotonicMs } from '../../services/core/domain/time.ts';
import { SLEEP_MAX_MS } from '../../services/core/domain/limits.ts';
import type { Clock } from '../../services/core/ports/clock.ts';

/** stalled: the process alone stands still. suspended: the whole machine does, and its monotonic clock with it. */
export type PauseKind = 'stalled' | 'suspended';

/** A fraction of a millisecond that additions of fractions may be off by. */
const ROUNDING_MS = 1e-6;
const ZERO = monotonicMs(0);

interface Pause {
  readonly kind: PauseKind;
  readonly since: MonotonicMs;
  readonly thawed: Promise<void>;
  readonly thaw: () => void;
}

/**
 * Everything a process does begins with one of its timers, an answer to one of its calls or a call from outside; all of them
 * pass through here, so that a paused process does nothing and a dead one nothing ever again.
 */
export class Machine {
  readonly name: string;
  readonly clock: Clock;
  /** How far its wall clock is ahead of the true time. */
  aheadMs: number;
  /** Timers set and calls made that have not come back: what may not grow without bound. */
  timers = 0;
  calls = 0;
  readonly #world: Clock;
  #isDead = false;
  #pause: Pause | null = null;
  #suspendedMs = 0;
  readonly #onDeath: (() => void)[] = [];

  constructor(name: string, world: Clock, aheadMs: number) {
    this.name = name;
    this.#world = world;
    this.aheadMs = aheadMs;
    this.clock = {
      now: () => this.#now(),
      monotonic: () => this.#monotonic(),
      moment: () => ({ wallMs: this.#now(), monotonic: this.#monotonic() }),
      sleep: (ms, signal) => this.#sleep(ms, signal),
      after: (ms, callback) => this.#after(ms, callback),
    };
  }

  get isDead(): boolean {
    return this.#isDead;
  }

  get isPaused(): boolean {
    return this.#pause !== null;
  }

  crash(): void {
    if (this.#isDead) return;
    this.#isDead = true;
    this.#pause?.thaw();
    for (const callback of this.#onDeath) callback();
  }

  onDeath(callback: () => void): void {
    this.#onDeath.push(callback);
  }

  pause(ms: number, kind: PauseKind): void {
    if (this.#isDead || this.#pause !== null) return;
    const { promise, resolve } = Promise.withResolvers<undefined>();
    const pause = { kind, since: this.#world.monotonic(), thawed: promise, thaw: () => resolve(undefined) };
    this.#pause = pause;
    void sleepLong(this.#world, ms).then(() => {
      if (this.#pause === pause) this.#resume();
    });
  }

  #resume(): void {
    const pause = this.#pause;
    if (pause === null || this.#isDead) return;
    if (pause.kind === 'suspended') this.#suspendedMs += msBetween(pause.since, this.#world.monotonic());
    this.#pause = null;
    pause.thaw();
  }

  /** Passed at once by a process that runs, at its end by a pause, never by the dead. */
  async gate(): Promise<void> {
    while (this.#pause !== null && !this.#isDead) await this.#pause.thawed;
    if (this.#isDead) await new Promise<never>(() => undefined);
  }

  /** Runs the callback in this process: now, or when it goes on, or never. */
  enter(callback: () => void): void {
    if (this.#isDead) return;
    if (this.#pause === null) callback();
    else void this.gate().then(callback);
  }

  #now(): EpochMs {
    return Math.floor(this.#world.now() + this.aheadMs);
  }

  #monotonic(): MonotonicMs {
    return monotonicMs(msBetween(ZERO, this.#world.monotonic()) - this.#suspendedMs);
  }

  #after(ms: number, callback: () => void): () => void {
    const dueAtMs = msBetween(ZERO, this.#monotonic()) + Math.max(0, ms);
    let cancelWorld: () => void = () => undefined;
    let isOver = false;
    const end = (): void => {
      if (!isOver) this.timers -= 1;
      isOver = true;
    };
    const fire = (): void => {
      if (isOver) return;
      // The machine slept meanwhile, and its timers with it.
      const leftMs = dueAtMs - msBetween(ZERO, this.#monotonic());
      if (leftMs > ROUNDING_MS) {
        cancelWorld = this.#world.after(leftMs, () => this.enter(fire));
        return;
      }
      end();
      callback();
    };
    this.timers += 1;
    cancelWorld = this.#world.after(ms > 0 ? Math.max(ms, ROUNDING_MS) : 0, () => this.enter(fire));
    return () => {
      end();
      cancelWorld();
    };
  }

  #sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      if (signal?.aborted === true) {
        resolve();
        return;
      }
      const cancel = this.#after(ms, () => {
        signal?.removeEventListener('abort', abort);
        resolve();
      });
      const abort = (): void => {
        cancel();
        resolve();
      };
      signal?.addEventListener('abort', abort, { once: true });
    });
  }
}

/** Longer than one sleep may be. */
export async function sleepLong(clock: Clock, ms: number): Promise<void> {
  for (let left = ms; left > 0; left -= SLEEP_MAX_MS) await clock.sleep(Math.min(left, SLEEP_MAX_MS));
}

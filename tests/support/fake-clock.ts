// The one clock of all tests below real servers: it stands still until it is told how much time passes.

import { Heap } from 'heap-js';
import { SLEEP_MAX_MS } from '../../services/core/domain/limits.ts';
import { monotonicMs, type EpochMs, type Moment, type MonotonicMs } from '../../services/core/domain/time.ts';
import type { Clock } from '../../services/core/ports/clock.ts';

interface Timer {
  readonly dueAtMs: number;
  readonly sequence: number;
  readonly fire: () => void;
  cancelled: boolean;
}

const TURNS_AT_ONCE = 32;

export const FAKE_START: EpochMs = Date.parse('2026-11-15T06:00:00.000Z');

/**
 * Wall and monotonic clock run together and can be stepped apart. Timers run on the monotonic one, as Node's do, and fire in
 * due order; all that follows from one without more waiting happens before the next.
 */
export class FakeClock implements Clock {
  #wallMs: EpochMs;
  #monotonicMs = 0;
  #sequence = 0;
  readonly #timers = new Heap<Timer>((one, other) => one.dueAtMs - other.dueAtMs || one.sequence - other.sequence);

  constructor(wallMs: EpochMs = FAKE_START) {
    this.#wallMs = wallMs;
  }

  now(): EpochMs {
    return this.#wallMs;
  }

  monotonic(): MonotonicMs {
    return monotonicMs(this.#monotonicMs);
  }

  moment(): Moment {
    return { wallMs: this.#wallMs, monotonic: this.monotonic() };
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      if (signal?.aborted === true) {
        resolve();
        return;
      }
      const cancel = this.after(ms, () => {
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

  after(ms: number, callback: () => void): () => void {
    if (!(ms <= SLEEP_MAX_MS)) throw new RangeError(`a sleep of ${ms} ms is beyond SLEEP_MAX_MS`);
    const dueAtMs = this.#monotonicMs + Math.max(0, ms);
    const timer: Timer = { dueAtMs, sequence: (this.#sequence += 1), fire: callback, cancelled: false };
    this.#timers.push(timer);
    return () => {
      timer.cancelled = true;
    };
  }

  /** Both clocks run for so long, and what falls due meanwhile fires at its time. */
  async advance(ms: number): Promise<void> {
    const endMs = this.#monotonicMs + ms;
    await settled();
    await this.#fireAll(endMs);
    this.#runTo(endMs);
    await settled();
  }

  /** Runs from timer to timer until the promise has settled. Throws when nothing is left to wait for, or after `mostMs`. */
  async until<Result>(promise: Promise<Result>, mostMs = 10 * SLEEP_MAX_MS): Promise<Result> {
    const endMs = this.#monotonicMs + mostMs;
    const state = { pending: true };
    const end = (): void => void (state.pending = false);
    promise.then(end, end);
    await settled();
    while (state.pending) {
      if (this.#timers.length === 0)
        throw new Error('the promise is pending, and no timer is left that could settle it');
      if (this.#nextDueAtMs() > endMs) throw new Error(`the promise is still pending after ${mostMs} ms`);
      await this.#fireNext();
    }
    return promise;
  }

  /**
   * Jumps without firing anything on the way: wall alone is a clock set anew or a machine suspended, both a process that
   * stands still and then fires late.
   */
  step(by: { readonly wallMs?: number; readonly monotonicMs?: number }): void {
    this.#wallMs += by.wallMs ?? 0;
    this.#monotonicMs += by.monotonicMs ?? 0;
  }

  /** The clock of another machine on the same timeline: its wall clock is that much ahead. */
  skewed(aheadMs: number): Clock {
    return {
      now: () => this.now() + aheadMs,
      monotonic: () => this.monotonic(),
      moment: () => ({ ...this.moment(), wallMs: this.now() + aheadMs }),
      sleep: (ms, signal) => this.sleep(ms, signal),
      after: (ms, callback) => this.after(ms, callback),
    };
  }

  #nextDueAtMs(): number {
    while (this.#timers.peek()?.cancelled === true) this.#timers.pop();
    return this.#timers.peek()?.dueAtMs ?? Infinity;
  }

  /**
   * In turns of the event loop that are asked for many at a time: between two of them Node does all that is under way, and a
   * turn is a tenth as dear as a new round of the loop.
   */
  #fireAll(endMs: number): Promise<void> {
    return new Promise((resolve, reject) => {
      let isOver = false;
      const fireOne = (): void => {
        if (isOver) return;
        isOver = this.#nextDueAtMs() > endMs;
        const timer = isOver ? undefined : this.#timers.pop();
        if (timer === undefined) return;
        this.#runTo(timer.dueAtMs);
        try {
          timer.fire();
        } catch (error) {
          isOver = true;
          reject(error instanceof Error ? error : new Error(String(error)));
        }
      };
      const goOn = (): void => {
        if (isOver) {
          resolve();
          return;
        }
        for (let turn = 0; turn < TURNS_AT_ONCE; turn += 1) setImmediate(fireOne);
        setImmediate(goOn);
      };
      goOn();
    });
  }

  async #fireNext(): Promise<void> {
    const timer = this.#timers.pop();
    if (timer === undefined || timer.cancelled) return;
    this.#runTo(timer.dueAtMs);
    timer.fire();
    await settled();
  }

  #runTo(toMs: number): void {
    const passedMs = Math.max(0, toMs - this.#monotonicMs);
    this.#wallMs += passedMs;
    this.#monotonicMs += passedMs;
  }
}

/** Resolves when all that is under way waits for a timer, or for ever. */
export async function settled(): Promise<void> {
  await new Promise<void>((resolve) => setImmediate(resolve));
}

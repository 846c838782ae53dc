import { MINUTE_MS, SECOND_MS } from '../../core/domain/limits.ts';
import type { EpochMs } from '../../core/domain/time.ts';
import type { Clock } from '../../core/ports/clock.ts';

/** How late jobs started, as upper bounds: each is at most a quarter too high. */
export interface StartLag {
  readonly starts: number;
  readonly p50Ms: number;
  readonly p95Ms: number;
  readonly p99Ms: number;
}

const WINDOW_MS = 5 * MINUTE_MS;
const SLICE_MS = 10 * SECOND_MS;
/** From 1 ms on each bound is a quarter more than the one before: the last is about 10 days. */
const BOUND_FACTOR = 1.25;
const BOUNDS = 93;
/** Queues remembered: about 1 MB at the most for a hundred of them. */
const QUEUES_MAX = 1_000;

type Slices = Map<EpochMs, Uint32Array>;

/** From due time to claim, of the claims of this process in the last five minutes, by queue. */
export class StartLags {
  readonly #clock: Clock;
  /** The queue that started something last is the last one. */
  readonly #queues = new Map<string, Slices>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  note(queue: string, lagMs: number): void {
    const slices: Slices = this.#queues.get(queue) ?? new Map<EpochMs, Uint32Array>();
    this.#queues.delete(queue);
    this.#queues.set(queue, slices);
    if (this.#queues.size > QUEUES_MAX) {
      const longestQuiet = this.#queues.keys().next();
      if (longestQuiet.done !== true) this.#queues.delete(longestQuiet.value);
    }
    const now = this.#clock.now();
    const slice = Math.floor(now / SLICE_MS) * SLICE_MS;
    let counts = slices.get(slice);
    if (counts === undefined) {
      counts = new Uint32Array(BOUNDS);
      slices.set(slice, counts);
      for (const start of slices.keys()) if (start < now - WINDOW_MS) slices.delete(start);
    }
    const bound = boundOf(lagMs);
    counts[bound] = (counts[bound] ?? 0) + 1;
  }

  /** Null: nothing of it started here lately. */
  of(queue: string): StartLag | null {
    const now = this.#clock.now();
    const live = [...(this.#queues.get(queue) ?? [])].filter(([start]) => start >= now - WINDOW_MS);
    const counts = Array.from({ length: BOUNDS }, (_, bound) =>
      live.reduce((sum, [, slice]) => sum + (slice[bound] ?? 0), 0),
    );
    const starts = counts.reduce((sum, count) => sum + count, 0);
    if (starts === 0) return null;
    const percentile = (share: number): number => {
      let seen = 0;
      const bound = counts.findIndex((count) => (seen += count) >= starts * share);
      return Math.round(BOUND_FACTOR ** bound);
    };
    return { starts, p50Ms: percentile(0.5), p95Ms: percentile(0.95), p99Ms: percentile(0.99) };
  }
}

/** The first bound that is not below the lag. */
function boundOf(lagMs: number): number {
  if (lagMs <= 1) return 0;
  return Math.min(BOUNDS - 1, Math.ceil(Math.log(lagMs) / Math.log(BOUND_FACTOR)));
}

import { SLEEP_MAX_MS } from '../domain/limits.ts';
import { type EpochMs, msBetween } from '../domain/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { Random } from '../ports/random.ts';
import type { Log } from '../ports/telemetry.ts';
import { errorFields } from './error-fields.ts';

export interface LoopOptions {
  /** Named in the log when the duty fails. */
  readonly name: string;
  /** From the start of one run to the start of the next; a run that takes longer is followed by the next at once. */
  readonly everyMs: number;
  readonly runOnce: (now: EpochMs) => Promise<unknown>;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
}

export interface Loop {
  /** Runs the duty now instead of at its next turn; while it runs already, once more right after. */
  wake(): void;
  /** Resolves when the run in hand has ended; no other begins. */
  stop(): Promise<void>;
}

/** Processes started together do not stay in step. */
const JITTER_FRACTION = 0.1;
const BACKOFF_MAX_MS = 5_000;

/** Runs a duty again and again, never twice at once; one that fails is tried again after a growing pause. */
export function startLoop({ name, everyMs, runOnce, clock, random, log }: LoopOptions): Loop {
  if (!(everyMs > 0 && everyMs <= SLEEP_MAX_MS)) throw new RangeError(`${name} cannot run every ${everyMs} ms`);
  let stopped = false;
  let sleep = new AbortController();
  let failures = 0;

  async function run(): Promise<void> {
    try {
      await runOnce(clock.now());
      failures = 0;
    } catch (error) {
      failures += 1;
      log.error('a duty failed', { duty: name, failures, ...errorFields(error) });
    }
  }

  function pauseMs(tookMs: number): number {
    const jitteredMs = everyMs * (1 - JITTER_FRACTION * random.fraction());
    if (failures === 0) return Math.max(0, jitteredMs - tookMs);
    return Math.max(jitteredMs, Math.min(BACKOFF_MAX_MS, jitteredMs * 2 ** Math.min(failures, 10)));
  }

  async function runUntilStopped(): Promise<void> {
    while (!stopped) {
      sleep = new AbortController();
      const started = clock.monotonic();
      await run();
      await clock.sleep(pauseMs(msBetween(started, clock.monotonic())), sleep.signal);
    }
  }

  const ended = runUntilStopped();
  return {
    wake: () => sleep.abort(),
    stop: async () => {
      stopped = true;
      sleep.abort();
      await ended;
    },
  };
}

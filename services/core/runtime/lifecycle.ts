import type { Clock } from '../ports/clock.ts';
import type { Log } from '../ports/telemetry.ts';
import { errorFields } from './error-fields.ts';

export interface LifecycleOptions {
  readonly clock: Clock;
  readonly log: Log;
  /** How long everything together may take to stop. */
  readonly graceMs: number;
  /** Ends the process; in tests a recorder. */
  readonly exit?: (code: number) => void;
}

interface Stoppable {
  readonly name: string;
  readonly stop: () => Promise<void>;
}

const SIGNALS = ['SIGTERM', 'SIGINT'] as const;
export const EXIT_FAILED = 1;

/**
 * How the process ends. What was started first is stopped last; a second signal, an error nobody caught or the end of the
 * grace period end it at once. Ending at once is safe at any time: Cassandra holds the truth.
 */
export class Lifecycle {
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #graceMs: number;
  readonly #exit: (code: number) => void;
  readonly #started: Stoppable[] = [];
  readonly #stopping = new AbortController();

  constructor({ clock, log, graceMs, exit = (code) => process.exit(code) }: LifecycleOptions) {
    this.#clock = clock;
    this.#log = log;
    this.#graceMs = graceMs;
    this.#exit = exit;
  }

  /** Aborted as soon as the process begins to stop. */
  get stopping(): AbortSignal {
    return this.#stopping.signal;
  }

  /** To be called when a part has started, so that it is stopped before the parts it builds on. */
  onStop(name: string, stop: () => Promise<void>): void {
    this.#started.push({ name, stop });
  }

  /** From now on signals, and errors that nobody caught, end the process. */
  watchProcess(): void {
    for (const signal of SIGNALS) {
      process.on(signal, () => {
        if (this.stopping.aborted) {
          this.#log.warn('stopping at once', { signal });
          this.#exit(EXIT_FAILED);
        } else {
          void this.stop(signal, 0);
        }
      });
    }
    for (const event of ['unhandledRejection', 'uncaughtException'] as const) {
      process.on(event, (error: unknown) => {
        this.#log.error('an error that nobody caught', { event, ...errorFields(error) });
        this.#exit(EXIT_FAILED);
      });
    }
  }

  /** Stops all parts, the last started first, and exits: with the code, or with 1 when the grace period was too short. */
  async stop(reason: string, code: number): Promise<void> {
    if (this.stopping.aborted) return;
    this.#log.info('stopping', { reason });
    this.#stopping.abort();
    const stopped = this.#stopAll().then(() => true);
    const graceOver = this.#clock.sleep(this.#graceMs).then(() => false);
    if (await Promise.race([stopped, graceOver])) {
      this.#log.info('stopped');
      this.#exit(code);
    } else {
      this.#log.warn('the work in hand did not end in time', { grace_ms: this.#graceMs });
      this.#exit(EXIT_FAILED);
    }
  }

  async #stopAll(): Promise<void> {
    for (const { name, stop } of this.#started.toReversed()) {
      try {
        await stop();
      } catch (error) {
        this.#log.error('a part did not stop as it should', { part: name, ...errorFields(error) });
      }
    }
  }
}

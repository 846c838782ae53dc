import { PUBLISH_RETRY_MAX_MS, SECOND_MS } from '../domain/limits.ts';
import { msBetween, type MonotonicMs } from '../domain/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { PublishOutcome, ReadyMessage, ReadyQueue } from '../ports/ready-queue.ts';

interface Waiting {
  readonly message: ReadyMessage;
  readonly since: MonotonicMs;
  readonly done: (published: boolean) => void;
}

const BATCH_MAX = 1_000;
const BATCHES_IN_FLIGHT_MAX = 4;
const PAUSE_MS = SECOND_MS / 4;

/**
 * Publishes ready messages in the order given, many in one call, and tries again what was not stored. After
 * PUBLISH_RETRY_MAX_MS the second look owns the job; a full subject is waited for, so that its jobs' timers stay in
 * custody and the cursor waits (back-pressure).
 */
export class ReadyPublisher {
  readonly #queue: ReadyQueue;
  readonly #clock: Clock;
  #waiting: Waiting[] = [];
  #inFlight = 0;

  constructor(parts: { queue: ReadyQueue; clock: Clock }) {
    this.#queue = parts.queue;
    this.#clock = parts.clock;
  }

  /** True once the stream has acknowledged the message; false when it was given up. Never rejects. */
  publish(message: ReadyMessage): Promise<boolean> {
    return new Promise((done) => {
      this.#waiting.push({ message, since: this.#clock.monotonic(), done });
      // Messages of one turn of the event loop (one round's jobs) travel together.
      queueMicrotask(() => {
        this.#pump();
      });
    });
  }

  #pump(): void {
    while (this.#waiting.length > 0 && this.#inFlight < BATCHES_IN_FLIGHT_MAX) {
      const batch = this.#waiting.slice(0, BATCH_MAX);
      this.#waiting = this.#waiting.slice(BATCH_MAX);
      this.#inFlight += 1;
      void this.#send(batch);
    }
  }

  async #send(batch: readonly Waiting[]): Promise<void> {
    const outcomes = await this.#queue.publish(batch.map((waiting) => waiting.message));
    this.#inFlight -= 1;
    const again = batch.filter((waiting, index) => !this.#settle(waiting, outcomes[index] ?? 'failed'));
    this.#pump();
    if (again.length === 0) return;
    await this.#clock.sleep(PAUSE_MS);
    this.#waiting.push(...again);
    this.#pump();
  }

  /** False when the message has to be sent again. */
  #settle(waiting: Waiting, outcome: PublishOutcome): boolean {
    if (outcome === 'stored') {
      waiting.done(true);
      return true;
    }
    const givenUp = outcome === 'failed' && msBetween(waiting.since, this.#clock.monotonic()) > PUBLISH_RETRY_MAX_MS;
    if (givenUp) waiting.done(false);
    return givenUp;
  }
}

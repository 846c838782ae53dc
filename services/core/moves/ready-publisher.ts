import { type Priority, subjectKey } from '../domain/job-status.ts';
import { DIRECT_BACKLOG_MAX, PUBLISH_RETRY_MAX_MS, READY_BACKLOG_MAX, SECOND_MS } from '../domain/limits.ts';
import { msBetween, type MonotonicMs } from '../domain/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { PublishOutcome, ReadyMessage, ReadyQueue } from '../ports/ready-queue.ts';

/**
 * stored: the stream has acknowledged it. given_up: not within PUBLISH_RETRY_MAX_MS, so the second look owns the job.
 * no_room: too many are waiting, or the subject is full and enough wait for it: the caller has to come again.
 */
export type Published = 'stored' | 'given_up' | 'no_room';

interface Waiting {
  readonly message: ReadyMessage;
  readonly key: string;
  readonly since: MonotonicMs;
  readonly done: (published: Published) => void;
}

/** The messages of one subject. */
interface Lane {
  readonly key: string;
  waiting: Waiting[];
  /** The subject was full when asked last. */
  isFull: boolean;
  /** What was refused is not sent again at once. */
  isPaused: boolean;
}

const BATCH_MAX = 1_000;
const BATCHES_IN_FLIGHT_MAX = 4;
const FAILED_PAUSE_MS = SECOND_MS / 4;
const FULL_PAUSE_MS = SECOND_MS;
/** What a full subject is tried with: it may have room for a few only, and each refusal costs as much as a success. */
const PROBE_MAX = 100;
/** Of a full subject no more than this is kept here; the rest stays with the timers of its jobs. */
const FULL_KEPT_MAX = 200;

/**
 * Publishes ready messages, many in one call, and tries again what was not stored. Within a subject they keep their order;
 * subjects take turns, so that one that is full, or has a flood of messages, makes no other wait. It keeps at most
 * READY_BACKLOG_MAX messages: whoever can wait asks for room first (back-pressure).
 */
export class ReadyPublisher {
  readonly #queue: ReadyQueue;
  readonly #clock: Clock;
  /** In the order of their turns. */
  readonly #lanes = new Map<string, Lane>();
  #kept = 0;
  #inFlight = 0;

  constructor(parts: { queue: ReadyQueue; clock: Clock }) {
    this.#queue = parts.queue;
    this.#clock = parts.clock;
  }

  /** Never rejects. */
  publish(message: ReadyMessage): Promise<Published> {
    if (this.#kept >= READY_BACKLOG_MAX) return Promise.resolve('no_room');
    const key = subjectKey(message);
    const lane = this.#laneOf(key);
    if (lane.isFull && lane.waiting.length >= FULL_KEPT_MAX) return Promise.resolve('no_room');
    this.#kept += 1;
    return new Promise((done) => {
      lane.waiting.push({ message, key, since: this.#clock.monotonic(), done });
      // Messages of one turn of the event loop (one round's jobs) travel together.
      queueMicrotask(() => {
        this.#pump();
      });
    });
  }

  /** How many more messages it would take. */
  room(): number {
    return READY_BACKLOG_MAX - this.#kept;
  }

  /** Whether the subject was full when it was asked last. */
  isFull(subject: { readonly queue: string; readonly priority: Priority }): boolean {
    return this.#lanes.get(subjectKey(subject))?.isFull === true;
  }

  /** Whether a message would be stored soon: else its job is better left to the dispatcher. */
  takesDirect(subject: { readonly queue: string; readonly priority: Priority }): boolean {
    return this.#kept < DIRECT_BACKLOG_MAX && !this.isFull(subject);
  }

  #laneOf(key: string): Lane {
    const known = this.#lanes.get(key);
    if (known !== undefined) return known;
    const lane: Lane = { key, waiting: [], isFull: false, isPaused: false };
    this.#lanes.set(key, lane);
    return lane;
  }

  #pump(): void {
    while (this.#inFlight < BATCHES_IN_FLIGHT_MAX) {
      const batch = this.#nextBatch();
      if (batch.length === 0) return;
      this.#inFlight += 1;
      void this.#send(batch);
    }
  }

  /** From lane after lane; whoever gave goes to the end. A full subject is tried alone: it would have the batch refused. */
  #nextBatch(): readonly Waiting[] {
    const batch: Waiting[] = [];
    for (const lane of [...this.#lanes.values()]) {
      if (batch.length >= BATCH_MAX) break;
      if (lane.isPaused || lane.waiting.length === 0 || (lane.isFull && batch.length > 0)) continue;
      batch.push(...lane.waiting.splice(0, lane.isFull ? PROBE_MAX : BATCH_MAX - batch.length));
      this.#lanes.delete(lane.key);
      this.#lanes.set(lane.key, lane);
      if (!lane.isFull) continue;
      this.#pause(lane, FULL_PAUSE_MS);
      break;
    }
    return batch;
  }

  async #send(batch: readonly Waiting[]): Promise<void> {
    const outcomes = await this.#queue.publish(batch.map((waiting) => waiting.message));
    this.#inFlight -= 1;
    const results = batch.map((waiting, index) => ({ waiting, outcome: outcomes[index] ?? 'failed' }));
    for (const [key, ofLane] of Map.groupBy(results, ({ waiting }) => waiting.key)) {
      this.#conclude(this.#laneOf(key), ofLane);
    }
    this.#pump();
  }

  #conclude(lane: Lane, results: readonly { readonly waiting: Waiting; readonly outcome: PublishOutcome }[]): void {
    const again: Waiting[] = [];
    for (const { waiting, outcome } of results) {
      const published = this.#verdict(waiting, outcome);
      if (published === null) again.push(waiting);
      else this.#finish(waiting, published);
    }
    lane.waiting.unshift(...again);
    lane.isFull = results.some(({ outcome }) => outcome === 'full');
    if (lane.isFull) for (const surplus of lane.waiting.splice(FULL_KEPT_MAX)) this.#finish(surplus, 'no_room');
    if (again.length > 0) {
      this.#pause(lane, lane.isFull ? FULL_PAUSE_MS : FAILED_PAUSE_MS);
      return;
    }
    lane.isPaused = false;
    if (lane.waiting.length === 0) this.#lanes.delete(lane.key);
  }

  #finish(waiting: Waiting, published: Published): void {
    this.#kept -= 1;
    waiting.done(published);
  }

  /** Null when the message has to be sent again: a full subject is waited for, whatever it takes. */
  #verdict(waiting: Waiting, outcome: PublishOutcome): Published | null {
    if (outcome === 'stored') return 'stored';
    const waitedMs = msBetween(waiting.since, this.#clock.monotonic());
    return outcome === 'failed' && waitedMs > PUBLISH_RETRY_MAX_MS ? 'given_up' : null;
  }

  #pause(lane: Lane, ms: number): void {
    if (lane.isPaused) return;
    lane.isPaused = true;
    this.#clock.after(ms, () => {
      lane.isPaused = false;
      this.#pump();
    });
  }
}

import type { Priority } from '../core/domain/job-status.ts';
import { BEAT_MS, READY_UNASKED_MAX, SECOND_MS, TURN_AHEAD_MS, TURN_ROWS_MAX } from '../core/domain/limits.ts';
import { burstOf, rateAt, readyAheadOf, readyMaxOf, type QueueSettings } from '../core/domain/queue-settings.ts';
import { TokenBucket } from '../core/domain/token-bucket.ts';
import type { ReadyPublisher } from '../core/moves/ready-publisher.ts';
import type { Clock } from '../core/ports/clock.ts';
import type { HoldReason } from '../core/ports/telemetry.ts';
import type { QueueBook } from '../core/queues/queue-book.ts';
import type { RunningSlots } from '../core/queues/running-slots.ts';
import type { ReadyDepths } from '../core/queues/ready-depths.ts';

export interface Subject {
  readonly queue: string;
  readonly priority: Priority;
}

/** What a queue allows this process now: its share of the rate, free slots, and the room it has. */
export class QueueAllowance {
  readonly #book: QueueBook;
  readonly #publisher: ReadyPublisher;
  readonly #slots: Pick<RunningSlots, 'free'>;
  readonly #clock: Clock;
  readonly #share: (queue: string) => number;
  readonly #depths: Pick<ReadyDepths, 'of' | 'known' | 'added'>;
  readonly #buckets = new Map<string, TokenBucket>();

  constructor(parts: {
    book: QueueBook;
    publisher: ReadyPublisher;
    slots: Pick<RunningSlots, 'free'>;
    clock: Clock;
    /** This process's part of the queue, 0 to 1. */
    share: (queue: string) => number;
    depths: Pick<ReadyDepths, 'of' | 'known' | 'added'>;
  }) {
    this.#book = parts.book;
    this.#publisher = parts.publisher;
    this.#slots = parts.slots;
    this.#clock = parts.clock;
    this.#share = parts.share;
    this.#depths = parts.depths;
  }

  /** How many jobs of a subject may wait for their turn here: 0 while none can have one. */
  waitingMax(subject: Subject): number {
    const settings = this.#book.settingsOf(subject.queue);
    if (this.#book.isPaused(subject.queue) || this.#publisher.isFull(subject)) return 0;
    const rate = this.#rateOf(settings);
    const most = Math.min(TURN_ROWS_MAX, settings.maxRunning ?? TURN_ROWS_MAX);
    if (rate === null) return most;
    return Math.max(1, Math.min(most, Math.ceil((rate.perS * TURN_AHEAD_MS) / SECOND_MS)));
  }

  /** Why jobs of a subject are held, if some are. */
  reasonOf(subject: Subject): HoldReason {
    if (this.#book.isPaused(subject.queue)) return 'paused';
    if (this.#publisher.isFull(subject)) return 'stream_full';
    const settings = this.#book.settingsOf(subject.queue);
    if (this.#rateOf(settings) !== null) return 'rate';
    if (this.#depths.known(subject.queue) >= readyMaxOf(settings)) return 'stream_full';
    return settings.maxRunning === null ? 'share' : 'running';
  }

  /** How many jobs of the queue may go on now, at most `most`. */
  take(queue: string, most: number): number {
    const settings = this.#book.settingsOf(queue);
    const { maxRunning } = settings;
    const rate = this.#rateOf(settings);
    if (rate === null) this.#buckets.delete(queue);
    const slots = maxRunning === null ? Infinity : this.#slots.free(queue, maxRunning);
    const fitting = Math.min(most, slots, this.#readyRoom(settings));
    if (fitting === 0) return 0;
    const taken = rate === null ? fitting : this.#bucketOf(queue).take(fitting, this.#clock.monotonic(), rate);
    this.#depths.added(queue, taken);
    return taken;
  }

  /** Of what was taken so many did not start. */
  giveBack(queue: string, count: number): void {
    this.#buckets.get(queue)?.giveBack(count);
    this.#depths.added(queue, -count);
  }

  #rateOf(settings: QueueSettings): { readonly perS: number; readonly burst: number } | null {
    const perS = rateAt(settings, this.#clock.now());
    if (perS === null) return null;
    const share = this.#share(settings.queue);
    // What is earned between two beats must not be lost over a small burst.
    const betweenBeats = (2 * BEAT_MS * perS * share) / SECOND_MS;
    return { perS: perS * share, burst: Math.max(1, burstOf(settings) * share, betweenBeats) };
  }

  /** How many more may wait for a claim. */
  #readyRoom(settings: QueueSettings): number {
    const { queue, ratePerS, readyMax } = settings;
    const isUnasked = ratePerS === null && readyMax === null && this.#depths.known(queue) < READY_UNASKED_MAX;
    if (isUnasked) return READY_UNASKED_MAX;
    return Math.max(0, Math.min(readyMaxOf(settings), readyAheadOf(settings) ?? Infinity) - this.#depths.of(queue));
  }

  #bucketOf(queue: string): TokenBucket {
    const known = this.#buckets.get(queue);
    if (known !== undefined) return known;
    const bucket = new TokenBucket(this.#clock.monotonic());
    this.#buckets.set(queue, bucket);
    return bucket;
  }
}

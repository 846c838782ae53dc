import { ROWS_POOL_MAX, SIFTING_MAX, SIFTING_TOTAL_MAX } from '../core/domain/limits.ts';
import type { WaitingCanceller } from '../core/moves/cancel-waiting.ts';
import type { ReadyPublisher } from '../core/moves/ready-publisher.ts';
import type { Clock } from '../core/ports/clock.ts';
import type { HeldDepth } from '../core/ports/held-reports.ts';
import type { HeldStore } from '../core/ports/held-store.ts';
import type { JobReader } from '../core/ports/job-store.ts';
import type { ReadyQueue } from '../core/ports/ready-queue.ts';
import type { Log, Telemetry } from '../core/ports/telemetry.ts';
import type { QueueBook } from '../core/queues/queue-book.ts';
import type { RunningSlots } from '../core/queues/running-slots.ts';
import { ReadyDepths } from '../core/queues/ready-depths.ts';
import type { Rounds } from '../core/rounds/rounds.ts';
import { RowPool } from '../core/scan/row-pool.ts';
import type { Timers } from '../core/timers/timers.ts';
import type { DueJob } from './due-job.ts';
import { DueMover } from './due-mover.ts';
import { LimitedStarter } from './limited-starter.ts';
import { HeldGauges } from './held-gauges.ts';
import { HeldJobs } from './held-jobs.ts';
import { QueueAllowance, type Subject } from './queue-allowance.ts';
import { QueueTurns } from './queue-turns.ts';

export interface QueueWorkParts {
  readonly heldStore: HeldStore;
  readonly rounds: Rounds;
  readonly reader: JobReader;
  readonly timers: Timers;
  readonly publisher: ReadyPublisher;
  readonly queue: Pick<ReadyQueue, 'depths'>;
  readonly canceller: WaitingCanceller;
  readonly queueBook: QueueBook;
  readonly slots: Pick<RunningSlots, 'free' | 'take' | 'giveBack'>;
  readonly clock: Clock;
  readonly telemetry: Telemetry;
  readonly log: Log;
  /** Whether our lease on a shard certainly stands. */
  readonly holds: (shard: number) => boolean;
  /** This process's part of a queue, 0 to 1. */
  readonly share: (queue: string) => number;
}

/**
 * The way of due jobs through their queues, for all shards of this process together: offered, they have their turn soon, or
 * become held rows; those come back when their queue has turns for them.
 */
export class QueueWork {
  readonly held: HeldJobs;
  /** For due rows that more than fill their shard's own room. */
  readonly rowPool = new RowPool(ROWS_POOL_MAX);
  /** By lane of a shard's rows: late jobs that are being read. */
  readonly #sifting = new Map<string, number>();
  #siftingTotal = 0;
  /** Jobs to be held that may be enqueued without a message. */
  readonly #toClear: DueJob[] = [];
  /** Those, and the ones that are being read. */
  #unclear = 0;
  readonly #mover: DueMover;
  readonly #starter: LimitedStarter;
  readonly #turns: QueueTurns;
  readonly #gauges: HeldGauges;
  readonly #clock: Clock;

  constructor(parts: QueueWorkParts) {
    const { publisher, slots, clock, log, holds } = parts;
    const mover = new DueMover(parts);
    const allowance = new QueueAllowance({
      book: parts.queueBook,
      publisher,
      slots,
      clock,
      share: parts.share,
      depths: new ReadyDepths({ queue: parts.queue, clock, log }),
    });
    const starter = new LimitedStarter({ mover, slots, book: parts.queueBook, clock, log });
    const turns = new QueueTurns({ allowance, enqueue: (job) => starter.enqueue(job), publisher, clock });
    this.held = new HeldJobs({ store: parts.heldStore, reader: parts.reader, mover, turns, clock, log, holds });
    this.#mover = mover;
    this.#starter = starter;
    this.#turns = turns;
    this.#gauges = new HeldGauges({ telemetry: parts.telemetry, reasonOf: (subject) => allowance.reasonOf(subject) });
    this.#clock = clock;
  }

  /** How many more jobs of a subject may be offered at once: those that have to wait behind others could all become held rows. */
  room(subject: Subject): number {
    const mustBeHeld = this.held.hasWaiting(subject);
    return Math.max(0, this.held.room() - this.#unclear) + (mustBeHeld ? 0 : this.#turns.room(subject));
  }

  /** Never rejects: what cannot go on now comes again. */
  offer(jobs: readonly DueJob[]): void {
    this.hold(jobs.filter((job) => this.held.hasWaiting(job.row) || !this.#turns.offer(job)));
  }

  /** Jobs whose queue does not take them now. Never rejects. */
  hold(jobs: readonly DueJob[]): void {
    const { true: unclear = [], false: clear = [] } = Object.groupBy(jobs, ({ maybeUnpublished }) =>
      maybeUnpublished ? 'true' : 'false',
    );
    if (clear.length > 0) this.held.hold(clear);
    if (unclear.length === 0) return;
    this.#unclear += unclear.length;
    // What is passed over job by job in one turn of the event loop is read together.
    if (this.#toClear.length === 0) queueMicrotask(() => void this.#clearUp());
    this.#toClear.push(...unclear);
  }

  /** How many more late jobs of a lane may be offered: each is read before, which nobody else is to wait for. */
  roomForLate(lane: string): number {
    return Math.min(SIFTING_MAX - (this.#sifting.get(lane) ?? 0), SIFTING_TOTAL_MAX - this.#siftingTotal);
  }

  /** For jobs of a lane that somebody has mostly handled before. Never rejects. */
  async offerLate(lane: string, jobs: readonly DueJob[]): Promise<void> {
    this.#countSifting(lane, jobs.length);
    try {
      this.offer(await this.#mover.sift(jobs));
    } finally {
      this.#countSifting(lane, -jobs.length);
    }
  }

  /** A held row does not tell that its job may be enqueued and have no message: so that is seen to before. */
  async #clearUp(): Promise<void> {
    const jobs = this.#toClear.splice(0);
    try {
      this.held.hold(await this.#mover.sift(jobs));
    } finally {
      this.#unclear -= jobs.length;
    }
  }

  #countSifting(lane: string, jobs: number): void {
    this.#siftingTotal += jobs;
    const left = (this.#sifting.get(lane) ?? 0) + jobs;
    if (left === 0) this.#sifting.delete(lane);
    else this.#sifting.set(lane, left);
  }

  /** For a job that is enqueued and could not be published. */
  publish(job: DueJob): void {
    void this.#mover.publish(job);
  }

  /** Several times a second: turns for queues that had to rest, and held rows for those that have turns. */
  beat(): void {
    this.#turns.beat();
    this.held.feed();
  }

  /** Each second; returns what is held. */
  measure(): readonly HeldDepth[] {
    const depths = this.held.depths();
    this.#gauges.show(depths, this.#clock.now());
    return depths;
  }

  /** Whether something is half-way: between its turn and the acknowledgement of its message, or being written as held. */
  isBusy(): boolean {
    return this.#mover.isBusy() || this.#starter.isBusy() || this.held.isBusy();
  }

  /** Before a graceful end: nobody has a turn any more. */
  close(): void {
    this.#turns.close();
  }
}

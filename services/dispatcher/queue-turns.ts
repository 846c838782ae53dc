import { priorityOrder } from '../core/contract/priority-turns.ts';
import { cohortOf } from '../core/domain/ids.ts';
import { PRIORITIES, type Priority } from '../core/domain/job-status.ts';
import { HELD_AHEAD_MAX, MOVING_COHORTS_MAX, SECOND_MS, TURN_ROWS, TURN_WAIT_MAX_MS } from '../core/domain/limits.ts';
import type { EpochMs } from '../core/domain/time.ts';
import type { ReadyPublisher } from '../core/moves/ready-publisher.ts';
import type { Clock } from '../core/ports/clock.ts';
import type { DueJob } from './due-job.ts';
import { Fifo } from './fifo.ts';
import { MovingLimit } from './moving-limit.ts';
import type { QueueAllowance, Subject } from './queue-allowance.ts';

export interface QueueTurnsParts {
  readonly allowance: QueueAllowance;
  /** Resolves with the job's round: whether it was enqueued. Never rejects. */
  readonly enqueue: (job: DueJob) => Promise<boolean>;
  readonly publisher: ReadyPublisher;
  readonly clock: Clock;
}

interface Arrived {
  readonly job: DueJob;
  readonly since: EpochMs;
}

/** The jobs of one subject, in the order in which they came. Due rows wait for a while only, held ones as long as it takes. */
interface Waiting {
  readonly held: Fifo<Arrived>;
  readonly due: Fifo<Arrived>;
}

interface Lane {
  readonly queue: string;
  readonly waiting: Readonly<Record<Priority, Waiting>>;
  /** Counts what was taken: which priority is asked first. */
  turn: number;
}

/**
 * Whose turn it is, over all shards of this process: queues take turns of TURN_ROWS jobs each, so that one with a flood makes
 * no other wait longer than the rounds under way; within a queue high goes before low, which has its share; and no queue
 * gets more than it is allowed. What a queue has no room for here is refused, to become a held row.
 */
export class QueueTurns {
  readonly #parts: QueueTurnsParts;
  /** Those that may have a turn now, in the order of their turns. */
  #lanes = new Map<string, Lane>();
  /** Those that were allowed nothing when they were asked last: asked again at the next beat. */
  readonly #resting = new Map<string, Lane>();
  readonly #moving = new Map<string, number>();
  readonly #movingLimit = new MovingLimit();
  #movingRows = 0;
  /** The last turns ended because as many were under way as there may be. */
  #isFull = false;
  #isPumping = false;
  #isClosed = false;

  constructor(parts: QueueTurnsParts) {
    this.#parts = parts;
  }

  /** False when the queue does not take the job now, not even to wait for its turn. */
  offer(job: DueJob): boolean {
    const { held, due } = this.#waitingOf(job.row);
    if (held.length + due.length >= this.#parts.allowance.waitingMax(job.row)) return false;
    due.push({ job, since: this.#parts.clock.now() });
    this.#pumpSoon();
    return true;
  }

  /** How many more jobs of a subject it takes. */
  room(subject: Subject): number {
    const { held, due } = this.#waitingOf(subject);
    return Math.max(0, this.#parts.allowance.waitingMax(subject) - held.length - due.length);
  }

  /** How many held jobs it takes to have enough of them at hand; 0 while it has enough, or none can have a turn. */
  roomForHeld(subject: Subject): number {
    const most = Math.min(HELD_AHEAD_MAX, this.#parts.allowance.waitingMax(subject));
    const { length } = this.#waitingOf(subject).held;
    return length > most / 2 ? 0 : most - length;
  }

  addHeld(jobs: readonly DueJob[]): void {
    const since = this.#parts.clock.now();
    for (const job of jobs) this.#waitingOf(job.row).held.push({ job, since });
    this.#pumpSoon();
  }

  /**
   * Several times a second: asks the resting queues again. What waits in a queue that is closed by now, and due rows that wait
   * for too long, are passed over.
   */
  beat(): void {
    for (const [queue, lane] of this.#resting) {
      this.#resting.delete(queue);
      this.#lanes.set(queue, lane);
    }
    const before = this.#parts.clock.now() - TURN_WAIT_MAX_MS;
    for (const lane of this.#lanes.values()) this.#passOver(lane, before);
    this.#pump();
  }

  /** Before a graceful end: nobody gets a turn any more. */
  close(): void {
    this.#isClosed = true;
  }

  #passOver({ queue, waiting }: Lane, before: EpochMs): void {
    for (const priority of PRIORITIES) {
      const { held, due } = waiting[priority];
      const isClosed = this.#parts.allowance.waitingMax({ queue, priority }) === 0;
      if (isClosed) for (const { job } of held.clear()) job.passOver();
      for (let first = due.peek(); first !== undefined && (isClosed || first.since < before); first = due.peek()) {
        due.shift();
        first.job.passOver();
      }
    }
  }

  #waitingOf({ queue, priority }: Subject): Waiting {
    const known = this.#lanes.get(queue) ?? this.#resting.get(queue);
    if (known !== undefined) return known.waiting[priority];
    const lane: Lane = { queue, waiting: { high: newWaiting(), normal: newWaiting(), low: newWaiting() }, turn: 0 };
    this.#lanes.set(queue, lane);
    return lane.waiting[priority];
  }

  /** Jobs of one turn of the event loop go on together, so that those of a cohort share its round. */
  #pumpSoon(): void {
    if (this.#isPumping) return;
    this.#isPumping = true;
    queueMicrotask(() => {
      this.#isPumping = false;
      this.#pump();
    });
  }

  #pump(): void {
    while (this.#room() > 0) {
      const next = this.#lanes.entries().next();
      if (next.done === true) break;
      const [queue, lane] = next.value;
      this.#lanes.delete(queue);
      const started = this.#serve(lane);
      if (lengthOf(lane) === 0) continue;
      if (started > 0) this.#lanes.set(queue, lane);
      else this.#resting.set(queue, lane);
    }
    this.#isFull = this.#movingRows >= this.#movingLimit.rows;
  }

  #serve(lane: Lane): number {
    const { allowance } = this.#parts;
    const wanted = Math.min(TURN_ROWS, lengthOf(lane), this.#room());
    const allowed = allowance.take(lane.queue, wanted);
    let started = 0;
    while (started < allowed) {
      const job = this.#nextOf(lane);
      if (job === undefined) break;
      started += 1;
      void this.#move(job);
    }
    allowance.giveBack(lane.queue, allowed - started);
    return started;
  }

  #nextOf(lane: Lane): DueJob | undefined {
    const { queue, waiting } = lane;
    for (const priority of priorityOrder(PRIORITIES, lane.turn)) {
      if (this.#parts.publisher.isFull({ queue, priority })) continue;
      const { held, due } = waiting[priority];
      const first = (due.peek()?.since ?? Infinity) < (held.peek()?.since ?? Infinity) ? due.shift() : held.shift();
      if (first === undefined) continue;
      lane.turn += 1;
      return first.job;
    }
    return undefined;
  }

  async #move(job: DueJob): Promise<void> {
    if (!job.mayAct()) {
      // The lease may stand again before anybody else took the shard: then nobody but us has the row.
      this.#parts.allowance.giveBack(job.row.queue, 1);
      job.again(this.#parts.clock.now() + SECOND_MS);
      return;
    }
    const { clock } = this.#parts;
    const cohort = cohortOf(job.row.jobId);
    const setOutAt = clock.monotonic();
    this.#movingRows += 1;
    this.#moving.set(cohort, (this.#moving.get(cohort) ?? 0) + 1);
    const wasEnqueued = await this.#parts.enqueue(job);
    this.#movingLimit.arrived(setOutAt, clock.monotonic(), this.#isFull);
    this.#movingRows -= 1;
    const left = (this.#moving.get(cohort) ?? 1) - 1;
    if (left === 0) this.#moving.delete(cohort);
    else this.#moving.set(cohort, left);
    if (!wasEnqueued) this.#parts.allowance.giveBack(job.row.queue, 1);
    this.#pumpSoon();
  }

  /** How many more jobs may be under way: each could be of a cohort of its own. */
  #room(): number {
    if (this.#isClosed || this.#moving.size >= MOVING_COHORTS_MAX) return 0;
    return Math.min(this.#movingLimit.rows, this.#parts.publisher.room()) - this.#movingRows;
  }
}

function newWaiting(): Waiting {
  return { held: new Fifo(), due: new Fifo() };
}

function lengthOf({ waiting }: Lane): number {
  return PRIORITIES.reduce((sum, priority) => sum + waiting[priority].held.length + waiting[priority].due.length, 0);
}

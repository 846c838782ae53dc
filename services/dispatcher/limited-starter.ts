import { SECOND_MS } from '../core/domain/limits.ts';
import type { Clock } from '../core/ports/clock.ts';
import type { Log } from '../core/ports/telemetry.ts';
import type { QueueBook } from '../core/queues/queue-book.ts';
import type { RunningSlots } from '../core/queues/running-slots.ts';
import type { DueJob } from './due-job.ts';
import type { DueMover } from './due-mover.ts';

export interface LimitedStarterParts {
  readonly mover: Pick<DueMover, 'enqueue'>;
  readonly slots: Pick<RunningSlots, 'take' | 'giveBack'>;
  readonly book: QueueBook;
  readonly clock: Clock;
  readonly log: Log;
}

/** Enqueues jobs that have their turn; in a queue with max_running each with a slot of its own, taken before. */
export class LimitedStarter {
  readonly #parts: LimitedStarterParts;
  #taking = 0;

  constructor(parts: LimitedStarterParts) {
    this.#parts = parts;
  }

  /** Whether a job has its turn and not its slot yet. */
  isBusy(): boolean {
    return this.#taking > 0;
  }

  /** Whether the job was enqueued. Never rejects. */
  async enqueue(job: DueJob): Promise<boolean> {
    const { mover, slots, book } = this.#parts;
    const { queue, jobId } = job.row;
    const { maxRunning } = book.settingsOf(queue);
    if (maxRunning === null) return mover.enqueue(job);
    if (!(await this.#takeSlot(job, maxRunning))) return false;
    const wasEnqueued = await mover.enqueue(job);
    if (!wasEnqueued) void slots.giveBack(queue, jobId);
    return wasEnqueued;
  }

  async #takeSlot(job: DueJob, maxRunning: number): Promise<boolean> {
    const { slots, clock, log } = this.#parts;
    const { queue, jobId } = job.row;
    this.#taking += 1;
    try {
      const taken = await slots.take(queue, maxRunning, jobId);
      if (!job.mayAct()) {
        if (taken) void slots.giveBack(queue, jobId);
        // The lease may stand again before anybody else took the shard: then nobody but us has the row.
        job.again(clock.now() + SECOND_MS);
        return false;
      }
      if (!taken) job.passOver();
      return taken;
    } catch (error) {
      log.warn('a job could not be given a slot; trying again', { job_id: jobId, error: String(error) });
      job.again(clock.now() + SECOND_MS);
      return false;
    } finally {
      this.#taking -= 1;
    }
  }
}

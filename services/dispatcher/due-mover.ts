import type { JobRow } from '../core/domain/job.ts';
import { SECOND_MS } from '../core/domain/limits.ts';
import { CancelReason, type WaitingCanceller } from '../core/moves/cancel-waiting.ts';
import type { ReadyPublisher } from '../core/moves/ready-publisher.ts';
import type { Clock } from '../core/ports/clock.ts';
import type { JobReader } from '../core/ports/job-store.ts';
import type { Log, Telemetry } from '../core/ports/telemetry.ts';
import type { Rounds } from '../core/rounds/rounds.ts';
import type { Timers } from '../core/timers/timers.ts';
import type { DueJob } from './due-job.ts';
import { planDue, type DuePlan } from './due-planner.ts';

export interface DueMoverParts {
  readonly rounds: Rounds;
  readonly reader: JobReader;
  readonly timers: Timers;
  readonly publisher: ReadyPublisher;
  readonly canceller: WaitingCanceller;
  readonly clock: Clock;
  readonly telemetry: Telemetry;
  readonly log: Log;
}

/** A row that keeps changing under our rounds is looked at again a second later. */
const ROUNDS_PER_LOOK_MAX = 3;

/** Moves due jobs on: round (scheduled -> enqueued) -> ready stream. A job is settled only when its message is acknowledged. */
export class DueMover {
  readonly #parts: DueMoverParts;
  #inHand = 0;

  constructor(parts: DueMoverParts) {
    this.#parts = parts;
  }

  /** Whether something is between its turn and the acknowledgement of its message. */
  isBusy(): boolean {
    return this.#inHand > 0;
  }

  /** Resolves with the round: whether the job was enqueued by it. The publish goes on by itself. Never rejects. */
  async enqueue(job: DueJob): Promise<boolean> {
    return this.#carryOut(job, { kind: 'enqueue', attempt: job.attempt });
  }

  /** For a job that is enqueued already and has no message. Never rejects. */
  async publish(job: DueJob): Promise<void> {
    await this.#carryOut(job, { kind: 'publish', attempt: job.attempt });
  }

  /**
   * Reads jobs that somebody has mostly handled before, at a fraction of a round each, and carries out what needs no turn in
   * the queue. Returns those that are still to be enqueued; all of them where they cannot be read together, for then each
   * cohort's round tells. Never rejects.
   */
  async sift(jobs: readonly DueJob[]): Promise<readonly DueJob[]> {
    let rows: ReadonlyMap<string, JobRow>;
    try {
      rows = await this.#parts.reader.read(jobs.map((job) => job.row.jobId));
    } catch (error) {
      this.#parts.log.warn('due jobs could not be read together', { jobs: jobs.length, error: String(error) });
      return jobs;
    }
    return jobs.filter((job) => {
      const plan = this.#plan(job, rows.get(job.row.jobId) ?? null);
      if (plan.kind !== 'enqueue') {
        void this.#carryOut(job, plan);
        return false;
      }
      job.attempt = plan.attempt;
      job.maybeUnpublished = false;
      return true;
    });
  }

  async #carryOut(job: DueJob, first: DuePlan): Promise<boolean> {
    this.#inHand += 1;
    try {
      let plan = first;
      let enqueued = false;
      for (let looks = 0; looks < ROUNDS_PER_LOOK_MAX; looks += 1) {
        switch (plan.kind) {
          case 'settle':
            this.#end(job);
            return false;
          case 'look_again':
            this.#lookAgain(job, plan.at);
            return false;
          case 'expire':
            plan = await this.#expire(job, plan.job);
            break;
          case 'publish':
            void this.#publish(job, plan.attempt);
            return enqueued;
          case 'enqueue':
            plan = await this.#enqueue(job, plan.attempt);
            enqueued = plan.kind === 'publish';
            break;
        }
      }
      this.#lookAgain(job);
    } catch (error) {
      this.#failed(job, error);
    }
    return false;
  }

  /** One operation of a round; returns what is to be done next. */
  async #enqueue(job: DueJob, attempt: number): Promise<DuePlan> {
    const { rounds, clock, telemetry } = this.#parts;
    const { jobId, queue, runAt } = job.row;
    const enqueuedAt = clock.now();
    const outcome = await rounds.submit({ edge: 'enqueue', jobId, queue, runAtMost: runAt, attempt, enqueuedAt });
    switch (outcome.kind) {
      case 'applied':
        job.maybeUnpublished = true;
        telemetry.observe('punctual_dispatch_lag_seconds', (enqueuedAt - runAt) / SECOND_MS, { queue });
        return { kind: 'publish', attempt };
      case 'lost':
        return this.#plan(job, outcome.row);
      case 'unknown':
        job.maybeUnpublished = true;
        return { kind: 'look_again', at: clock.now() + SECOND_MS };
      case 'not_written':
        return { kind: 'look_again', at: clock.now() + SECOND_MS };
    }
  }

  async #expire(job: DueJob, row: JobRow): Promise<DuePlan> {
    const outcome = await this.#parts.canceller.cancel(row, CancelReason.expired);
    if (outcome === null || outcome.kind === 'cancelled') return { kind: 'settle' };
    if (outcome.kind === 'lost') return this.#plan(job, outcome.row);
    return { kind: 'look_again', at: this.#parts.clock.now() + SECOND_MS };
  }

  #plan(job: DueJob, row: JobRow | null): DuePlan {
    const now = this.#parts.clock.now();
    const { firstSeenAt, maybeUnpublished } = job;
    return planDue(job.row, row, { now, firstSeenAt: firstSeenAt ?? now, maybeUnpublished });
  }

  async #publish(job: DueJob, attempt: number): Promise<void> {
    const { jobId, runAt, queue, priority } = job.row;
    try {
      await this.#parts.timers.afterDispatch([job.row]);
      const published = await this.#parts.publisher.publish({ jobId, attempt: attempt + 1, runAt, queue, priority });
      if (published !== 'no_room') {
        this.#end(job);
        return;
      }
      job.isEnqueued = true;
      job.attempt = attempt;
      this.#lookAgain(job);
    } catch (error) {
      this.#failed(job, error);
    }
  }

  #end(job: DueJob): void {
    this.#inHand -= 1;
    job.settle();
  }

  #lookAgain(job: DueJob, at = this.#parts.clock.now() + SECOND_MS): void {
    this.#inHand -= 1;
    job.firstSeenAt ??= this.#parts.clock.now();
    job.again(at);
  }

  #failed(job: DueJob, error: unknown): void {
    this.#parts.log.warn('a due job could not be moved on; trying again', {
      job_id: job.row.jobId,
      error: String(error),
    });
    this.#lookAgain(job);
  }
}

import type { JobRow } from '../domain/job.ts';
import { QUEUE_SETTINGS_EVERY_MS } from '../domain/limits.ts';
import type { Clock } from '../ports/clock.ts';
import type { RoundOutcome, Rounds } from '../rounds/rounds.ts';
import type { Timers } from '../timers/timers.ts';
import { dueEntryOf } from './end-attempt.ts';
import type { LeftBehind } from './stale-messages.ts';

/**
 * Takes a job back from the ready stream whose queue does not let it start (paused, or a limit or a rate that is new or
 * lower): for whoever comes across it there, once its message is gone or about to go. It waits for the dispatcher again, under its own
 * time. Where it was enqueued again since it was read, it stays: what its queue said was of the time before.
 */
export class JobUnqueuer {
  readonly #rounds: Rounds;
  readonly #timers: Timers;
  readonly #leftBehind: LeftBehind;
  readonly #clock: Clock;

  constructor(parts: { rounds: Rounds; timers: Timers; leftBehind: LeftBehind; clock: Clock }) {
    this.#rounds = parts.rounds;
    this.#timers = parts.timers;
    this.#leftBehind = parts.leftBehind;
    this.#clock = parts.clock;
  }

  /** Lost where the job does not wait any more, or was enqueued again since. Throws StoreError when the timer could not be written; nothing changed then. */
  async unqueue(
    job: Pick<JobRow, 'jobId' | 'shard' | 'queue' | 'priority' | 'attempt' | 'runAt' | 'enqueuedAt'>,
  ): Promise<RoundOutcome> {
    // By then every dispatcher knows of the pause, the limit or the rate, and holds the row without a look at the job, which may still be enqueued.
    // Counted from whoever's clock is ahead: a row before its run_at matches nothing (rule 4), and one at its run_at is the row that
    // the dispatcher has handled already.
    const at = Math.max(job.runAt, job.enqueuedAt ?? 0, this.#clock.now()) + QUEUE_SETTINGS_EVERY_MS;
    const armed = await this.#timers.armDue([dueEntryOf(job, at)]);
    const { jobId, attempt, enqueuedAt } = job;
    const outcome = await this.#rounds.submit({ edge: 'unqueue', jobId, attempt, enqueuedAt });
    if (outcome.kind === 'not_written') return outcome;
    if (outcome.kind !== 'lost') this.#leftBehind.note(job);
    await this.#timers.afterRound(armed.chosenAt, [job]);
    if (outcome.kind === 'applied') this.#timers.hint(armed.entries);
    return outcome;
  }
}

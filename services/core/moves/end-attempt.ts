import type { JobRow } from '../domain/job.ts';
import { JobStatus } from '../domain/job-status.ts';
import type { AttemptDecision } from '../domain/life-cycle.ts';
import type { DueEntry } from '../domain/operation.ts';
import type { Moment } from '../domain/time.ts';
import { finishedJobOf, type HistoryStore } from '../ports/history-store.ts';
import type { Log, Telemetry } from '../ports/telemetry.ts';
import type { RoundOutcome, Rounds } from '../rounds/rounds.ts';
import type { Timers } from '../timers/timers.ts';
import type { Successors } from './overlap-queue.ts';
import type { ReadyPublisher } from './ready-publisher.ts';

/**
 * Carries out a decision that ends an attempt, for the api (reports) and the reaper (lapses): timer or dead letter first,
 * then the round, then publish, history and hint (design section 6).
 */
export class AttemptEnder {
  readonly #rounds: Rounds;
  readonly #timers: Timers;
  readonly #history: HistoryStore;
  readonly #publisher: ReadyPublisher;
  readonly #overlaps: Successors;
  readonly #telemetry: Telemetry;
  readonly #log: Log;

  constructor(parts: {
    rounds: Rounds;
    timers: Timers;
    history: HistoryStore;
    publisher: ReadyPublisher;
    overlaps: Successors;
    telemetry: Telemetry;
    log: Log;
  }) {
    this.#rounds = parts.rounds;
    this.#timers = parts.timers;
    this.#history = parts.history;
    this.#publisher = parts.publisher;
    this.#overlaps = parts.overlaps;
    this.#telemetry = parts.telemetry;
    this.#log = parts.log;
  }

  /** @param row as read for the decision. Throws StoreError when the timer could not be written; nothing changed then. */
  async end(row: JobRow, decision: AttemptDecision): Promise<RoundOutcome> {
    const { timer, deadLetter, operation } = decision;
    const due = dueEntryOf(row, operation.next.runAt);
    const chosenAt = await this.#writeFirst(row, decision, due);
    // A due row's time is the job's: the timer may have been moved to now.
    const runAt = chosenAt === null ? operation.next.runAt : chosenAt.runAt;
    const outcome = await this.#rounds.submit({ ...operation, next: { ...operation.next, runAt } });
    if (outcome.kind === 'not_written') return outcome;
    // Also when the outcome is unknown: the state may have landed, or may yet.
    if (timer !== null && chosenAt !== null) await this.#timers.afterRound(chosenAt.moment, [row]);
    if (outcome.kind !== 'applied') return outcome;

    const { outcome: how } = operation.end;
    this.#telemetry.count('punctual_attempts_total', { queue: row.queue, outcome: how });
    if (deadLetter !== null) {
      this.#telemetry.count('punctual_dead_letters_total', { queue: row.queue, reason: deadLetter });
    }
    if (operation.next.status === JobStatus.scheduled) this.#timers.hint([{ ...due, runAt }]);
    if (operation.next.status === JobStatus.enqueued) void this.#publish(row);
    if (operation.next.finishedAt !== null) {
      void this.#overlaps.hurryAfter(row);
      await this.#record(row, decision);
    }
    return outcome;
  }

  async #writeFirst(
    row: JobRow,
    { timer, deadLetter, operation }: AttemptDecision,
    due: DueEntry,
  ): Promise<{ readonly moment: Moment; readonly runAt: number } | null> {
    if (deadLetter !== null) {
      await this.#history.writeDeadLetters([
        {
          jobId: row.jobId,
          queue: row.queue,
          deadAt: operation.end.endedAt,
          attempt: row.attempt,
          reason: deadLetter,
          error: operation.end.error,
        },
      ]);
    }
    if (timer === null) return null;
    if (timer.kind === 'due') {
      const armed = await this.#timers.armDue([due]);
      return { moment: armed.chosenAt, runAt: armed.entries[0]?.runAt ?? due.runAt };
    }
    const { jobId, shard } = row;
    const publishedAt = operation.next.enqueuedAt;
    const armed = await this.#timers.armDeadlines([{ jobId, shard, at: timer.at, publishedAt }]);
    return { moment: armed.chosenAt, runAt: operation.next.runAt };
  }

  async #publish(row: JobRow): Promise<void> {
    const { jobId, attempt, runAt, queue, priority } = row;
    await this.#publisher.publish({ jobId, attempt: attempt + 1, runAt, queue, priority });
  }

  /** The round has decided; a history row that fails is written again when the claim's deadline row comes up. */
  async #record(row: JobRow, { operation }: AttemptDecision): Promise<void> {
    const { status, finishedAt } = operation.next;
    const finished = finishedJobOf({ ...row, status, finishedAt }, operation.end);
    if (finished === null) return;
    try {
      await this.#history.writeFinished([finished]);
    } catch (error) {
      this.#log.warn('a history row could not be written; the reaper will', {
        job_id: row.jobId,
        error: String(error),
      });
    }
  }
}

/** The due row of a job that waits for `runAt` with the attempt it has. */
export function dueEntryOf(
  row: Pick<JobRow, 'jobId' | 'shard' | 'queue' | 'priority' | 'attempt'>,
  runAt: number,
): DueEntry {
  const { jobId, shard, queue, priority, attempt } = row;
  return { jobId, shard, runAt, queue, priority, attempt, direct: false };
}

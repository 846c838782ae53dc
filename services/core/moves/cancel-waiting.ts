import type { JobRow } from '../domain/job.ts';
import { JobStatus } from '../domain/job-status.ts';
import { decideCancel } from '../domain/life-cycle.ts';
import type { BulkMarks } from '../domain/operation.ts';
import type { Clock } from '../ports/clock.ts';
import { finishedJobOf, type HistoryStore } from '../ports/history-store.ts';
import type { Log } from '../ports/telemetry.ts';
import type { RoundOutcome, Rounds } from '../rounds/rounds.ts';
import type { Timers } from '../timers/timers.ts';
import type { Successors } from './overlap-queue.ts';
import type { LeftBehind } from './stale-messages.ts';

export const CancelReason = {
  byRequest: 'cancelled_by_request',
  /** Not started by expires_at. */
  expired: 'expired',
  /** A later occurrence of its schedule takes its place. */
  replaced: 'replaced',
} as const;
export type CancelReason = (typeof CancelReason)[keyof typeof CancelReason];

export type CancelOutcome =
  { readonly kind: 'cancelled'; readonly row: JobRow } | Exclude<RoundOutcome, { kind: 'applied' }>;

/** Cancels a job that waits, for whoever finds that it must not start: a caller, or anyone past its expires_at. */
export class WaitingCanceller {
  readonly #rounds: Rounds;
  readonly #timers: Pick<Timers, 'left'>;
  readonly #history: HistoryStore;
  readonly #overlaps: Successors;
  readonly #leftBehind: LeftBehind;
  readonly #clock: Clock;
  readonly #log: Log;

  constructor(parts: {
    rounds: Rounds;
    timers: Pick<Timers, 'left'>;
    history: HistoryStore;
    overlaps: Successors;
    leftBehind: LeftBehind;
    clock: Clock;
    log: Log;
  }) {
    this.#rounds = parts.rounds;
    this.#timers = parts.timers;
    this.#history = parts.history;
    this.#overlaps = parts.overlaps;
    this.#leftBehind = parts.leftBehind;
    this.#clock = parts.clock;
    this.#log = parts.log;
  }

  /** Null when the row does not wait. */
  async cancel(row: JobRow, reason: CancelReason, bulkMarks?: BulkMarks): Promise<CancelOutcome | null> {
    const operation = decideCancel(row, this.#clock.now(), reason, bulkMarks);
    if (operation === null) return null;
    const outcome = await this.#rounds.submit(operation);
    const mayHaveLeft = outcome.kind === 'applied' || outcome.kind === 'unknown';
    if (row.status === JobStatus.enqueued && mayHaveLeft) this.#leftBehind.note(row);
    if (outcome.kind !== 'applied') return outcome;
    if (row.status === JobStatus.scheduled) this.#timers.left(row);
    const cancelled: JobRow = { ...row, status: JobStatus.cancelled, finishedAt: operation.finishedAt, reason };
    void this.#overlaps.hurryAfter(cancelled);
    await this.#record(cancelled);
    return { kind: 'cancelled', row: cancelled };
  }

  /** The round has decided; a history row that fails is written again at the second look. */
  async #record(row: JobRow): Promise<void> {
    const finished = finishedJobOf(row, undefined);
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

import type { JobRow } from '../domain/job.ts';
import { JobStatus } from '../domain/job-status.ts';
import type { Change, Replay } from '../domain/operation.ts';
import type { EpochMs, Moment } from '../domain/time.ts';
import type { RoundOutcome, Rounds } from '../rounds/rounds.ts';
import type { Timers } from '../timers/timers.ts';
import { dueEntryOf } from './end-attempt.ts';
import type { OverlapQueue } from './overlap-queue.ts';

export type MoveOutcome =
  { readonly kind: 'moved'; readonly row: JobRow } | Exclude<RoundOutcome, { readonly kind: 'applied' }>;

/**
 * Moves a job's time from outside (PATCH, run now, replay), alone or in bulk. The due row is written first, as everywhere, but for
 * an occurrence that waits for another: any due row starts it, also where the change never lands, so a deadline row looks after
 * it until the change stands.
 */
export class JobMover {
  readonly #rounds: Rounds;
  readonly #timers: Timers;
  readonly #overlaps: Pick<OverlapQueue, 'isBlocked' | 'release'>;

  constructor(parts: { rounds: Rounds; timers: Timers; overlaps: Pick<OverlapQueue, 'isBlocked' | 'release'> }) {
    this.#rounds = parts.rounds;
    this.#timers = parts.timers;
    this.#overlaps = parts.overlaps;
  }

  /**
   * @param row as read for the decision. Throws StoreError when a timer could not be written: nothing changed then, or what did has
   * the timer that was written before.
   */
  async move(row: JobRow, wanted: Change | Replay): Promise<MoveOutcome> {
    const armed = await this.#arm(row, wanted);
    const operation = armed === null ? wanted : withRunAt(wanted, armed.runAt);
    const outcome = await this.#rounds.submit(operation);
    if (outcome.kind === 'lost' || outcome.kind === 'not_written') return outcome;
    if (armed !== null) await this.#timers.afterRound(armed.chosenAt, [row]);
    if (outcome.kind === 'unknown') return outcome;
    const after = rowAfter(row, operation);
    if (armed !== null || (await this.#needsOtherRow(row, wanted))) {
      if (operation.edge === 'change') this.#timers.left(row);
      if (waits(row)) await this.#overlaps.release(after);
      else this.#timers.hint([dueEntryOf(after, after.runAt)]);
    }
    return { kind: 'moved', row: after };
  }

  async #arm(
    row: JobRow,
    wanted: Change | Replay,
  ): Promise<{ readonly chosenAt: Moment; readonly runAt: EpochMs } | null> {
    const runAt = wanted.edge === 'replay' ? wanted.runAt : newDueTime(row, wanted);
    if (runAt === null) return null;
    if (waits(row)) {
      const { jobId, shard } = row;
      const armed = await this.#timers.armDeadlines([{ jobId, shard, at: runAt, publishedAt: null }]);
      return { chosenAt: armed.chosenAt, runAt: armed.entries[0]?.at ?? runAt };
    }
    const armed = await this.#timers.armDue([dueEntryOf(rowAfter(row, wanted), runAt)]);
    return { chosenAt: armed.chosenAt, runAt: armed.entries[0]?.runAt ?? runAt };
  }

  /** Another priority gives no occurrence its turn; the due row of one that had it is of the former priority. */
  async #needsOtherRow(row: JobRow, wanted: Change | Replay): Promise<boolean> {
    if (wanted.edge === 'replay' || wanted.changes.priority === undefined) return false;
    return !(await this.#overlaps.isBlocked(row));
  }
}

function withRunAt(operation: Change | Replay, runAt: EpochMs): Change | Replay {
  return operation.edge === 'replay'
    ? { ...operation, runAt }
    : { ...operation, changes: { ...operation.changes, runAt } };
}

/** The due row carries the priority too, so it is written again when either changes. */
function newDueTime(row: JobRow, { changes }: Change): EpochMs | null {
  return changes.runAt ?? (changes.priority === undefined || waits(row) ? null : row.runAt);
}

/** Perhaps: whether its turn has come, its predecessor tells. */
function waits({ status, waitsFor }: JobRow): boolean {
  return status === JobStatus.scheduled && waitsFor !== null;
}

function rowAfter(row: JobRow, operation: Change | Replay): JobRow {
  if (operation.edge === 'change') return { ...row, ...operation.changes };
  return {
    ...row,
    ...operation.changes,
    status: JobStatus.scheduled,
    runAt: operation.runAt,
    tries: 0,
    lapses: 0,
    lostClaims: 0,
    finishedAt: null,
    reason: null,
  };
}

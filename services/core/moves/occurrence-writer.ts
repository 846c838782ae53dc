import type { JobRow } from '../domain/job.ts';
import { JobStatus } from '../domain/job-status.ts';
import { SECOND_MS } from '../domain/limits.ts';
import { occurrenceRow, type SlotDecision } from '../domain/occurrence.ts';
import type { DueEntry } from '../domain/operation.ts';
import type { ScheduleRow } from '../domain/schedule.ts';
import type { Moment } from '../domain/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { Random } from '../ports/random.ts';
import type { Telemetry } from '../ports/telemetry.ts';
import type { RoundOutcome, Rounds } from '../rounds/rounds.ts';
import type { Timers } from '../timers/timers.ts';
import { dueEntryOf } from './end-attempt.ts';
import type { ReadyPublisher } from './ready-publisher.ts';

export interface DecidedSlot {
  readonly schedule: ScheduleRow;
  readonly decision: SlotDecision;
}

/** Rows of decided slots whose timers are acknowledged, and when their times were chosen. */
export interface ArmedSlots {
  readonly rows: readonly JobRow[];
  readonly chosenAt: Moment;
}

/**
 * Writes the rows that decide slots: timers first, then the rows (IF NOT EXISTS), then the ready messages. Two that decide the
 * same slot end with the same row, whichever it is.
 */
export class OccurrenceWriter {
  readonly #rounds: Rounds;
  readonly #timers: Timers;
  readonly #publisher: ReadyPublisher;
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #telemetry: Telemetry;
  readonly #shards: number;

  constructor(parts: {
    rounds: Rounds;
    timers: Timers;
    publisher: ReadyPublisher;
    clock: Clock;
    random: Random;
    telemetry: Telemetry;
    shards: number;
  }) {
    this.#rounds = parts.rounds;
    this.#timers = parts.timers;
    this.#publisher = parts.publisher;
    this.#clock = parts.clock;
    this.#random = parts.random;
    this.#telemetry = parts.telemetry;
    this.#shards = parts.shards;
  }

  /** Throws StoreError; rows that did land are harmless then. */
  async arm(slots: readonly DecidedSlot[]): Promise<ArmedSlots> {
    const now = this.#clock.now();
    const planned = slots.map(({ schedule, decision }) =>
      occurrenceRow(schedule, decision, { now, shards: this.#shards, createToken: this.#random.token() }),
    );
    const armed = await this.#timers.armDue(planned.map(timerOf));
    const rows = planned.map((row, index) => ({ ...row, runAt: armed.entries[index]?.runAt ?? row.runAt }));
    return { rows, chosenAt: armed.chosenAt };
  }

  /** The row that stands for each slot, ours or another's; null where that is not known. Throws StoreError. */
  async create({ rows, chosenAt }: ArmedSlots): Promise<readonly (JobRow | null)[]> {
    const outcomes = await Promise.all(
      rows.map((job) => this.#rounds.submit({ edge: 'create', jobId: job.jobId, job })),
    );
    await this.#timers.afterRound(
      chosenAt,
      rows.filter((row, index) => row.slotUntil === null && outcomes[index]?.kind !== 'not_written'),
    );
    return Promise.all(rows.map((row, index) => this.#conclude(row, outcomes[index])));
  }

  async #conclude(ours: JobRow, outcome: RoundOutcome | undefined): Promise<JobRow | null> {
    if (outcome?.kind === 'applied') {
      if (ours.status === JobStatus.enqueued) this.#publish(ours);
      else this.#timers.hint([timerOf(ours)]);
      return ours;
    }
    if (outcome?.kind !== 'lost' || outcome.row === null) return null;
    const found = outcome.row;
    // Whoever enqueued it may have died before its message.
    if (found.status === JobStatus.enqueued && found.attempt === 0) this.#publish(found);
    if (timerOf(ours).direct && isForDispatcher(found)) await this.#makeDue(found);
    return found;
  }

  /** Our due row may have taken the place of the other's, and says that the dispatcher need not look. */
  async #makeDue(found: JobRow): Promise<void> {
    const { entries } = await this.#timers.armDue([dueEntryOf(found, found.runAt)]);
    this.#timers.hint(entries);
  }

  #publish(row: JobRow): void {
    const { jobId, attempt, runAt, queue, priority } = row;
    const lagMs = Math.max(0, this.#clock.now() - runAt);
    this.#telemetry.observe('punctual_dispatch_lag_seconds', lagMs / SECOND_MS, { queue });
    void this.#publisher.publish({ jobId, attempt: attempt + 1, runAt, queue, priority });
  }
}

/** The dispatcher has nothing to do with a row that is published here, waits for another or is over. */
function timerOf(row: JobRow): DueEntry {
  return { ...dueEntryOf(row, row.runAt), direct: !isForDispatcher(row) };
}

function isForDispatcher({ status, waitsFor }: JobRow): boolean {
  return status === JobStatus.scheduled && waitsFor === null;
}

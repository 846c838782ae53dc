import type { JobRow } from '../domain/job.ts';
import { JobStatus } from '../domain/job-status.ts';
import { SECOND_MS } from '../domain/limits.ts';
import { occurrenceRow, runOf, type SlotDecision } from '../domain/occurrence.ts';
import type { DueEntry } from '../domain/operation.ts';
import type { ScheduleRow } from '../domain/schedule.ts';
import type { Moment } from '../domain/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { Random } from '../ports/random.ts';
import type { ScheduleRunStore } from '../ports/schedule-store.ts';
import type { Log, Telemetry } from '../ports/telemetry.ts';
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

export interface OccurrenceWriterParts {
  readonly rounds: Rounds;
  readonly timers: Timers;
  readonly publisher: ReadyPublisher;
  readonly runs: ScheduleRunStore;
  readonly clock: Clock;
  readonly random: Random;
  readonly telemetry: Telemetry;
  readonly log: Log;
  readonly shards: number;
}

/**
 * Writes the rows that decide slots: timers first, then the rows (IF NOT EXISTS), then the ready messages. Two that decide the
 * same slot end with the same row, whichever it is.
 */
export class OccurrenceWriter {
  readonly #parts: OccurrenceWriterParts;

  constructor(parts: OccurrenceWriterParts) {
    this.#parts = parts;
  }

  /** Throws StoreError; rows that did land are harmless then. */
  async arm(slots: readonly DecidedSlot[]): Promise<ArmedSlots> {
    const { clock, random, shards, timers } = this.#parts;
    const now = clock.now();
    const planned = slots.map(({ schedule, decision }) =>
      occurrenceRow(schedule, decision, { now, shards, createToken: random.token() }),
    );
    const armed = await timers.armDue(planned.map(timerOf));
    const rows = planned.map((row, index) => ({ ...row, runAt: armed.entries[index]?.runAt ?? row.runAt }));
    return { rows, chosenAt: armed.chosenAt };
  }

  /** The row that stands for each slot, ours or another's; null where that is not known. Throws StoreError. */
  async create({ rows, chosenAt }: ArmedSlots): Promise<readonly (JobRow | null)[]> {
    const { rounds, timers } = this.#parts;
    const outcomes = await Promise.all(rows.map((job) => rounds.submit({ edge: 'create', jobId: job.jobId, job })));
    await timers.afterRound(
      chosenAt,
      rows.filter((row, index) => row.slotUntil === null && outcomes[index]?.kind !== 'not_written'),
    );
    return Promise.all(rows.map((row, index) => this.#conclude(row, outcomes[index])));
  }

  /** Tells what became of slots, by their rows. A report that fails is warned of, no more: the rows hold the truth. */
  async report(occurrences: readonly JobRow[]): Promise<void> {
    try {
      await this.#parts.runs.write(occurrences.map(runOf));
    } catch (error) {
      const fields = { runs: occurrences.length, error: String(error) };
      this.#parts.log.warn('what schedules did could not be reported', fields);
    }
  }

  async #conclude(ours: JobRow, outcome: RoundOutcome | undefined): Promise<JobRow | null> {
    if (outcome?.kind === 'applied') {
      if (ours.status === JobStatus.enqueued) this.#publish(ours);
      else this.#parts.timers.hint([timerOf(ours)]);
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
    const { timers } = this.#parts;
    const { entries } = await timers.armDue([dueEntryOf(found, found.runAt)]);
    timers.hint(entries);
  }

  #publish(row: JobRow): void {
    const { jobId, attempt, runAt, queue, priority } = row;
    const { clock, telemetry, publisher } = this.#parts;
    const lagMs = Math.max(0, clock.now() - runAt);
    telemetry.observe('punctual_dispatch_lag_seconds', lagMs / SECOND_MS, { queue });
    void publisher.publish({ jobId, attempt: attempt + 1, runAt, queue, priority });
  }
}

/** The dispatcher has nothing to do with a row that is published here, waits for another or is over. */
function timerOf(row: JobRow): DueEntry {
  return { ...dueEntryOf(row, row.runAt), direct: !isForDispatcher(row) };
}

function isForDispatcher({ status, waitsFor }: JobRow): boolean {
  return status === JobStatus.scheduled && waitsFor === null;
}

import type { ScheduleOperation } from '../domain/schedule-operation.ts';
import { wakeUpAt, wakeUpRow } from '../domain/schedule-plan.ts';
import type { ScheduleDefinition, ScheduleRow, ScheduleState } from '../domain/schedule.ts';
import type { Clock } from '../ports/clock.ts';
import type { Random } from '../ports/random.ts';
import type { RoundOutcome, ScheduleRounds } from '../rounds/rounds.ts';
import type { Timers } from '../timers/timers.ts';

export type ScheduleOutcome =
  | { readonly kind: 'written'; readonly row: ScheduleRow }
  | Exclude<RoundOutcome<ScheduleRow>, { readonly kind: 'applied' }>;

/** What a caller makes of a schedule. */
export interface ScheduleChanges {
  readonly definition: ScheduleDefinition;
  readonly state: ScheduleState;
}

/**
 * What callers do to a schedule's row. As with jobs the timer goes first: the wake-up row for the time at which the firer is to look
 * at it, then the conditional write, then rule 3. All but create name the row as it was read. Throws StoreError when the timer could
 * not be written; nothing changed then.
 */
export class ScheduleWriter {
  readonly #rounds: ScheduleRounds;
  readonly #timers: Timers;
  readonly #clock: Clock;
  readonly #random: Random;

  constructor(parts: { rounds: ScheduleRounds; timers: Timers; clock: Clock; random: Random }) {
    this.#rounds = parts.rounds;
    this.#timers = parts.timers;
    this.#clock = parts.clock;
    this.#random = parts.random;
  }

  /** Lost: a schedule stands under the id already. */
  create(row: ScheduleRow): Promise<ScheduleOutcome> {
    return this.#write({ edge: 'schedule_create', scheduleId: row.scheduleId, schedule: row }, row);
  }

  change(row: ScheduleRow, { definition, state }: ScheduleChanges): Promise<ScheduleOutcome> {
    const marks = { requestHash: null, updatedAt: this.#clock.now(), changeToken: this.#random.token() };
    const operation: ScheduleOperation = {
      ...{ edge: 'schedule_change', scheduleId: row.scheduleId, expect: expected(row) },
      ...{ definition, state, ...marks },
    };
    return this.#write(operation, { ...row, ...definition, ...state, ...marks, revision: row.revision + 1 });
  }

  /** Its wake-up rows find nothing then. */
  async remove(row: ScheduleRow): Promise<ScheduleOutcome> {
    const { scheduleId } = row;
    const outcome = await this.#rounds.submit({ edge: 'schedule_remove', scheduleId, expect: expected(row) });
    return outcome.kind === 'applied' ? { kind: 'written', row } : outcome;
  }

  async #write(operation: ScheduleOperation, after: ScheduleRow): Promise<ScheduleOutcome> {
    const at = wakeUpAt(after);
    const armed = at === null ? null : await this.#timers.armDue([wakeUpRow(after, at)]);
    const outcome = await this.#rounds.submit(operation);
    if (outcome.kind === 'lost' || outcome.kind === 'not_written') return outcome;
    if (armed !== null) {
      await this.#timers.afterRound(armed.chosenAt, [{ jobId: after.scheduleId, shard: after.shard }]);
    }
    if (outcome.kind === 'unknown') return outcome;
    if (armed !== null) this.#timers.hint(armed.entries);
    return { kind: 'written', row: after };
  }
}

function expected({ revision, nextRunAt }: ScheduleRow): Pick<ScheduleRow, 'revision' | 'nextRunAt'> {
  return { revision, nextRunAt };
}

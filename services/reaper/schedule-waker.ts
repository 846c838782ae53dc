import { SECOND_MS } from '../core/domain/limits.ts';
import { isDue, wakeUpRow } from '../core/domain/schedule-plan.ts';
import type { ScheduleRow } from '../core/domain/schedule.ts';
import type { Clock } from '../core/ports/clock.ts';
import type { ScheduleReader } from '../core/ports/schedule-store.ts';
import type { Log, Telemetry } from '../core/ports/telemetry.ts';
import type { Timers } from '../core/timers/timers.ts';
import type { Found, Settled } from './settle.ts';

/**
 * The rule of settle for schedules: one that is due and still named by an old timer has lost its firer, and is woken again. One
 * that lies ahead has its own wake-up row, written before its next_run_at moved.
 */
export class ScheduleWaker {
  readonly #schedules: ScheduleReader;
  readonly #timers: Timers;
  readonly #clock: Clock;
  readonly #telemetry: Telemetry;
  readonly #log: Log;

  constructor(parts: { schedules: ScheduleReader; timers: Timers; clock: Clock; telemetry: Telemetry; log: Log }) {
    this.#schedules = parts.schedules;
    this.#timers = parts.timers;
    this.#clock = parts.clock;
    this.#telemetry = parts.telemetry;
    this.#log = parts.log;
  }

  /** In the order of the rows found. Never rejects: what cannot be read or written now is to be looked at again. */
  async settle(found: readonly Found[]): Promise<readonly Settled[]> {
    try {
      const rows = await this.#read([...new Set(found.map(({ jobId }) => jobId))]);
      const now = this.#clock.now();
      const due = rows.filter((row) => isDue(row, now));
      const armed = await this.#timers.armDue(due.map((row) => wakeUpRow(row, now)));
      this.#timers.hint(armed.entries);
      this.#telemetry.count('punctual_reaper_repairs_total', { kind: 'missed_due' }, due.length);
      return found.map(() => 'settled');
    } catch (error) {
      this.#log.warn('schedules could not be settled; trying again', { rows: found.length, error: String(error) });
      return found.map(() => ({ again: this.#clock.now() + SECOND_MS }));
    }
  }

  async #read(scheduleIds: readonly string[]): Promise<readonly ScheduleRow[]> {
    const rows = await this.#schedules.read(scheduleIds);
    const absent = scheduleIds.filter((scheduleId) => !rows.has(scheduleId));
    if (absent.length === 0) return [...rows.values()];
    // Only a serial read may say "absent": the schedule's round may still be in flight.
    const found = await this.#schedules.read(absent, { serial: true });
    return [...rows.values(), ...found.values()];
  }
}

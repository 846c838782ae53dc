import { createHash } from 'node:crypto';
import { ok, refused, type Result } from '../../core/contract/problems.ts';
import { isScheduleId } from '../../core/domain/ids.ts';
import type { ScheduleRow } from '../../core/domain/schedule.ts';
import type { ReadOptions } from '../../core/ports/cohort-table.ts';
import type { ScheduleNames } from '../../core/ports/schedule-names.ts';
import type { ScheduleReader } from '../../core/ports/schedule-store.ts';
import { scheduleNotFound } from './schedule-problems.ts';
import type { ScheduleReference } from './schedule-types.ts';

/** Finds a schedule by its id or by the name that it was made under. Throws StoreError. */
export class ScheduleFinder {
  readonly #reader: ScheduleReader;
  readonly #names: ScheduleNames;

  constructor(parts: { reader: ScheduleReader; names: ScheduleNames }) {
    this.#reader = parts.reader;
    this.#names = parts.names;
  }

  async find({ owner, schedule }: ScheduleReference): Promise<Result<ScheduleRow>> {
    const scheduleId = isScheduleId(schedule)
      ? schedule
      : ((await this.#names.find(nameHash(owner, schedule)))?.scheduleId ?? null);
    const row = scheduleId === null ? null : await this.read(scheduleId);
    return row === null ? refused(scheduleNotFound(schedule)) : ok(row);
  }

  async read(scheduleId: string, options: ReadOptions = {}): Promise<ScheduleRow | null> {
    return (await this.#reader.read([scheduleId], options)).get(scheduleId) ?? null;
  }
}

/** What a caller's own name is kept under. */
export function nameHash(owner: string, name: string): string {
  return createHash('sha256')
    .update(JSON.stringify([owner, 'PUT /schedules', name]))
    .digest('hex');
}

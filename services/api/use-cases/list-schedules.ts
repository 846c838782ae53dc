import { ok, type Result } from '../../core/contract/problems.ts';
import { SCHEDULE_STRIPES } from '../../core/domain/bucket.ts';
import { HOUR_MS } from '../../core/domain/limits.ts';
import { isPaused } from '../../core/domain/schedule-plan.ts';
import type { ScheduleRow } from '../../core/domain/schedule.ts';
import type { Clock } from '../../core/ports/clock.ts';
import { ALL_QUEUES, type ScheduleIndex, type ScheduleIndexEntry } from '../../core/ports/schedule-index.ts';
import type { ScheduleReader } from '../../core/ports/schedule-store.ts';
import { StoreError } from '../../core/ports/store-error.ts';
import type { ListSchedules, ScheduleFilter, SchedulePage } from './schedule-types.ts';
import { withStore } from './store-problems.ts';

export interface ListSchedulesParts {
  readonly index: ScheduleIndex;
  readonly reader: ScheduleReader;
  readonly clock: Clock;
}

/** Entries read at once. */
const READ_ENTRIES = 200;
/** Entries looked at for one page: then it ends, however short it is. */
const SCANNED_PER_PAGE_MAX = 2_000;
/** An entry is written before its schedule: a younger one that leads nowhere may still come to lead somewhere. */
const STALE_AFTER_MS = HOUR_MS;

/** Where a list stands: after this schedule of this stripe. */
interface Position {
  readonly stripe: number;
  readonly scheduleId: string;
}

/** Some schedules of a list that match a filter, and where to go on; null: the list has ended. */
export interface Scanned {
  readonly rows: readonly ScheduleRow[];
  readonly looked: number;
  readonly next: string | null;
}

/** Lists from the index table; the schedule's own row has the last word. */
export class ScheduleLister {
  readonly #parts: ListSchedulesParts;

  constructor(parts: ListSchedulesParts) {
    this.#parts = parts;
  }

  list({ pageSize, after, ...filter }: ListSchedules): Promise<Result<SchedulePage>> {
    return withStore(async () => {
      const schedules: ScheduleRow[] = [];
      let next: string | null = after ?? '';
      let looked = 0;
      while (next !== null && schedules.length < pageSize && looked < SCANNED_PER_PAGE_MAX) {
        const scanned: Scanned = await this.scan(filter, next, pageSize - schedules.length);
        schedules.push(...scanned.rows);
        looked += scanned.looked;
        next = scanned.next;
      }
      return ok({ schedules, next });
    });
  }

  /**
   * One look at the list: at most READ_ENTRIES entries of one stripe, and at most `most` schedules that match.
   * @param after '' or where an earlier scan ended. Throws StoreError.
   */
  async scan(filter: ScheduleFilter, after: string, most: number): Promise<Scanned> {
    const { index, reader } = this.#parts;
    const position = positionOf(after);
    const queue = filter.queue ?? ALL_QUEUES;
    const range = { queue, stripe: position.stripe, after: position.scheduleId, limit: READ_ENTRIES };
    const entries = await index.read(range);
    const found = await reader.read(entries.map(({ scheduleId }) => scheduleId));
    await this.#clean(entries, found);
    const rows: ScheduleRow[] = [];
    for (const { scheduleId } of entries) {
      const row = found.get(scheduleId);
      if (row !== undefined && this.#matches(row, filter)) rows.push(row);
      if (rows.length >= most) return { rows, looked: entries.length, next: `${position.stripe} ${scheduleId}` };
    }
    const last = entries.at(-1);
    const more = entries.length < READ_ENTRIES || last === undefined ? null : last.scheduleId;
    return { rows, looked: entries.length, next: nextPosition(position.stripe, more) };
  }

  #matches(row: ScheduleRow, { queue, label, paused }: ScheduleFilter): boolean {
    if (queue !== null && row.queue !== queue) return false;
    if (label !== null && row.labels[label.name] !== label.value) return false;
    return paused === null || isPaused(row, this.#parts.clock.now()) === paused;
  }

  /** Entries that lead nowhere, or to a schedule that went to another queue, would be read for ever. */
  async #clean(entries: readonly ScheduleIndexEntry[], found: ReadonlyMap<string, ScheduleRow>): Promise<void> {
    const before = this.#parts.clock.now() - STALE_AFTER_MS;
    const stale = entries.filter(({ queue, scheduleId, writtenAt }) => {
      const row = found.get(scheduleId);
      return writtenAt < before && (row === undefined || (queue !== ALL_QUEUES && row.queue !== queue));
    });
    if (stale.length === 0) return;
    try {
      await this.#parts.index.remove(stale);
    } catch (error) {
      // The next list tries again.
      if (!(error instanceof StoreError)) throw error;
    }
  }
}

function positionOf(after: string): Position {
  const [stripe = '0', scheduleId = ''] = after.split(' ');
  return { stripe: Number(stripe), scheduleId };
}

/** @param scheduleId the last one looked at; null: the stripe has ended. */
function nextPosition(stripe: number, scheduleId: string | null): string | null {
  if (scheduleId !== null) return `${stripe} ${scheduleId}`;
  return stripe + 1 < SCHEDULE_STRIPES ? `${stripe + 1} ` : null;
}

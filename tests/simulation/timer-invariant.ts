// "A timer never dies before its job does" (design section 6): at every moment each accepted job that is not over has a timer
// row that somebody will still read.

import { bucketOf } from '../../services/core/domain/bucket.ts';
import type { JobRow } from '../../services/core/domain/job.ts';
import { isTerminal, JobStatus } from '../../services/core/domain/job-status.ts';
import { MINUTE_MS } from '../../services/core/domain/limits.ts';
import type { DeadlineEntry, DueEntry } from '../../services/core/domain/operation.ts';
import type { EpochMs } from '../../services/core/domain/time.ts';
import type { CursorRole } from '../../services/core/ports/timer-store.ts';
import type { MemoryStores, StoreCall } from '../support/memory-store.ts';
import type { Report } from './violation.ts';

type Table = 'due' | 'deadlines';

/** The cursor behind which nobody reads the table any more: that of its second look. */
const LAST_READER = { due: 'second_look', deadlines: 'deadlines' } as const satisfies Record<Table, CursorRole>;

interface Timer {
  readonly table: Table;
  readonly shard: number;
  readonly at: EpochMs;
}

/**
 * Which rows will still be read is told by the saved cursors alone: whoever takes a shard over starts there, and a cursor
 * moves only over rows whose jobs have another timer. A row that landed behind a reader counts until that reader's cursor is
 * saved, seconds later, and is found out then. So only what a write or a saved cursor touches has to be looked at.
 */
export class TimerInvariant {
  readonly #stores: MemoryStores;
  readonly #startedAt: EpochMs;
  readonly #report: Report;
  readonly #timers = new Map<string, Timer[]>();
  /** Jobs with a row in the minute, by table, shard and minute. */
  readonly #minutes = new Map<string, Set<string>>();
  readonly #cursors = new Map<string, EpochMs>();
  readonly #watched = new Set<string>();

  /** @param startedAt where a shard without a cursor is read from. */
  constructor(parts: { stores: MemoryStores; startedAt: EpochMs; report: Report }) {
    this.#stores = parts.stores;
    this.#startedAt = parts.startedAt;
    this.#report = parts.report;
  }

  /** From now on the job must have a timer. */
  watch(jobId: string): void {
    this.#watched.add(jobId);
    this.check(jobId);
  }

  /** Nothing was promised of the job as it is now, for example because nobody was told that it is to run again. */
  unwatch(jobId: string): void {
    this.#watched.delete(jobId);
  }

  isWatched(jobId: string): boolean {
    return this.#watched.has(jobId);
  }

  /** After a call took effect on the store. */
  applied({ method, args }: StoreCall): void {
    switch (method) {
      case 'timers.writeDue':
        for (const row of args[0] as readonly DueEntry[]) this.#add('due', row.jobId, row.shard, row.runAt);
        break;
      case 'timers.writeDeadlines':
        for (const row of args[0] as readonly DeadlineEntry[]) this.#add('deadlines', row.jobId, row.shard, row.at);
        break;
      case 'cursors.save':
        this.#passed(args[0] as CursorRole, args[1] as number);
        break;
      default:
    }
  }

  /** To be called whenever the job's row has changed. */
  check(jobId: string): void {
    const job = this.#stores.rows.get(jobId);
    if (job === undefined || !this.#watched.has(jobId) || isTerminal(job.status)) return;
    const timers = this.#timers.get(jobId) ?? [];
    if (timers.some((timer) => this.#serves(timer, job))) return;
    const text = timers.map(({ table, at }) => `${table} ${timeText(at)}`).join(', ');
    this.#report({
      rule: 'timer invariant',
      detail:
        `${jobId} is ${job.status} (run_at ${timeText(job.runAt)}) and has no timer that will still be read; ` +
        `rows: ${text || 'none'}; read up to: due ${this.#readTo('due', job.shard)}, deadlines ${this.#readTo('deadlines', job.shard)}`,
      subject: jobId,
    });
  }

  #serves({ table, shard, at }: Timer, job: JobRow): boolean {
    // A row means "by now": one before the job's time matches nothing when it is read.
    if (job.status === JobStatus.scheduled && at < job.runAt) return false;
    return at >= this.#cursor(table, shard);
  }

  #add(table: Table, jobId: string, shard: number, at: EpochMs): void {
    const timers = this.#timers.get(jobId) ?? [];
    timers.push({ table, shard, at });
    this.#timers.set(jobId, timers);
    const minute = minuteKey(table, shard, bucketOf(at));
    this.#minutes.set(minute, (this.#minutes.get(minute) ?? new Set()).add(jobId));
  }

  #passed(role: CursorRole, shard: number): void {
    const table = (Object.keys(LAST_READER) as Table[]).find((each) => LAST_READER[each] === role);
    if (table === undefined) return;
    const before = this.#cursor(table, shard);
    const now = this.#stores.positions.get(`${role} ${shard}`) ?? before;
    this.#cursors.set(`${role} ${shard}`, now);
    for (let bucket = bucketOf(before); bucket < now; bucket += MINUTE_MS) {
      for (const jobId of this.#minutes.get(minuteKey(table, shard, bucket)) ?? []) this.check(jobId);
    }
  }

  #cursor(table: Table, shard: number): EpochMs {
    return this.#cursors.get(`${LAST_READER[table]} ${shard}`) ?? this.#startedAt;
  }

  #readTo(table: Table, shard: number): string {
    return timeText(this.#cursor(table, shard));
  }
}

function minuteKey(table: Table, shard: number, bucket: EpochMs): string {
  return `${table} ${shard} ${bucket}`;
}

function timeText(at: EpochMs): string {
  return new Date(at).toISOString().slice(11, 23);
}

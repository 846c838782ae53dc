import { bucketEnd, bucketOf } from '../domain/bucket.ts';
import { isJobId } from '../domain/ids.ts';
import { DAY_MS } from '../domain/limits.ts';
import type { DueEntry } from '../domain/operation.ts';
import type { EpochMs } from '../domain/time.ts';
import type { DeadLetter, HistoryStore } from '../ports/history-store.ts';
import type { TimerStore } from '../ports/timer-store.ts';

export interface IndexPosition {
  readonly at: EpochMs;
  readonly jobId: string;
}

export interface IndexQuery {
  readonly queue: string;
  readonly from: EpochMs;
  /** Exclusive. */
  readonly to: EpochMs;
  /** The last row of the page before; null: the first page. */
  readonly after: IndexPosition | null;
}

/** Rows in the order of (time, job id). A page may be short or empty and still have a next one. */
export interface IndexPage<Row> {
  readonly rows: readonly Row[];
  readonly next: IndexPosition | null;
}

/**
 * A queue's jobs by time: by run_at from the due rows, which are kept for it, and dead ones from the dead letters. Rows are left
 * behind wherever a job once stood, so the job's own row has the last word.
 */
export class JobIndex {
  readonly #timerStore: TimerStore;
  readonly #history: HistoryStore;
  readonly #shards: number;

  constructor(parts: { timerStore: TimerStore; history: HistoryStore; shards: number }) {
    this.#timerStore = parts.timerStore;
    this.#history = parts.history;
    this.#shards = parts.shards;
  }

  /** At most `most` due rows, all of one minute. Throws StoreError. */
  async due({ queue, from, to, after }: IndexQuery, most: number): Promise<IndexPage<DueEntry>> {
    const start = after ?? { at: from, jobId: '' };
    const bucket = bucketOf(start.at);
    const last = Math.min(to - 1, bucketEnd(bucket) - 1);
    const perShard = await Promise.all(
      Array.from({ length: this.#shards }, async (_, shard) => {
        const found: DueEntry[] = [];
        for await (const page of this.#timerStore.readDue({ shard, bucket, from: start.at, to: last })) {
          // Schedules have their wake-up rows beside those of jobs.
          const rows = page.filter((row) => row.queue === queue && isJobId(row.jobId));
          found.push(...rows.filter((row) => isAfter(row.runAt, row.jobId, start)));
          // No shard can give more than all of the page.
          if (found.length >= most) break;
        }
        return found.slice(0, most);
      }),
    );
    const rows = perShard
      .flat()
      .sort((one, other) => one.runAt - other.runAt || (one.jobId < other.jobId ? -1 : 1))
      .slice(0, most);
    const lastRow = rows.at(-1);
    // As many as were asked for: the minute may have more.
    const next =
      lastRow !== undefined && rows.length >= most
        ? { at: lastRow.runAt, jobId: lastRow.jobId }
        : { at: bucketEnd(bucket), jobId: '' };
    return { rows, next: next.at < to ? next : null };
  }

  /** Dead letters, all of one day. Throws StoreError. */
  async dead({ queue, from, to, after }: IndexQuery): Promise<IndexPage<DeadLetter>> {
    const start = after ?? { at: from, jobId: '' };
    for await (const page of this.#history.readDeadLetters({ queue, from: start.at, to })) {
      const rows = page.filter((row) => isAfter(row.deadAt, row.jobId, start));
      const last = rows.at(-1);
      if (last !== undefined) return { rows, next: { at: last.deadAt, jobId: last.jobId } };
    }
    const nextDay = Math.floor(start.at / DAY_MS) * DAY_MS + DAY_MS;
    return { rows: [], next: nextDay < to ? { at: nextDay, jobId: '' } : null };
  }
}

function isAfter(at: EpochMs, jobId: string, position: IndexPosition): boolean {
  return at > position.at || (at === position.at && jobId > position.jobId);
}

import { SECOND_MS, SHARD_ROWS_IN_MEMORY_MAX } from '../core/domain/limits.ts';
import type { DeadlineEntry } from '../core/domain/operation.ts';
import type { EpochMs } from '../core/domain/time.ts';
import type { Clock } from '../core/ports/clock.ts';
import type { TimerStore } from '../core/ports/timer-store.ts';
import { ShardScanner, type Held } from '../core/scan/shard-scanner.ts';
import type { Found, Settles } from './settle.ts';

/** Rows settled together: their jobs are read and written grouped by cohort. */
const SETTLE_ROWS_MAX = 500;
/** Keys of rows settled lately, so that the second look at their minute only takes the others. */
const REMEMBERED_MAX = 20_000;

/** Deadline rows of one shard as their time comes, with a trailing edge of 5 s (rule 5). */
export class ShardDeadlines {
  readonly #clock: Clock;
  readonly #settler: Settles;
  readonly #scanner: ShardScanner<DeadlineEntry>;
  readonly #republishedAt: () => EpochMs | null;
  readonly #settledLately = new Set<string>();

  constructor(parts: {
    timerStore: TimerStore;
    settler: Settles;
    clock: Clock;
    shard: number;
    from: EpochMs;
    /** When all waiting jobs of the shard were last published again. */
    republishedAt: () => EpochMs | null;
  }) {
    this.#clock = parts.clock;
    this.#republishedAt = parts.republishedAt;
    this.#settler = parts.settler;
    this.#scanner = new ShardScanner({
      source: { read: (range) => parts.timerStore.readDeadlines(range), at: (row) => row.at, id: (row) => row.jobId },
      shard: parts.shard,
      from: parts.from,
      readAheadMs: 0,
      capacity: SHARD_ROWS_IN_MEMORY_MAX,
    });
  }

  /** One pass over what is due; returns how many rows it settled. Throws StoreError. */
  async runOnce(): Promise<number> {
    let settled = 0;
    await this.#scanner.read(this.#clock.now(), async () => {
      settled += await this.#settleDue();
    });
    return settled;
  }

  position(): EpochMs {
    return this.#scanner.position();
  }

  wasSettledLately(row: DeadlineEntry): boolean {
    return this.#settledLately.has(deadlineKey(row));
  }

  async #settleDue(): Promise<number> {
    let settled = 0;
    for (;;) {
      const due = this.#scanner.takeDue(this.#clock.now(), SETTLE_ROWS_MAX);
      if (due.length === 0) return settled;
      settled += await this.#settle(due);
    }
  }

  async #settle(due: readonly Held<DeadlineEntry>[]): Promise<number> {
    try {
      const results = await this.#settler.settle(due.map((held) => foundDeadline(held.row, this.#republishedAt())));
      let settled = 0;
      due.forEach((held, index) => {
        const result = results[index];
        if (result === 'settled') {
          this.#scanner.settle(held);
          this.#remember(held.key);
          settled += 1;
        } else {
          this.#scanner.putBack(held, result?.again ?? this.#clock.now() + SECOND_MS);
        }
      });
      return settled;
    } catch (error) {
      for (const held of due) this.#scanner.putBack(held, this.#clock.now() + SECOND_MS);
      throw error;
    }
  }

  #remember(key: string): void {
    if (this.#settledLately.size >= REMEMBERED_MAX) {
      const oldest = this.#settledLately.values().next();
      if (oldest.done !== true) this.#settledLately.delete(oldest.value);
    }
    this.#settledLately.add(key);
  }
}

export function foundDeadline(row: DeadlineEntry, republishedAt: EpochMs | null): Found {
  const publishedAt =
    row.publishedAt === null || republishedAt === null ? row.publishedAt : Math.max(row.publishedAt, republishedAt);
  return { jobId: row.jobId, shard: row.shard, table: 'deadlines', at: row.at, publishedAt };
}

function deadlineKey(row: DeadlineEntry): string {
  return `${row.jobId} ${row.at}`;
}

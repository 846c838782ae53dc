import { SECOND_MS, SETTLED_ROWS_KEPT_MAX, SHARD_ROWS_IN_MEMORY_MAX } from '../core/domain/limits.ts';
import type { DeadlineEntry } from '../core/domain/operation.ts';
import type { EpochMs } from '../core/domain/time.ts';
import type { Clock } from '../core/ports/clock.ts';
import type { TimerStore } from '../core/ports/timer-store.ts';
import type { RowPool } from '../core/scan/row-pool.ts';
import { ShardScanner, type Held } from '../core/scan/shard-scanner.ts';
import { RecentKeys } from './recent-keys.ts';
import type { Found, Settles } from './settle.ts';

/** Rows settled together: their jobs are read and written grouped by cohort. */
const SETTLE_ROWS_MAX = 500;

/** Rows settled lately, of all shards, so that the second look at their minute only takes the others. */
export class SettledRows {
  readonly #keys = new RecentKeys(SETTLED_ROWS_KEPT_MAX);

  has(row: DeadlineEntry): boolean {
    return this.#keys.has(keyOf(row));
  }

  add(row: DeadlineEntry): void {
    this.#keys.add(keyOf(row));
  }
}

/** Deadline rows of one shard as their time comes, with a trailing edge of 5 s (rule 5). */
export class ShardDeadlines {
  readonly #clock: Clock;
  readonly #settler: Settles;
  readonly #scanner: ShardScanner<DeadlineEntry>;
  readonly #republishedAt: () => EpochMs | null;
  readonly #settledRows: SettledRows;

  constructor(parts: {
    timerStore: TimerStore;
    settler: Settles;
    settledRows: SettledRows;
    /** What the shards of this process have room for together. */
    pool: RowPool;
    clock: Clock;
    shard: number;
    from: EpochMs;
    /** When all waiting jobs of the shard were last published again. */
    republishedAt: () => EpochMs | null;
  }) {
    this.#clock = parts.clock;
    this.#republishedAt = parts.republishedAt;
    this.#settler = parts.settler;
    this.#settledRows = parts.settledRows;
    this.#scanner = new ShardScanner({
      source: { read: (range) => parts.timerStore.readDeadlines(range), at: (row) => row.at, id: (row) => row.jobId },
      shard: parts.shard,
      from: parts.from,
      readAheadMs: 0,
      capacity: SHARD_ROWS_IN_MEMORY_MAX,
      pool: parts.pool,
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

  /** The shard is somebody else's now. */
  close(): void {
    this.#scanner.close();
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
          this.#settledRows.add(held.row);
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
}

export function foundDeadline(row: DeadlineEntry, republishedAt: EpochMs | null): Found {
  const publishedAt =
    row.publishedAt === null || republishedAt === null ? row.publishedAt : Math.max(row.publishedAt, republishedAt);
  return { jobId: row.jobId, shard: row.shard, table: 'deadlines', at: row.at, publishedAt };
}

function keyOf({ jobId, at }: DeadlineEntry): string {
  return `${jobId} ${at}`;
}

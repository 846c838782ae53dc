// Timer rows for a scanner to read: a table in memory whose rows land when the test says so.

import { bucketOf } from '../../services/core/domain/bucket.ts';
import type { EpochMs } from '../../services/core/domain/time.ts';
import type { TimerRange } from '../../services/core/ports/timer-store.ts';
import type { ScanSource } from '../../services/core/scan/shard-scanner.ts';

export interface TimerRow {
  readonly id: string;
  readonly at: EpochMs;
}

export class RowSource implements ScanSource<TimerRow> {
  readonly rows = new Set<TimerRow>();
  /** The pages that can still be read before one read fails. */
  pagesLeft = Infinity;
  /** Rows that were read so far; each time counts. */
  given = 0;
  readonly #pageRows: number;

  constructor(pageRows = 100) {
    this.#pageRows = pageRows;
  }

  at(row: TimerRow): EpochMs {
    return row.at;
  }

  id(row: TimerRow): string {
    return row.id;
  }

  async *read({ bucket, from, afterId = '', to }: TimerRange): AsyncGenerator<readonly TimerRow[], void, undefined> {
    const found = [...this.rows]
      .filter(({ at }) => bucketOf(at) === bucket && at <= to)
      .filter(({ at, id }) => at > from || (at === from && id > afterId))
      .sort((one, other) => one.at - other.at || (one.id < other.id ? -1 : 1));
    for (let start = 0; start === 0 || start < found.length; start += this.#pageRows) {
      this.pagesLeft -= 1;
      if (this.pagesLeft < 0) {
        this.pagesLeft = Infinity;
        throw new Error('a page could not be read');
      }
      const page = found.slice(start, start + this.#pageRows);
      this.given += page.length;
      yield page;
    }
  }
}

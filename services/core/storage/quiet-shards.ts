import type { EpochMs } from '../domain/time.ts';
import type { TimerRange } from '../ports/timer-store.ts';

/** The shards among those asked for that have a row in the range. */
export type ReadShards = (
  shards: readonly number[],
  range: { readonly bucket: EpochMs; readonly from: EpochMs; readonly to: EpochMs },
) => Promise<readonly number[]>;

/** Reads that must find a shard empty before it is asked for together with others again, after that failed. */
const EMPTY_READS_AFTER_FAILURE = 30;

interface Question {
  readonly ranges: TimerRange[];
  readonly answer: Promise<ReadonlySet<number>>;
}

/**
 * Most shards have nothing due at most times, yet each is read every second: those whose last read found nothing, and which are read
 * at the same moment, are asked for in one request. It asks for all that any of their ranges spans, so that it never
 * says less than their own reads would.
 */
export class QuietShards {
  readonly #read: ReadShards;
  /** By shard: how many reads in a row found it empty; below zero after a common request failed. */
  readonly #emptyReads = new Map<number, number>();
  /** By minute: what the next request will ask for. */
  readonly #open = new Map<EpochMs, Question>();

  constructor(read: ReadShards) {
    this.#read = read;
  }

  /** True only where no row is in the range; false where a read of its own has to tell. Never rejects. */
  async isEmpty(range: TimerRange): Promise<boolean> {
    if ((this.#emptyReads.get(range.shard) ?? 0) <= 0) return false;
    let question = this.#open.get(range.bucket);
    if (question === undefined) {
      const ranges: TimerRange[] = [];
      question = { ranges, answer: Promise.resolve().then(() => this.#ask(range.bucket, ranges)) };
      this.#open.set(range.bucket, question);
    }
    question.ranges.push(range);
    return !(await question.answer).has(range.shard);
  }

  /** What the shard's own read showed. */
  found(shard: number, rows: number): void {
    this.#emptyReads.set(shard, rows > 0 ? 0 : (this.#emptyReads.get(shard) ?? 0) + 1);
  }

  async #ask(bucket: EpochMs, ranges: readonly TimerRange[]): Promise<ReadonlySet<number>> {
    this.#open.delete(bucket);
    const shards = [...new Set(ranges.map(({ shard }) => shard))];
    if (shards.length === 1) return new Set(shards);
    const from = Math.min(...ranges.map((range) => range.from));
    const to = Math.max(...ranges.map((range) => range.to));
    try {
      return new Set(await this.#read(shards, { bucket, from, to }));
    } catch {
      // One shard without its replicas fails them all; by themselves the others can be read.
      for (const shard of shards) this.#emptyReads.set(shard, -EMPTY_READS_AFTER_FAILURE);
      return new Set(shards);
    }
  }
}

import { PRIORITIES, type Priority } from '../domain/job-status.ts';
import { OVER_RATE_LOOK_MS, OVER_RATE_PERCENT, OVER_RATE_SEEN_MAX_MS, READY_DEPTHS_WAIT_MS } from '../domain/limits.ts';
import { rateAt, readyKeptOf } from '../domain/queue-settings.ts';
import { msBetween, type MonotonicMs } from '../domain/time.ts';
import { TokenBucket } from '../domain/token-bucket.ts';
import type { Clock } from '../ports/clock.ts';
import type { QueueBook } from './queue-book.ts';
import type { ReadyDepths } from './ready-depths.ts';
import { SharedQuestion } from './shared-question.ts';

/**
 * What was published of a queue with a rate beyond what its dispatchers publish ahead: before it had that rate, mostly. Soft, by
 * the ready stream's own depth: a few more or less may be found too many, by as many as are under way.
 */
export class ReadySurplus {
  readonly #book: QueueBook;
  readonly #depths: Pick<ReadyDepths, 'areRecent' | 'known' | 'knownUpTo' | 'added'>;
  readonly #clock: Clock;
  readonly #settings: SharedQuestion;
  /** Since when a queue has too many, as far as we saw. */
  readonly #overSince = new Map<string, MonotonicMs>();
  readonly #buckets = new Map<string, TokenBucket>();

  constructor(parts: {
    book: QueueBook;
    depths: Pick<ReadyDepths, 'areRecent' | 'known' | 'knownUpTo' | 'added'>;
    clock: Clock;
  }) {
    const { book, depths, clock } = parts;
    this.#book = book;
    this.#depths = depths;
    this.#clock = clock;
    // What cannot be read is read again by the loop, as ever.
    const ask = (): Promise<void> => book.refresh().catch(() => undefined);
    this.#settings = new SharedQuestion({ clock, everyMs: OVER_RATE_LOOK_MS, ask });
  }

  /**
   * Of jobs of the queue that are being claimed: which must not start, the lower priorities first. None while the stream does not
   * tell, and none, and nothing asked, in a queue without a rate.
   */
  async among<Job extends { readonly priority: Priority }>(
    queue: string,
    jobs: readonly Job[],
  ): Promise<readonly Job[]> {
    if (this.#keptOf(queue) === null) {
      this.#overSince.delete(queue);
      this.#buckets.delete(queue);
      return [];
    }
    if (!(await this.#depths.areRecent())) return [];
    if (this.#isOver(queue)) {
      // Others may have published by a higher rate that we know nothing of yet.
      if (this.#mayJudge(queue)) void this.#settings.asked();
      else await this.#settings.shortly(READY_DEPTHS_WAIT_MS);
    }
    // No await from here on: what one batch is let, the next one sees.
    const tooMany = this.#isOver(queue) && this.#mayJudge(queue) ? this.#tooManyOf(queue, jobs) : [];
    // Whatever comes of the claims, their messages go: the next batch sees what is left.
    for (const { priority } of jobs) this.#depths.added(queue, -1, priority);
    return tooMany.slice(this.#letThrough(queue, tooMany.length));
  }

  #keptOf(queue: string): number | null {
    return readyKeptOf(this.#book.settingsOf(queue));
  }

  #isOver(queue: string): boolean {
    const kept = this.#keptOf(queue);
    const isOver = kept !== null && this.#depths.known(queue) > kept;
    if (!isOver) this.#overSince.delete(queue);
    else if (!this.#overSince.has(queue)) this.#overSince.set(queue, this.#clock.monotonic());
    return isOver;
  }

  /**
   * By settings only that were read since there are too many: whoever published them read theirs before. Where they cannot be read,
   * a short while later.
   */
  #mayJudge(queue: string): boolean {
    const since = this.#overSince.get(queue);
    if (since === undefined) return false;
    return this.#book.isReadSince(since) || msBetween(since, this.#clock.monotonic()) >= OVER_RATE_SEEN_MAX_MS;
  }

  /** The highest priority first. A job is too many by what there is of its own priority and the higher ones, whatever of lower ones. */
  #tooManyOf<Job extends { readonly priority: Priority }>(queue: string, jobs: readonly Job[]): readonly Job[] {
    const kept = this.#keptOf(queue) ?? Infinity;
    const depths = this.#depths.knownUpTo(queue);
    const tooMany: Job[] = [];
    for (const priority of PRIORITIES) {
      const surplus = Math.max(0, (depths.get(priority) ?? 0) - kept - tooMany.length);
      if (surplus > 0) tooMany.push(...jobs.filter((job) => job.priority === priority).slice(-surplus));
    }
    return tooMany;
  }

  /**
   * While there are too many dispatchers publish none, and they go only as fast as workers ask: one that asks for a job a second would
   * find nothing for hours. So a part of the rate starts all the same. Each api lets that much through and does not know how many
   * there are: beyond four of them it may be more than the rate.
   */
  #letThrough(queue: string, tooMany: number): number {
    if (tooMany === 0) return 0;
    const rate = rateAt(this.#book.settingsOf(queue), this.#clock.now()) ?? 0;
    const now = this.#clock.monotonic();
    const bucket = this.#buckets.get(queue) ?? new TokenBucket(now);
    this.#buckets.set(queue, bucket);
    return bucket.take(tooMany, now, { perS: (rate * OVER_RATE_PERCENT) / 100, burst: 1 });
  }
}

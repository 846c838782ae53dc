import { bucketOf } from '../../core/domain/bucket.ts';
import { shardOf } from '../../core/domain/ids.ts';
import { PRIORITIES, type Priority } from '../../core/domain/job-status.ts';
import { CENSUS_EVERY_MS, MINUTE_MS } from '../../core/domain/limits.ts';
import { farRanges } from '../../core/domain/queue-counts.ts';
import { msBetween, type EpochMs, type MonotonicMs } from '../../core/domain/time.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type { QueueCountStore, ShardQueueCounts } from '../../core/ports/queue-count-store.ts';
import { BusError, type ReadyDepth, type ReadyQueue } from '../../core/ports/ready-queue.ts';
import type { HeldBoard } from '../../core/queues/held-board.ts';
import type { StartLag, StartLags } from './start-lags.ts';

export interface QueueCountersParts {
  readonly counts: QueueCountStore;
  readonly queue: Pick<ReadyQueue, 'depths' | 'oldestMessageAt'>;
  readonly board: Pick<HeldBoard, 'heldIn' | 'queues'>;
  readonly startLags: Pick<StartLags, 'of'>;
  readonly clock: Clock;
  readonly shards: number;
}

/** How many jobs of a queue are where. */
export interface QueueCounts {
  /** Scheduled for a time ahead. */
  readonly waiting: number;
  /** Due, and not taken by their queue yet: as dispatchers told in the last seconds. */
  readonly held: number;
  /** Handed to the ready stream and not claimed; null: NATS is away. */
  readonly ready: Readonly<Record<Priority, number>> | null;
  readonly running: number;
  /** Null: not counted yet. */
  readonly dead: number | null;
  /** How long the first of the ready ones has waited; null: none waits, or NATS is away. */
  readonly oldestReadyAgeMs: number | null;
  readonly startLag: StartLag | null;
  /** When the shard counted longest ago was; null: some shard was not counted lately, so there may be more. */
  readonly countedAt: EpochMs | null;
}

export interface QueuesInUse {
  readonly queues: readonly string[];
  /** Of all queues; null: NATS is away. */
  readonly depths: readonly ReadyDepth[] | null;
}

/** What all reapers counted, by queue. */
interface Census {
  readonly rows: ReadonlyMap<string, readonly ShardQueueCounts[]>;
  /** Shards whose queues' dead letters were counted: in a queue of theirs without a number nothing is dead. */
  readonly deadCounted: ReadonlySet<number>;
  readonly countedAt: EpochMs | null;
}

const CENSUS_KEPT_MS = CENSUS_EVERY_MS / 2;
const QUEUES_AT_ONCE = 16;

/** Puts together what reapers, creators and the ready stream know of how many jobs a queue has (decisions/0013). */
export class QueueCounters {
  readonly #parts: QueueCountersParts;
  #census: { readonly readAt: MonotonicMs; readonly census: Promise<Census> } | null = null;

  constructor(parts: QueueCountersParts) {
    this.#parts = parts;
  }

  /** Throws StoreError. */
  async one(queue: string): Promise<QueueCounts> {
    const [census, depths] = await Promise.all([this.#readCensus(), this.#depths(queue)]);
    return this.#countsOf(queue, census, depths);
  }

  /**
   * The queues that have a job running, dead, ready, held, or due in the next minutes: whoever waits for longer is in no row that
   * names all queues. While NATS is away without those whose jobs are only ready. Throws StoreError.
   */
  async inUse(): Promise<QueuesInUse> {
    const [{ rows }, depths] = await Promise.all([this.#readCensus(), this.#depths()]);
    const now = this.#parts.clock.now();
    const counted = [...rows].filter(([queue, ofQueue]) => queue !== '' && ofQueue.some((row) => hasJobs(row, now)));
    const ready = depths?.map(({ queue }) => queue) ?? [];
    const queues = new Set([...counted.map(([queue]) => queue), ...ready, ...this.#parts.board.queues()]);
    return { queues: [...queues], depths };
  }

  /** In the order of the queues, by the depths that were read with them. Throws StoreError. */
  async of(queues: readonly string[], depths: QueuesInUse['depths']): Promise<readonly QueueCounts[]> {
    const census = await this.#readCensus();
    const counts: QueueCounts[] = [];
    for (let start = 0; start < queues.length; start += QUEUES_AT_ONCE) {
      const some = queues.slice(start, start + QUEUES_AT_ONCE);
      const ofSome = some.map((queue) =>
        this.#countsOf(queue, census, depths?.filter((depth) => depth.queue === queue) ?? null),
      );
      counts.push(...(await Promise.all(ofSome)));
    }
    return counts;
  }

  #depths(queue?: string): Promise<readonly ReadyDepth[] | null> {
    return this.#whileThere(() => this.#parts.queue.depths(queue));
  }

  async #countsOf(queue: string, census: Census, depths: readonly ReadyDepth[] | null): Promise<QueueCounts> {
    const { counts, clock, board, startLags, shards } = this.#parts;
    const now = clock.now();
    const rows = census.rows.get(queue) ?? [];
    const [far, oldestReadyAgeMs] = await Promise.all([
      Promise.all(farRanges(now).map((range) => counts.sumWaiting(queue, range))),
      this.#oldestAgeMs(depths ?? [], now),
    ]);
    const near = total(rows, (row) => dueSoonOf(row, now));
    return {
      // A process that was killed may have told of a job's leaving and not of its coming.
      waiting:
        near +
        Math.max(
          0,
          total(far, (jobs) => jobs),
        ),
      held: total(board.heldIn(queue), ({ count }) => count),
      ready: depths === null ? null : readyOf(depths),
      running: total(rows, ({ running }) => running),
      dead: rows.find(({ dead }) => dead !== null)?.dead ?? (census.deadCounted.has(shardOf(queue, shards)) ? 0 : null),
      oldestReadyAgeMs,
      startLag: startLags.of(queue),
      countedAt: census.countedAt,
    };
  }

  async #oldestAgeMs(depths: readonly ReadyDepth[], now: EpochMs): Promise<number | null> {
    const { queue: stream } = this.#parts;
    const oldest = await this.#whileThere(() =>
      Promise.all(depths.map(({ queue, priority }) => stream.oldestMessageAt(queue, priority))),
    );
    const times = oldest?.filter((at) => at !== null) ?? [];
    return times.length === 0 ? null : Math.max(0, now - Math.min(...times));
  }

  /** Of all shards at once, kept for some seconds: it has all queues in it. */
  #readCensus(): Promise<Census> {
    const now = this.#parts.clock.monotonic();
    if (this.#census !== null && msBetween(this.#census.readAt, now) < CENSUS_KEPT_MS) return this.#census.census;
    const read = { readAt: now, census: this.#readShards() };
    this.#census = read;
    read.census.catch(() => {
      if (this.#census === read) this.#census = null;
    });
    return read.census;
  }

  async #readShards(): Promise<Census> {
    const { counts, shards } = this.#parts;
    const all = await Promise.all(Array.from({ length: shards }, (_, shard) => counts.readShard(shard)));
    const marks = all.flatMap((rows) => rows.filter(({ queue }) => queue === ''));
    const times = marks.map(({ countedAt }) => countedAt);
    return {
      rows: Map.groupBy(all.flat(), ({ queue }) => queue),
      deadCounted: new Set(marks.flatMap(({ shard, dead }) => (dead === null ? [] : [shard]))),
      countedAt: times.length < shards ? null : Math.min(...times),
    };
  }

  /** Null while NATS is away. */
  async #whileThere<Answer>(ask: () => Promise<Answer>): Promise<Answer | null> {
    try {
      return await ask();
    } catch (error) {
      if (error instanceof BusError) return null;
      throw error;
    }
  }
}

/** Of the current minute and the next: by the time they are read, the first minute that was counted may be over. */
function dueSoonOf({ countedAt, dueSoon }: ShardQueueCounts, now: EpochMs): number {
  const first = (bucketOf(now) - bucketOf(countedAt)) / MINUTE_MS;
  return (dueSoon[first] ?? 0) + (dueSoon[first + 1] ?? 0);
}

function hasJobs(row: ShardQueueCounts, now: EpochMs): boolean {
  return row.running > 0 || (row.dead ?? 0) > 0 || dueSoonOf(row, now) > 0;
}

function readyOf(depths: readonly ReadyDepth[]): Readonly<Record<Priority, number>> {
  const messagesOf = (wanted: Priority): number => depths.find(({ priority }) => priority === wanted)?.messages ?? 0;
  return Object.fromEntries(PRIORITIES.map((priority) => [priority, messagesOf(priority)])) as Record<Priority, number>;
}

function total<Item>(items: readonly Item[], numberOf: (item: Item) => number): number {
  return items.reduce((sum, item) => sum + numberOf(item), 0);
}

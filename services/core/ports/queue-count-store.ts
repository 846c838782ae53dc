import type { Slot, SlotRange } from '../domain/queue-counts.ts';
import type { EpochMs } from '../domain/time.ts';

/**
 * How many jobs one process made wait for a time in the slot, less those that it took away before their time. A register: each
 * write says the whole number, so that a repeat changes nothing.
 */
export interface WaitingTally extends Slot {
  readonly queue: string;
  readonly process: string;
  /** Negative where a process mostly cancels what others made. */
  readonly jobs: number;
}

/** What the owner of a shard counted in it. */
export interface ShardQueueCounts {
  readonly shard: number;
  /** '' in the row that only says that the shard was counted. */
  readonly queue: string;
  readonly countedAt: EpochMs;
  /** Jobs that wait for their time: of the minute of countedAt and of the two after it. */
  readonly dueSoon: readonly number[];
  readonly running: number;
  /**
   * Of the whole queue, where its dead letters are this shard's to count and any were found; else null. Of '' it is 0 once the
   * shard has counted all of its queues' letters: what it has no number of has none. A null leaves what was written before.
   */
  readonly dead: number | null;
}

/** Plain idempotent writes that forget themselves. All methods throw StoreError. */
export interface QueueCountStore {
  writeWaiting(tallies: readonly WaitingTally[]): Promise<void>;
  /** The sum over all processes and the slots of the range. */
  sumWaiting(queue: string, range: SlotRange): Promise<number>;
  /** Rows of one shard; each stands for a minute and a half, or until the next. */
  writeShard(rows: readonly ShardQueueCounts[]): Promise<void>;
  readShard(shard: number): Promise<readonly ShardQueueCounts[]>;
}

import type { Priority } from '../domain/job-status.ts';
import type { DueEntry } from '../domain/operation.ts';
import type { EpochMs } from '../domain/time.ts';

/** The held rows of one queue and priority in one shard. */
export interface HeldLaneKey {
  readonly shard: number;
  readonly queue: string;
  readonly priority: Priority;
}

/** A place among them, in the order in which they are read. With an empty job id it lies before all rows of its time. */
export interface HeldPlace {
  readonly runAt: EpochMs;
  readonly jobId: string;
}

export function compareHeldPlaces(one: HeldPlace, other: HeldPlace): number {
  return one.runAt - other.runAt || (one.jobId < other.jobId ? -1 : one.jobId > other.jobId ? 1 : 0);
}

export interface HeldHour extends HeldLaneKey {
  /** The UTC hour of the rows' run_at. */
  readonly hour: EpochMs;
}

export interface HeldPosition extends HeldLaneKey {
  /** All rows before it are settled. */
  readonly place: HeldPlace;
}

/**
 * Jobs passed over at their time (design section 7): the due rows themselves, kept by queue until it takes them. Plain
 * idempotent writes: the same due row lands on the same held row. All methods throw StoreError.
 */
export interface HeldStore {
  /** First where they will lie, then the rows. Resolves when all are acknowledged. */
  write(rows: readonly DueEntry[]): Promise<void>;
  /** Where a shard has held rows, hour by hour. */
  hours(shard: number): Promise<readonly HeldHour[]>;
  /** At most `limit` rows of the hour after the place, oldest first. */
  read(hour: HeldHour, after: HeldPlace, limit: number): Promise<readonly DueEntry[]>;
  /** Where rows stand from one place to another, both included, within one hour. */
  standing(hour: HeldHour, from: HeldPlace, to: HeldPlace): Promise<readonly HeldPlace[]>;
  /** How many rows the hour has after the place. */
  count(hour: HeldHour, after: HeldPlace): Promise<number>;
  /** Deletes all rows of the hour, then the mark that it has some. */
  drop(hour: HeldHour): Promise<void>;
  positions(shard: number): Promise<readonly HeldPosition[]>;
  /** Of several the one that was called last stands, by the callers' clocks: it may also move back. Throws StoreError. */
  savePosition(position: HeldPosition): Promise<void>;
}

import type { EpochMs } from '../domain/time.ts';

/** One of the places that a queue with max_running has: a job starts only while it has one. */
export interface RunningSlot {
  readonly queue: string;
  /** 0 to max_running - 1; beyond it of jobs from before it was lowered or set. */
  readonly slot: number;
  /** Null: it is free. */
  readonly jobId: string | null;
  /** Somebody is looking whether its job still needs it: no claim relies on it meanwhile. */
  readonly leaving: boolean;
  readonly takenAt: EpochMs;
  /** Another one with each change. */
  readonly token: string;
}

export interface SlotChange {
  /** The token of the slot as it was read; null: there was no such row. */
  readonly before: string | null;
  readonly after: RunningSlot;
}

/** The table `queue_slots`: conditional writes only. All methods throw StoreError. */
export interface SlotStore {
  /** As conditional writes see them; those that were never taken have no row. */
  read(queue: string): Promise<readonly RunningSlot[]>;
  /** Slots of one queue: all are changed, or none, and it is false. Throws StoreError('unknown') where that is not known. */
  change(changes: readonly SlotChange[]): Promise<boolean>;
}

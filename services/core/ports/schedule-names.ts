import type { EpochMs } from '../domain/time.ts';

/** A row of schedule_keys: which schedule a caller's own name stands for. */
export interface ScheduleName {
  /** SHA-256 hex of owner, route and name. */
  readonly keyHash: string;
  readonly scheduleId: string;
  readonly createdAt: EpochMs;
  /** The schedule was made: if it is not there any more, it was deleted. Until then whoever finds the name makes it. */
  readonly written: boolean;
}

/** Conditional writes only. All methods throw StoreError. */
export interface ScheduleNames {
  find(keyHash: string): Promise<ScheduleName | null>;
  /** Takes the name unless it is taken, and returns the row that stands. */
  claim(name: ScheduleName): Promise<ScheduleName>;
  /** Gives the name of a schedule that is gone to another, not written yet. False: it stands for yet another, or for none. */
  move(from: ScheduleName, to: ScheduleName): Promise<boolean>;
  /** False: the name stands for another schedule, or for none. */
  markWritten(name: ScheduleName): Promise<boolean>;
  /** Frees the name, if it still stands for that schedule. */
  release(name: Pick<ScheduleName, 'keyHash' | 'scheduleId'>): Promise<void>;
}

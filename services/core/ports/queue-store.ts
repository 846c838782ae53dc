import type { QueueSettings } from '../domain/queue-settings.ts';

/** A change of a queue's settings: what they are to be, with the revision after the one that was read. */
export interface QueueChange {
  readonly next: QueueSettings;
  /** The change's own mark. */
  readonly token: string;
}

/** The table `queues`: conditional writes only. All methods throw StoreError. */
export interface QueueStore {
  /** The mark of the last change to any queue; null: none was ever changed. */
  lastChange(): Promise<string | null>;
  /** All configured queues, by name. */
  readAll(): Promise<readonly QueueSettings[]>;
  /** As conditional writes see it; null: never configured. */
  read(queue: string): Promise<QueueSettings | null>;
  /**
   * False when the row's revision is not the one before `next`. An unclear answer is settled by the change's mark; throws
   * StoreError('unknown') where even that fails.
   */
  change(change: QueueChange): Promise<boolean>;
}

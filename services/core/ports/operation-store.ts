import type { BulkOperation } from '../domain/bulk.ts';
import type { EpochMs } from '../domain/time.ts';

/** What a later write may change. */
export type OperationProgress = Pick<
  BulkOperation,
  'status' | 'position' | 'changed' | 'failed' | 'lastError' | 'runner' | 'updatedAt' | 'finishedAt'
>;

/** Of the list of operations: which there are, the newest first. */
export interface ListedOperation {
  readonly operationId: string;
  readonly createdAt: EpochMs;
  readonly expiresAt: EpochMs;
}

/** Conditional writes, but for the list, which is plain and written first. All methods throw StoreError. */
export interface OperationStore {
  /** Writes the row unless it exists, and returns the one that stands. */
  create(operation: BulkOperation): Promise<BulkOperation>;
  find(operationId: string): Promise<BulkOperation | null>;
  /**
   * Writes the progress if the row is still as it was read: then null is returned, else the row found.
   * @param token of this write alone: the row bears it, so that a write without an answer can be settled.
   */
  save(
    before: BulkOperation,
    progress: OperationProgress,
    token: string,
  ): Promise<null | { readonly found: BulkOperation | null }>;
  /** Whether the row's last write was the one with the token. */
  bearsToken(operationId: string, token: string): Promise<boolean>;
  list(entry: ListedOperation): Promise<void>;
  /** Of the UTC day that `upTo` lies in, those created by then, the newest first (by time and id), page by page. */
  readList(upTo: EpochMs): AsyncIterable<readonly ListedOperation[]>;
}

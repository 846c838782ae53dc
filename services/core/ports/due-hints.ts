import type { DueEntry } from '../domain/operation.ts';

/** Core-NATS hints `due.<shard>` for due rows written less than 2 s ahead. Losing one costs a tick, no more. */
export interface DueHints {
  /** Never throws. */
  send(rows: readonly DueEntry[]): void;
  /** Calls back for each hint of the shard until the returned function is called. */
  listen(shard: number, onRow: (row: DueEntry) => void): () => void;
}

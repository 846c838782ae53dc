import type { DueEntry } from '../domain/operation.ts';

/** Core-NATS hints `due.<shard>` for due rows written less than 3 s ahead. Losing one costs the time until the next whole read, no more. */
export interface DueHints {
  /** Never throws. */
  send(rows: readonly DueEntry[]): void;
  /** Calls back for each hint of the shard until the returned function is called. */
  listen(shard: number, onRow: (row: DueEntry) => void): () => void;
}

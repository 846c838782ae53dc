import { StoreError } from '../ports/store-error.ts';

/** Rows of one batch. 100 small rows cost about as much as one; larger batches only make the others of the partition wait. */
const BATCH_MAX_ROWS = 100;
/** Over all partitions: some 100 MB at the longest error texts. Beyond it callers are told to come later. */
const WAITING_MAX_ROWS = 50_000;

interface Call {
  unwritten: number;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

interface Waiting<Row> {
  readonly row: Row;
  readonly call: Call;
}

/**
 * Groups plain rows by partition, across callers: one write is in flight for each partition, and all rows that came meanwhile
 * make the next. No timer waits to fill a batch: an idle partition writes what came in one turn of the event loop, a busy one batches by itself.
 */
export class PartitionWriter<Row> {
  readonly #partitionOf: (row: Row) => string;
  readonly #send: (rows: readonly Row[]) => Promise<void>;
  /** A partition is in here exactly while one of its writes is in flight, or about to be. */
  readonly #waiting = new Map<string, Waiting<Row>[]>();
  #waitingRows = 0;

  /** send writes at most 100 rows, which are all of one partition. */
  constructor(partitionOf: (row: Row) => string, send: (rows: readonly Row[]) => Promise<void>) {
    this.#partitionOf = partitionOf;
    this.#send = send;
  }

  /** Resolves when all rows are acknowledged; rejects with the first failed batch's error, when some may be written. */
  write(rows: readonly Row[]): Promise<void> {
    if (rows.length === 0) return Promise.resolve();
    if (this.#waitingRows + rows.length > WAITING_MAX_ROWS) {
      return Promise.reject(new StoreError('overloaded', `${this.#waitingRows} rows wait to be written`));
    }
    return new Promise((resolve, reject) => {
      const call: Call = { unwritten: rows.length, resolve, reject };
      const idle: string[] = [];
      for (const row of rows) {
        const partition = this.#partitionOf(row);
        const waiting = this.#waiting.get(partition);
        if (waiting !== undefined) {
          waiting.push({ row, call });
        } else {
          this.#waiting.set(partition, [{ row, call }]);
          idle.push(partition);
        }
      }
      this.#waitingRows += rows.length;
      // What several callers write in one turn of the event loop goes together.
      for (const partition of idle) queueMicrotask(() => void this.#drain(partition));
    });
  }

  async #drain(partition: string): Promise<void> {
    for (;;) {
      const batch = this.#waiting.get(partition)?.splice(0, BATCH_MAX_ROWS) ?? [];
      if (batch.length === 0) break;
      try {
        await this.#send(batch.map(({ row }) => row));
        for (const { call } of batch) if (--call.unwritten === 0) call.resolve();
      } catch (error) {
        for (const { call } of batch) call.reject(error);
      }
      this.#waitingRows -= batch.length;
    }
    this.#waiting.delete(partition);
  }
}

import { Heap } from 'heap-js';
import { bucketOf } from '../domain/bucket.ts';
import { MINUTE_MS, SECOND_MS, TRAILING_EDGE_MS } from '../domain/limits.ts';
import type { EpochMs } from '../domain/time.ts';
import type { TimerRange } from '../ports/timer-store.ts';

export interface ScanSource<Row> {
  read(range: TimerRange): AsyncIterable<readonly Row[]>;
  at(row: Row): EpochMs;
  key(row: Row): string;
}

/** A row in the scanner's hands. */
export interface Held<Row> {
  readonly row: Row;
  readonly at: EpochMs;
  readonly key: string;
  /** First read when it was already late by more than a trailing edge: most likely handled by somebody before. */
  readonly late: boolean;
}

/** Settled rows leave the custody heap from its top; behind an old row that nobody settles they would pile up. */
const SETTLED_KEPT_MAX = 1_000;

interface Entry<Row> extends Held<Row> {
  /** When to fire it: `at`, or later after a first attempt. */
  fireAt: EpochMs;
  settled: boolean;
}

/**
 * Reads one shard's timer rows (due or deadlines) from a cursor on: everything once, and again whatever was read less than a
 * trailing edge after its time (rule 5: a row may land behind its reader, who may also stand still); what lies ahead goes into
 * a heap to be fired at its millisecond. A row stays in the scanner's custody until it is settled, and the position that may
 * be saved never passes a row in custody. At most `capacity` rows are held; beyond it reading stops and goes on as rows are
 * settled.
 */
export class ShardScanner<Row> {
  readonly #source: ScanSource<Row>;
  readonly #shard: number;
  readonly #readAheadMs: number;
  readonly #capacity: number;
  /** Where the next read begins: all before it was read at least a trailing edge after its time. */
  #from: EpochMs;
  readonly #toFire = new Heap<Entry<Row>>((a, b) => a.fireAt - b.fireAt);
  readonly #custody = new Heap<Entry<Row>>((a, b) => a.at - b.at);
  #held = 0;
  /** Keys read and not yet out of reach of a read, by the second of their time. */
  readonly #seen = new Map<number, Set<string>>();

  constructor(parts: {
    source: ScanSource<Row>;
    shard: number;
    /** Where to begin: the saved cursor, rewound. */
    from: EpochMs;
    readAheadMs: number;
    capacity: number;
  }) {
    this.#source = parts.source;
    this.#shard = parts.shard;
    this.#from = parts.from;
    this.#readAheadMs = parts.readAheadMs;
    this.#capacity = parts.capacity;
  }

  /**
   * One read up to `now` + read-ahead, all pages. After an outage there are many minutes to read: `afterMinute` is called (and
   * waited for) after each, so that what was found need not wait for the rest. Throws what the source and it throw; the next
   * read resumes.
   */
  async read(now: EpochMs, afterMinute: () => void | Promise<void>): Promise<void> {
    const to = now + this.#readAheadMs;
    // A wall clock that was set back: what is written now lies before what was read.
    let from = Math.min(this.#from, now - TRAILING_EDGE_MS);
    this.#forgetBefore(from);
    while (from <= to) {
      const bucket = bucketOf(from);
      const last = Math.min(to, bucket + MINUTE_MS - 1);
      for await (const page of this.#source.read({ shard: this.#shard, bucket, from, to: last })) {
        for (const row of page) {
          if (this.#take(row, now) !== 'full') continue;
          this.#hasReadTo(this.#source.at(row), now);
          await afterMinute();
          return;
        }
      }
      from = last + 1;
      this.#hasReadTo(from, now);
      await afterMinute();
    }
  }

  /** Takes a row that somebody told of (a hint). False when it was known already, or there is no room: a read will find it. */
  add(row: Row, now: EpochMs): boolean {
    return this.#take(row, now) === 'taken';
  }

  /** Rows whose time has come, oldest first; they stay in custody until settled or put back. */
  takeDue(now: EpochMs, most: number): readonly Held<Row>[] {
    const taken: Entry<Row>[] = [];
    for (;;) {
      const first = this.#toFire.peek();
      if (first === undefined || first.fireAt > now || taken.length >= most) return taken;
      this.#toFire.pop();
      taken.push(first);
    }
  }

  /** The job has its own later timer, or none is needed any more. */
  settle(held: Held<Row>): void {
    const entry = held as Entry<Row>;
    if (entry.settled) return;
    entry.settled = true;
    this.#held -= 1;
    if (this.#custody.length > 2 * this.#held + SETTLED_KEPT_MAX) this.#dropSettled();
  }

  /** To be fired again later; stays in custody. */
  putBack(held: Held<Row>, fireAt: EpochMs): void {
    const entry = held as Entry<Row>;
    entry.fireAt = fireAt;
    this.#toFire.push(entry);
  }

  /** When the next row has to be fired; null when none is held for firing. */
  nextFireAt(): EpochMs | null {
    return this.#toFire.peek()?.fireAt ?? null;
  }

  /** The time of the oldest row in custody; null when there is none. */
  oldest(): EpochMs | null {
    for (;;) {
      const first = this.#custody.peek();
      if (first === undefined) return null;
      if (!first.settled) return first.at;
      this.#custody.pop();
    }
  }

  /** Every row before this position is settled: what may be saved as the shard's cursor. */
  position(): EpochMs {
    return Math.min(this.#from, this.oldest() ?? Infinity);
  }

  #hasReadTo(end: EpochMs, now: EpochMs): void {
    this.#from = Math.min(end, now - TRAILING_EDGE_MS);
  }

  #take(row: Row, now: EpochMs): 'taken' | 'known' | 'full' {
    const at = this.#source.at(row);
    const key = this.#source.key(row);
    const second = Math.floor(at / SECOND_MS);
    const keys = this.#seen.get(second) ?? new Set<string>();
    if (keys.has(key)) return 'known';
    if (this.#held >= this.#capacity) return 'full';
    this.#seen.set(second, keys.add(key));
    const entry: Entry<Row> = { row, at, key, late: at < now - TRAILING_EDGE_MS, fireAt: at, settled: false };
    this.#held += 1;
    this.#toFire.push(entry);
    this.#custody.push(entry);
    return 'taken';
  }

  #dropSettled(): void {
    this.#custody.init(this.#custody.toArray().filter((entry) => !entry.settled));
  }

  #forgetBefore(from: EpochMs): void {
    const second = Math.floor(from / SECOND_MS);
    for (const known of this.#seen.keys()) if (known < second) this.#seen.delete(known);
  }
}

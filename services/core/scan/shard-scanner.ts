import { Heap } from 'heap-js';
import { bucketOf } from '../domain/bucket.ts';
import {
  MINUTE_MS,
  NEWEST_ROWS_MAX,
  SECOND_MS,
  TICK_MS,
  TRAILING_EDGE_MS,
  TRAILING_READ_EVERY_MS,
} from '../domain/limits.ts';
import type { EpochMs } from '../domain/time.ts';
import type { TimerRange } from '../ports/timer-store.ts';
import type { RowPool } from './row-pool.ts';

export interface ScanSource<Row> {
  read(range: TimerRange): AsyncIterable<readonly Row[]>;
  at(row: Row): EpochMs;
  /** Rows are read in the order of time and id. */
  id(row: Row): string;
  /** Rows of different lanes do not wait for each other to be fired; absent: all are of one. */
  lane?(row: Row): string;
}

/** A row in the scanner's hands. */
export interface Held<Row> {
  readonly row: Row;
  readonly at: EpochMs;
  readonly key: string;
  /** Of before this scanner's first read, and found long after its time: most likely handled by somebody else. */
  readonly late: boolean;
}

/** Settled rows leave the custody heap from its top; behind an old row that nobody settles they would pile up. */
const SETTLED_KEPT_MAX = 1_000;
const ONLY_LANE = '';

interface Entry<Row> extends Held<Row> {
  /** When to fire it: `at`, or later after a first attempt. */
  fireAt: EpochMs;
  settled: boolean;
  readonly lane: string;
}

/** What is to be read of one minute. */
interface MinuteRead {
  readonly from: EpochMs;
  readonly afterId: string;
  readonly to: EpochMs;
  /** Of a whole read: what is read here and old enough is not read again. */
  readonly isWhole: boolean;
}

/** How far the last read got, and when the last whole one began. */
interface Reached {
  readonly to: EpochMs;
  readonly wholeAt: EpochMs;
}

/**
 * Reads one shard's timer rows (due or deadlines) from a cursor on: everything once, and again whatever was read less than a
 * trailing edge after its time (rule 5: a row may land behind its reader, who may also stand still); what lies ahead goes into
 * a heap to be fired at its millisecond. A row stays in the scanner's custody until it is settled, and the position that may
 * be saved never passes a row in custody. At most `capacity` rows are held, and what
 * the pool has room for; beyond it reading stops and goes on as rows are settled, and meanwhile some of the newest rows are read besides, so that they do not wait behind a flood.
 */
export class ShardScanner<Row> {
  readonly #source: ScanSource<Row>;
  readonly #shard: number;
  readonly #readAheadMs: number;
  readonly #capacity: number;
  readonly #pool: RowPool | null;
  /** Of the rows held so many have their room from the pool. */
  #borrowed = 0;
  /** Where the next whole read begins: all before it was read at least a trailing edge after its time. */
  #from: EpochMs;
  /** Of the rows at that time it begins behind this id. */
  #fromId = '';
  /** By lane. */
  readonly #toFire = new Map<string, Heap<Entry<Row>>>();
  /** Null: the next read is to be whole. */
  #reached: Reached | null = null;
  readonly #custody = new Heap<Entry<Row>>((a, b) => a.at - b.at);
  #held = 0;
  /** The time of the first read: what was due before was somebody else's to handle, what is due since is ours, however late we read it. */
  #beganAt: EpochMs | null = null;
  /** Where the last read stopped for want of room: the time of the row that there was none for. */
  #stoppedAt: EpochMs | null = null;
  /** While it is full: all behind the stop was read up to here, as far as there was room. */
  #newestAt: EpochMs | null = null;
  /** Taken from the pool for the read that goes on from there. */
  #granted = 0;
  #isClosed = false;
  /** Keys read and not yet out of reach of a read, by the second of their time. */
  readonly #seen = new Map<number, Set<string>>();

  constructor(parts: {
    source: ScanSource<Row>;
    shard: number;
    /** Where to begin: the saved cursor, rewound. */
    from: EpochMs;
    readAheadMs: number;
    capacity: number;
    pool?: RowPool;
  }) {
    this.#source = parts.source;
    this.#shard = parts.shard;
    this.#from = parts.from;
    this.#readAheadMs = parts.readAheadMs;
    this.#capacity = parts.capacity;
    this.#pool = parts.pool ?? null;
  }

  /**
   * One read up to `now` + read-ahead, all pages: of what the last one did not reach, and every few seconds of the trailing edge
   * as well. After an outage there are many minutes to read: `afterMinute` is called (and
   * waited for) after each, so that what was found need not wait for the rest. Throws what the source and it throw; the next
   * read resumes.
   */
  async read(now: EpochMs, afterMinute: () => void | Promise<void>): Promise<void> {
    const to = now + this.#readAheadMs;
    this.#beganAt ??= now;
    const before = this.#reached;
    // Nobody knows how far this read gets, until it has ended.
    this.#reached = null;
    const goesOn = before !== null && mayGoOn(before, now);
    if (!goesOn) {
      // A wall clock that was set back: what is written now lies before what was read.
      if (now - TRAILING_EDGE_MS < this.#from) this.#goOnAt(now - TRAILING_EDGE_MS, '');
      this.#forgetBefore(this.#from);
    }
    if (this.#stoppedAt !== null && !this.#findsRoom()) {
      await this.#readNewest(this.#stoppedAt, to, now);
      return;
    }
    // A read that fails may have passed it, over old rows that are not known by then.
    this.#stoppedAt = null;
    try {
      let [from, afterId] = goesOn ? [before.to + 1, ''] : [this.#from, this.#fromId];
      while (from <= to) {
        const last = Math.min(to, endOfMinute(from));
        this.#stoppedAt = await this.#readMinute({ from, afterId, to: last, isWhole: !goesOn }, now);
        if (this.#stoppedAt !== null) {
          await afterMinute();
          await this.#readNewest(this.#stoppedAt, to, now);
          return;
        }
        [from, afterId] = [last + 1, ''];
        if (!goesOn) this.#hasReadTo(from, '', now);
        await afterMinute();
      }
      this.#reached = { to, wholeAt: goesOn ? before.wholeAt : now };
      this.#newestAt = null;
    } finally {
      this.#pool?.giveBack(this.#granted);
      this.#granted = 0;
    }
  }

  /** Whether a read that stopped for want of room would get somewhere now. */
  hasRoomAgain(): boolean {
    return this.#stoppedAt !== null && (this.#hasRoomOfItsOwn() || (this.#pool?.room ?? 0) >= this.#capacity);
  }

  /**
   * Takes a row that somebody told of (a hint), also where others wait for room: it is as new as those that are read besides. False
   * when it was known already, or there is no room for that either: a read will find it.
   */
  add(row: Row, now: EpochMs): boolean {
    const outcome = this.#take(row, now, { isAhead: true, more: NEWEST_ROWS_MAX });
    // Its place may have been read already.
    if (outcome === 'full') this.#reached = null;
    return outcome === 'taken';
  }

  /** Those that have rows whose time has come. */
  dueLanes(now: EpochMs): readonly string[] {
    return [...this.#toFire].filter(([, heap]) => (heap.peek()?.fireAt ?? Infinity) <= now).map(([lane]) => lane);
  }

  /** Rows of a lane whose time has come, oldest first, up to `most`, of them `mostLate` late ones; in custody until settled or put back. */
  takeDue(now: EpochMs, most: number, lane = ONLY_LANE, mostLate = Infinity): readonly Held<Row>[] {
    const heap = this.#toFire.get(lane);
    const taken: Entry<Row>[] = [];
    let late = 0;
    while (heap !== undefined && taken.length < most) {
      const first = heap.peek();
      if (first === undefined || first.fireAt > now) break;
      if (first.late && late >= mostLate) break;
      if (first.late) late += 1;
      heap.pop();
      taken.push(first);
    }
    if (heap?.length === 0) this.#toFire.delete(lane);
    return taken;
  }

  /** The job has its own later timer, or none is needed any more. */
  settle(held: Held<Row>): void {
    const entry = held as Entry<Row>;
    if (entry.settled) return;
    entry.settled = true;
    this.#held -= 1;
    if (this.#borrowed > 0) this.#giveBack(1);
    if (this.#custody.length > 2 * this.#held + SETTLED_KEPT_MAX) this.#dropSettled();
  }

  /** To be fired again later; stays in custody. */
  putBack(held: Held<Row>, fireAt: EpochMs): void {
    const entry = held as Entry<Row>;
    entry.fireAt = fireAt;
    this.#fireLater(entry);
  }

  /** When the next row has to be fired, of those lanes that count; null when none is held for firing. */
  nextFireAt(counts: (lane: string, isLate: boolean) => boolean = () => true): EpochMs | null {
    let next: EpochMs | null = null;
    for (const [lane, heap] of this.#toFire) {
      const first = heap.peek();
      if (first === undefined || (next !== null && first.fireAt >= next)) continue;
      if (counts(lane, first.late)) next = first.fireAt;
    }
    return next;
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

  /** The time of the row that there was no room for; null when all are read. */
  async #readMinute({ from, afterId, to, isWhole }: MinuteRead, now: EpochMs): Promise<EpochMs | null> {
    let [at, id] = [from, afterId];
    try {
      for await (const page of this.#source.read({ shard: this.#shard, bucket: bucketOf(from), from, afterId, to })) {
        for (const row of page) {
          if (this.#take(row, now, {}) === 'full') return this.#source.at(row);
          [at, id] = [this.#source.at(row), this.#source.id(row)];
        }
      }
      return null;
    } finally {
      if (isWhole) this.#hasReadTo(at, id, now);
    }
  }

  /**
   * Room that is worth a read, its own or the pool's: of many shards that wait for the pool only as many read as it has room for, or
   * all of them would read pages of rows, again and again, that they then have no room for.
   */
  #findsRoom(): boolean {
    if (this.#hasRoomOfItsOwn()) return true;
    if (this.#pool?.take(this.#capacity) !== true) return false;
    this.#granted = this.#capacity;
    return true;
  }

  #hasRoomOfItsOwn(): boolean {
    return this.#held - this.#borrowed <= this.#capacity / 2;
  }

  /**
   * Past the rows that wait for room, newest first; those that are read here are known when the reading comes to them. The first time
   * the whole last minute, for nobody may have read it: the owner before may be dead for a while. Then what has come since.
   */
  async #readNewest(stoppedAt: EpochMs, to: EpochMs, now: EpochMs): Promise<void> {
    const oldest = Math.max(stoppedAt + 1, Math.min(now - SECOND_MS, this.#newestAt ?? now - MINUTE_MS));
    let [from, last] = [Math.max(oldest, now - SECOND_MS), to];
    while (from <= last && (await this.#readSpan(from, last, now))) {
      last = from - 1;
      from = Math.max(oldest, now - 2 * (now - from));
    }
    this.#newestAt = now - SECOND_MS;
  }

  /** False: there was no room for all of it. */
  async #readSpan(start: EpochMs, to: EpochMs, now: EpochMs): Promise<boolean> {
    for (let from = start; from <= to; from = endOfMinute(from) + 1) {
      const range = { shard: this.#shard, bucket: bucketOf(from), from, to: Math.min(to, endOfMinute(from)) };
      for await (const page of this.#source.read(range)) {
        for (const row of page) {
          if (this.#take(row, now, { isAhead: true, more: NEWEST_ROWS_MAX }) === 'full') return false;
        }
      }
    }
    return true;
  }

  /** What was read less than a trailing edge after its time is read again. */
  #hasReadTo(at: EpochMs, id: string, now: EpochMs): void {
    if (at < now - TRAILING_EDGE_MS) this.#goOnAt(at, id);
    else this.#goOnAt(now - TRAILING_EDGE_MS, '');
  }

  #goOnAt(at: EpochMs, id: string): void {
    this.#from = at;
    this.#fromId = id;
  }

  /** @param more rows than its own capacity are room enough. @param isAhead of where the reading is. */
  #take(
    row: Row,
    now: EpochMs,
    { more = 0, isAhead = false }: { readonly more?: number; readonly isAhead?: boolean },
  ): 'taken' | 'known' | 'full' {
    const at = this.#source.at(row);
    const key = `${this.#source.id(row)} ${at}`;
    const second = Math.floor(at / SECOND_MS);
    const isOld = at < now - TRAILING_EDGE_MS;
    const late = isOld && at < (this.#beganAt ?? now);
    const keys = this.#seen.get(second);
    if (keys?.has(key) === true) return 'known';
    if (this.#isClosed) return 'full';
    if (this.#held - this.#borrowed >= this.#capacity + more) {
      if (this.#granted > 0) this.#granted -= 1;
      else if (this.#pool?.take(1) !== true) return 'full';
      this.#borrowed += 1;
    }
    // The reading goes on behind an old row, and does not meet it again.
    if (isAhead || !isOld) this.#seen.set(second, (keys ?? new Set<string>()).add(key));
    const lane = this.#source.lane?.(row) ?? ONLY_LANE;
    const entry: Entry<Row> = { row, at, key, lane, late, fireAt: at, settled: false };
    this.#held += 1;
    this.#fireLater(entry);
    this.#custody.push(entry);
    return 'taken';
  }

  /** The shard is somebody else's now. */
  close(): void {
    this.#isClosed = true;
    this.#giveBack(this.#borrowed);
  }

  #giveBack(rows: number): void {
    this.#borrowed -= rows;
    this.#pool?.giveBack(rows);
  }

  #fireLater(entry: Entry<Row>): void {
    const heap = this.#toFire.get(entry.lane) ?? new Heap<Entry<Row>>((a, b) => a.fireAt - b.fireAt);
    heap.push(entry);
    this.#toFire.set(entry.lane, heap);
  }

  #dropSettled(): void {
    this.#custody.init(this.#custody.toArray().filter((entry) => !entry.settled));
  }

  #forgetBefore(from: EpochMs): void {
    const second = Math.floor(from / SECOND_MS);
    for (const known of this.#seen.keys()) if (known < second) this.#seen.delete(known);
  }
}

function endOfMinute(at: EpochMs): EpochMs {
  return bucketOf(at) + MINUTE_MS - 1;
}

/** Whether a read may leave the trailing edge out, and go on where the last one ended. */
function mayGoOn({ to, wholeAt }: Reached, now: EpochMs): boolean {
  const sinceMs = now - wholeAt;
  // A tick may come a little early, and the one after it would be too late.
  const isSoon = sinceMs < TRAILING_READ_EVERY_MS - TICK_MS / 2;
  return sinceMs >= 0 && isSoon && to >= now - TRAILING_EDGE_MS;
}

import { hourOf } from '../core/domain/bucket.ts';
import { HOUR_MS } from '../core/domain/limits.ts';
import type { DueEntry } from '../core/domain/operation.ts';
import type { EpochMs } from '../core/domain/time.ts';
import {
  compareHeldPlaces,
  type HeldHour,
  type HeldLaneKey,
  type HeldPlace,
  type HeldStore,
} from '../core/ports/held-store.ts';
import { DueJob } from './due-job.ts';

/**
 * The held rows of one queue and priority in one shard, read oldest first from a place on. Rows stay where they are when they
 * are settled; an hour goes whole. The place only tells where to read on: a row that is written behind it, or given back,
 * sets it back.
 */
export class HeldLane {
  readonly key: HeldLaneKey;
  readonly #store: HeldStore;
  readonly #holds: () => boolean;
  /** Hours that may have rows, in order. */
  #hours: EpochMs[];
  /** Reading goes on behind it. */
  #after: HeldPlace;
  #mayHaveMore: boolean;
  /** Grows whenever something was added behind our back while a read was under way. */
  #changes = 0;
  #isReading = false;
  /** Given out and not settled. */
  readonly #out = new Map<string, HeldJob>();
  #retries: { readonly job: HeldJob; readonly at: EpochMs }[] = [];
  /** Rows being written, by hour. */
  readonly #writing = new Map<EpochMs, number>();
  /** Rows up to here have been given out before: some are settled. */
  #givenUpTo: HeldPlace | null = null;
  /** Handed over by an owner before us, until a read shows where it stopped. */
  #isInherited: boolean;
  #count = 0;
  #saved: HeldPlace;

  constructor(
    store: HeldStore,
    key: HeldLaneKey,
    start: {
      /** In any order. */
      readonly hours: readonly EpochMs[];
      /** Where the owner before us stood; null: at the beginning. */
      readonly place: HeldPlace | null;
      readonly holds: () => boolean;
    },
  ) {
    this.#store = store;
    this.key = key;
    this.#holds = start.holds;
    this.#hours = [...start.hours].sort((one, other) => one - other);
    this.#after = start.place ?? BEGINNING;
    this.#saved = this.#after;
    this.#isInherited = start.hours.length > 0;
    this.#mayHaveMore = start.hours.length > 0;
  }

  /** Whether rows may stand here that were not given out yet, or are being written. */
  hasWaiting(): boolean {
    return this.#mayHaveMore || this.#writing.size > 0;
  }

  canBeRead(): boolean {
    return this.#mayHaveMore && !this.#isReading;
  }

  /** Where reading goes on. */
  get after(): HeldPlace {
    return this.#after;
  }

  /** About how many rows are not settled. */
  get count(): number {
    return this.#count;
  }

  /** The oldest that is not settled, as far as it is known; null when there is none. */
  oldest(): EpochMs | null {
    const { runAt } = this.position();
    if (this.#out.size === 0 && !this.hasWaiting()) return null;
    return runAt > 0 ? runAt : (this.#hours[0] ?? null);
  }

  /** All rows before it are settled, apart from those still to be written. */
  position(): HeldPlace {
    let first = this.#after;
    for (const { row } of this.#out.values()) if (compareHeldPlaces(row, first) <= 0) first = justBefore(row);
    return first;
  }

  /** What of the position is to be saved: only below the due rows that may still be held. Null: nothing new. */
  placeToSave(duePosition: EpochMs): HeldPlace | null {
    const position = this.position();
    const place = position.runAt < duePosition ? position : { runAt: duePosition, jobId: '' };
    return position.runAt > 0 && compareHeldPlaces(place, this.#saved) > 0 ? place : null;
  }

  saved(place: HeldPlace): void {
    this.#saved = place;
  }

  /** To be saved before rows are written behind the saved position, where the owner after us would not read. Null: there are none. */
  placeToGoBack(rows: readonly DueEntry[]): HeldPlace | null {
    const first = rows.reduce((one, other) => (compareHeldPlaces(other, one) < 0 ? other : one));
    return compareHeldPlaces(first, this.#saved) <= 0 ? justBefore(first) : null;
  }

  /** Before rows are written: no hour of theirs may go meanwhile. */
  writes(rows: readonly DueEntry[]): void {
    for (const { runAt } of rows) {
      const hour = hourOf(runAt);
      this.#writing.set(hour, (this.#writing.get(hour) ?? 0) + 1);
    }
  }

  /** After the write. Where it was not acknowledged rows may stand all the same, and will be read. */
  wrote(rows: readonly DueEntry[], { acknowledged }: { readonly acknowledged: boolean }): void {
    for (const row of rows) {
      const hour = hourOf(row.runAt);
      const left = (this.#writing.get(hour) ?? 1) - 1;
      if (left === 0) this.#writing.delete(hour);
      else this.#writing.set(hour, left);
      this.#addHour(hour);
    }
    for (const row of rows.toSorted(compareHeldPlaces)) this.#expect(row);
    if (acknowledged) this.#count += rows.length;
  }

  /**
   * The next rows, at most `most`; they are in the custody of their jobs until settled or given back. `mustBeSifted`: some
   * may have been handled before. Throws StoreError; reading goes on from the same place then.
   */
  async next(most: number): Promise<{ readonly jobs: readonly HeldJob[]; readonly mustBeSifted: boolean }> {
    this.#isReading = true;
    try {
      const changes = this.#changes;
      const rows = await this.#readFrom(this.#after, most);
      const last = rows.at(-1);
      const wasGivenBefore = this.#wasGivenBefore(rows);
      if (last === undefined) {
        if (changes === this.#changes) this.#drained();
      } else if (changes === this.#changes) this.#after = { runAt: last.runAt, jobId: last.jobId };
      else this.#givenUp(last);
      const jobs = rows.filter((row) => !this.#out.has(keyOf(row))).map((row) => this.#giveOut(row));
      return { jobs, mustBeSifted: this.#isInherited || wasGivenBefore };
    } finally {
      this.#isReading = false;
    }
  }

  /** A whole page of an owner before us was still to be done: so it stopped before. */
  endOfInheritance(): void {
    this.#isInherited = false;
  }

  settled(job: HeldJob): void {
    if (!this.#out.delete(keyOf(job.row))) return;
    this.#count = Math.max(0, this.#count - 1);
  }

  toBeRetried(job: HeldJob, at: EpochMs): void {
    this.#retries.push({ job, at });
  }

  /** Those whose time has come. */
  takeRetries(now: EpochMs): readonly HeldJob[] {
    if (this.#retries.length === 0) return [];
    const ripe = this.#retries.filter(({ at }) => at <= now).map(({ job }) => job);
    this.#retries = this.#retries.filter(({ at }) => at > now);
    return ripe;
  }

  givenBack(job: HeldJob): void {
    if (this.#out.delete(keyOf(job.row))) this.#goBackTo(job.row);
  }

  /** The first hour of which everything is settled, as far as this lane knows. */
  drainedHour(before: EpochMs): HeldHour | null {
    const [hour] = this.#hours;
    if (hour === undefined || hour + HOUR_MS > before || this.#writing.has(hour)) return null;
    const isDrained = !this.#mayHaveMore && this.#out.size === 0;
    return isDrained || this.position().runAt >= hour + HOUR_MS ? { ...this.key, hour } : null;
  }

  /** A last look at a drained hour found a row whose job still waits. */
  missed(row: DueEntry): void {
    this.#goBackTo(row);
  }

  dropped(hour: EpochMs): void {
    this.#hours = this.#hours.filter((each) => each !== hour);
  }

  isEmpty(): boolean {
    return this.#hours.length === 0 && this.#writing.size === 0 && this.#out.size === 0;
  }

  /** What was counted when the lane was taken over. */
  addCount(rows: number): void {
    this.#count += rows;
  }

  hours(): readonly HeldHour[] {
    return this.#hours.map((hour) => ({ ...this.key, hour }));
  }

  async #readFrom(after: HeldPlace, most: number): Promise<readonly DueEntry[]> {
    for (const hour of this.#hours.filter((each) => each + HOUR_MS > after.runAt)) {
      const rows = await this.#store.read({ ...this.key, hour }, after, most);
      if (rows.length > 0) return rows;
    }
    return [];
  }

  #drained(): void {
    this.#mayHaveMore = false;
    this.#isInherited = false;
    if (this.#out.size === 0) this.#count = 0;
  }

  #giveOut(row: DueEntry): HeldJob {
    const job = new HeldJob(row, this, this.#holds);
    job.maybeUnpublished = this.#isInherited;
    this.#out.set(keyOf(row), job);
    return job;
  }

  #wasGivenBefore(rows: readonly DueEntry[]): boolean {
    const [first] = rows;
    const upTo = this.#givenUpTo;
    if (first === undefined || upTo === null) return false;
    if (compareHeldPlaces(first, upTo) <= 0) return true;
    this.#givenUpTo = null;
    return false;
  }

  /** A row may stand there that was not read. */
  #expect(row: DueEntry): void {
    if (this.#mayHaveMore || compareHeldPlaces(row, this.#after) <= 0) {
      this.#goBackTo(row);
      return;
    }
    this.#changes += 1;
    this.#mayHaveMore = true;
    this.#after = justBefore(row);
  }

  #goBackTo(row: DueEntry): void {
    this.#changes += 1;
    this.#mayHaveMore = true;
    if (compareHeldPlaces(row, this.#after) > 0) return;
    this.#givenUp(this.#after);
    this.#after = justBefore(row);
  }

  /** Rows up to here have been given out, and will be read again. */
  #givenUp(place: HeldPlace): void {
    const isFurther = this.#givenUpTo === null || compareHeldPlaces(place, this.#givenUpTo) > 0;
    if (isFurther) this.#givenUpTo = { runAt: place.runAt, jobId: place.jobId };
  }

  #addHour(hour: EpochMs): void {
    if (!this.#hours.includes(hour)) this.#hours = [...this.#hours, hour].sort((one, other) => one - other);
  }
}

/** A job whose held row was given out. */
export class HeldJob extends DueJob {
  readonly #lane: HeldLane;
  readonly #holds: () => boolean;

  constructor(row: DueEntry, lane: HeldLane, holds: () => boolean) {
    super(row);
    this.#lane = lane;
    this.#holds = holds;
  }

  override mayAct(): boolean {
    return this.#holds();
  }

  override settle(): void {
    this.#lane.settled(this);
  }

  override again(at: EpochMs): void {
    this.#lane.toBeRetried(this, at);
  }

  override passOver(): void {
    this.#lane.givenBack(this);
  }
}

const BEGINNING: HeldPlace = { runAt: 0, jobId: '' };

/** Behind everything that lies before the row, but for some of its own cohort. */
function justBefore({ runAt, jobId }: DueEntry): HeldPlace {
  return { runAt, jobId: jobId.slice(0, -1) };
}

function keyOf({ runAt, jobId }: HeldPlace): string {
  return `${runAt} ${jobId}`;
}

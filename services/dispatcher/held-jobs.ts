import type { JobRow } from '../core/domain/job.ts';
import { JobStatus, PRIORITIES, type Priority, subjectKey } from '../core/domain/job-status.ts';
import { HELD_HOUR_CLOSED_MS, HELD_PAGE_ROWS, HOLDING_MAX, SECOND_MS } from '../core/domain/limits.ts';
import type { DueEntry } from '../core/domain/operation.ts';
import type { EpochMs } from '../core/domain/time.ts';
import type { Clock } from '../core/ports/clock.ts';
import type { HeldDepth } from '../core/ports/held-reports.ts';
import type { HeldHour, HeldPlace, HeldStore } from '../core/ports/held-store.ts';
import type { JobReader } from '../core/ports/job-store.ts';
import type { Log } from '../core/ports/telemetry.ts';
import type { DueJob } from './due-job.ts';
import type { DueMover } from './due-mover.ts';
import { HeldLane } from './held-lane.ts';
import type { Subject } from './queue-allowance.ts';
import type { QueueTurns } from './queue-turns.ts';

export interface HeldJobsParts {
  readonly store: HeldStore;
  readonly reader: JobReader;
  readonly mover: DueMover;
  readonly turns: QueueTurns;
  readonly clock: Clock;
  readonly log: Log;
  readonly holds: (shard: number) => boolean;
}

/** What a shard has held, as its owner before left it. */
export interface HeldInventory {
  readonly hours: readonly HeldHour[];
  readonly places: ReadonlyMap<string, HeldPlace>;
}

/** Lanes of one subject that are read at the same time. */
const READS_OF_SUBJECT_MAX = 4;
/** Over so many pages the room is spread. */
const PAGES_OF_ROOM = 8;
const READS_MAX = 16;
const WRITES_MAX = 8;
const BEGINNING: HeldPlace = { runAt: 0, jobId: '' };

/**
 * The jobs that their queues did not take at their time, over all shards of this process: it writes them down as held rows,
 * and feeds them back, oldest first, as their queues have turns for them. Nothing is kept in memory beyond what is about to
 * have its turn, and a queue's feed reads only its own rows.
 */
export class HeldJobs {
  readonly #parts: HeldJobsParts;
  /** By subject, then by shard. */
  readonly #lanes = new Map<string, Map<number, HeldLane>>();
  /** Under way, by subject. */
  readonly #reading = new Map<string, { reads: number; rows: number }>();
  #reads = 0;
  /** In the order in which their lanes have to be written; what comes to a lane meanwhile goes with it. */
  readonly #toWrite = new Map<HeldLane, DueJob[]>();
  #writes = 0;
  #holding = 0;

  constructor(parts: HeldJobsParts) {
    this.#parts = parts;
  }

  /** What stands in the store for a shard. Throws StoreError. */
  async inventory(shard: number): Promise<HeldInventory> {
    const { store } = this.#parts;
    const [hours, positions] = await Promise.all([store.hours(shard), store.positions(shard)]);
    return { hours, places: new Map(positions.map(({ place, ...key }) => [subjectKey(key), place])) };
  }

  /** The shard is ours from now on. */
  acquired(shard: number, { hours, places }: HeldInventory): void {
    this.lost(shard);
    for (const [subject, ofSubject] of Map.groupBy(hours, subjectKey)) {
      const [first] = ofSubject;
      if (first === undefined) continue;
      const lane = this.#openLane(first, {
        hours: ofSubject.map(({ hour }) => hour),
        place: places.get(subject) ?? null,
      });
      void this.#countRows(lane);
    }
  }

  lost(shard: number): void {
    for (const [subject, lanes] of this.#lanes) {
      lanes.delete(shard);
      if (lanes.size === 0) this.#lanes.delete(subject);
    }
  }

  /** How many more rows may be written as held rows now. */
  room(): number {
    return HOLDING_MAX - this.#holding;
  }

  isBusy(): boolean {
    return this.#holding > 0;
  }

  /** Whether jobs of this or a higher priority wait in held rows: a new one goes behind them. */
  hasWaiting({ queue, priority }: Subject): boolean {
    for (const higher of PRIORITIES) {
      const lanes = this.#lanes.get(subjectKey({ queue, priority: higher }));
      if (lanes !== undefined && [...lanes.values()].some((lane) => lane.hasWaiting())) return true;
      if (higher === priority) return false;
    }
    return false;
  }

  /** Rule 6: the held rows first, then the due rows may be passed. Never rejects: what cannot be written comes again. */
  hold(jobs: readonly DueJob[]): void {
    // Without their shard nothing is known of the rows before them: a lane that began at these would pass those.
    const { true: ours = [], false: others = [] } = Object.groupBy(jobs, (job) => (job.mayAct() ? 'true' : 'false'));
    for (const job of others) job.again(this.#parts.clock.now() + SECOND_MS);
    this.#holding += ours.length;
    for (const ofLane of Map.groupBy(ours, ({ row }) => `${row.shard} ${subjectKey(row)}`).values()) {
      const [first] = ofLane;
      if (first === undefined) continue;
      const lane = this.#laneOf(first.row);
      lane.writes(ofLane.map(({ row }) => row));
      const before = this.#toWrite.get(lane);
      if (before === undefined) this.#toWrite.set(lane, ofLane);
      else before.push(...ofLane);
    }
    // What is passed over job by job in one turn of the event loop is written together.
    queueMicrotask(() => {
      this.#writeOn();
    });
  }

  /** Several times a second: reads on for every queue that has turns for more. */
  feed(): void {
    const { turns, clock } = this.#parts;
    const now = clock.now();
    for (const [subject, lanes] of this.#lanes) {
      for (const lane of lanes.values()) this.#retry(lane, now);
      this.#feedSubject(subject, lanes, turns);
    }
  }

  /** Of one shard: where each lane stands, never beyond the due rows that may still be held. Throws StoreError. */
  async savePositions(shard: number, duePosition: EpochMs): Promise<void> {
    const saves = this.#lanesOf(shard).flatMap((lane) => {
      const place = lane.placeToSave(duePosition);
      return place === null ? [] : [{ lane, place }];
    });
    await Promise.all(saves.map(({ lane, place }) => this.#savePlace(lane, place)));
  }

  /**
   * Deletes the closed hours of which everything is settled, each after a last look at all of its rows, so that nothing is
   * lost whatever a lane took for settled. @param savedCursor of the shard: no due row before it is ever held again. Throws
   * StoreError.
   */
  async dropDrained(shard: number, savedCursor: EpochMs): Promise<void> {
    const { clock, store, log, holds } = this.#parts;
    const closedBefore = Math.min(clock.now() - HELD_HOUR_CLOSED_MS, savedCursor);
    for (const lane of this.#lanesOf(shard)) {
      const hour = lane.drainedHour(closedBefore);
      if (hour === null) continue;
      const missed = await this.#lastLook(hour);
      if (missed !== null) {
        log.warn('a held row was passed before its job was settled', { job_id: missed.jobId, queue: hour.queue });
        lane.missed(missed);
        continue;
      }
      if (!holds(shard)) return;
      await store.drop(hour);
      lane.dropped(hour.hour);
      if (lane.isEmpty()) this.#lanes.get(subjectKey(lane.key))?.delete(shard);
    }
  }

  /** By queue and priority: about how many rows wait, and the oldest of them. */
  depths(): readonly HeldDepth[] {
    return [...this.#lanes.values()].flatMap((lanes) => {
      const all = [...lanes.values()];
      const [first] = all;
      const oldest = all.map((lane) => lane.oldest()).filter((at) => at !== null);
      if (first === undefined || oldest.length === 0) return [];
      const count = all.reduce((sum, lane) => sum + lane.count, 0);
      return [{ queue: first.key.queue, priority: first.key.priority, count, oldestAt: Math.min(...oldest) }];
    });
  }

  async #savePlace(lane: HeldLane, place: HeldPlace): Promise<void> {
    await this.#parts.store.savePosition({ ...lane.key, place });
    lane.saved(place);
  }

  /** A few at a time: they are in nobody's way, while what is due elsewhere wants the store at the same moment. */
  #writeOn(): void {
    for (const [lane, jobs] of this.#toWrite) {
      if (this.#writes >= WRITES_MAX) return;
      this.#toWrite.delete(lane);
      this.#writes += 1;
      void this.#write(lane, jobs).finally(() => {
        this.#writes -= 1;
        this.#writeOn();
      });
    }
  }

  async #write(lane: HeldLane, jobs: readonly DueJob[]): Promise<void> {
    const rows = jobs.map(({ row }) => row);
    const acknowledged = await this.#tryToWrite(lane, rows);
    this.#holding -= jobs.length;
    lane.wrote(rows, { acknowledged });
    for (const job of jobs) {
      if (acknowledged) job.settle();
      else job.again(this.#parts.clock.now() + SECOND_MS);
    }
  }

  /** Whether the rows are acknowledged. */
  async #tryToWrite(lane: HeldLane, rows: readonly DueEntry[]): Promise<boolean> {
    const { store, log, holds } = this.#parts;
    // Whoever has the shard by now finds the due rows.
    if (!holds(lane.key.shard)) return false;
    try {
      const back = lane.placeToGoBack(rows);
      if (back !== null) await this.#savePlace(lane, back);
      await store.write(rows);
      return true;
    } catch (error) {
      log.warn('held rows could not be written; trying again', { rows: rows.length, error: String(error) });
      return false;
    }
  }

  #feedSubject(subject: string, lanes: ReadonlyMap<number, HeldLane>, turns: QueueTurns): void {
    const [any] = lanes.values();
    if (any === undefined) return;
    const reading = this.#reading.get(subject) ?? { reads: 0, rows: 0 };
    let room = turns.roomForHeld(any.key) - reading.rows;
    if (room <= 0) return;
    const readable = [...lanes.values()].filter((lane) => lane.canBeRead());
    // Oldest first, over the shards.
    readable.sort((one, other) => one.after.runAt - other.after.runAt);
    // A little of each, for the oldest of all may lie in any of them.
    const page = Math.ceil(room / Math.min(readable.length, PAGES_OF_ROOM));
    for (const lane of readable.slice(0, READS_OF_SUBJECT_MAX - reading.reads)) {
      if (room <= 0 || this.#reads >= READS_MAX) return;
      const most = Math.min(room, page);
      room -= most;
      void this.#read(subject, lane, most);
    }
  }

  async #read(subject: string, lane: HeldLane, most: number): Promise<void> {
    const { mover, turns, log, holds } = this.#parts;
    if (!holds(lane.key.shard)) return;
    const reading = this.#reading.get(subject) ?? { reads: 0, rows: 0 };
    this.#reading.set(subject, reading);
    this.#reads += 1;
    reading.reads += 1;
    reading.rows += most;
    try {
      const { jobs, mustBeSifted } = await lane.next(most);
      const waiting = mustBeSifted ? await mover.sift(jobs) : jobs;
      if (waiting.length === jobs.length && jobs.length > 0) lane.endOfInheritance();
      turns.addHeld(waiting);
    } catch (error) {
      log.warn('held rows could not be read; trying again', { ...lane.key, error: String(error) });
    } finally {
      this.#reads -= 1;
      reading.reads -= 1;
      reading.rows -= most;
      if (reading.reads === 0) this.#reading.delete(subject);
    }
  }

  #retry(lane: HeldLane, now: EpochMs): void {
    const { mover, turns } = this.#parts;
    const ripe = lane.takeRetries(now);
    for (const job of ripe) if (job.isEnqueued) void mover.publish(job);
    turns.addHeld(ripe.filter((job) => !job.isEnqueued));
  }

  /** The first row of the hour whose job still waits for this very row; null: all of them are settled. */
  async #lastLook(hour: HeldHour): Promise<DueEntry | null> {
    const { store, reader } = this.#parts;
    let after = BEGINNING;
    for (;;) {
      const rows = await store.read(hour, after, HELD_PAGE_ROWS);
      const last = rows.at(-1);
      if (last === undefined) return null;
      const jobs = await reader.read(rows.map(({ jobId }) => jobId));
      const missed = rows.find((row) => waitsFor(row, jobs.get(row.jobId)));
      if (missed !== undefined) return missed;
      after = { runAt: last.runAt, jobId: last.jobId };
    }
  }

  async #countRows(lane: HeldLane): Promise<void> {
    try {
      for (const hour of lane.hours()) lane.addCount(await this.#parts.store.count(hour, lane.after));
    } catch (error) {
      this.#parts.log.warn('held rows could not be counted', { ...lane.key, error: String(error) });
    }
  }

  #laneOf(row: DueEntry): HeldLane {
    return this.#lanes.get(subjectKey(row))?.get(row.shard) ?? this.#openLane(row, { hours: [], place: null });
  }

  #openLane(
    { shard, queue, priority }: { readonly shard: number; readonly queue: string; readonly priority: Priority },
    { hours, place }: { readonly hours: readonly EpochMs[]; readonly place: HeldPlace | null },
  ): HeldLane {
    const { store, holds } = this.#parts;
    const lane = new HeldLane(store, { shard, queue, priority }, { hours, place, holds: () => holds(shard) });
    const subject = subjectKey(lane.key);
    const lanes = this.#lanes.get(subject) ?? new Map<number, HeldLane>();
    this.#lanes.set(subject, lanes.set(shard, lane));
    return lane;
  }

  #lanesOf(shard: number): readonly HeldLane[] {
    return [...this.#lanes.values()].flatMap((lanes) => lanes.get(shard) ?? []);
  }
}

function waitsFor(row: DueEntry, job: JobRow | undefined): boolean {
  return job?.status === JobStatus.scheduled && job.queue === row.queue && job.runAt <= row.runAt;
}

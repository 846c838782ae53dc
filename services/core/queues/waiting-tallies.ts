import { isJobId } from '../domain/ids.ts';
import { farFrom, slotEnd, slotsOf } from '../domain/queue-counts.ts';
import type { EpochMs } from '../domain/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { QueueCountStore, WaitingTally } from '../ports/queue-count-store.ts';
import type { Random } from '../ports/random.ts';

/** Due rows, as far as they are counted by. */
export interface Waits {
  readonly jobId: string;
  readonly queue: string;
  readonly runAt: EpochMs;
}

/** Registers in memory: beyond it all are written and forgotten, and the next ones are of a new name. About 10 MB. */
const TALLIES_MAX = 50_000;

/**
 * How many jobs this process made wait for a time ahead, less those it took away before: written as registers (decisions/0013). What
 * a process had not written when it was killed is missing until its slot comes near.
 */
export class WaitingTallies {
  readonly #store: QueueCountStore;
  readonly #clock: Clock;
  readonly #random: Random;
  #process: string;
  #tallies = new Map<string, WaitingTally>();
  #unwritten = new Set<string>();

  constructor(parts: { store: QueueCountStore; clock: Clock; random: Random }) {
    this.#store = parts.store;
    this.#clock = parts.clock;
    this.#random = parts.random;
    this.#process = parts.random.token();
  }

  /** These jobs wait now for these times. */
  arrived(rows: readonly Waits[]): void {
    for (const row of rows) this.#add(row, 1);
  }

  /** This job does not wait for this time any more, and it has not come yet. */
  left(row: Waits): void {
    this.#add(row, -1);
  }

  /** A duty of the loop, each second, and of the process's end. Throws StoreError: then what was not written is, next time. */
  async flush(): Promise<void> {
    const keys = [...this.#unwritten];
    if (keys.length === 0) return;
    this.#unwritten = new Set();
    try {
      await this.#store.writeWaiting(keys.flatMap((key) => this.#tallies.get(key) ?? []));
    } catch (error) {
      for (const key of keys) this.#unwritten.add(key);
      throw error;
    }
    this.#forget();
  }

  #add(row: Waits, jobs: number): void {
    // Nearer ones are counted from their due rows.
    if (row.runAt < farFrom(this.#clock.now()) || !isJobId(row.jobId)) return;
    const { queue } = row;
    for (const slot of slotsOf(row.runAt)) {
      const key = `${queue} ${slot.grain} ${slot.start}`;
      const before = this.#tallies.get(key)?.jobs ?? 0;
      this.#tallies.set(key, { ...slot, queue, process: this.#process, jobs: before + jobs });
      this.#unwritten.add(key);
    }
  }

  #forget(): void {
    const now = this.#clock.now();
    for (const [key, tally] of this.#tallies) if (slotEnd(tally) <= now) this.#tallies.delete(key);
    if (this.#tallies.size <= TALLIES_MAX || this.#unwritten.size > 0) return;
    this.#tallies = new Map();
    this.#process = this.#random.token();
  }
}

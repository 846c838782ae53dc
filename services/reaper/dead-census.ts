import { shardOf } from '../core/domain/ids.ts';
import { JobStatus } from '../core/domain/job-status.ts';
import { CENSUS_EVERY_MS, DAY_MS, DEAD_LETTERS_WINDOW_MAX_MS, HOUR_MS } from '../core/domain/limits.ts';
import type { EpochMs } from '../core/domain/time.ts';
import type { Clock } from '../core/ports/clock.ts';
import type { HistoryStore } from '../core/ports/history-store.ts';
import type { StateReader } from '../core/ports/job-store.ts';
import type { Log, Telemetry } from '../core/ports/telemetry.ts';

export interface DeadCensusParts {
  readonly history: Pick<HistoryStore, 'readDeadLetters' | 'deadLetterQueues'>;
  readonly reader: StateReader;
  readonly clock: Clock;
  readonly telemetry: Telemetry;
  readonly log: Log;
  readonly shards: number;
  /** Whether our lease on the shard certainly stands. */
  readonly holds: (shard: number) => boolean;
}

interface CountedQueue {
  /** Dead jobs by the day of their death; a day that is over and has none left is not looked at again. */
  readonly days: Map<EpochMs, number>;
  nextAt: EpochMs;
}

/** A letter costs a read of its row and of its job's state: so many of them a second, of one queue. */
const MS_PER_LETTER = 1;
const LETTERS_AT_ONCE = 500;
/** A process whose clock is behind may write a letter of yesterday so much later. */
const DAY_OPEN_MS = HOUR_MS;

/**
 * Counts the jobs of each queue that are dead now. A letter stays where its job was replayed or given up, so the job has the last word.
 * Queues are divided among the reapers by their names, as jobs are by their cohorts.
 */
export class DeadCensus {
  readonly #parts: DeadCensusParts;
  readonly #queues = new Map<string, CountedQueue>();
  /** Shards of which each queue with letters has been counted. */
  #counted: ReadonlySet<number> = new Set();
  /** Names of queues by day, of days that are over. */
  readonly #closedDays = new Map<EpochMs, readonly string[]>();

  constructor(parts: DeadCensusParts) {
    this.#parts = parts;
  }

  /** By queue, of those that the shard's owner counts: in any other nothing is dead. Null: not all of them are counted yet. */
  countsOf(shard: number): ReadonlyMap<string, number> | null {
    if (!this.#counted.has(shard)) return null;
    const own = [...this.#queues].filter(([queue]) => shardOf(queue, this.#parts.shards) === shard);
    return new Map(own.map(([queue, { days }]) => [queue, sum(days)]));
  }

  /** A duty of the loop, every CENSUS_EVERY_MS. Throws StoreError. */
  async runOnce(): Promise<void> {
    const { clock, log, telemetry, shards, holds } = this.#parts;
    const now = clock.now();
    const held = new Set(Array.from({ length: shards }, (_, shard) => shard).filter(holds));
    await this.#findQueues(now);
    for (const [queue, counted] of this.#queues) {
      if (!this.#isOurs(queue)) {
        this.#queues.delete(queue);
        telemetry.dropGauge('punctual_dead_letters', { queue });
      } else if (counted.nextAt <= now) {
        try {
          await this.#count(queue, counted, now);
          telemetry.gauge('punctual_dead_letters', sum(counted.days), { queue });
        } catch (error) {
          log.warn('the dead jobs of a queue could not be counted; trying again', { queue, error: String(error) });
        }
      }
    }
    for (const [queue, { nextAt }] of this.#queues) if (nextAt === 0) held.delete(shardOf(queue, shards));
    this.#counted = held;
  }

  /** Queues that jobs died in, from the first day that is kept to this one. */
  async #findQueues(now: EpochMs): Promise<void> {
    const today = dayStart(now);
    const first = today - DEAD_LETTERS_WINDOW_MAX_MS;
    for (const day of this.#closedDays.keys()) if (day < first) this.#closedDays.delete(day);
    for (let day = first; day <= today; day += DAY_MS) {
      for (const queue of await this.#queuesOf(day, now)) {
        if (!this.#isOurs(queue)) continue;
        const counted = this.#queues.get(queue) ?? { days: new Map<EpochMs, number>(), nextAt: 0 };
        this.#queues.set(queue, counted);
        if (isOpen(day, now) && !counted.days.has(day)) counted.days.set(day, 0);
        else if (counted.nextAt === 0) counted.days.set(day, counted.days.get(day) ?? 0);
      }
    }
  }

  async #queuesOf(day: EpochMs, now: EpochMs): Promise<readonly string[]> {
    const known = this.#closedDays.get(day);
    if (known !== undefined) return known;
    const queues = await this.#parts.history.deadLetterQueues(day);
    if (!isOpen(day, now)) this.#closedDays.set(day, queues);
    return queues;
  }

  async #count(queue: string, counted: CountedQueue, now: EpochMs): Promise<void> {
    let letters = 0;
    for (const day of counted.days.keys()) {
      if (day < dayStart(now) - DEAD_LETTERS_WINDOW_MAX_MS) {
        counted.days.delete(day);
        continue;
      }
      const dead = await this.#countDay(queue, day);
      letters += dead.letters;
      if (dead.jobs === 0 && !isOpen(day, now)) counted.days.delete(day);
      else counted.days.set(day, dead.jobs);
    }
    counted.nextAt = now + Math.max(CENSUS_EVERY_MS / 2, letters * MS_PER_LETTER);
  }

  async #countDay(queue: string, day: EpochMs): Promise<{ readonly letters: number; readonly jobs: number }> {
    const { history, reader } = this.#parts;
    let letters = 0;
    let jobs = 0;
    for await (const page of history.readDeadLetters({ queue, from: day, to: day + DAY_MS })) {
      letters += page.length;
      for (let start = 0; start < page.length; start += LETTERS_AT_ONCE) {
        const chunk = page.slice(start, start + LETTERS_AT_ONCE);
        const states = await reader.readStates(chunk.map(({ jobId }) => jobId));
        // Of a job that was replayed and died again the later letter is the one that counts.
        jobs += chunk.filter(({ jobId, deadAt }) => {
          const state = states.get(jobId);
          return state?.status === JobStatus.dead && state.finishedAt === deadAt;
        }).length;
      }
    }
    return { letters, jobs };
  }

  #isOurs(queue: string): boolean {
    return this.#parts.holds(shardOf(queue, this.#parts.shards));
  }
}

function isOpen(day: EpochMs, now: EpochMs): boolean {
  return now < day + DAY_MS + DAY_OPEN_MS;
}

function dayStart(at: EpochMs): EpochMs {
  return Math.floor(at / DAY_MS) * DAY_MS;
}

function sum(days: ReadonlyMap<EpochMs, number>): number {
  return [...days.values()].reduce((total, jobs) => total + jobs, 0);
}

import { bucketEnd, bucketOf } from '../core/domain/bucket.ts';
import { chunks } from '../core/domain/chunks.ts';
import { isJobId } from '../core/domain/ids.ts';
import { isTerminal, JobStatus, type Priority, subjectKey } from '../core/domain/job-status.ts';
import { CENSUS_EVERY_MAX_MS, CENSUS_EVERY_MS, LEASE_MAX_S, MINUTE_MS, SECOND_MS } from '../core/domain/limits.ts';
import { NEAR_MINUTES } from '../core/domain/queue-counts.ts';
import type { EpochMs } from '../core/domain/time.ts';
import type { Clock } from '../core/ports/clock.ts';
import type { JobState, StateReader } from '../core/ports/job-store.ts';
import type { QueueCountStore, ShardQueueCounts } from '../core/ports/queue-count-store.ts';
import type { Log, Telemetry } from '../core/ports/telemetry.ts';
import type { TimerStore } from '../core/ports/timer-store.ts';
import type { QueueBook } from '../core/queues/queue-book.ts';
import type { DeadCensus } from './dead-census.ts';
import type { SlotAdopter } from './slot-adopter.ts';

export interface QueueCensusParts {
  readonly timerStore: TimerStore;
  readonly reader: StateReader;
  readonly counts: QueueCountStore;
  readonly dead: Pick<DeadCensus, 'countsOf'>;
  readonly book: Pick<QueueBook, 'settingsOf'>;
  readonly adopter: Pick<SlotAdopter, 'adopt'>;
  readonly clock: Clock;
  readonly telemetry: Telemetry;
  readonly log: Log;
  /** Whether our lease on the shard certainly stands. */
  readonly holds: (shard: number) => boolean;
}

/** What a census may cost: after one of more rows the next one waits longer. A job's state costs as much as four timer rows. */
const ROWS_PER_S = 5_000;
const STATE_COST_ROWS = 4;
const STATES_AT_ONCE = 500;
/** As many quiet ones are asked for in one request. */
const SHARDS_AT_ONCE = 8;
/** Due rows of a shard's next minutes that are looked up; where there are more, jobs cancelled a moment ago count as well. */
const DUE_CHECKED_MAX = 200;
/** A running job's deadline row lies at most so far ahead; one just passed is being settled. */
const DEADLINES_AHEAD_MS = LEASE_MAX_S * SECOND_MS;
const SETTLING_MS = 5 * SECOND_MS;
/** Minutes of deadlines that hold the default leases are read each time, the others each sixth time. */
const NEAR_BUCKETS = 3;
const FAR_EVERY = 6;

interface QueueTally {
  readonly dueSoon: number[];
  readonly running: Map<Priority, number>;
}

interface DeadlineRows {
  readonly rows: readonly { readonly jobId: string; readonly key: string }[];
  /** Rows whose job was found ended: nothing runs under them any more. */
  readonly ended: Set<string>;
}

interface CountedShard {
  passes: number;
  readonly deadlines: Map<EpochMs, DeadlineRows>;
  tallies: ReadonlyMap<string, QueueTally>;
}

/**
 * Counts in the shards that this process owns what no message tells: jobs due in the next minutes, and running ones. A running job
 * has a deadline row at most one lease ahead, so its cost is of what runs and not of what waits (decisions/0013).
 */
export class QueueCensus {
  readonly #parts: QueueCensusParts;
  readonly #owned = new Map<number, CountedShard>();
  readonly #shown = new Map<string, { readonly queue: string; readonly priority: Priority }>();
  /** Running jobs of queues with max_running, as the census in hand found them. */
  #limited = new Map<string, string[]>();
  #notBefore: EpochMs = 0;
  #cost = 0;

  constructor(parts: QueueCensusParts) {
    this.#parts = parts;
  }

  acquired(shard: number): void {
    this.#owned.set(shard, { passes: 0, deadlines: new Map(), tallies: new Map() });
  }

  lost(shard: number): void {
    this.#owned.delete(shard);
  }

  /** A duty of the loop, every CENSUS_EVERY_MS. */
  async runOnce(): Promise<void> {
    const { clock } = this.#parts;
    const startedAt = clock.now();
    if (startedAt < this.#notBefore) return;
    this.#cost = 0;
    this.#limited = new Map();
    const shards = [...this.#owned];
    await Promise.all(
      Array.from({ length: SHARDS_AT_ONCE }, async () => {
        for (let next = shards.shift(); next !== undefined; next = shards.shift()) await this.#countShard(...next);
      }),
    );
    this.#show();
    await this.#adopt();
    const pauseMs = (this.#cost * SECOND_MS) / ROWS_PER_S;
    this.#notBefore = pauseMs <= CENSUS_EVERY_MS ? 0 : startedAt + Math.min(pauseMs, CENSUS_EVERY_MAX_MS);
  }

  async #countShard(shard: number, counted: CountedShard): Promise<void> {
    const { clock, counts, dead, holds, log } = this.#parts;
    if (!holds(shard)) return;
    const countedAt = clock.now();
    const tallies = new Map<string, QueueTally>();
    try {
      await this.#countRunning(shard, counted, countedAt, tallies);
      await this.#countDueSoon(shard, countedAt, tallies);
      const deadJobs = dead.countsOf(shard);
      const before = counted.passes === 0 ? await this.#toldBefore(shard) : counted.tallies.keys();
      const queues = new Set([...before, ...tallies.keys(), ...(deadJobs?.keys() ?? []), '']);
      const rows = [...queues].map((queue): ShardQueueCounts => {
        const { dueSoon, running } = tallies.get(queue) ?? emptyTally();
        const runs = [...running.values()].reduce((sum, jobs) => sum + jobs, 0);
        // The row of no queue tells that a queue without a number of its own has no dead jobs.
        const deadOf = deadJobs?.get(queue) ?? (queue === '' && deadJobs !== null ? 0 : null);
        return { shard, queue, countedAt, dueSoon, running: runs, dead: deadOf };
      });
      await counts.writeShard(rows);
      counted.tallies = tallies;
      counted.passes += 1;
    } catch (error) {
      log.warn('the jobs of a shard could not be counted; trying again', { shard, error: String(error) });
    }
  }

  /** What its former owner told of queues stands for a minute and a half, also where it is long over. */
  async #toldBefore(shard: number): Promise<readonly string[]> {
    return (await this.#parts.counts.readShard(shard)).map(({ queue }) => queue);
  }

  async #countRunning(
    shard: number,
    counted: CountedShard,
    now: EpochMs,
    tallies: Map<string, QueueTally>,
  ): Promise<void> {
    const first = bucketOf(now - SETTLING_MS);
    for (const bucket of counted.deadlines.keys()) if (bucket < first) counted.deadlines.delete(bucket);
    for (let bucket = first; bucket <= now + DEADLINES_AHEAD_MS; bucket += MINUTE_MS) {
      const isNear = bucket < first + NEAR_BUCKETS * MINUTE_MS;
      if (isNear || counted.passes % FAR_EVERY === 0) await this.#readDeadlines(shard, bucket, now, counted);
    }
    const unended = [...counted.deadlines.values()].flatMap(({ rows, ended }) =>
      rows.filter(({ key }) => !ended.has(key)),
    );
    const states = await this.#statesOf(unended.map(({ jobId }) => jobId));
    for (const [jobId, { queue, priority, status }] of states) {
      if (status !== JobStatus.running) continue;
      this.#noteLimited(queue, jobId);
      const { running } = tallyOf(tallies, queue);
      running.set(priority, (running.get(priority) ?? 0) + 1);
    }
    for (const { rows, ended } of counted.deadlines.values()) {
      for (const { jobId, key } of rows) {
        const state = states.get(jobId);
        if (state !== undefined && isTerminal(state.status)) ended.add(key);
      }
    }
  }

  #noteLimited(queue: string, jobId: string): void {
    if (this.#parts.book.settingsOf(queue).maxRunning === null) return;
    const jobs = this.#limited.get(queue) ?? [];
    jobs.push(jobId);
    this.#limited.set(queue, jobs);
  }

  /** Jobs that were started before their queue had max_running: what runs counts from now on. */
  async #adopt(): Promise<void> {
    const { adopter, log } = this.#parts;
    for (const [queue, jobIds] of this.#limited) {
      try {
        this.#cost += await adopter.adopt(queue, jobIds);
      } catch (error) {
        log.warn('the running jobs of a queue could not be given slots; trying again', { queue, error: String(error) });
      }
    }
  }

  async #readDeadlines(shard: number, bucket: EpochMs, now: EpochMs, counted: CountedShard): Promise<void> {
    const from = Math.max(bucket, now - SETTLING_MS);
    const range = { shard, bucket, from, to: bucketEnd(bucket) - 1 };
    const rows: { readonly jobId: string; readonly key: string }[] = [];
    for await (const page of this.#parts.timerStore.readDeadlines(range)) {
      this.#cost += page.length;
      // Operations have timers beside those of jobs.
      for (const { jobId, at } of page) if (isJobId(jobId)) rows.push({ jobId, key: `${jobId} ${at}` });
    }
    const before = counted.deadlines.get(bucket);
    counted.deadlines.set(bucket, { rows, ended: before?.ended ?? new Set() });
  }

  async #countDueSoon(shard: number, now: EpochMs, tallies: Map<string, QueueTally>): Promise<void> {
    for (let minute = 0; minute < NEAR_MINUTES; minute += 1) {
      const bucket = bucketOf(now) + minute * MINUTE_MS;
      const range = { shard, bucket, from: Math.max(bucket, now + 1), to: bucketEnd(bucket) - 1 };
      const rows: { readonly jobId: string; readonly queue: string; readonly runAt: EpochMs }[] = [];
      for await (const page of this.#parts.timerStore.readDue(range)) {
        this.#cost += page.length;
        rows.push(...page.filter(({ jobId, direct }) => !direct && isJobId(jobId)));
      }
      const states = rows.length > DUE_CHECKED_MAX ? null : await this.#statesOf(rows.map(({ jobId }) => jobId));
      for (const { jobId, queue, runAt } of rows) {
        const waitsIn = states === null ? queue : queueIfWaiting(states.get(jobId), runAt);
        if (waitsIn === null) continue;
        const { dueSoon } = tallyOf(tallies, waitsIn);
        dueSoon[minute] = (dueSoon[minute] ?? 0) + 1;
      }
    }
  }

  async #statesOf(jobIds: readonly string[]): Promise<ReadonlyMap<string, JobState>> {
    const ids = [...new Set(jobIds)];
    const found = new Map<string, JobState>();
    this.#cost += ids.length * STATE_COST_ROWS;
    for (const some of chunks(ids, STATES_AT_ONCE)) {
      const states = await this.#parts.reader.readStates(some);
      for (const [jobId, state] of states) found.set(jobId, state);
    }
    return found;
  }

  /** What runs in our shards; the sum over all reapers is what runs. */
  #show(): void {
    const { telemetry } = this.#parts;
    const runs = new Map<string, number>();
    for (const { tallies } of this.#owned.values()) {
      for (const [queue, { running }] of tallies) {
        for (const [priority, jobs] of running) {
          const key = subjectKey({ queue, priority });
          runs.set(key, (runs.get(key) ?? 0) + jobs);
          this.#shown.set(key, { queue, priority });
        }
      }
    }
    for (const [key, labels] of this.#shown) {
      const jobs = runs.get(key);
      if (jobs !== undefined) telemetry.gauge('punctual_queue_running_jobs', jobs, labels);
      else {
        telemetry.dropGauge('punctual_queue_running_jobs', labels);
        this.#shown.delete(key);
      }
    }
  }
}

function emptyTally(): QueueTally {
  return { dueSoon: Array.from({ length: NEAR_MINUTES }, () => 0), running: new Map() };
}

function tallyOf(tallies: Map<string, QueueTally>, queue: string): QueueTally {
  const known = tallies.get(queue) ?? emptyTally();
  tallies.set(queue, known);
  return known;
}

/** A row says "by now": the job may have another time by now, or be over. */
function queueIfWaiting(state: JobState | undefined, runAt: EpochMs): string | null {
  return state?.status === JobStatus.scheduled && state.runAt === runAt ? state.queue : null;
}

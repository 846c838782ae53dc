// One dispatcher on everything in memory, its queues' settings, and jobs for it.

import { hash } from 'node:crypto';
import { jobCohort, shardOf } from '../../services/core/domain/ids.ts';
import type { JobRow } from '../../services/core/domain/job.ts';
import { JobStatus, PRIORITIES, type Priority } from '../../services/core/domain/job-status.ts';
import { BEAT_MS, MINUTE_MS, SECOND_MS, TICK_MS } from '../../services/core/domain/limits.ts';
import type { QueueSettings } from '../../services/core/domain/queue-settings.ts';
import { Dispatcher } from '../../services/dispatcher/dispatcher.ts';
import { coreBench, setQueue, type CoreBench, type CoreBenchOptions } from './core-bench.ts';
import { FAKE_START } from './fake-clock.ts';
import { jobRow } from './job-row.ts';

export interface WorldOptions extends CoreBenchOptions {
  readonly shards?: number;
}

export interface Scheduled {
  readonly queue: string;
  readonly priority?: Priority;
  /** From now. */
  readonly inMs?: number;
  /** Jobs that share a cohort. */
  readonly together?: number;
}

export class DispatchWorld {
  readonly core: CoreBench;
  readonly shards: number;
  readonly owned = new Set<number>();
  /** Queues whose workers claim at once; those with a rate, unless a test says otherwise. */
  readonly worked = new Set<string>();
  /** What was ever stored in the ready stream, by its sequence. */
  readonly #stored = new Map<number, { readonly jobId: string; readonly queue: string; readonly atMs: number }>();
  dispatcher: Dispatcher;
  #cohorts = 0;
  #cohort = '';
  #members = Infinity;

  constructor({ shards = 4, ...options }: WorldOptions = {}) {
    this.core = coreBench(options);
    this.shards = shards;
    this.dispatcher = this.#newDispatcher();
  }

  get now(): number {
    return this.core.clock.now();
  }

  /** @param owned so many shards are taken up; the others are somebody else's. */
  async start(owned = this.shards): Promise<void> {
    for (let shard = 0; shard < owned; shard += 1) {
      this.owned.add(shard);
      this.dispatcher.acquired(shard);
    }
    await this.core.clock.advance(0);
  }

  /** The process dies, and another takes its shards over: nothing of its memory is left. */
  async crash(): Promise<void> {
    for (const shard of this.owned) this.dispatcher.lost(shard);
    this.owned.clear();
    this.dispatcher = this.#newDispatcher();
    await this.start();
  }

  async configure(queue: string, overrides: Partial<QueueSettings>): Promise<void> {
    await setQueue(this.core, queue, overrides);
    if (typeof overrides.ratePerS === 'number') this.worked.add(queue);
  }

  /** Jobs with their due rows, as their creation leaves them. */
  schedule(count: number, { queue, priority = 'normal', inMs = 0, together = 64 }: Scheduled): readonly JobRow[] {
    const { stores } = this.core;
    const runAt = this.now + inMs;
    const jobs = Array.from({ length: count }, () => {
      if (this.#members >= together) [this.#cohort, this.#members] = [this.#nextCohort(), 0];
      const shard = shardOf(this.#cohort, this.shards);
      const job = jobRow(this.#cohort, this.#members, { queue, priority, runAt, shard });
      this.#members += 1;
      stores.rows.set(job.jobId, job);
      return job;
    });
    this.#members = Infinity;
    const rows = jobs.map(({ jobId, shard, attempt }) => {
      return { jobId, shard, runAt, queue, priority, attempt, direct: false };
    });
    stores.due.write(rows);
    this.core.parts.timers.hint(rows);
    return jobs;
  }

  /** The same in every run, and so are the shards that they lie in. */
  #nextCohort(): string {
    this.#cohorts += 1;
    return jobCohort(hash('sha256', String(this.#cohorts), 'buffer'));
  }

  async run(seconds: number): Promise<void> {
    const { clock } = this.core;
    for (let ms = 0; ms < seconds * SECOND_MS; ms += BEAT_MS) {
      if (ms % TICK_MS === 0) void this.dispatcher.runOnce();
      this.dispatcher.beat();
      await clock.advance(BEAT_MS);
      this.#noteStored();
      for (const queue of this.worked) this.work(queue);
    }
  }

  /** Takes what waits on the ready stream, as workers do. Returns how many. */
  work(queue: string, most = Infinity): number {
    let worked = 0;
    for (const priority of PRIORITIES) {
      const delivered = this.core.bus.take(queue, priority, most - worked);
      for (const each of delivered) {
        const row = this.core.stores.rows.get(each.message.jobId);
        if (row !== undefined) this.core.stores.rows.set(row.jobId, { ...row, status: JobStatus.succeeded });
        each.ack();
      }
      worked += delivered.length;
    }
    return worked;
  }

  count(queue: string, status: JobStatus): number {
    return [...this.core.stores.rows.values()].filter((row) => row.queue === queue && row.status === status).length;
  }

  held(queue: string): number {
    return [...this.core.stores.heldRows.values()]
      .flatMap((rows) => [...rows.values()])
      .filter((row) => row.queue === queue).length;
  }

  /** Jobs whose message was stored, and when, in ms after the start; each message counts. */
  published(queue: string): readonly { readonly jobId: string; readonly atMs: number }[] {
    this.#noteStored();
    return [...this.#stored.values()].filter((each) => each.queue === queue);
  }

  /** Messages that nobody claimed. */
  unclaimed(queue: string): number {
    return [...this.core.bus.subjects.values()].flat().filter(({ message }) => message.queue === queue).length;
  }

  #noteStored(): void {
    for (const { message, sequence, storedAt } of [...this.core.bus.subjects.values()].flat()) {
      const { jobId, queue } = message;
      this.#stored.set(sequence, { jobId, queue, atMs: storedAt - FAKE_START });
    }
  }

  #newDispatcher(): Dispatcher {
    const { parts, stores } = this.core;
    return new Dispatcher({
      ...parts,
      timerStore: stores.timers,
      cursors: stores.cursors,
      holds: (shard) => this.owned.has(shard),
      clusterStartedAt: FAKE_START - MINUTE_MS,
      shards: this.shards,
      member: 'dispatcher-1',
    });
  }
}

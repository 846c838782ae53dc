import {
  CURSOR_REWIND_MS,
  CURSOR_SAVE_EVERY_MS,
  LOOKS_AT_ONCE,
  ROWS_POOL_MAX,
  SECOND_MS,
  SWEEPS_AT_ONCE,
} from '../core/domain/limits.ts';
import type { EpochMs } from '../core/domain/time.ts';
import type { Clock } from '../core/ports/clock.ts';
import type { Log, Telemetry } from '../core/ports/telemetry.ts';
import type { CursorRole, CursorStore, TimerStore } from '../core/ports/timer-store.ts';
import { spreadOver } from '../core/runtime/spread-over.ts';
import { waitAtMost } from '../core/runtime/wait-at-most.ts';
import { RowPool } from '../core/scan/row-pool.ts';
import type { Timers } from '../core/timers/timers.ts';
import { foundDeadline, SettledRows, ShardDeadlines } from './deadlines.ts';
import type { ReadyWatch } from './ready-watch.ts';
import type { Republisher } from './republish.ts';
import { type Retention, type RetentionPositions, ShardRetention } from './retention.ts';
import { SecondLook } from './second-look.ts';
import type { Found, Settles } from './settle.ts';

export interface ReaperParts {
  readonly timerStore: TimerStore;
  readonly cursors: CursorStore;
  readonly settler: Settles;
  readonly timers: Timers;
  readonly readyWatch: ReadyWatch;
  readonly republisher: Republisher;
  readonly retention: Retention;
  readonly clock: Clock;
  readonly telemetry: Telemetry;
  readonly log: Log;
  /** Whether our lease on the shard certainly stands: asked before each pass. */
  readonly holds: (shard: number) => boolean;
  /** When this cluster began: where a shard without a cursor starts to read. */
  readonly clusterStartedAt: EpochMs;
}

interface OwnedShard {
  readonly shard: number;
  readonly deadlines: ShardDeadlines;
  readonly deadlineLook: SecondLook;
  readonly dueLook: SecondLook;
  readonly retention: ShardRetention;
  readonly published: Published;
  readonly saved: Map<CursorRole, EpochMs>;
  savedAt: EpochMs;
  /** Passes under way: a slow one is not started again. */
  readonly busy: Set<'deadlines' | 'looks'>;
}

/** Where a shard's duties go on. */
interface Positions {
  readonly deadlinesFrom: EpochMs;
  readonly lookFrom: EpochMs;
  readonly retentionFrom: RetentionPositions;
  readonly lifeSince: EpochMs | null;
}

/** How the shard's waiting jobs stand to the ready stream. */
interface Published {
  /** The stream's life in which all of them are published; null: nobody looked yet. */
  lifeSince: EpochMs | null;
  /** When a walk of ours last published them all again. */
  againAt: EpochMs | null;
}

/** Shards whose lost messages are published again at the same time. */
const WALKS_AT_ONCE = 4;
const PASS_WAIT_MS = SECOND_MS;
/** Shards are not read all at once: see spreadOver. */
const PASS_SPREAD_MS = 0.8 * SECOND_MS;

/** The duties of the shards that this process owns: deadlines each second, second looks at the closed minutes of both tables, retention. */
export class Reaper {
  readonly #parts: ReaperParts;
  readonly #owned = new Map<number, OwnedShard>();
  readonly #awaited = new Set<number>();
  readonly #rowPool = new RowPool(ROWS_POOL_MAX);
  readonly #settledRows = new SettledRows();
  #isStopping = false;

  constructor(parts: ReaperParts) {
    this.#parts = parts;
  }

  acquired(shard: number): void {
    this.#awaited.add(shard);
  }

  lost(shard: number): void {
    this.#awaited.delete(shard);
    this.#owned.get(shard)?.deadlines.close();
    this.#owned.delete(shard);
    this.#parts.telemetry.dropGauge('punctual_second_look_lag_seconds', { shard: String(shard) });
  }

  /** A duty of the loop, each second: what the deadlines of every owned shard name. */
  async reapDeadlines(): Promise<void> {
    await this.#waitFor([...this.#awaited].map((shard) => this.#takeUp(shard)));
    const shards = [...this.#owned.values()];
    const passes = spreadOver(this.#parts.clock, PASS_SPREAD_MS, shards, (owned) =>
      this.#pass(owned, 'deadlines', async () => {
        await owned.deadlines.runOnce();
        await this.#saveCursors(owned);
      }),
    );
    await this.#waitFor([passes]);
  }

  /** A duty of the loop: the second looks, a few shards at a time, those that are the furthest behind first. */
  async lookAgain(): Promise<void> {
    const behind = [...this.#owned.values()].sort((one, other) => one.dueLook.position() - other.dueLook.position());
    const underWay = behind.filter(({ busy }) => busy.has('looks')).length;
    const lanes = Array.from({ length: LOOKS_AT_ONCE - underWay }, async () => {
      for (let owned = behind.shift(); owned !== undefined; owned = behind.shift()) await this.#lookAt(owned);
    });
    await this.#waitFor(lanes);
    const now = this.#parts.clock.now();
    for (const { shard, dueLook } of this.#owned.values()) {
      const lagS = dueLook.lagMs(now) / SECOND_MS;
      this.#parts.telemetry.gauge('punctual_second_look_lag_seconds', lagS, { shard: String(shard) });
    }
  }

  /** A sweep under way ends with the minute at hand, a second look with the rows at hand. */
  stop(): void {
    this.#isStopping = true;
  }

  /** A duty of the loop: what is past its retention goes, a few shards at a time, those that are the furthest behind first. */
  async sweep(): Promise<void> {
    await this.#parts.retention.prepare();
    const behind = [...this.#owned.values()].sort((one, other) => other.retention.lagMs() - one.retention.lagMs());
    await Promise.all(
      Array.from({ length: SWEEPS_AT_ONCE }, async () => {
        for (let owned = behind.shift(); owned !== undefined; owned = behind.shift()) await this.#sweepShard(owned);
      }),
    );
    const lagsMs = [...this.#owned.values()].map(({ retention }) => retention.lagMs());
    this.#parts.telemetry.gauge('punctual_retention_lag_seconds', Math.max(0, ...lagsMs) / SECOND_MS, {});
  }

  async #sweepShard(owned: OwnedShard): Promise<void> {
    const { holds, log } = this.#parts;
    const { shard, retention } = owned;
    try {
      await retention.runOnce(() => !this.#isStopping && holds(shard));
      const { due, deadlines } = retention.positions();
      await this.#save(owned, 'due_retention', due);
      await this.#save(owned, 'deadline_retention', deadlines);
    } catch (error) {
      log.warn('what is past its retention could not be removed; trying again', { shard, error: String(error) });
    }
  }

  /** A duty of the loop: publishes again what the ready stream lost, also what it lost while nobody watched. */
  async republishLost(): Promise<void> {
    const lifeSince = await this.#parts.readyWatch.lifeSince();
    if (lifeSince === null) return;
    const behind = [...this.#owned.values()].filter(({ published }) => (published.lifeSince ?? 0) < lifeSince);
    const shards = behind.length;
    let jobs = 0;
    await Promise.all(
      Array.from({ length: WALKS_AT_ONCE }, async () => {
        for (let owned = behind.shift(); owned !== undefined; owned = behind.shift()) {
          jobs += await this.#catchUp(owned, lifeSince);
        }
      }),
    );
    if (jobs > 0) this.#parts.log.info('published waiting jobs again', { shards, jobs });
  }

  /** How many it published. */
  async #catchUp(owned: OwnedShard, lifeSince: EpochMs): Promise<number> {
    const { republisher, cursors, clock, log, holds } = this.#parts;
    const { shard, published } = owned;
    let jobs = 0;
    if (!holds(shard)) return jobs;
    try {
      // A shard that nobody looked after has no messages to miss: its jobs still have their first looks before them.
      if (published.lifeSince !== null) {
        const count = await republisher.walk({
          shard,
          lostAt: lifeSince,
          dueFrom: owned.dueLook.position(),
          holds: () => holds(shard),
        });
        if (count === null) return jobs;
        jobs = count;
        published.againAt = clock.now();
      }
      await cursors.save('ready_stream', shard, lifeSince);
      published.lifeSince = lifeSince;
    } catch (error) {
      log.warn('waiting jobs could not be published again; trying again', { shard, error: String(error) });
    }
    return jobs;
  }

  async #lookAt(owned: OwnedShard): Promise<void> {
    await this.#pass(owned, 'looks', async () => {
      await owned.dueLook.runOnce();
      await owned.deadlineLook.runOnce();
    });
  }

  /** Never rejects; one that is under way already goes on alone. */
  async #pass(owned: OwnedShard, duty: 'deadlines' | 'looks', work: () => Promise<void>): Promise<void> {
    const { holds, log } = this.#parts;
    const { shard, busy } = owned;
    if (busy.has(duty) || !holds(shard)) return;
    busy.add(duty);
    try {
      await work();
    } catch (error) {
      log.warn('a pass over a shard failed; trying again', { shard, duty, error: String(error) });
    } finally {
      busy.delete(duty);
    }
  }

  /** What is slow goes on by itself, so that the next pass over the other shards does not wait for it. */
  async #waitFor(passes: readonly Promise<void>[]): Promise<void> {
    await waitAtMost(this.#parts.clock, PASS_WAIT_MS, Promise.all(passes));
  }

  async #takeUp(shard: number): Promise<void> {
    const { cursors, clock, clusterStartedAt, log } = this.#parts;
    try {
      const [deadlines, secondLook, lifeSince, dueSwept, deadlinesSwept] = await Promise.all([
        cursors.load('deadlines', shard),
        cursors.load('second_look', shard),
        cursors.load('ready_stream', shard),
        cursors.load('due_retention', shard),
        cursors.load('deadline_retention', shard),
      ]);
      if (!this.#awaited.delete(shard)) return;
      // A cursor saved by a clock ahead must not hide the last minutes.
      const latest = clock.now() - CURSOR_REWIND_MS;
      this.#owned.set(
        shard,
        this.#open(shard, {
          deadlinesFrom: Math.min(deadlines ?? clusterStartedAt, latest),
          lookFrom: Math.min(secondLook ?? clusterStartedAt, latest),
          lifeSince,
          retentionFrom: { due: dueSwept ?? clusterStartedAt, deadlines: deadlinesSwept ?? clusterStartedAt },
        }),
      );
    } catch (error) {
      log.warn('the cursors of a shard could not be loaded; trying again', { shard, error: String(error) });
    }
  }

  #open(shard: number, { deadlinesFrom, lookFrom, retentionFrom, lifeSince }: Positions): OwnedShard {
    const { timerStore, cursors, settler, timers, clock } = this.#parts;
    const published: Published = { lifeSince, againAt: null };
    const republishedAt = (): EpochMs | null => published.againAt;
    const [pool, settledRows] = [this.#rowPool, this.#settledRows];
    const holds = (): boolean => !this.#isStopping && this.#parts.holds(shard);
    const deadlines = new ShardDeadlines({
      ...{ timerStore, settler, settledRows, pool, clock, shard, republishedAt },
      from: deadlinesFrom,
    });
    const deadlineLook = new SecondLook({
      read: async function* (range): AsyncIterable<readonly Found[]> {
        for await (const page of timerStore.readDeadlines(range)) {
          yield page.filter((row) => !settledRows.has(row)).map((row) => foundDeadline(row, republishedAt()));
        }
      },
      readerPosition: () => Promise.resolve(deadlines.position()),
      settler,
      timers,
      clock,
      shard,
      from: deadlinesFrom,
      holds,
    });
    const dueLook = new SecondLook({
      read: async function* (range): AsyncIterable<readonly Found[]> {
        for await (const page of timerStore.readDue(range)) {
          const publishedAt = republishedAt();
          yield page.map(({ jobId, runAt }) => ({ jobId, shard, table: 'due' as const, at: runAt, publishedAt }));
        }
      },
      readerPosition: async () => (await cursors.load('dispatch', shard)) ?? 0,
      settler,
      timers,
      clock,
      shard,
      from: lookFrom,
      holds,
    });
    const retention = new ShardRetention({
      ...{ timerStore, shard },
      retention: this.#parts.retention,
      from: retentionFrom,
      lookedAtTo: () => ({ due: dueLook.position(), deadlines: deadlineLook.position() }),
    });
    return {
      ...{ shard, deadlines, deadlineLook, dueLook, retention, published },
      ...{ saved: new Map(), savedAt: clock.now(), busy: new Set() },
    };
  }

  async #saveCursors(owned: OwnedShard): Promise<void> {
    const now = this.#parts.clock.now();
    if (now - owned.savedAt < CURSOR_SAVE_EVERY_MS) return;
    owned.savedAt = now;
    await this.#save(owned, 'deadlines', Math.min(owned.deadlines.position(), owned.deadlineLook.position()));
    await this.#save(owned, 'second_look', owned.dueLook.position());
  }

  async #save(owned: OwnedShard, role: CursorRole, position: EpochMs): Promise<void> {
    if (position <= (owned.saved.get(role) ?? 0)) return;
    await this.#parts.cursors.save(role, owned.shard, position);
    owned.saved.set(role, position);
  }
}

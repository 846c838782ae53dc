import { CURSOR_REWIND_MS, SECOND_MS, TICK_MS, WAKES_APART_MAX_MS } from '../core/domain/limits.ts';
import type { EpochMs } from '../core/domain/time.ts';
import type { DueHints } from '../core/ports/due-hints.ts';
import type { HeldReports } from '../core/ports/held-reports.ts';
import type { HeldBoard } from '../core/queues/held-board.ts';
import { Spacing } from '../core/runtime/spacing.ts';
import { spreadOver } from '../core/runtime/spread-over.ts';
import { waitAtMost } from '../core/runtime/wait-at-most.ts';
import type { HeldInventory } from './held-jobs.ts';
import { QueueWork, type QueueWorkParts } from './queue-work.ts';
import { ShardDispatcher, type ShardDispatcherParts } from './shard-dispatcher.ts';

export interface DispatcherParts extends Omit<QueueWorkParts, 'share'>, Omit<ShardDispatcherParts, 'work'> {
  readonly hints: DueHints;
  readonly heldReports: Pick<HeldReports, 'send'>;
  readonly heldBoard: Pick<HeldBoard, 'sparedShards'>;
  /** By what name this process tells what it holds. */
  readonly member: string;
  /** When this cluster began: where a shard without a cursor starts to read. */
  readonly clusterStartedAt: EpochMs;
  /** Of the whole cluster. */
  readonly shards: number;
}

interface OwnedShard {
  readonly dispatcher: ShardDispatcher;
  readonly stopListening: () => void;
}

/** Shards are not read all at once: see spreadOver. */
const TICK_SPREAD_MS = 0.8 * TICK_MS;
const DRAIN_MAX_MS = 5 * SECOND_MS;
const DRAIN_LOOK_MS = 20;

/** All shards that this process owns: takes them up, ticks them, and wakes at the millisecond of the next due row, or for a group of them. */
export class Dispatcher {
  readonly #parts: DispatcherParts;
  readonly #work: QueueWork;
  readonly #owned = new Map<number, OwnedShard>();
  /** Shards acquired and not yet taken up, because their cursor could not be loaded. */
  readonly #awaited = new Set<number>();
  #cancelWake: (() => void) | null = null;
  #wakeAt: EpochMs = Infinity;
  readonly #spacing = new Spacing(WAKES_APART_MAX_MS);
  #draining = false;

  constructor(parts: DispatcherParts) {
    this.#parts = parts;
    this.#work = new QueueWork({ ...parts, share: (queue) => this.#shareOf(queue) });
  }

  acquired(shard: number): void {
    this.#awaited.add(shard);
    void this.#takeUp(shard);
  }

  lost(shard: number): void {
    this.#awaited.delete(shard);
    const owned = this.#owned.get(shard);
    owned?.stopListening();
    owned?.dispatcher.close();
    this.#owned.delete(shard);
    this.#work.held.lost(shard);
    this.#parts.telemetry.dropGauge('punctual_oldest_due_age_seconds', { shard: String(shard) });
  }

  /**
   * A duty of the loop, each TICK_MS: reads and fires every owned shard. One that is slow to be read keeps its own next tick
   * waiting, not the others'.
   */
  async runOnce(): Promise<void> {
    for (const shard of this.#awaited) void this.#takeUp(shard);
    const { clock } = this.#parts;
    const ticks = spreadOver(clock, TICK_SPREAD_MS, [...this.#owned.values()], ({ dispatcher }) =>
      this.#tick(dispatcher),
    );
    this.#tellHeld();
    await waitAtMost(clock, TICK_MS, ticks);
  }

  /** A duty of the loop, each BEAT_MS: turns for queues, held rows for those that have turns, and due rows that had no room. */
  beat(): void {
    this.#work.beat();
    for (const { dispatcher } of this.#owned.values()) {
      dispatcher.beat().catch((error: unknown) => {
        this.#cannotRead(dispatcher, error);
      });
      this.#wakeFor(dispatcher);
    }
  }

  /** Before a graceful end: starts nothing more, waits for what is in hand, saves where every shard stands. */
  async drain(): Promise<void> {
    const { clock } = this.#parts;
    this.#draining = true;
    this.#cancelWake?.();
    this.#work.close();
    const shards = [...this.#owned.values()].map(({ dispatcher }) => dispatcher);
    const isBusy = (): boolean => this.#work.isBusy() || shards.some((shard) => shard.isBusy());
    for (let waited = 0; waited < DRAIN_MAX_MS && isBusy(); waited += DRAIN_LOOK_MS) {
      await clock.sleep(DRAIN_LOOK_MS);
    }
    // A cursor that could not be saved only makes the next owner start earlier.
    await Promise.allSettled(shards.map((shard) => shard.savePositions()));
  }

  /** By our part of the shards; that of dispatchers which hold nothing of the queue flows back to those that do. */
  #shareOf(queue: string): number {
    const { heldBoard, member, shards } = this.#parts;
    const owned = this.#owned.size;
    return owned / Math.max(1, owned, shards - heldBoard.sparedShards(queue, member));
  }

  #tellHeld(): void {
    const { heldReports, member, holds } = this.#parts;
    const held = this.#work.measure();
    const shards = [...this.#owned.keys()].filter(holds).length;
    if (shards > 0) heldReports.send({ member, shards, held });
  }

  async #takeUp(shard: number): Promise<void> {
    const { cursors, clock, clusterStartedAt, hints, log } = this.#parts;
    let savedCursor: EpochMs;
    let held: HeldInventory;
    try {
      const [cursor, inventory] = await Promise.all([
        cursors.load('dispatch', shard),
        this.#work.held.inventory(shard),
      ]);
      savedCursor = cursor ?? clusterStartedAt;
      held = inventory;
    } catch (error) {
      log.warn('where a shard stands could not be loaded; trying again', { shard, error: String(error) });
      return;
    }
    // Lost again, or taken up by another try, while it was loading.
    if (!this.#awaited.delete(shard)) return;
    this.#work.held.acquired(shard, held);
    const from = Math.min(savedCursor, clock.now() - CURSOR_REWIND_MS);
    const dispatcher = new ShardDispatcher({ ...this.#parts, work: this.#work }, { shard, from, savedCursor });
    const stopListening = hints.listen(shard, (row) => {
      dispatcher.hint(row);
      this.#wakeFor(dispatcher);
    });
    this.#owned.set(shard, { dispatcher, stopListening });
    await this.#tick(dispatcher);
  }

  async #tick(dispatcher: ShardDispatcher): Promise<void> {
    try {
      await dispatcher.tick();
    } catch (error) {
      this.#cannotRead(dispatcher, error);
    }
    this.#wakeFor(dispatcher);
  }

  #cannotRead({ shard }: ShardDispatcher, error: unknown): void {
    this.#parts.log.warn('a shard could not be read', { shard, error: String(error) });
  }

  #wakeFor(dispatcher: ShardDispatcher): void {
    const next = dispatcher.nextFireAt();
    if (next === null || next >= this.#wakeAt || this.#draining) return;
    const { clock } = this.#parts;
    this.#cancelWake?.();
    this.#wakeAt = next;
    // A timer can fire early by the fraction of a millisecond; a stepped clock is noticed at the next tick.
    const waitMs = Math.min(TICK_MS, Math.max(this.#spacing.waitMs(clock.monotonic()), next - clock.now()));
    this.#cancelWake = clock.after(waitMs, () => {
      this.#wake();
    });
  }

  #wake(): void {
    this.#wakeAt = Infinity;
    this.#cancelWake = null;
    const now = this.#parts.clock.monotonic();
    const shards = [...this.#owned.values()].map(({ dispatcher }) => dispatcher);
    const fired = shards.reduce((sum, dispatcher) => sum + dispatcher.fire(), 0);
    this.#spacing.begin(now, fired);
    for (const dispatcher of shards) this.#wakeFor(dispatcher);
  }
}

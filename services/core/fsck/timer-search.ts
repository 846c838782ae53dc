import { servesNeed, type LastReaders, type TimerNeed } from '../domain/fsck.ts';
import { FSCK_DEADLINES_AHEAD_MS, FSCK_DUE_AHEAD_MS, HELD_PAGE_ROWS } from '../domain/limits.ts';
import type { EpochMs } from '../domain/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { HeldPlace, HeldStore } from '../ports/held-store.ts';
import type { RingStore } from '../ports/ring-store.ts';
import type { CursorStore, TimerRange, TimerStore } from '../ports/timer-store.ts';
import { minutes } from '../scan/minutes.ts';
import type { Pacer } from './pacer.ts';

export interface TimerSearchParts {
  readonly ring: Pick<RingStore, 'standingDue'>;
  readonly timers: Pick<TimerStore, 'readDue' | 'readDeadlines'>;
  readonly held: Pick<HeldStore, 'hours' | 'read'>;
  readonly cursors: Pick<CursorStore, 'load'>;
  readonly clock: Clock;
  readonly pacer: Pacer;
  /** Where a shard without a cursor is read from. */
  readonly clusterStartedAt: EpochMs;
}

/** Their minutes are read one after the other, and most are empty. */
const SHARDS_AT_ONCE = 8;

/**
 * Finds out for which of many jobs, schedules and operations a timer stands that somebody will still read. The cursors are read
 * first: a row that was written before that, and that no reader had passed by then, is found.
 */
export class TimerSearch {
  readonly #parts: TimerSearchParts;

  constructor(parts: TimerSearchParts) {
    this.#parts = parts;
  }

  /** Those that no row serves. Throws StoreError. */
  async unserved(needs: readonly TimerNeed[]): Promise<readonly TimerNeed[]> {
    const left: TimerNeed[] = [];
    const shards = Map.groupBy(needs, (need) => need.shard).entries();
    const walk = async (): Promise<void> => {
      for (const [shard, ofShard] of shards) left.push(...(await this.#unservedOf(shard, ofShard)));
    };
    await Promise.all(Array.from({ length: SHARDS_AT_ONCE }, walk));
    return left;
  }

  async #unservedOf(shard: number, needs: readonly TimerNeed[]): Promise<readonly TimerNeed[]> {
    const readers = await this.#readersOf(shard);
    const open = new Map(needs.map((need) => [need.id, need]));
    await this.#strikeOwnDue(open, readers);
    await this.#strikeDeadlines(open, shard, readers);
    await this.#strikeMovedDue(open, shard, readers);
    await this.#strikeHeld(open, shard);
    return [...open.values()];
  }

  async #readersOf(shard: number): Promise<LastReaders> {
    const { cursors, clusterStartedAt } = this.#parts;
    const [due, deadlines] = await Promise.all([cursors.load('second_look', shard), cursors.load('deadlines', shard)]);
    return { due: due ?? clusterStartedAt, deadlines: deadlines ?? clusterStartedAt };
  }

  /** Most wait for their time with a row at it. */
  async #strikeOwnDue(open: Map<string, TimerNeed>, { due }: LastReaders): Promise<void> {
    const { ring, pacer } = this.#parts;
    const places = [...open.values()].flatMap((need) => {
      const { id: jobId, shard, dueAt } = need;
      return dueAt !== null && servesNeed(need, dueAt, due) ? [{ shard, runAt: dueAt, jobId }] : [];
    });
    if (places.length === 0) return;
    for (const id of await ring.standingDue(places)) open.delete(id);
    await pacer.spend(places.length);
  }

  async #strikeDeadlines(open: Map<string, TimerNeed>, shard: number, { deadlines }: LastReaders): Promise<void> {
    const { timers, clock } = this.#parts;
    await this.#strike(open, {
      ranges: minutes(shard, deadlines, clock.now() + FSCK_DEADLINES_AHEAD_MS),
      read: (range) => timers.readDeadlines(range),
      at: (row) => row.at,
      readTo: deadlines,
    });
  }

  /** Rows at other times than the job's own: written again because their minute had passed, or left of an earlier plan. */
  async #strikeMovedDue(open: Map<string, TimerNeed>, shard: number, { due }: LastReaders): Promise<void> {
    const { timers, clock } = this.#parts;
    await this.#strike(open, {
      ranges: minutes(shard, due, clock.now() + FSCK_DUE_AHEAD_MS),
      read: (range) => timers.readDue(range),
      at: (row) => row.runAt,
      readTo: due,
    });
  }

  async #strike<Row extends { readonly jobId: string }>(
    open: Map<string, TimerNeed>,
    { ranges, read, at, readTo }: Walk<Row>,
  ): Promise<void> {
    for (const range of ranges) {
      if (open.size === 0) return;
      let rows = 0;
      for await (const page of read(range)) {
        rows += page.length;
        for (const row of page) {
          const need = open.get(row.jobId);
          if (need !== undefined && servesNeed(need, at(row), readTo)) open.delete(need.id);
        }
      }
      await this.#parts.pacer.spend(rows);
    }
  }

  /** A held row stands until its job was looked at: no cursor passes it. */
  async #strikeHeld(open: Map<string, TimerNeed>, shard: number): Promise<void> {
    const queues = new Set([...open.values()].map(({ heldQueue }) => heldQueue));
    if (queues.size === 0 || (queues.size === 1 && queues.has(null))) return;
    const { held, pacer } = this.#parts;
    for (const hour of await held.hours(shard)) {
      if (!queues.has(hour.queue)) continue;
      let after: HeldPlace | null = { runAt: hour.hour, jobId: '' };
      while (after !== null) {
        const rows: Awaited<ReturnType<HeldStore['read']>> = await held.read(hour, after, HELD_PAGE_ROWS);
        for (const { jobId, runAt } of rows) {
          const need = open.get(jobId);
          if (need?.heldQueue === hour.queue && runAt >= need.notBefore) open.delete(jobId);
        }
        await pacer.spend(rows.length);
        after = rows.length < HELD_PAGE_ROWS ? null : (rows.at(-1) ?? null);
      }
    }
  }
}

interface Walk<Row> {
  readonly ranges: Iterable<TimerRange>;
  readonly read: (range: TimerRange) => AsyncIterable<readonly Row[]>;
  readonly at: (row: Row) => EpochMs;
  readonly readTo: EpochMs;
}

// "A timer never dies before its job does" (design section 6): at every moment each accepted job, schedule and operation that
// is not over has a timer row that somebody will still read.

import { bucketEnd, bucketOf, hourOf } from '../../services/core/domain/bucket.ts';
import { hasEnded } from '../../services/core/domain/bulk.ts';
import { isOperationId, isScheduleId } from '../../services/core/domain/ids.ts';
import type { JobRow } from '../../services/core/domain/job.ts';
import { isTerminal, JobStatus } from '../../services/core/domain/job-status.ts';
import {
  CLOCK_SKEW_STOP_MS,
  DUE_MINUTE_PASSED_MS,
  MINUTE_MS,
  REWRITE_AHEAD_MS,
  SECOND_MS,
  TRAILING_EDGE_MS,
} from '../../services/core/domain/limits.ts';
import type { DeadlineEntry, DueEntry } from '../../services/core/domain/operation.ts';
import type { EpochMs } from '../../services/core/domain/time.ts';
import type { HeldHour, HeldPosition } from '../../services/core/ports/held-store.ts';
import type { CursorRole } from '../../services/core/ports/timer-store.ts';
import type { MemoryStores, StoreCall } from '../support/memory-store.ts';
import type { Report } from './violation.ts';

type ScannedTable = 'due' | 'deadlines';

/** How far a process's clock may be from the true time, and a little for measuring it. */
const CLOCKS_APART_MS = CLOCK_SKEW_STOP_MS + SECOND_MS;

/** The cursor behind which nobody reads the table any more: that of its second look. */
const LAST_READER = { due: 'second_look', deadlines: 'deadlines' } as const satisfies Record<ScannedTable, CursorRole>;

interface Timer {
  readonly table: ScannedTable | 'held';
  readonly shard: number;
  readonly at: EpochMs;
  /** By the true time. */
  readonly landedAt: EpochMs;
  /** Of a held row: the lane and hour in which it stands. */
  readonly hour: string | null;
}

/** What must have a timer. */
interface Subject {
  readonly shard: number;
  /** A row before this matches nothing when it is read. */
  readonly from: EpochMs;
  /** But a schedule that is due is fired whatever row it is found by: the wake-up row in its firer's hands stays one. */
  readonly isDue: boolean;
  /** Where a held row would do: as long as it stands, or only until the queue's feed has passed it. */
  readonly held: { readonly queue: string; readonly untilFed: boolean } | null;
  readonly state: string;
}

/**
 * Which rows will still be read is told by the saved cursors alone: whoever takes a shard over starts there, and a cursor
 * moves only over rows whose jobs have another timer. A row that landed behind a reader counts until that reader's cursor is
 * saved, seconds later, and is found out then. So only what a write or a saved cursor touches has to be looked at. A held row
 * counts as long as it stands.
 */
export class TimerInvariant {
  readonly #stores: MemoryStores;
  readonly #startedAt: EpochMs;
  readonly #report: Report;
  readonly #now: () => EpochMs;
  readonly #timers = new Map<string, Timer[]>();
  /** Ids with a row in the minute or the held hour, by table, shard and minute, or by lane and hour. */
  readonly #places = new Map<string, Set<string>>();
  readonly #cursors = new Map<string, EpochMs>();
  readonly #watched = new Set<string>();

  /** @param startedAt where a shard without a cursor is read from. */
  constructor(parts: { stores: MemoryStores; startedAt: EpochMs; now: () => EpochMs; report: Report }) {
    this.#stores = parts.stores;
    this.#startedAt = parts.startedAt;
    this.#now = parts.now;
    this.#report = parts.report;
  }

  /** From now on the job, schedule or operation must have a timer. */
  watch(id: string): void {
    this.#watched.add(id);
    this.check(id);
  }

  /** Nothing was promised of it as it is now, for example because nobody was told that the job is to run again. */
  unwatch(id: string): void {
    this.#watched.delete(id);
  }

  /** After a call took effect on the store. */
  applied({ method, args }: StoreCall): void {
    switch (method) {
      case 'timers.writeDue':
        for (const row of args[0] as readonly DueEntry[]) this.#add(row.jobId, this.#scanned('due', row, row.runAt));
        break;
      case 'timers.writeDeadlines':
        for (const row of args[0] as readonly DeadlineEntry[]) {
          this.#add(row.jobId, this.#scanned('deadlines', row, row.at));
        }
        break;
      case 'held.write':
        for (const row of args[0] as readonly DueEntry[]) this.#add(row.jobId, this.#held(row));
        break;
      case 'held.savePosition':
        this.#fed(args[0] as HeldPosition);
        break;
      case 'held.drop':
        this.#dropped(hourKey(args[0] as HeldHour));
        break;
      case 'cursors.save':
        this.#passed(args[0] as CursorRole, args[1] as number);
        break;
      default:
    }
  }

  /** To be called whenever the row of a job, a schedule or an operation has changed. */
  check(id: string): void {
    if (!this.#watched.has(id)) return;
    const subject = this.#subject(id);
    if (subject === null) return;
    const timers = this.#timers.get(id) ?? [];
    if (timers.some((timer) => this.#serves(timer, subject))) return;
    const text = timers.map(({ table, at }) => `${table} ${timeText(at)}`).join(', ');
    const { state, shard } = subject;
    this.#report({
      rule: 'timer invariant',
      detail:
        `${id} is ${state} and has no timer that will still be read; rows: ${text || 'none'}; ` +
        `read up to: due ${this.#readTo('due', shard)}, deadlines ${this.#readTo('deadlines', shard)}`,
      subject: id,
    });
  }

  /**
   * A job is answered for after its due row landed where its readers had not passed: rule 2. Rule 3 alone would save it too,
   * but not where its writer dies in between, which nobody is told.
   */
  checkAccepted(jobId: string): void {
    const isInReach = ({ table, at, landedAt }: Timer): boolean =>
      table === 'due' && landedAt <= bucketEnd(bucketOf(at)) + DUE_MINUTE_PASSED_MS + CLOCKS_APART_MS;
    if ((this.#timers.get(jobId) ?? []).some(isInReach)) return;
    this.#report({ rule: 'a job without a due row in reach', detail: jobId, subject: jobId });
  }

  /**
   * A claim is answered after its timer landed where its reader had not passed yet, no later than the lease needs: so a dead
   * worker is noticed on time. A timer written again because it was late (rule 2) counts, the spare one of rule 3 does not.
   */
  checkClaim(job: JobRow, startedAt: EpochMs): void {
    const leadMaxMs = Math.max(Math.min(job.leaseS, job.timeoutS) * SECOND_MS, REWRITE_AHEAD_MS) + CLOCKS_APART_MS;
    const isInReach = ({ table, at, landedAt }: Timer): boolean =>
      table === 'deadlines' &&
      landedAt >= startedAt - CLOCKS_APART_MS &&
      at >= landedAt - TRAILING_EDGE_MS &&
      at <= landedAt + leadMaxMs;
    if ((this.#timers.get(job.jobId) ?? []).some(isInReach)) return;
    this.#report({
      rule: 'a claim without a timer in reach',
      detail: `${job.jobId}, attempt ${job.attempt} claimed at ${timeText(startedAt)}`,
      subject: job.jobId,
    });
  }

  /** Null: it needs no timer, now at least. */
  #subject(id: string): Subject | null {
    if (isScheduleId(id)) return this.#schedule(id);
    if (isOperationId(id)) return this.#operation(id);
    const job = this.#stores.rows.get(id);
    if (job === undefined || isTerminal(job.status)) return null;
    const { status, runAt, shard, queue } = job;
    const isScheduled = status === JobStatus.scheduled;
    const state = `${status} (run_at ${timeText(runAt)})`;
    // The feed that enqueued it may die before its message: the next one finds it by the same row.
    const held = status === JobStatus.running ? null : { queue, untilFed: !isScheduled };
    return { shard, from: isScheduled ? runAt : -Infinity, isDue: false, held, state };
  }

  #schedule(id: string): Subject | null {
    const row = this.#stores.scheduleTables.rows.get(id);
    if (row === undefined || row.nextRunAt === null || (row.paused && row.pausedUntil === null)) return null;
    const from = row.paused ? Math.max(row.nextRunAt, row.pausedUntil ?? 0) : row.nextRunAt;
    const isDue = from <= this.#now() + CLOCKS_APART_MS;
    return { shard: row.shard, from, isDue, held: null, state: `to wake at ${timeText(from)}` };
  }

  #operation(id: string): Subject | null {
    const row = this.#stores.operationRows.get(id)?.row;
    if (row === undefined || hasEnded(row)) return null;
    const shard = (this.#timers.get(id) ?? [])[0]?.shard ?? 0;
    return { shard, from: -Infinity, isDue: false, held: null, state: row.status };
  }

  #serves({ table, shard, at, hour }: Timer, { from, isDue, held }: Subject): boolean {
    if (at < from && !isDue) return false;
    if (table === 'held') {
      if (hour === null || held === null || held.queue !== queueOf(hour)) return false;
      return !held.untilFed || !this.#isFed(hour, at);
    }
    return at >= this.#cursor(table, shard);
  }

  #isFed(hour: string, at: EpochMs): boolean {
    const position = this.#stores.heldPositions.get(laneOf(hour));
    return position !== undefined && at < position.place.runAt;
  }

  #scanned(table: ScannedTable, { shard }: { readonly shard: number }, at: EpochMs): Timer {
    return { table, shard, at, landedAt: this.#now(), hour: null };
  }

  #held(row: DueEntry): Timer {
    const { shard, runAt } = row;
    return {
      table: 'held',
      shard,
      at: runAt,
      landedAt: this.#now(),
      hour: hourKey({ ...row, hour: hourOf(runAt) }),
    };
  }

  #add(id: string, timer: Timer): void {
    const timers = this.#timers.get(id) ?? [];
    timers.push(timer);
    this.#timers.set(id, timers);
    const { table, shard, at, hour } = timer;
    const place = table === 'held' ? (hour ?? '') : minuteKey(table, shard, bucketOf(at));
    this.#places.set(place, (this.#places.get(place) ?? new Set()).add(id));
  }

  #fed({ shard, queue, priority }: HeldPosition): void {
    for (const [place, ids] of this.#places) {
      if (laneOf(place) === `${shard} ${queue} ${priority}`) for (const id of ids) this.check(id);
    }
  }

  #dropped(hour: string): void {
    const ids = this.#places.get(hour) ?? new Set<string>();
    this.#places.delete(hour);
    for (const id of ids) {
      this.#timers.set(
        id,
        (this.#timers.get(id) ?? []).filter((timer) => timer.hour !== hour),
      );
      this.check(id);
    }
  }

  #passed(role: CursorRole, shard: number): void {
    const table = (Object.keys(LAST_READER) as ScannedTable[]).find((each) => LAST_READER[each] === role);
    if (table === undefined) return;
    const before = this.#cursor(table, shard);
    const now = this.#stores.positions.get(`${role} ${shard}`) ?? before;
    this.#cursors.set(`${role} ${shard}`, now);
    for (let bucket = bucketOf(before); bucket < now; bucket += MINUTE_MS) {
      for (const id of this.#places.get(minuteKey(table, shard, bucket)) ?? []) this.check(id);
    }
  }

  #cursor(table: ScannedTable, shard: number): EpochMs {
    return this.#cursors.get(`${LAST_READER[table]} ${shard}`) ?? this.#startedAt;
  }

  #readTo(table: ScannedTable, shard: number): string {
    return timeText(this.#cursor(table, shard));
  }
}

function minuteKey(table: ScannedTable, shard: number, bucket: EpochMs): string {
  return `${table} ${shard} ${bucket}`;
}

/** Shard, queue and priority are its first words. */
function hourKey({ shard, queue, priority, hour }: HeldHour): string {
  return `${shard} ${queue} ${priority} ${hour}`;
}

function queueOf(hour: string): string | undefined {
  return hour.split(' ')[1];
}

function laneOf(hour: string): string {
  return hour.split(' ').slice(0, 3).join(' ');
}

function timeText(at: EpochMs): string {
  return new Date(at).toISOString().slice(11, 23);
}

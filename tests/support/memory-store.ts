// The ports of core/storage in memory, for tests of what stands on them. tests/conformance runs the same suites on these and
// on a real Cassandra, so that a test on a fake says something about the product.

import { bucketEnd, bucketOf, dayOf, hourOf } from '../../services/core/domain/bucket.ts';
import type { BulkOperation } from '../../services/core/domain/bulk.ts';
import { cohortOf } from '../../services/core/domain/ids.ts';
import type { AttemptEnd, JobRow } from '../../services/core/domain/job.ts';
import { JobStatus } from '../../services/core/domain/job-status.ts';
import { DAY_MS } from '../../services/core/domain/limits.ts';
import {
  forgottenAttempt,
  judgeCondition,
  type ClockCondition,
  type ConditionColumns,
  type DeadlineEntry,
  type DueEntry,
  type Operation,
  type Remove,
} from '../../services/core/domain/operation.ts';
import type { EpochMs } from '../../services/core/domain/time.ts';
import type { Clock } from '../../services/core/ports/clock.ts';
import {
  compareHeldPlaces,
  type HeldHour,
  type HeldLaneKey,
  type HeldPosition,
  type HeldStore,
} from '../../services/core/ports/held-store.ts';
import type { DeadLetter, FinishedJob, HistoryStore } from '../../services/core/ports/history-store.ts';
import type {
  ApplyResult,
  CohortStore,
  EndsReader,
  JobReader,
  StateReader,
  TermsReader,
} from '../../services/core/ports/job-store.ts';
import type { JobKey, KeyStore } from '../../services/core/ports/key-store.ts';
import type { QueueSettings } from '../../services/core/domain/queue-settings.ts';
import type { AuditEntry, AuditLog } from '../../services/core/ports/audit-log.ts';
import type { QueueCountStore, ShardQueueCounts, WaitingTally } from '../../services/core/ports/queue-count-store.ts';
import type { QueueStore } from '../../services/core/ports/queue-store.ts';
import type { ScheduleIndex } from '../../services/core/ports/schedule-index.ts';
import type { ScheduleNames } from '../../services/core/ports/schedule-names.ts';
import type { ScheduleRun } from '../../services/core/domain/occurrence.ts';
import type { ScheduleReader, ScheduleRunStore, ScheduleStore } from '../../services/core/ports/schedule-store.ts';
import type { ListedOperation, OperationStore } from '../../services/core/ports/operation-store.ts';
import type { RunningSlot, SlotStore } from '../../services/core/ports/slot-store.ts';
import type { SettingsStore } from '../../services/core/ports/settings-store.ts';
import { StoreError } from '../../services/core/ports/store-error.ts';
import type {
  CursorStore,
  DroppedRows,
  TimerPlace,
  TimerRange,
  TimerMinute,
  TimerStore,
} from '../../services/core/ports/timer-store.ts';
import { MemorySchedules } from './memory-schedule-store.ts';

/** Every call that a fault can strike, by its port and method. */
export type StoreMethod =
  | 'cohorts.apply'
  | 'jobs.read'
  | 'jobs.readStates'
  | 'jobs.readEnds'
  | 'scheduleCohorts.apply'
  | 'schedules.read'
  | 'scheduleRuns.write'
  | 'scheduleRuns.read'
  | 'scheduleNames.find'
  | 'scheduleNames.claim'
  | 'scheduleNames.move'
  | 'scheduleNames.markWritten'
  | 'scheduleNames.release'
  | 'scheduleIndex.write'
  | 'scheduleIndex.remove'
  | 'scheduleIndex.read'
  | 'timers.writeDue'
  | 'timers.writeDeadlines'
  | 'timers.readDue'
  | 'timers.readDeadlines'
  | 'timers.dropDue'
  | 'timers.dropDeadlines'
  | 'cursors.load'
  | 'cursors.save'
  | 'history.writeFinished'
  | 'history.writeDeadLetters'
  | 'history.readDeadLetters'
  | 'history.deadLetterQueues'
  | 'operations.create'
  | 'operations.find'
  | 'operations.save'
  | 'operations.list'
  | 'operations.readList'
  | 'keys.claim'
  | 'keys.find'
  | 'keys.markWritten'
  | 'settings.readOrSeed'
  | 'settings.read'
  | 'queues.lastChange'
  | 'queues.readAll'
  | 'queues.read'
  | 'queues.change'
  | 'audit.write'
  | 'slots.read'
  | 'slots.change'
  | 'queueCounts.writeWaiting'
  | 'queueCounts.sumWaiting'
  | 'queueCounts.writeShard'
  | 'queueCounts.readShard'
  | 'held.write'
  | 'held.hours'
  | 'held.read'
  | 'held.standing'
  | 'held.count'
  | 'held.drop'
  | 'held.positions'
  | 'held.savePosition';

/**
 * What goes wrong with one call. A read that meets one of the first three throws 'unavailable', as the real store does.
 * - answer_lost: applied, then StoreError('unknown')
 * - request_lost: never applied, StoreError('unknown')
 * - late: StoreError('unknown') at once, applied afterMs later
 * - slow: everything happens afterMs later
 * - unavailable, overloaded, invalid: surely not applied
 */
export type Fault =
  | { readonly kind: 'answer_lost' }
  | { readonly kind: 'request_lost' }
  | { readonly kind: 'late'; readonly afterMs: number }
  | { readonly kind: 'slow'; readonly afterMs: number }
  | { readonly kind: 'unavailable' | 'overloaded' | 'invalid' };

export interface StoreCall {
  readonly method: StoreMethod;
  readonly args: readonly unknown[];
}

export interface MemoryStoresOptions {
  readonly clock: Clock;
  /** Asked before every call; undefined lets it pass. */
  readonly plan?: (call: StoreCall) => Fault | undefined;
  /** The server's clock, where it differs from the processes'. */
  readonly serverNow?: () => EpochMs;
  /** Called right after a call took effect, whatever its caller is told of it. */
  readonly onApplied?: (call: StoreCall) => void;
  /** Rows on a page of a timer table. */
  readonly pageRows?: number;
}

const PAGE_ROWS = 1_000;

/** All stores of one "cluster": give the same object to several services to let them share it. */
export class MemoryStores {
  readonly rows = new Map<string, JobRow>();
  readonly scheduleTables = new MemorySchedules();
  readonly due = new TimerTable<DueEntry>((row) => row.runAt);
  readonly deadlines = new TimerTable<DeadlineEntry>((row) => row.at);
  readonly finished = new Map<string, FinishedJob>();
  readonly letters = new Map<string, DeadLetter>();
  readonly positions = new Map<string, EpochMs>();
  readonly keyRows = new Map<string, JobKey>();
  readonly operationRows = new Map<string, { readonly row: BulkOperation; readonly token: string }>();
  readonly operationList = new Map<string, ListedOperation>();
  readonly settingRows = new Map<string, string>();
  readonly queueRows = new Map<string, QueueSettings>();
  /** By hour, as heldHourKey has it, then by place. */
  readonly heldRows = new Map<string, Map<string, DueEntry>>();
  readonly heldHours = new Map<string, HeldHour>();
  readonly heldPositions = new Map<string, HeldPosition>();
  #positionWrites = 0;
  readonly #positionWrittenAs = new Map<string, number>();
  readonly waitingTallies = new Map<string, WaitingTally>();
  readonly slotRows = new Map<string, RunningSlot>();
  readonly shardCounts = new Map<string, ShardQueueCounts>();
  readonly auditEntries = new Map<string, AuditEntry>();
  #lastQueueChange: string | null = null;
  /** Calls in the order in which they came. */
  readonly calls: StoreCall[] = [];

  readonly #clock: Clock;
  readonly #plan: (call: StoreCall) => Fault | undefined;
  readonly #serverNow: () => EpochMs;
  readonly #onApplied: (call: StoreCall) => void;
  readonly #pageRows: number;
  readonly #planned: { readonly method: StoreMethod; readonly fault: Fault }[] = [];

  constructor(options: MemoryStoresOptions) {
    this.#clock = options.clock;
    this.#plan = options.plan ?? (() => undefined);
    this.#serverNow = options.serverNow ?? (() => options.clock.now());
    this.#onApplied = options.onApplied ?? (() => undefined);
    this.#pageRows = options.pageRows ?? PAGE_ROWS;
  }

  /** Strikes the next call of the method that no earlier fault was meant for. */
  failNext(method: StoreMethod, fault: Fault): void {
    this.#planned.push({ method, fault });
  }

  readonly cohorts: CohortStore = {
    apply: (cohort, operations) =>
      this.#write('cohorts.apply', [cohort, operations], () => this.#apply(cohort, operations)),
  };

  readonly jobs: JobReader & TermsReader & StateReader & EndsReader = {
    read: (jobIds, options) => this.#read('jobs.read', [jobIds, options], () => this.#rowsOf(jobIds)),
    readTerms: (jobIds) => this.jobs.read(jobIds),
    readStates: (jobIds) => this.#read('jobs.readStates', [jobIds], () => this.#rowsOf(jobIds)),
    readEnds: (jobIds) => this.#read('jobs.readEnds', [jobIds], () => this.#rowsOf(jobIds)),
  };

  readonly scheduleCohorts: ScheduleStore = {
    apply: (cohort, operations) =>
      this.#write('scheduleCohorts.apply', [cohort, operations], () => this.scheduleTables.apply(cohort, operations)),
  };

  readonly schedules: ScheduleReader = {
    read: (ids, options) => this.#read('schedules.read', [ids, options], () => this.scheduleTables.read(ids)),
  };

  readonly scheduleRuns: ScheduleRunStore = {
    write: (runs) => this.#write('scheduleRuns.write', [runs], () => this.scheduleTables.writeRuns(runs)),
    read: (range) => {
      const read = (): Promise<readonly ScheduleRun[]> =>
        this.#read('scheduleRuns.read', [range], () => this.scheduleTables.readRuns(range));
      return (async function* () {
        yield await read();
      })();
    },
  };

  readonly scheduleNames: ScheduleNames = {
    find: (keyHash) =>
      this.#read('scheduleNames.find', [keyHash], () => this.scheduleTables.names.get(keyHash) ?? null),
    claim: (name) => this.#write('scheduleNames.claim', [name], () => this.scheduleTables.claimName(name)),
    move: (from, to) => this.#write('scheduleNames.move', [from, to], () => this.scheduleTables.moveName(from, to)),
    markWritten: (name) =>
      this.#write('scheduleNames.markWritten', [name], () => this.scheduleTables.markNameWritten(name)),
    release: (name) => this.#write('scheduleNames.release', [name], () => this.scheduleTables.releaseName(name)),
  };

  readonly scheduleIndex: ScheduleIndex = {
    write: (entries) =>
      this.#write('scheduleIndex.write', [entries], () => this.scheduleTables.writeIndex(entries, false)),
    remove: (entries) =>
      this.#write('scheduleIndex.remove', [entries], () => this.scheduleTables.writeIndex(entries, true)),
    read: (range) => this.#read('scheduleIndex.read', [range], () => this.scheduleTables.readIndex(range)),
  };

  readonly timers: TimerStore = {
    dropDue: (minute, rows) => this.#write('timers.dropDue', [minute, rows], () => this.due.drop(minute, rows)),
    dropDeadlines: (minute, rows) =>
      this.#write('timers.dropDeadlines', [minute, rows], () => this.deadlines.drop(minute, rows)),
    writeDue: (rows) => this.#write('timers.writeDue', [rows], () => this.due.write(rows, this.#clock.now())),
    writeDeadlines: (rows) =>
      this.#write('timers.writeDeadlines', [rows], () => this.deadlines.write(rows, this.#clock.now())),
    readDue: (range) => this.#pages('timers.readDue', this.due, range),
    readDeadlines: (range) => this.#pages('timers.readDeadlines', this.deadlines, range),
  };

  readonly cursors: CursorStore = {
    load: (role, shard) =>
      this.#read('cursors.load', [role, shard], () => this.positions.get(`${role} ${shard}`) ?? null),
    save: (role, shard, position) =>
      this.#write('cursors.save', [role, shard, position], () => {
        const key = `${role} ${shard}`;
        this.positions.set(key, Math.max(position, this.positions.get(key) ?? position));
      }),
  };

  readonly history: HistoryStore = {
    writeFinished: (rows) =>
      this.#write('history.writeFinished', [rows], () => {
        for (const row of rows) this.finished.set(`${row.queue} ${row.finishedAt} ${row.jobId}`, row);
      }),
    writeDeadLetters: (rows) =>
      this.#write('history.writeDeadLetters', [rows], () => {
        for (const row of rows) this.letters.set(`${row.queue} ${row.deadAt} ${row.jobId}`, row);
      }),
    deadLetterQueues: (day) =>
      this.#read('history.deadLetterQueues', [day], () => {
        const ofDay = [...this.letters.values()].filter(({ deadAt }) => dayOf(deadAt) === dayOf(day));
        return [...new Set(ofDay.map(({ queue }) => queue))].toSorted();
      }),
    readDeadLetters: (range) => {
      const read = (): Promise<readonly DeadLetter[]> =>
        this.#read('history.readDeadLetters', [range], () =>
          [...this.letters.values()]
            .filter(({ queue, deadAt }) => queue === range.queue && deadAt >= range.from && deadAt < range.to)
            .filter(({ deadAt }) => dayOf(deadAt) === dayOf(range.from))
            .sort((one, other) => one.deadAt - other.deadAt || (one.jobId < other.jobId ? -1 : 1)),
        );
      return (async function* () {
        yield await read();
      })();
    },
  };

  readonly keys: KeyStore = {
    claim: (key) =>
      this.#write('keys.claim', [key], () => {
        const standing = this.#liveKey(key.keyHash) ?? key;
        this.keyRows.set(key.keyHash, standing);
        return standing;
      }),
    find: (keyHash) => this.#read('keys.find', [keyHash], () => this.#liveKey(keyHash)),
    markWritten: (key) =>
      this.#write('keys.markWritten', [key], () => {
        const standing = this.#liveKey(key.keyHash);
        if (standing?.jobId === key.jobId) this.keyRows.set(key.keyHash, { ...standing, written: true });
      }),
  };

  readonly operations: OperationStore = {
    create: (operation) =>
      this.#write('operations.create', [operation], () => {
        const standing = this.#liveOperation(operation.operationId) ?? { row: operation, token: operation.operationId };
        this.operationRows.set(operation.operationId, standing);
        return standing.row;
      }),
    find: (operationId) =>
      this.#read('operations.find', [operationId], () => this.#liveOperation(operationId)?.row ?? null),
    save: (before, progress, token) =>
      this.#write('operations.save', [before, progress], () => {
        const found = this.#liveOperation(before.operationId)?.row ?? null;
        if (found?.revision !== before.revision) return { found };
        const { status, position, changed, failed, lastError, runner, updatedAt, finishedAt } = progress;
        const changes = { status, position, changed, failed, lastError, runner, updatedAt, finishedAt };
        const row = { ...found, ...changes, revision: found.revision + 1 };
        this.operationRows.set(before.operationId, { row, token });
        return null;
      }),
    bearsToken: (operationId, token) =>
      this.#read('operations.find', [operationId], () => this.#liveOperation(operationId)?.token === token),
    list: (entry) =>
      this.#write('operations.list', [entry], () => {
        const { operationId, createdAt, expiresAt } = entry;
        this.operationList.set(operationId, { operationId, createdAt, expiresAt });
      }),
    readList: (upTo) => {
      const read = (): Promise<readonly ListedOperation[]> =>
        this.#read('operations.readList', [upTo], () =>
          [...this.operationList.values()]
            .filter(({ createdAt, expiresAt }) => createdAt <= upTo && expiresAt > this.#serverNow())
            .filter(({ createdAt }) => dayOf(createdAt) === dayOf(upTo))
            .sort((one, other) => other.createdAt - one.createdAt || (one.operationId < other.operationId ? 1 : -1)),
        );
      return (async function* () {
        yield await read();
      })();
    },
  };

  readonly settings: SettingsStore = {
    readOrSeed: (name, seed) =>
      this.#write('settings.readOrSeed', [name, seed], () => {
        const value = this.settingRows.get(name) ?? seed;
        this.settingRows.set(name, value);
        return value;
      }),
    read: (name) => this.#read('settings.read', [name], () => this.settingRows.get(name) ?? null),
  };

  readonly queues: QueueStore = {
    lastChange: () => this.#read('queues.lastChange', [], () => this.#lastQueueChange),
    readAll: () => this.#read('queues.readAll', [], () => [...this.queueRows.values()].toSorted(byQueue)),
    read: (queue) => this.#read('queues.read', [queue], () => this.queueRows.get(queue) ?? null),
    change: (change) =>
      this.#write('queues.change', [change], () => {
        const { next, token } = change;
        if ((this.queueRows.get(next.queue)?.revision ?? 0) !== next.revision - 1) return false;
        this.queueRows.set(next.queue, next);
        this.#lastQueueChange = token;
        return true;
      }),
  };

  readonly held: HeldStore = {
    write: (rows) =>
      this.#write('held.write', [rows], () => {
        for (const row of rows) {
          const hour: HeldHour = { ...laneOf(row), hour: hourOf(row.runAt) };
          const key = heldHourKey(hour);
          this.heldHours.set(key, hour);
          const inHour = this.heldRows.get(key) ?? new Map<string, DueEntry>();
          this.heldRows.set(key, inHour.set(`${row.runAt} ${row.jobId}`, { ...row, direct: false }));
        }
      }),
    hours: (shard) =>
      this.#read('held.hours', [shard], () => [...this.heldHours.values()].filter((hour) => hour.shard === shard)),
    read: (hour, after, limit) =>
      this.#read('held.read', [hour, after, limit], () =>
        this.#heldIn(hour)
          .filter((row) => compareHeldPlaces(row, after) > 0)
          .slice(0, limit),
      ),
    standing: (hour, from, to) =>
      this.#read('held.standing', [hour, from, to], () => {
        const rows = this.#heldIn(hour).filter(
          (row) => compareHeldPlaces(row, from) >= 0 && compareHeldPlaces(row, to) <= 0,
        );
        return rows.map(({ runAt, jobId }) => ({ runAt, jobId }));
      }),
    count: (hour, after) =>
      this.#read(
        'held.count',
        [hour, after],
        () => this.#heldIn(hour).filter((row) => compareHeldPlaces(row, after) > 0).length,
      ),
    drop: (hour) =>
      this.#write('held.drop', [hour], () => {
        this.heldRows.delete(heldHourKey(hour));
        this.heldHours.delete(heldHourKey(hour));
      }),
    positions: (shard) =>
      this.#read('held.positions', [shard], () =>
        [...this.heldPositions.values()].filter((position) => position.shard === shard),
      ),
    savePosition: (position) => {
      // By its time of writing, as Cassandra has it: one that lands late does not take the place of a later one.
      const writtenAs = (this.#positionWrites += 1);
      return this.#write('held.savePosition', [position], () => {
        const key = laneKeyOf(position);
        if (writtenAs < (this.#positionWrittenAs.get(key) ?? 0)) return;
        this.#positionWrittenAs.set(key, writtenAs);
        this.heldPositions.set(key, position);
      });
    },
  };

  #rowsOf(jobIds: readonly string[]): ReadonlyMap<string, JobRow> {
    const found = jobIds.map((jobId) => this.rows.get(jobId)).filter((row) => row !== undefined);
    return new Map(found.map((row) => [row.jobId, row]));
  }

  readonly slots: SlotStore = {
    read: (queue) =>
      this.#read('slots.read', [queue], () =>
        [...this.slotRows.values()]
          .filter((row) => row.queue === queue)
          .toSorted((one, other) => one.slot - other.slot),
      ),
    change: (changes) =>
      this.#write('slots.change', [changes], () => {
        const keyOf = ({ queue, slot }: RunningSlot): string => `${queue} ${slot}`;
        const stands = changes.every(
          ({ before, after }) => (this.slotRows.get(keyOf(after))?.token ?? null) === before,
        );
        if (stands) for (const { after } of changes) this.slotRows.set(keyOf(after), after);
        return stands;
      }),
  };

  readonly queueCounts: QueueCountStore = {
    writeWaiting: (tallies) =>
      this.#write('queueCounts.writeWaiting', [tallies], () => {
        for (const tally of tallies) {
          const { queue, grain, start, process } = tally;
          this.waitingTallies.set(`${queue} ${grain} ${start} ${process}`, tally);
        }
      }),
    sumWaiting: (queue, { grain, from, to }) =>
      this.#read('queueCounts.sumWaiting', [queue, grain, from, to], () =>
        [...this.waitingTallies.values()]
          .filter((tally) => tally.queue === queue && tally.grain === grain && tally.start >= from && tally.start < to)
          .reduce((sum, { jobs }) => sum + jobs, 0),
      ),
    writeShard: (rows) =>
      this.#write('queueCounts.writeShard', [rows], () => {
        for (const row of rows) this.shardCounts.set(`${row.shard} ${row.queue}`, row);
      }),
    readShard: (shard) =>
      this.#read('queueCounts.readShard', [shard], () =>
        [...this.shardCounts.values()]
          .filter((row) => row.shard === shard)
          .toSorted((one, other) => (one.queue < other.queue ? -1 : 1)),
      ),
  };

  #heldIn(hour: HeldHour): readonly DueEntry[] {
    return [...(this.heldRows.get(heldHourKey(hour))?.values() ?? [])].toSorted(compareHeldPlaces);
  }

  readonly audit: AuditLog = {
    write: (entry) => this.#write('audit.write', [entry], () => void this.auditEntries.set(entry.entryId, entry)),
  };

  #apply(cohort: string, operations: readonly Operation[]): ApplyResult {
    const jobIds = new Set(operations.map(({ jobId }) => jobId));
    if (jobIds.size !== operations.length) throw new Error(`two operations on one row of ${cohort}`);
    for (const jobId of jobIds) if (cohortOf(jobId) !== cohort) throw new Error(`${jobId} is not of ${cohort}`);
    const now = this.#serverNow();
    if (operations.every((operation) => holds(operation, this.rows.get(operation.jobId), now))) {
      for (const operation of operations) {
        if (operation.edge === 'remove') this.rows.delete(operation.jobId);
        else this.rows.set(operation.jobId, changed(operation, this.rows.get(operation.jobId), now));
      }
      return { applied: true };
    }
    const columns = new Set(operations.flatMap(columnsNamed));
    const found = [...jobIds].map((jobId) => this.rows.get(jobId)).filter((row) => row !== undefined);
    return { applied: false, rows: new Map(found.map((row) => [row.jobId, pick(row, columns)])) };
  }

  #liveKey(keyHash: string): JobKey | null {
    const key = this.keyRows.get(keyHash);
    return key === undefined || key.expiresAt <= this.#serverNow() ? null : key;
  }

  #liveOperation(operationId: string): { readonly row: BulkOperation; readonly token: string } | null {
    const standing = this.operationRows.get(operationId);
    return standing === undefined || standing.row.expiresAt <= this.#serverNow() ? null : standing;
  }

  /** Each page is read when it is asked for, from where the one before ended. */
  async *#pages<Entry extends { jobId: string; shard: number }>(
    method: StoreMethod,
    table: TimerTable<Entry>,
    range: TimerRange,
  ): AsyncGenerator<readonly Entry[], void, undefined> {
    let after: Entry | null = null;
    do {
      const page: readonly Entry[] = await this.#read(method, [range], () => table.read(range, after, this.#pageRows));
      after = page.length < this.#pageRows ? null : (page.at(-1) ?? null);
      if (page.length > 0) yield page;
    } while (after !== null);
  }

  #read<Result>(method: StoreMethod, args: readonly unknown[], body: () => Result): Promise<Result> {
    return this.#call('unavailable', { method, args }, body);
  }

  #write<Result>(method: StoreMethod, args: readonly unknown[], body: () => Result): Promise<Result> {
    return this.#call('unknown', { method, args }, body);
  }

  async #call<Result>(ambiguous: 'unavailable' | 'unknown', call: StoreCall, body: () => Result): Promise<Result> {
    this.calls.push(call);
    const fault = this.#faultOf(call);
    const apply = (): Result => {
      const result = body();
      this.#onApplied(call);
      return result;
    };
    // Nothing answers within the turn of the event loop that asked.
    await Promise.resolve();
    if (fault === undefined) return apply();
    switch (fault.kind) {
      case 'slow':
        await this.#clock.sleep(fault.afterMs);
        return apply();
      case 'answer_lost':
        apply();
        throw new StoreError(ambiguous, `${call.method}: the answer was lost`);
      case 'request_lost':
        throw new StoreError(ambiguous, `${call.method}: the request was lost`);
      case 'late':
        this.#clock.after(fault.afterMs, () => void apply());
        throw new StoreError(ambiguous, `${call.method}: applies later`);
      default:
        throw new StoreError(fault.kind, `${call.method}: ${fault.kind}`);
    }
  }

  #faultOf(call: StoreCall): Fault | undefined {
    const index = this.#planned.findIndex(({ method }) => method === call.method);
    return index === -1 ? this.#plan(call) : this.#planned.splice(index, 1)[0]?.fault;
  }
}

/** A timer table: rows by (shard, minute), read in the order of time and job id. */
class TimerTable<Entry extends { readonly jobId: string; readonly shard: number }> {
  readonly #partitions = new Map<string, Map<string, Entry>>();
  readonly #timeOf: (row: Entry) => EpochMs;
  readonly #writtenAt = new WeakMap<Entry, EpochMs>();

  constructor(timeOf: (row: Entry) => EpochMs) {
    this.#timeOf = timeOf;
  }

  /** A test that lays rows down by itself need not say when. */
  write(rows: readonly Entry[], now: EpochMs = -Infinity): void {
    for (const row of rows) {
      const at = this.#timeOf(row);
      this.#writtenAt.set(row, now);
      const partition = `${row.shard} ${bucketOf(at)}`;
      const entries = this.#partitions.get(partition) ?? new Map<string, Entry>();
      this.#partitions.set(partition, entries.set(`${at} ${row.jobId}`, row));
    }
  }

  /** At most `most` rows of the range, those after the given one. */
  read(range: TimerRange, after: Entry | null, most: number): readonly Entry[] {
    const rows = [...(this.#partitions.get(`${range.shard} ${range.bucket}`)?.values() ?? [])];
    return rows
      .filter((row) => this.#isBehind(row, range) && this.#timeOf(row) <= range.to)
      .filter((row) => after === null || this.#compare(row, after) > 0)
      .sort((one, other) => this.#compare(one, other))
      .slice(0, most);
  }

  #compare(one: Entry, other: Entry): number {
    return comparePlaces(this.#placeOf(one), this.#placeOf(other));
  }

  #isBehind(row: Entry, { from, afterId = '' }: TimerRange): boolean {
    const at = this.#timeOf(row);
    return at > from || (at === from && row.jobId > afterId);
  }

  drop({ shard, bucket }: TimerMinute, rows: DroppedRows): void {
    const key = `${shard} ${bucket}`;
    const entries = this.#partitions.get(key);
    if (entries === undefined) return;
    for (const [name, row] of entries) {
      const place = this.#placeOf(row);
      const isWithin =
        rows === 'all' ||
        rows.some(({ first, last }) => comparePlaces(place, first) >= 0 && comparePlaces(place, last) <= 0);
      const isLate = (this.#writtenAt.get(row) ?? -Infinity) > bucketEnd(bucket) + DAY_MS;
      if (isWithin && !isLate) entries.delete(name);
    }
    if (entries.size === 0) this.#partitions.delete(key);
  }

  #placeOf(row: Entry): TimerPlace {
    return { at: this.#timeOf(row), jobId: row.jobId };
  }

  all(): readonly Entry[] {
    return [...this.#partitions.values()].flatMap((entries) => [...entries.values()]);
  }

  /** As somebody's DELETE would. */
  remove(matches: (row: Entry) => boolean): void {
    for (const entries of this.#partitions.values()) {
      for (const [key, row] of entries) if (matches(row)) entries.delete(key);
    }
  }
}

function comparePlaces(one: TimerPlace, other: TimerPlace): number {
  return one.at - other.at || (one.jobId < other.jobId ? -1 : Number(one.jobId > other.jobId));
}

function laneOf({ shard, queue, priority }: HeldLaneKey): HeldLaneKey {
  return { shard, queue, priority };
}

function laneKeyOf({ shard, queue, priority }: HeldLaneKey): string {
  return `${shard} ${queue} ${priority}`;
}

function heldHourKey(hour: HeldHour): string {
  return `${laneKeyOf(hour)} ${hour.hour}`;
}

function byQueue(one: QueueSettings, other: QueueSettings): number {
  return one.queue < other.queue ? -1 : 1;
}

function holds(operation: Operation, row: JobRow | undefined, now: EpochMs): boolean {
  const verdict = judgeCondition(operation, row);
  return verdict === 'holds' || (verdict === 'clock' && row !== undefined && clockAgrees(operation, row, now));
}

function clockAgrees(operation: Operation, row: JobRow, now: EpochMs): boolean {
  const { leaseUntil, deadlineAt } = row;
  switch (operation.edge) {
    case 'heartbeat':
      return leaseUntil !== null && leaseUntil <= now + operation.leaseMs && deadlineAt !== null && deadlineAt > now;
    case 'succeed':
      return deadlineAt !== null && deadlineAt > now;
    case 'end_attempt':
      return CLOCK_CONDITIONS[operation.clock]({ leaseUntil, deadlineAt }, now);
    default:
      return true;
  }
}

type Clocks = Pick<JobRow, 'leaseUntil' | 'deadlineAt'>;

const CLOCK_CONDITIONS: Record<ClockCondition, (row: Clocks, now: EpochMs) => boolean> = {
  before_deadline: ({ deadlineAt }, now) => deadlineAt !== null && deadlineAt > now,
  lease_passed: ({ leaseUntil }, now) => leaseUntil !== null && leaseUntil <= now,
  deadline_passed: ({ deadlineAt }, now) => deadlineAt !== null && deadlineAt <= now,
};

/** The row after the operation. */
function changed(operation: Exclude<Operation, Remove>, row: JobRow | undefined, now: EpochMs): JobRow {
  if (operation.edge === 'create') return operation.job;
  if (row === undefined) throw new Error(`no row ${operation.jobId}`);
  const notRunning = { leaseUntil: null, deadlineAt: null, worker: null };
  switch (operation.edge) {
    case 'enqueue':
      return { ...row, status: JobStatus.enqueued, enqueuedAt: operation.enqueuedAt };
    case 'unqueue':
      return { ...row, status: JobStatus.scheduled, enqueuedAt: null };
    case 'claim': {
      const attempt = operation.attempt + 1;
      const { worker, claimId, startedAt } = operation;
      return {
        ...row,
        status: JobStatus.running,
        attempt,
        worker,
        heard: false,
        leaseUntil: now + operation.leaseMs,
        deadlineAt: now + operation.timeoutMs,
        starts: withEntry(without(row.starts, forgottenAttempt(attempt)), attempt, { worker, claimId, startedAt }),
        ends: without(row.ends, forgottenAttempt(attempt)),
      };
    }
    case 'heartbeat':
      return {
        ...row,
        leaseUntil: now + operation.leaseMs,
        heard: true,
        progress: operation.progress ?? row.progress,
      };
    case 'succeed':
      return {
        ...row,
        ...notRunning,
        status: JobStatus.succeeded,
        finishedAt: operation.end.endedAt,
        result: operation.result ?? row.result,
        heard: true,
        ends: withEntry(row.ends, operation.attempt, stored(operation.end)),
      };
    case 'end_attempt':
      return {
        ...row,
        ...operation.next,
        ...notRunning,
        ends: withEntry(row.ends, operation.expect.attempt, stored(operation.end)),
      };
    case 'cancel':
      return {
        ...row,
        status: JobStatus.cancelled,
        ...definedOnly(pickOf(operation, 'finishedAt', 'reason', 'bulkMarks')),
      };
    case 'request_cancel':
      return { ...row, cancelRequested: true, ...definedOnly(pickOf(operation, 'bulkMarks')) };
    case 'change':
      return { ...row, ...definedOnly(operation.changes) };
    case 'replay':
      return {
        ...row,
        ...definedOnly(operation.changes),
        status: JobStatus.scheduled,
        runAt: operation.runAt,
        tries: 0,
        lapses: 0,
        lostClaims: 0,
        finishedAt: null,
        reason: null,
      };
    case 'discard':
      return { ...row, status: JobStatus.cancelled, reason: operation.reason, bulkMarks: operation.bulkMarks };
  }
}

/** An undefined change leaves its column alone. */
function definedOnly<Changes extends object>(changes: Changes): Changes {
  return Object.fromEntries(Object.entries(changes).filter(([, value]) => value !== undefined)) as Changes;
}

function pickOf<Source extends object, Name extends keyof Source>(
  source: Source,
  ...names: readonly Name[]
): Pick<Source, Name> {
  return Object.fromEntries(names.map((name) => [name, source[name]])) as Pick<Source, Name>;
}

/** Text is stored as UTF-8, which half a surrogate pair does not survive. */
function stored(end: AttemptEnd): AttemptEnd {
  return { ...end, error: end.error?.toWellFormed() ?? null };
}

const ALL_COLUMNS: readonly (keyof ConditionColumns)[] = [
  'status',
  'queue',
  'attempt',
  'runAt',
  'cancelRequested',
  'leaseUntil',
  'deadlineAt',
  'enqueuedAt',
  'finishedAt',
];

/** A lost batch returns, of each row, the columns that any of its conditions names; a create names them all. */
function columnsNamed(operation: Operation): readonly (keyof ConditionColumns)[] {
  switch (operation.edge) {
    case 'create':
      return ALL_COLUMNS;
    case 'enqueue':
      return ['status', 'queue', 'attempt', 'runAt'];
    case 'cancel':
    case 'change':
      return ['status', 'attempt', 'runAt'];
    case 'replay':
    case 'discard':
      return ['status', 'attempt', 'runAt', 'finishedAt'];
    case 'remove':
      return ['status', 'finishedAt'];
    case 'unqueue':
    case 'claim':
      return ['status', 'attempt', ...(operation.enqueuedAt === null ? [] : (['enqueuedAt'] as const))];
    case 'request_cancel':
      return ['status', 'attempt'];
    case 'heartbeat':
      return ['status', 'attempt', 'cancelRequested', 'leaseUntil', 'deadlineAt'];
    case 'succeed':
      return ['status', 'attempt', 'deadlineAt'];
    case 'end_attempt':
      return [
        'status',
        'attempt',
        'runAt',
        'cancelRequested',
        operation.clock === 'lease_passed' ? 'leaseUntil' : 'deadlineAt',
      ];
  }
}

function pick(row: JobRow, columns: ReadonlySet<keyof ConditionColumns>): ConditionColumns {
  return Object.fromEntries([...columns].map((column) => [column, row[column]]));
}

function withEntry<Value>(map: ReadonlyMap<number, Value>, key: number, value: Value): ReadonlyMap<number, Value> {
  return new Map(map).set(key, value);
}

function without<Value>(map: ReadonlyMap<number, Value>, key: number): ReadonlyMap<number, Value> {
  return new Map([...map].filter(([each]) => each !== key));
}

// Schedules, the dispatchers that fire them and the reaper that looks after them, over the stores and the bus in memory. Every
// dispatcher is a process of its own, which can be killed at any of its calls.

import { AuditTrail } from '../../services/api/use-cases/audit-trail.ts';
import { JobCanceller } from '../../services/api/use-cases/cancel-job.ts';
import { ScheduleChanger } from '../../services/api/use-cases/change-schedule.ts';
import { ScheduleFinder } from '../../services/api/use-cases/find-schedules.ts';
import { HeldBoard } from '../../services/core/queues/held-board.ts';
import { QueueBook } from '../../services/core/queues/queue-book.ts';
import { RunningSlots } from '../../services/core/queues/running-slots.ts';
import { QueueGate } from '../../services/core/queues/queue-gate.ts';
import { isTerminal, JobStatus } from '../../services/core/domain/job-status.ts';
import type { JobRow } from '../../services/core/domain/job.ts';
import { HOUR_MS, SECOND_MS } from '../../services/core/domain/limits.ts';
import { wakeUpRow } from '../../services/core/domain/schedule-plan.ts';
import type { ScheduleRow } from '../../services/core/domain/schedule.ts';
import type { EpochMs } from '../../services/core/domain/time.ts';
import { StaleMessages } from '../../services/core/moves/stale-messages.ts';
import { WaitingCanceller } from '../../services/core/moves/cancel-waiting.ts';
import { OccurrenceWriter } from '../../services/core/moves/occurrence-writer.ts';
import { OverlapQueue } from '../../services/core/moves/overlap-queue.ts';
import { ReadyPublisher } from '../../services/core/moves/ready-publisher.ts';
import { TimetableCache } from '../../services/core/moves/timetable-cache.ts';
import { ScheduleWriter } from '../../services/core/moves/write-schedule.ts';
import type { Clock } from '../../services/core/ports/clock.ts';
import { Rounds, ScheduleRounds } from '../../services/core/rounds/rounds.ts';
import { Timers } from '../../services/core/timers/timers.ts';
import { Dispatcher } from '../../services/dispatcher/dispatcher.ts';
import { ScheduleFirer } from '../../services/dispatcher/schedule-firer.ts';
import type { Reaper } from '../../services/reaper/reaper.ts';
import { FakeClock } from './fake-clock.ts';
import { MemoryBus, type MemoryConnection } from './memory-bus.ts';
import { MemoryStores, type Fault, type StoreCall } from './memory-store.ts';
import { makeReaper } from './reaper.ts';
import { told } from './schedule-pass.ts';
import { scriptedRandom } from './scripted-random.ts';
import { silentLog, silentTelemetry } from './silent-telemetry.ts';

/** All timers lie in one shard. */
const SHARD = 0;
const SHARDS = 1;

export interface DispatcherProcess {
  readonly dispatcher: Dispatcher;
  readonly firer: ScheduleFirer;
  /** Its calls so far, as `port.method`. */
  readonly calls: readonly string[];
  readonly connection: MemoryConnection;
  /** From now on nothing that it does has any effect, and nothing answers it. */
  kill(): void;
  isAlive(): boolean;
}

/** The part of an api process that changes schedules. */
export interface CallerProcess {
  readonly changer: ScheduleChanger;
  readonly calls: readonly string[];
  isAlive(): boolean;
}

export interface ProcessOptions {
  /** Its wall clock is so much ahead. */
  readonly aheadMs?: number;
  /** It is killed at its nth call to a store or the bus: before the call, or when it took effect and was not answered. */
  readonly killedAt?: { readonly call: number; readonly effect: 'lost' | 'taken' };
}

export class ScheduleWorld {
  readonly clock: FakeClock;
  readonly startedAt: EpochMs;
  readonly stores: MemoryStores;
  readonly bus: MemoryBus;
  /** No two processes draw the same mark. */
  readonly random = scriptedRandom();
  readonly #dispatchers: DispatcherProcess[] = [];
  #reaper: Reaper | null = null;
  #seconds = 0;

  constructor(start: EpochMs, strikes: (call: StoreCall) => Fault | undefined = () => undefined) {
    this.startedAt = start;
    this.clock = new FakeClock(start);
    this.stores = new MemoryStores({ clock: this.clock, plan: strikes });
    this.bus = new MemoryBus({ clock: this.clock });
  }

  /** Schedules with their wake-up rows, as their creation leaves them. */
  add(...schedules: readonly ScheduleRow[]): void {
    for (const schedule of schedules) {
      const row = { ...schedule, shard: SHARD };
      this.stores.scheduleTables.rows.set(row.scheduleId, row);
      if (row.nextRunAt !== null) this.stores.due.write([wakeUpRow(row, row.nextRunAt)]);
    }
  }

  /** Starts a dispatcher that owns the shard. Others may own it as well. */
  async startDispatcher(options: ProcessOptions = {}): Promise<DispatcherProcess> {
    const process = dispatcherProcess(this, options);
    this.#dispatchers.push(process);
    process.dispatcher.acquired(SHARD);
    await this.clock.advance(0);
    return process;
  }

  startCaller(options: ProcessOptions = {}): CallerProcess {
    return callerProcess(this, options);
  }

  startReaper(): void {
    const connection = this.bus.connect();
    const { stores, clock } = this;
    this.#reaper = makeReaper({ stores, connection, clock, telemetry: silentTelemetry, holds: () => true });
    this.#reaper.acquired(SHARD);
  }

  /** Ticks of all that lives, each on its second. */
  async run(seconds: number): Promise<void> {
    for (let second = 0; second < seconds; second += 1) {
      for (const { dispatcher } of this.#dispatchers.filter((process) => process.isAlive())) {
        void dispatcher.runOnce();
        dispatcher.beat();
      }
      void this.#reaper?.reapDeadlines();
      if (this.#seconds % 5 === 0) void this.#reaper?.lookAgain();
      this.#seconds += 1;
      await this.clock.advance(SECOND_MS);
    }
  }

  /** Time that passes while nobody does anything. */
  pass(ms: number): void {
    this.clock.step({ wallMs: ms, monotonicMs: ms });
  }

  schedule({ scheduleId }: ScheduleRow): ScheduleRow | undefined {
    return this.stores.scheduleTables.rows.get(scheduleId);
  }

  /** What the report tells of a schedule, in the order of the slots. */
  told({ scheduleId }: ScheduleRow): readonly string[] {
    return [...this.stores.scheduleTables.runs.values()]
      .filter((run) => run.scheduleId === scheduleId)
      .sort((one, other) => one.slot - other.slot)
      .map(told);
  }

  /** The rows that decide a schedule's slots, in their order. */
  occurrences({ scheduleId }: ScheduleRow): readonly JobRow[] {
    return [...this.stores.rows.values()]
      .filter((row) => row.scheduleId === scheduleId)
      .sort((one, other) => (one.jobId < other.jobId ? -1 : 1));
  }

  /** Ready messages, by job. */
  published(): ReadonlyMap<string, number> {
    const messages = [...this.bus.subjects.values()].flat();
    return new Map([...Map.groupBy(messages, ({ message }) => message.jobId)].map(([jobId, of]) => [jobId, of.length]));
  }

  /** A worker takes an occurrence. */
  begin({ jobId }: JobRow): void {
    const at = this.clock.now();
    this.#set(jobId, { status: JobStatus.running, attempt: 1, leaseUntil: at + HOUR_MS, deadlineAt: at + HOUR_MS });
  }

  /** It ends, and whoever ended it does, or does not, live to hurry the next. */
  async end({ jobId }: JobRow, hurry = true): Promise<void> {
    const { clock, stores } = this;
    this.#set(jobId, { status: JobStatus.succeeded, attempt: 1, finishedAt: clock.now(), leaseUntil: null });
    if (!hurry) return;
    const timers = new Timers({ store: stores.timers, hints: this.bus.connect().hints, clock });
    const parts = { reader: stores.jobs, schedules: stores.schedules, timers, clock, log: silentLog };
    await clock.until(new OverlapQueue(parts).hurryAfter({ jobId, onOverlap: stores.rows.get(jobId)?.onOverlap }));
  }

  live(schedule: ScheduleRow): readonly JobRow[] {
    return this.occurrences(schedule).filter(({ status }) => !isTerminal(status));
  }

  #set(jobId: string, changes: Partial<JobRow>): void {
    const row = this.stores.rows.get(jobId);
    if (row === undefined) throw new Error(`no row ${jobId}`);
    this.stores.rows.set(jobId, { ...row, ...changes });
  }
}

/** What the processes of the world have in common: the stores and the bus as this one reaches them. */
function processParts(world: ScheduleWorld, options: ProcessOptions) {
  const { stores, bus } = world;
  const life = new Life(options.killedAt);
  const clock: Clock = options.aheadMs === undefined ? world.clock : world.clock.skewed(options.aheadMs);
  const connection = bus.connect();
  const queue = life.mortal('queue', connection.queue);
  const hints = connection.hints;
  const reader = life.mortal('jobs', stores.jobs);
  const schedules = life.mortal('schedules', stores.schedules);
  const { random } = world;
  const [telemetry, log] = [silentTelemetry, silentLog];
  const rounds = new Rounds({ store: life.mortal('cohorts', stores.cohorts), reader, clock, telemetry });
  const scheduleRounds = new ScheduleRounds({
    store: life.mortal('scheduleCohorts', stores.scheduleCohorts),
    reader: schedules,
    clock,
    telemetry,
  });
  const timers = new Timers({ store: life.mortal('timers', stores.timers), hints, clock });
  const publisher = new ReadyPublisher({ queue, clock });
  const overlaps = new OverlapQueue({ reader, schedules, timers, clock, log });
  const history = life.mortal('history', stores.history);
  const leftBehind = new StaleMessages({ queue, reader, clock, telemetry, log });
  const canceller = new WaitingCanceller({ rounds, timers, history, overlaps, leftBehind, clock, log });
  const occurrences = new OccurrenceWriter({
    ...{ rounds, timers, publisher, clock, random, telemetry, log },
    runs: life.mortal('scheduleRuns', stores.scheduleRuns),
    shards: SHARDS,
  });
  const timetables = new TimetableCache();
  const standing = { clock, random, telemetry, log, hints, queue, reader, schedules };
  const moves = { rounds, scheduleRounds, timers, publisher, overlaps, canceller, occurrences, timetables };
  return { life, connection, ...standing, ...moves };
}

function dispatcherProcess(world: ScheduleWorld, options: ProcessOptions): DispatcherProcess {
  const { stores } = world;
  const parts = processParts(world, options);
  const { life, connection, publisher, queue, clock } = parts;
  const queueBook = new QueueBook({ store: stores.queues, clock });
  const heldBoard = new HeldBoard({ clock });
  const gate = new QueueGate({ book: queueBook, publisher, queue, board: heldBoard });
  const firer = new ScheduleFirer({ ...parts, gate });
  const dispatcher = new Dispatcher({
    ...{ ...parts, firer, queueBook, heldBoard },
    slots: new RunningSlots({ ...parts, store: stores.slots, reader: stores.jobs }),
    timerStore: stores.timers,
    heldStore: life.mortal('held', stores.held),
    cursors: life.mortal('cursors', stores.cursors),
    holds: () => life.isAlive,
    clusterStartedAt: world.startedAt - HOUR_MS,
    shards: SHARDS,
    heldReports: connection.heldReports,
    member: 'dispatcher',
  });
  return {
    dispatcher,
    firer,
    connection,
    calls: life.calls,
    kill: () => {
      life.isAlive = false;
    },
    isAlive: () => life.isAlive,
  };
}

function callerProcess(world: ScheduleWorld, options: ProcessOptions): CallerProcess {
  const { stores } = world;
  const { life, ...parts } = processParts(world, options);
  const { clock, log } = parts;
  const names = life.mortal('names', stores.scheduleNames);
  const changer = new ScheduleChanger({
    writer: new ScheduleWriter({ ...parts, rounds: parts.scheduleRounds }),
    finder: new ScheduleFinder({ reader: parts.schedules, names }),
    names,
    index: life.mortal('index', stores.scheduleIndex),
    canceller: new JobCanceller(parts),
    trail: new AuditTrail({ audit: life.mortal('audit', stores.audit), clock, log }),
    clock,
  });
  return { changer, calls: life.calls, isAlive: () => life.isAlive };
}

class Life {
  isAlive = true;
  readonly calls: string[] = [];
  readonly #killedAt: ProcessOptions['killedAt'];

  constructor(killedAt: ProcessOptions['killedAt']) {
    this.#killedAt = killedAt;
  }

  /** The port as a process has it: a dead one's calls reach nobody, and no answer reaches it. */
  mortal<Port extends object>(name: string, port: Port): Port {
    return new Proxy(port, {
      get: (target, property) => {
        const value: unknown = Reflect.get(target, property);
        if (typeof value !== 'function') return value;
        const send = (...args: unknown[]): unknown => value.apply(target, args);
        if (!PROMISED.has(String(property))) return send;
        return (...args: unknown[]) => this.#call(`${name}.${String(property)}`, () => send(...args));
      },
    });
  }

  async #call(name: string, send: () => unknown): Promise<unknown> {
    const never = new Promise<never>(() => undefined);
    if (!this.isAlive) return never;
    // Where a shard is read from again is another matter.
    if (name.startsWith('cursors.')) return send();
    this.calls.push(name);
    const dies = this.calls.length === this.#killedAt?.call;
    if (dies) this.isAlive = false;
    if (dies && this.#killedAt.effect === 'lost') return never;
    const answer = send();
    const result = await answer;
    return this.isAlive ? result : never;
  }
}

/** The methods that answer later. What reads page by page is left alone: it has no effect. */
const PROMISED = new Set([
  'apply',
  'read',
  'write',
  'writeDue',
  'writeDeadlines',
  'save',
  'load',
  'writeFinished',
  'publish',
  'release',
  'remove',
]);

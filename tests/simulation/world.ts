// One run: the stores, the bus, the processes on them, the clients and workers around them, all in one event loop that only
// the fake clock moves.

import type { UseCases } from '../../services/api/use-cases/types.ts';
import type { Connections, Foundation } from '../../services/core/foundation/foundation.ts';
import { CLOCK_SKEW_STOP_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '../../services/core/domain/limits.ts';
import type { EpochMs } from '../../services/core/domain/time.ts';
import { StoreError } from '../../services/core/ports/store-error.ts';
import type { ClockSource } from '../../services/core/ports/clock-source.ts';
import type { Clock } from '../../services/core/ports/clock.ts';
import { FAKE_START, FakeClock } from '../support/fake-clock.ts';
import { MemoryBus } from '../support/memory-bus.ts';
import { MemoryStores } from '../support/memory-store.ts';
import { Chance } from './chance.ts';
import { Chaos, CHAOS_STREAM } from './chaos.ts';
import { Ledger } from './ledger.ts';
import { checkChange } from './life-cycle-checks.ts';
import { Machine } from './machine.ts';
import { Pending } from './pending-fault.ts';
import { RunningLimit } from './running-limit.ts';
import { ScheduleLedger } from './schedule-ledger.ts';
import { TimerInvariant } from './timer-invariant.ts';
import { Trace } from './trace.ts';
import type { Violation } from './violation.ts';
import type { MemoryConnection } from '../support/memory-bus.ts';
import { wiredConnections } from './wires.ts';

/** A fault planted into what a process is made of, to see that the checkers find it. */
export interface Plant {
  /** Changes what a process reaches the stores and the bus through. */
  readonly connections?: (connections: Connections, context: PlantContext) => Connections;
  /** Changes the parts of a process before they are put together. */
  readonly foundation?: (foundation: Foundation, context: PlantContext) => void;
}

export interface PlantContext {
  readonly world: World;
  readonly kind: string;
  readonly clock: Clock;
}

/** What runs on a machine. */
export interface Running {
  /** Of an api. */
  readonly useCases?: UseCases;
  /** What its readiness says: null for ready. */
  readonly problem: () => string | null;
  readonly stop: () => Promise<void>;
}

/** What a process is given to stand on. */
export interface Host {
  readonly world: World;
  readonly kind: string;
  readonly machine: Machine;
  readonly random: Chance;
  readonly connections: Connections;
}

export interface ProcessKind {
  readonly name: string;
  readonly instances: number;
  /** Starts one; rejects when it cannot start now, as a process that ends with an error. */
  readonly start: (host: Host) => Promise<Running>;
}

/** Where a process of a kind runs, again and again after each death. */
export interface Slot {
  readonly kind: ProcessKind;
  readonly index: number;
  machine: Machine;
  link: MemoryConnection;
  running: Running | null;
}

export interface WorldOptions {
  readonly seed: number;
  readonly plant?: Plant | undefined;
  readonly onLine?: ((line: string) => void) | undefined;
}

/** Few, so that jobs meet each other. */
export const SHARDS = 3;
const PAGE_ROWS = 7;
const SERVER_SKEW_MAX_MS = 0.4 * SECOND_MS;
const RESTART_AFTER_MAX_MS = 12 * SECOND_MS;

export class World {
  readonly seed: number;
  readonly plant: Plant;
  readonly clock: FakeClock;
  readonly trace: Trace;
  readonly chaos: Chaos;
  readonly stores: MemoryStores;
  readonly bus: MemoryBus;
  readonly ledger: Ledger;
  readonly timers: TimerInvariant;
  readonly schedules: ScheduleLedger;
  readonly runningLimit: RunningLimit;
  readonly slots: Slot[] = [];
  readonly startedAt: EpochMs;
  violation: Violation | null = null;
  /** False once the clients have stopped asking for new work. */
  isOpen = true;
  readonly #pending = new Pending();
  readonly #servers: readonly ClockSource[];
  readonly #starts = new Map<string, number>();
  readonly #restarts: Chance;

  constructor({ seed, plant, onLine }: WorldOptions) {
    this.seed = seed;
    this.plant = plant ?? {};
    const setting = this.chance('setting');
    this.clock = new FakeClock(FAKE_START + setting.whole(0, MINUTE_MS));
    this.startedAt = this.clock.now();
    this.trace = new Trace(this.clock, onLine);
    this.chaos = new Chaos({
      chance: this.chance(CHAOS_STREAM),
      latency: this.chance('latency'),
      clock: this.clock,
      trace: this.trace,
    });
    this.#restarts = this.chance('restarts');
    const clock = wholeMs(this.clock);
    const servers = this.chance('servers');
    const skews = [0, 1, 2].map(() => servers.between(-SERVER_SKEW_MAX_MS, SERVER_SKEW_MAX_MS));
    this.#servers = [...skews, 0].map((skewMs, index) => ({
      name: index < skews.length ? `cassandra-${index}` : 'nats',
      now: () => Promise.resolve(Math.floor(this.clock.now() + skewMs)),
    }));
    this.stores = new MemoryStores({
      clock,
      pageRows: PAGE_ROWS,
      // Any node may coordinate a round, each with its own clock.
      serverNow: () => Math.floor(this.clock.now() + servers.pick(skews)),
      plan: () => this.#pending.takeStore(),
      onApplied: (call) => this.timers.applied(call),
    });
    this.bus = new MemoryBus({ clock, plan: () => this.#pending.takeBus(), perSubject: setting.pick([20, 10_000]) });
    const report = (violation: Violation): void => this.report(violation);
    this.timers = new TimerInvariant({
      stores: this.stores,
      startedAt: this.startedAt - HOUR_MS,
      now: () => this.clock.now(),
      report,
    });
    this.ledger = new Ledger({ stores: this.stores, timers: this.timers, now: () => this.clock.now(), report });
    const { stores, timers, ledger } = this;
    this.runningLimit = new RunningLimit({ stores, chance: this.chance('running limit'), report });
    this.schedules = new ScheduleLedger({ stores, timers, ledger, now: () => this.clock.now(), report });
    this.#watchRows();
    this.#watchSchedules();
  }

  chance(stream: string): Chance {
    return new Chance(this.seed, stream);
  }

  report(violation: Violation): void {
    if (this.violation !== null) return;
    this.violation = violation;
    this.trace.add('-', `VIOLATION ${violation.rule}: ${violation.detail}`);
  }

  addSlots(kind: ProcessKind): void {
    for (let index = 0; index < kind.instances; index += 1) {
      const machine = new Machine(kind.name, this.clock, 0);
      const slot: Slot = { kind, index, machine, link: this.bus.connect(), running: null };
      machine.crash();
      this.slots.push(slot);
      this.startSlot(slot);
    }
  }

  slotsOf(kind: string): readonly Slot[] {
    return this.slots.filter((slot) => slot.kind.name === kind);
  }

  /** A new process in place of the dead one. */
  startSlot(slot: Slot): void {
    if (!slot.machine.isDead) return;
    const id = `${slot.kind.name}-${slot.index}`;
    const start = (this.#starts.get(id) ?? 0) + 1;
    this.#starts.set(id, start);
    const skew = CLOCK_SKEW_STOP_MS - SECOND_MS;
    const aheadMs = this.chaos.isOn && this.#restarts.happens(0.3) ? this.#restarts.between(-skew, skew) : 0;
    const machine = new Machine(`${id}-${start}`, this.clock, aheadMs);
    const { chaos, trace, clock, stores, bus } = this;
    const { connections, link } = wiredConnections({
      ...{ machine, chaos, trace, clock, stores, bus },
      pending: this.#pending,
      servers: this.#servers,
    });
    slot.machine = machine;
    slot.link = link;
    slot.running = null;
    const random = this.chance(machine.name);
    machine.onDeath(() => {
      slot.running = null;
      void this.clock.sleep(this.#restarts.between(0.3 * SECOND_MS, RESTART_AFTER_MAX_MS)).then(() => {
        this.startSlot(slot);
      });
    });
    trace.add(machine.name, `starts, its clock ${Math.round(aheadMs)} ms ahead`);
    slot.kind.start({ world: this, kind: slot.kind.name, machine, random, connections }).then(
      (running) => {
        if (machine.isDead) return;
        trace.add(machine.name, 'started');
        slot.running = running;
      },
      (error: unknown) => {
        trace.add(machine.name, `could not start: ${String(error)}`);
        if (!(error instanceof StoreError)) {
          const detail = `${machine.name} could not start: ${errorText(error)}`;
          this.report({ rule: 'an error of our own', detail, subject: null });
        }
        machine.crash();
      },
    );
  }

  /** Each change of a row is judged as it is made. */
  #watchRows(): void {
    const { rows } = this.stores;
    const set = rows.set.bind(rows);
    rows.set = (jobId, after) => {
      const before = rows.get(jobId);
      set(jobId, after);
      const detail = `${before?.status ?? 'nothing'} -> ${after.status} #${after.attempt}`;
      this.trace.add('cassandra', `${jobId} ${detail}`);
      checkChange(before, after, this.clock.now(), (violation) => this.report(violation));
      this.timers.check(jobId);
      this.runningLimit.changed(after);
      this.schedules.jobChanged(before, after);
      if (before === undefined) this.ledger.born(after);
      else this.ledger.changed(before, after);
      return rows;
    };
  }

  #watchSchedules(): void {
    const { rows } = this.stores.scheduleTables;
    const set = rows.set.bind(rows);
    const remove = rows.delete.bind(rows);
    rows.set = (scheduleId, after) => {
      const before = rows.get(scheduleId);
      set(scheduleId, after);
      this.trace.add('cassandra', `${scheduleId} revision ${after.revision}, next ${after.nextRunAt ?? 'none'}`);
      this.schedules.changed(before, after);
      return rows;
    };
    rows.delete = (scheduleId) => {
      this.trace.add('cassandra', `${scheduleId} is deleted`);
      this.schedules.removed(scheduleId);
      return remove(scheduleId);
    };
  }
}

export function errorText(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}

/** Servers count time in whole milliseconds. */
function wholeMs(clock: FakeClock): Clock {
  return {
    now: () => Math.floor(clock.now()),
    monotonic: () => clock.monotonic(),
    moment: () => ({ ...clock.moment(), wallMs: Math.floor(clock.now()) }),
    sleep: (ms, signal) => clock.sleep(ms, signal),
    after: (ms, callback) => clock.after(ms, callback),
  };
}

// Everything that goes wrong in a run, drawn from its seed.

import type { Clock } from '../../services/core/ports/clock.ts';
import { LATE_APPLY_MS, MINUTE_MS, SECOND_MS } from '../../services/core/domain/limits.ts';
import type { BusFault, BusMethod } from '../support/memory-bus.ts';
import type { Fault, StoreMethod } from '../support/memory-store.ts';
import type { Chance } from './chance.ts';
import { sleepLong, type Machine, type PauseKind } from './machine.ts';
import { BLOW, type Trace } from './trace.ts';

/** What can strike one call. */
const CALL_FAULTS = ['answer_lost', 'request_lost', 'late', 'slow', 'unavailable', 'overloaded'] as const;
/** What can strike a process at one of its awaits. */
const AWAIT_BLOWS = ['crash_at_await', 'pause_at_await'] as const;
/** What can happen to a request of a client or a worker. */
const REQUEST_FAULTS = ['request_dropped', 'answer_dropped', 'request_doubled', 'request_delayed'] as const;
/** What happens at a time of its own. */
const EVENTS = [
  'crash',
  'stop',
  'stall',
  'suspend',
  'clock_step',
  'clock_skew',
  'cut_from_cassandra',
  'cut_from_nats',
  'nats_away',
  'cassandra_away',
  'range_away',
  'timers_away',
  'ready_stream_lost',
  'ready_messages_lost',
  'lease_bucket_lost',
  'storm',
] as const;

export const FAULTS = [...CALL_FAULTS, ...AWAIT_BLOWS, ...REQUEST_FAULTS, ...EVENTS] as const;
export type FaultName = (typeof FAULTS)[number];
export type EventName = (typeof EVENTS)[number];

export interface Passage {
  /** Strikes the process before the call leaves it. */
  readonly before: Blow | null;
  readonly outMs: number;
  readonly fault: Fault | null;
  readonly backMs: number;
  /** Strikes it before it learns the answer. */
  readonly after: Blow | null;
}

export type Blow =
  { readonly kind: 'crash' } | { readonly kind: 'pause'; readonly ms: number; readonly how: PauseKind };

export interface TimerRows {
  readonly table: 'due' | 'deadlines';
  readonly shard: number;
}

export interface RequestPassage {
  readonly outMs: number;
  readonly isDropped: boolean;
  readonly isDoubled: boolean;
  readonly backMs: number;
  readonly isAnswerDropped: boolean;
}

/** A seed's own mix: many runs with few kinds of faults find more than all runs with all of them. */
export interface Profile {
  readonly callFaultRate: number;
  readonly blowRate: number;
  readonly requestFaultRate: number;
  readonly callFaults: Readonly<Partial<Record<(typeof CALL_FAULTS)[number], number>>>;
  readonly events: Readonly<Partial<Record<EventName, number>>>;
  readonly meanEventEveryMs: number;
  readonly isSlow: boolean;
  /** A call beside which this seed strikes most of all. */
  readonly focus: string | null;
  readonly pauses: keyof typeof PAUSES_MS;
}

/** The stream of chance that a seed's faults are drawn from. */
export const CHAOS_STREAM = 'chaos';

/** Shorter than any patience; about a lease; so long that a minute gets its second look meanwhile. */
const PAUSES_MS = {
  short: [0.2 * SECOND_MS, 8 * SECOND_MS],
  lease: [8 * SECOND_MS, 30 * SECOND_MS],
  minutes: [30 * SECOND_MS, 240 * SECOND_MS],
} as const;
const PAUSES = ['short', 'lease', 'minutes'] as const;
const FOCUS_BLOW_RATE = 0.04;

const STORM_CALL_FAULT_RATE = 0.35;
/** Calls that change something: what a process dies beside them matters most. */
const WRITES: readonly string[] = [
  'cohorts.apply',
  'scheduleCohorts.apply',
  'timers.writeDue',
  'timers.writeDeadlines',
  'keys.claim',
  'keys.markWritten',
  'cursors.save',
  'history.writeFinished',
  'history.writeDeadLetters',
  'queue.publish',
] satisfies (StoreMethod | BusMethod)[];
/** Those that rules 2 and 3 of the timers are about: whoever stalls beside one for long must find out. */
const STALLING_WRITES: readonly string[] = ['cohorts.apply', 'timers.writeDue', 'timers.writeDeadlines'];
const WRITE_BLOW_FACTOR = 5;

export class Chaos {
  readonly counts = new Map<FaultName, number>();
  readonly #chance: Chance;
  readonly #latency: Chance;
  readonly #clock: Clock;
  readonly #trace: Trace;
  readonly #profile: Profile;
  #isOn = false;
  #stormUntilMs = 0;
  readonly #cut = { cassandra: new Set<Machine>(), nats: new Set<Machine>() };
  #cassandraAway = false;
  #natsAway = false;
  #rangeAway: number | null = null;
  #timersAway: TimerRows | null = null;

  constructor(parts: { chance: Chance; latency: Chance; clock: Clock; trace: Trace }) {
    this.#chance = parts.chance;
    this.#latency = parts.latency;
    this.#clock = parts.clock;
    this.#trace = parts.trace;
    this.#profile = drawProfile(parts.chance);
  }

  get isOn(): boolean {
    return this.#isOn;
  }

  start(): void {
    this.#isOn = true;
  }

  /** From now on nothing goes wrong any more, and what is cut is mended. */
  heal(): void {
    this.#isOn = false;
    this.#stormUntilMs = 0;
    this.#cut.cassandra.clear();
    this.#cut.nats.clear();
    this.#cassandraAway = false;
    this.#natsAway = false;
    this.#rangeAway = null;
    this.#timersAway = null;
  }

  passage(call: string): Passage {
    const fault = this.#callFault(call);
    return {
      before: this.#blow(call),
      outMs: this.#latencyMs(),
      fault,
      backMs: this.#latencyMs(),
      after: this.#blow(call),
    };
  }

  request(): RequestPassage {
    const { requestFaultRate } = this.#profile;
    const fault = this.#isOn && this.#chance.happens(requestFaultRate) ? this.#chance.pick(REQUEST_FAULTS) : null;
    if (fault !== null) this.#count(fault);
    return {
      outMs: this.#latencyMs() + (fault === 'request_delayed' ? this.#chance.between(0, 4 * SECOND_MS) : 0),
      isDropped: fault === 'request_dropped',
      isDoubled: fault === 'request_doubled',
      backMs: this.#latencyMs(),
      isAnswerDropped: fault === 'answer_dropped',
    };
  }

  isCut(machine: Machine, from: 'cassandra' | 'nats'): boolean {
    return (from === 'cassandra' ? this.#cassandraAway : this.#natsAway) || this.#cut[from].has(machine);
  }

  /** A quarter of the cohorts has too few replicas. */
  isRangeAway(cohort: string): boolean {
    return this.#rangeAway !== null && (cohort.codePointAt(2) ?? 0) % 4 === this.#rangeAway;
  }

  /** The partitions of one timer table of one shard have too few replicas. */
  areTimersAway({ table, shard }: TimerRows): boolean {
    return this.#timersAway?.table === table && this.#timersAway.shard === shard;
  }

  pauseMs(): number {
    const length = this.#chance.happens(0.6) ? this.#profile.pauses : this.#chance.pick(PAUSES);
    const [least, most] = PAUSES_MS[length];
    return this.#chance.between(least, most);
  }

  /** The next event and when it comes; null when this seed has none. */
  nextEvent(): { readonly name: EventName; readonly inMs: number } | null {
    const name = this.#chance.weighted(this.#profile.events);
    if (name === null) return null;
    return { name, inMs: this.#chance.between(0, 2 * this.#profile.meanEventEveryMs) };
  }

  note(name: EventName, subject: string): void {
    this.#count(name);
    this.#trace.add('-', `${BLOW} ${name} ${subject}`);
  }

  strike(machine: Machine, blow: Blow): void {
    // One drawn for a call that was still under way as all healed.
    if (!this.#isOn || machine.isDead || machine.isPaused) return;
    this.#count(blow.kind === 'crash' ? 'crash_at_await' : 'pause_at_await');
    const what = blow.kind === 'crash' ? 'dies' : `is ${blow.how} for ${Math.round(blow.ms)} ms`;
    this.#trace.add(machine.name, `${BLOW} ${what} at this await`);
    if (blow.kind === 'crash') machine.crash();
    else machine.pause(blow.ms, blow.how);
  }

  cut(machine: Machine, from: 'cassandra' | 'nats', ms: number): void {
    this.#cut[from].add(machine);
    void sleepLong(this.#clock, ms).then(() => this.#cut[from].delete(machine));
  }

  takeAway(what: 'cassandra' | 'nats', ms: number): void {
    if (what === 'cassandra') this.#cassandraAway = true;
    else this.#natsAway = true;
    void sleepLong(this.#clock, ms).then(() => {
      if (what === 'cassandra') this.#cassandraAway = false;
      else this.#natsAway = false;
    });
  }

  takeRangeAway(ms: number): void {
    this.#rangeAway = this.#chance.whole(0, 3);
    void sleepLong(this.#clock, ms).then(() => (this.#rangeAway = null));
  }

  takeTimersAway(rows: TimerRows, ms: number): void {
    this.#timersAway = rows;
    void sleepLong(this.#clock, ms).then(() => (this.#timersAway = null));
  }

  storm(ms: number): void {
    this.#stormUntilMs = this.#clock.now() + ms;
  }

  #callFault(call: string): Fault | null {
    if (!this.#isOn) return null;
    const isStorm = this.#clock.now() < this.#stormUntilMs;
    const rate = isStorm ? STORM_CALL_FAULT_RATE : this.#profile.callFaultRate;
    if (!this.#chance.happens(rate)) return null;
    const kind = this.#chance.weighted(this.#profile.callFaults);
    if (kind === null) return null;
    this.#count(kind);
    this.#trace.add('-', `${BLOW} ${kind} ${call}`);
    const afterMs = this.#chance.between(0, LATE_APPLY_MS);
    return kind === 'late' || kind === 'slow' ? { kind, afterMs } : { kind };
  }

  #blow(call: string): Blow | null {
    if (!this.#isOn) return null;
    const { blowRate, focus } = this.#profile;
    const rate = call === focus ? FOCUS_BLOW_RATE : blowRate * (WRITES.includes(call) ? WRITE_BLOW_FACTOR : 1);
    if (!this.#chance.happens(rate)) return null;
    if (this.#chance.happens(0.4)) return { kind: 'crash' };
    return { kind: 'pause', ms: this.pauseMs(), how: this.#chance.pick(['stalled', 'suspended']) };
  }

  #latencyMs(): number {
    const draw = this.#latency.fraction();
    const slowness = this.#profile.isSlow ? 10 : 1;
    if (draw < 0.9) return this.#latency.between(0.2, 3) * slowness;
    if (draw < 0.99) return this.#latency.between(3, 30) * slowness;
    return this.#latency.between(30, 200);
  }

  #count(name: FaultName): void {
    this.counts.set(name, (this.counts.get(name) ?? 0) + 1);
  }
}

/** The bus knows fewer ways to fail than the store. */
export function busFaultOf(fault: Fault | null): BusFault | undefined {
  switch (fault?.kind) {
    case undefined:
      return undefined;
    case 'slow':
      return { kind: 'slow', afterMs: fault.afterMs };
    case 'answer_lost':
    case 'late':
      return { kind: 'answer_lost' };
    default:
      return { kind: 'request_lost' };
  }
}

export function drawProfile(chance: Chance): Profile {
  const some = <Name extends string>(names: readonly Name[], probability: number): Partial<Record<Name, number>> =>
    Object.fromEntries(
      names.filter(() => chance.happens(probability)).map((name) => [name, chance.between(0.2, 1)]),
    ) as Partial<Record<Name, number>>;
  return {
    callFaultRate: chance.pick([0, 0.003, 0.01, 0.03]),
    blowRate: chance.pick([0, 0.0003, 0.001, 0.003]),
    requestFaultRate: chance.pick([0, 0.02, 0.1]),
    callFaults: some(CALL_FAULTS, 0.6),
    events: some(EVENTS, 0.5),
    meanEventEveryMs: chance.pick([3, 8, 15]) * SECOND_MS,
    isSlow: chance.happens(0.15),
    focus: chance.happens(0.6) ? chance.pick([...WRITES, ...STALLING_WRITES]) : null,
    pauses: chance.pick(['short', 'lease', 'minutes']),
  };
}

/** How long the fault phase of a run is. */
export function faultPhaseMs(chance: Chance): number {
  return chance.between(2 * MINUTE_MS, 4 * MINUTE_MS);
}

// The ports of core/bus in memory, for tests of what stands on them. tests/conformance runs the same suites on these and on a
// real nats-server, so that a test on a fake says something about the product.

import { prioritySteps } from '../../services/core/contract/priority-turns.ts';
import { PRIORITIES, type Priority } from '../../services/core/domain/job-status.ts';
import { READY_PER_QUEUE_MAX, SECOND_MS, SHARD_LEASE_TTL_DEFAULT_MS } from '../../services/core/domain/limits.ts';
import type { DueEntry } from '../../services/core/domain/operation.ts';
import { msBetween, type EpochMs } from '../../services/core/domain/time.ts';
import type { Clock } from '../../services/core/ports/clock.ts';
import type { DueHints } from '../../services/core/ports/due-hints.ts';
import type { HeldReport, HeldReports } from '../../services/core/ports/held-reports.ts';
import {
  BusError,
  type PublishOutcome,
  type PulledMessage,
  type PullRequest,
  type ReadMessages,
  type ReadyConsumer,
  type ReadyDepth,
  type ReadyIncarnation,
  type ReadyMessage,
  type ReadyQueue,
  type StoredPage,
} from '../../services/core/ports/ready-queue.ts';
import type { Acquired, Member, Revision, ShardLeases, ShardRole } from '../../services/core/ports/shard-leases.ts';

/** Every call that a fault can strike, by its port and method. */
export type BusMethod =
  | 'queue.publish'
  | 'queue.ensureQueue'
  | 'queue.oldestMessageAt'
  | 'queue.depths'
  | 'queue.pull'
  | 'queue.readMessages'
  | 'queue.removeMessages'
  | 'queue.incarnation'
  | 'hints.send'
  | 'heldReports.send'
  | 'leases.ensure'
  | 'leases.announce'
  | 'leases.withdraw'
  | 'leases.members'
  | 'leases.acquire'
  | 'leases.renew'
  | 'leases.release'
  | 'leases.holders';

/**
 * What goes wrong with one call. A publish that fails says so by its outcomes, a hint by nothing, the rest by BusError.
 * - answer_lost: done, and reported as failed
 * - request_lost: not done, and reported as failed
 * - slow: everything happens afterMs later
 */
export type BusFault =
  | { readonly kind: 'answer_lost' }
  | { readonly kind: 'request_lost' }
  | { readonly kind: 'slow'; readonly afterMs: number };

export interface BusCall {
  readonly method: BusMethod;
  readonly args: readonly unknown[];
}

export interface MemoryBusOptions {
  /** The server's: leases expire by it. */
  readonly clock: Clock;
  /** Asked before every call; undefined lets it pass. */
  readonly plan?: ((call: BusCall) => BusFault | undefined) | undefined;
  readonly leaseTtlMs?: number;
  readonly perSubject?: number;
}

/** A ready message in a worker's hands. Not acknowledged within ACK_WAIT_MS, it is delivered again. */
export interface Delivered {
  readonly message: ReadyMessage;
  readonly deliveries: number;
  ack(): void;
  giveBack(delayMs: number): void;
}

interface Stored {
  readonly message: ReadyMessage;
  readonly storedAt: EpochMs;
  readonly sequence: number;
  deliveries: number;
  /** In some worker's hands, or given back for later. */
  isOut: boolean;
}

interface Key {
  readonly revision: Revision;
  /** Null for a marker. */
  readonly value: string | null;
  readonly ended: Acquired['before'];
}

type Change = 'ended' | 'first' | 'again';

const ACK_WAIT_MS = 15 * SECOND_MS;
const MARKER_MS = 10 * SECOND_MS;

/** The server. Each process gets a connection of its own, to be cut and mended apart from the others'. */
export class MemoryBus {
  readonly clock: Clock;
  readonly leaseTtlMs: number;
  readonly perSubject: number;
  /** Subject -> messages not yet acknowledged, oldest first. */
  readonly subjects = new Map<string, Stored[]>();
  readonly plan: (call: BusCall) => BusFault | undefined;
  readonly #keys = new Map<string, Key>();
  readonly #watchers = new Set<(key: string, change: Change) => void>();
  readonly #hintListeners = new Set<(row: DueEntry) => void>();
  readonly heldListeners = new Set<(report: HeldReport) => void>();
  readonly #onMessage = new Set<() => void>();
  #sequence = 0;
  #createdAt: EpochMs;
  #lastSequence = 0;

  constructor({ clock, plan, leaseTtlMs, perSubject }: MemoryBusOptions) {
    this.clock = clock;
    this.#createdAt = clock.now();
    this.plan = plan ?? (() => undefined);
    this.leaseTtlMs = leaseTtlMs ?? SHARD_LEASE_TTL_DEFAULT_MS;
    this.perSubject = perSubject ?? READY_PER_QUEUE_MAX;
  }

  connect(): MemoryConnection {
    return new MemoryConnection(this);
  }

  /** Loses everything, as a server whose disk was replaced. Nobody is told. */
  lose(): void {
    this.loseKeys();
    this.loseMessages();
  }

  /** The buckets of leases and members are gone; made again, their revisions begin anew. */
  loseKeys(): void {
    this.#keys.clear();
    this.#sequence = 0;
  }

  /** The ready stream is gone, and is made again by whoever needs it. */
  loseMessages(): void {
    this.subjects.clear();
    // Never twice in the same millisecond, however fast the test.
    this.#createdAt = Math.max(this.#createdAt + 1, this.clock.now());
    this.#lastSequence = 0;
  }

  /** Loses the ready messages stored last, as a server whose disk had not seen them yet. */
  loseLast(count: number): void {
    const all = [...this.subjects.values()].flat().sort((one, other) => other.sequence - one.sequence);
    const lost = new Set(all.slice(0, count));
    for (const [subject, stored] of this.subjects) {
      this.subjects.set(
        subject,
        stored.filter((each) => !lost.has(each)),
      );
    }
    this.#lastSequence -= count;
  }

  incarnation(): ReadyIncarnation {
    return { createdAt: this.#createdAt, lastSequence: this.#lastSequence };
  }

  /** What a worker would get: at most `max` waiting messages, oldest first. */
  take(queue: string, priority: Priority, max: number): readonly Delivered[] {
    const waiting = (this.subjects.get(subjectOf(queue, priority)) ?? []).filter(({ isOut }) => !isOut);
    return waiting.slice(0, max).map((stored) => this.#deliver(stored));
  }

  readMessages({ queue, priority, from, max }: ReadMessages): StoredPage {
    const all = this.subjects.get(subjectOf(queue, priority)) ?? [];
    const start = all.findIndex(({ sequence, storedAt }) =>
      'sequence' in from ? sequence >= from.sequence : storedAt >= from.storedAt,
    );
    const page = start === -1 ? [] : all.slice(start, start + max);
    const last = page.at(-1);
    return {
      messages: page.map(({ sequence, message }) => ({ sequence, message })),
      next: last === undefined || page.length < max ? null : { sequence: last.sequence + 1 },
    };
  }

  removeMessages(sequences: readonly number[]): void {
    const removed = new Set(sequences);
    for (const [subject, stored] of this.subjects) {
      this.subjects.set(
        subject,
        stored.filter(({ sequence }) => !removed.has(sequence)),
      );
    }
  }

  /** Calls back when a message is stored or waits again. */
  onMessage(callback: () => void): () => void {
    this.#onMessage.add(callback);
    return () => void this.#onMessage.delete(callback);
  }

  store(message: ReadyMessage): PublishOutcome {
    const subject = subjectOf(message.queue, message.priority);
    const stored = this.subjects.get(subject) ?? [];
    if (stored.length >= this.perSubject) return 'full';
    const sequence = (this.#lastSequence += 1);
    stored.push({ message, storedAt: this.clock.now(), sequence, deliveries: 0, isOut: false });
    this.subjects.set(subject, stored);
    for (const callback of this.#onMessage) callback();
    return 'stored';
  }

  sendHint(row: DueEntry): void {
    for (const listener of this.#hintListeners) listener(row);
  }

  onHint(listener: (row: DueEntry) => void): () => void {
    this.#hintListeners.add(listener);
    return () => void this.#hintListeners.delete(listener);
  }

  onChange(listener: (key: string, change: Change) => void): () => void {
    this.#watchers.add(listener);
    return () => void this.#watchers.delete(listener);
  }

  key(name: string): Key | undefined {
    return this.#keys.get(name);
  }

  /** The live keys below a prefix. */
  keys(prefix: string): ReadonlyMap<string, string> {
    const live = new Map<string, string>();
    for (const [name, { value }] of this.#keys) {
      if (name.startsWith(prefix) && value !== null) live.set(name.slice(prefix.length), value);
    }
    return live;
  }

  /** Null when the key's last revision is another than the expected one (undefined expects nothing). */
  write(name: string, value: string, expected: Revision | undefined): Revision | null {
    return this.#put(name, { value, ended: null }, { expected, ttlMs: this.leaseTtlMs });
  }

  purge(name: string, expected: Revision | undefined): void {
    this.#put(name, { value: null, ended: 'released' }, { expected, ttlMs: MARKER_MS });
  }

  #put(
    name: string,
    entry: Pick<Key, 'value' | 'ended'>,
    { expected, ttlMs }: { expected: Revision | undefined; ttlMs: number },
  ): Revision | null {
    const before = this.#keys.get(name);
    if (expected !== undefined && (before?.revision ?? 0) !== expected) return null;
    const revision = ++this.#sequence;
    const key = { ...entry, revision };
    this.#keys.set(name, key);
    this.clock.after(ttlMs, () => {
      if (this.#keys.get(name) === key) this.#expire(name, entry.value === null);
    });
    this.#tell(name, entry.value === null ? 'ended' : before === undefined ? 'first' : 'again');
    return revision;
  }

  #expire(name: string, isMarker: boolean): void {
    if (isMarker) this.#keys.delete(name);
    else this.#put(name, { value: null, ended: 'expired' }, { expected: undefined, ttlMs: MARKER_MS });
  }

  #tell(name: string, change: Change): void {
    for (const watcher of this.#watchers) watcher(name, change);
  }

  #deliver(stored: Stored): Delivered {
    const subject = subjectOf(stored.message.queue, stored.message.priority);
    const deliveries = (stored.deliveries += 1);
    stored.isOut = true;
    const isStillThisDelivery = (): boolean => stored.isOut && stored.deliveries === deliveries;
    const back = (): void => {
      if (!isStillThisDelivery()) return;
      stored.isOut = false;
      for (const callback of this.#onMessage) callback();
    };
    const stopWaiting = this.clock.after(ACK_WAIT_MS, back);
    return {
      message: stored.message,
      deliveries,
      ack: () => {
        stopWaiting();
        const left = (this.subjects.get(subject) ?? []).filter((each) => each !== stored);
        this.subjects.set(subject, left);
      },
      giveBack: (delayMs) => {
        stopWaiting();
        this.clock.after(delayMs, back);
      },
    };
  }
}

/** One process's connection, with the ports as that process sees them. */
export class MemoryConnection {
  readonly queue: ReadyQueue;
  readonly hints: DueHints;
  readonly heldReports: HeldReports;
  readonly leases: ShardLeases;
  readonly #bus: MemoryBus;
  readonly #onConnected = new Set<() => void>();
  readonly #onDisconnected = new Set<() => void>();
  #isConnected = true;

  constructor(bus: MemoryBus) {
    this.#bus = bus;
    this.queue = new MemoryReadyQueue(bus, this);
    this.hints = new MemoryDueHints(bus, this);
    this.heldReports = new MemoryHeldReports(bus, this);
    this.leases = new MemoryShardLeases(bus, this);
  }

  connected(): boolean {
    return this.#isConnected;
  }

  disconnect(): void {
    this.#isConnected = false;
    for (const callback of this.#onDisconnected) callback();
  }

  onDisconnected(callback: () => void): () => void {
    this.#onDisconnected.add(callback);
    return () => void this.#onDisconnected.delete(callback);
  }

  reconnect(): void {
    this.#isConnected = true;
    for (const callback of this.#onConnected) callback();
  }

  onConnected(callback: () => void): () => void {
    this.#onConnected.add(callback);
    if (this.#isConnected) callback();
    return () => void this.#onConnected.delete(callback);
  }

  /** Does it as the plan has it. Throws BusError for what is reported as failed. */
  async call<T>(call: BusCall, work: () => T): Promise<T> {
    const fault = this.#bus.plan(call);
    if (!this.#isConnected) throw new BusError('not connected');
    if (fault?.kind === 'slow') await this.#bus.clock.sleep(fault.afterMs);
    else await Promise.resolve();
    if (fault?.kind === 'request_lost') throw new BusError(`${call.method}: the request was lost`);
    const result = work();
    if (fault?.kind === 'answer_lost') throw new BusError(`${call.method}: the answer was lost`);
    return result;
  }
}

class MemoryReadyQueue implements ReadyQueue {
  readonly #bus: MemoryBus;
  readonly #connection: MemoryConnection;

  constructor(bus: MemoryBus, connection: MemoryConnection) {
    this.#bus = bus;
    this.#connection = connection;
  }

  readonly #turns = new Map<string, number>();

  connected(): boolean {
    return this.#connection.connected();
  }

  async publish(messages: readonly ReadyMessage[]): Promise<readonly PublishOutcome[]> {
    try {
      return await this.#connection.call({ method: 'queue.publish', args: [messages] }, () =>
        messages.map((message) => this.#bus.store(message)),
      );
    } catch {
      return messages.map(() => 'failed');
    }
  }

  ensureQueue(queue: string): Promise<readonly ReadyConsumer[]> {
    return this.#connection.call({ method: 'queue.ensureQueue', args: [queue] }, () =>
      PRIORITIES.map((priority) => ({
        priority,
        stream: 'READY_0',
        subject: subjectOf(queue, priority),
        consumer: `q_${queue}_p_${priority}`,
      })),
    );
  }

  depths(queue?: string): Promise<readonly ReadyDepth[]> {
    return this.#connection.call({ method: 'queue.depths', args: [queue] }, () =>
      [...this.#bus.subjects.values()].flatMap((stored) => {
        const [first] = stored;
        if (first === undefined || (queue !== undefined && first.message.queue !== queue)) return [];
        return [{ queue: first.message.queue, priority: first.message.priority, messages: stored.length }];
      }),
    );
  }

  oldestMessageAt(queue: string, priority: Priority): Promise<EpochMs | null> {
    return this.#connection.call(
      { method: 'queue.oldestMessageAt', args: [queue, priority] },
      () => this.#bus.subjects.get(subjectOf(queue, priority))?.[0]?.storedAt ?? null,
    );
  }

  async pull(request: PullRequest): Promise<readonly PulledMessage[]> {
    const { signal, waitMs } = request;
    const { clock } = this.#bus;
    const startedAt = clock.monotonic();
    for (;;) {
      const taken = await this.#connection.call({ method: 'queue.pull', args: [request] }, () => this.#take(request));
      const leftMs = waitMs - msBetween(startedAt, clock.monotonic());
      // A fraction left over would never pass.
      if (taken.length > 0 || leftMs < 1 || signal.aborted) return taken;
      await somethingHappens(this.#bus, this.#connection, { ms: leftMs, signal });
    }
  }

  readMessages(request: ReadMessages): Promise<StoredPage> {
    return this.#connection.call({ method: 'queue.readMessages', args: [request] }, () =>
      this.#bus.readMessages(request),
    );
  }

  removeMessages(sequences: readonly number[]): Promise<void> {
    return this.#connection.call({ method: 'queue.removeMessages', args: [sequences] }, () => {
      this.#bus.removeMessages(sequences);
    });
  }

  incarnation(): Promise<ReadyIncarnation> {
    return this.#connection.call({ method: 'queue.incarnation', args: [] }, () => this.#bus.incarnation());
  }

  #take({ queue, priorities, max, signal }: PullRequest): readonly PulledMessage[] {
    const taken: Delivered[] = [];
    if (signal.aborted) return [];
    const turn = this.#turns.get(queue) ?? 0;
    for (const { priority, most } of prioritySteps(priorities, max, turn)) {
      taken.push(...this.#bus.take(queue, priority, Math.min(most, max - taken.length)));
    }
    this.#turns.set(queue, turn + taken.length);
    return taken.map((each) => ({
      message: each.message,
      ack: () => each.ack(),
      nakAfter: (ms) => each.giveBack(ms),
    }));
  }
}

/** Resolves when a message came, the time is over, the signal aborts or the connection breaks. */
function somethingHappens(
  bus: MemoryBus,
  connection: MemoryConnection,
  { ms, signal }: { ms: number; signal: AbortSignal },
): Promise<void> {
  return new Promise((resolve) => {
    const ends = [
      bus.onMessage(() => end()),
      connection.onDisconnected(() => end()),
      bus.clock.after(ms, () => end()),
      () => signal.removeEventListener('abort', end),
    ];
    const end = (): void => {
      for (const each of ends) each();
      resolve();
    };
    signal.addEventListener('abort', end, { once: true });
  });
}

class MemoryDueHints implements DueHints {
  readonly #bus: MemoryBus;
  readonly #connection: MemoryConnection;

  constructor(bus: MemoryBus, connection: MemoryConnection) {
    this.#bus = bus;
    this.#connection = connection;
  }

  send(rows: readonly DueEntry[]): void {
    const sent = this.#connection.call({ method: 'hints.send', args: [rows] }, () => {
      for (const row of rows) this.#bus.sendHint(row);
    });
    sent.catch(() => undefined);
  }

  listen(shard: number, onRow: (row: DueEntry) => void): () => void {
    return this.#bus.onHint((row) => {
      if (row.shard === shard && this.#connection.connected()) onRow(row);
    });
  }
}

class MemoryHeldReports implements HeldReports {
  readonly #bus: MemoryBus;
  readonly #connection: MemoryConnection;

  constructor(bus: MemoryBus, connection: MemoryConnection) {
    this.#bus = bus;
    this.#connection = connection;
  }

  send(report: HeldReport): void {
    const sent = this.#connection.call({ method: 'heldReports.send', args: [report] }, () => {
      for (const listener of this.#bus.heldListeners) listener(report);
    });
    sent.catch(() => undefined);
  }

  listen(onReport: (report: HeldReport) => void): () => void {
    const listener = (report: HeldReport): void => {
      if (this.#connection.connected()) onReport(report);
    };
    this.#bus.heldListeners.add(listener);
    return () => void this.#bus.heldListeners.delete(listener);
  }
}

class MemoryShardLeases implements ShardLeases {
  readonly ttlMs: number;
  readonly #bus: MemoryBus;
  readonly #connection: MemoryConnection;

  constructor(bus: MemoryBus, connection: MemoryConnection) {
    this.ttlMs = bus.leaseTtlMs;
    this.#bus = bus;
    this.#connection = connection;
  }

  ensure(): Promise<void> {
    return this.#connection.call({ method: 'leases.ensure', args: [] }, () => undefined);
  }

  announce(role: ShardRole, member: Member): Promise<void> {
    return this.#connection.call({ method: 'leases.announce', args: [role, member] }, () => {
      this.#bus.write(`members.${role}.${member.id}`, String(member.scanShards), undefined);
    });
  }

  withdraw(role: ShardRole, memberId: string): Promise<void> {
    return this.#connection.call({ method: 'leases.withdraw', args: [role, memberId] }, () => {
      this.#bus.purge(`members.${role}.${memberId}`, undefined);
    });
  }

  members(role: ShardRole): Promise<readonly Member[]> {
    return this.#connection.call({ method: 'leases.members', args: [role] }, () =>
      [...this.#bus.keys(`members.${role}.`)].map(([id, scanShards]) => ({ id, scanShards: Number(scanShards) })),
    );
  }

  acquire(role: ShardRole, shard: number, memberId: string): Promise<Acquired | null> {
    return this.#connection.call({ method: 'leases.acquire', args: [role, shard, memberId] }, () => {
      const key = leaseKey(role, shard);
      const found = this.#bus.key(key);
      if (found !== undefined && found.value !== null && found.value !== memberId) return null;
      const revision = this.#bus.write(key, memberId, found?.revision ?? 0);
      return revision === null ? null : { revision, before: found?.ended ?? null };
    });
  }

  renew(role: ShardRole, shard: number, memberId: string, revision: Revision): Promise<Revision | null> {
    return this.#connection.call({ method: 'leases.renew', args: [role, shard, memberId, revision] }, () => {
      const key = leaseKey(role, shard);
      const renewed = this.#bus.write(key, memberId, revision);
      if (renewed !== null) return renewed;
      const found = this.#bus.key(key);
      return found?.value === memberId ? this.#bus.write(key, memberId, found.revision) : null;
    });
  }

  release(role: ShardRole, shard: number, revision: Revision): Promise<void> {
    return this.#connection.call({ method: 'leases.release', args: [role, shard, revision] }, () => {
      this.#bus.purge(leaseKey(role, shard), revision);
    });
  }

  holders(role: ShardRole): Promise<ReadonlyMap<number, string>> {
    return this.#connection.call({ method: 'leases.holders', args: [role] }, () => {
      const live = this.#bus.keys(`leases.${role}.`);
      return new Map([...live].map(([shard, memberId]) => [Number(shard), memberId]));
    });
  }

  watch(role: ShardRole, onChange: () => void): () => void {
    const ends = [
      this.#connection.onConnected(onChange),
      this.#bus.onChange((key, change) => {
        if (!this.#connection.connected()) return;
        const ofMembers = key.startsWith(`members.${role}.`);
        if (!ofMembers && !key.startsWith(`leases.${role}.`)) return;
        if (change === 'ended' || (ofMembers && change === 'first')) onChange();
      }),
    ];
    return () => {
      for (const end of ends) end();
    };
  }
}

function subjectOf(queue: string, priority: Priority): string {
  return `ready.${queue}.${priority}`;
}

function leaseKey(role: ShardRole, shard: number): string {
  return `leases.${role}.${shard}`;
}

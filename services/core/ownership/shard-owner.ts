import { assign } from '../domain/assignment.ts';
import { SECOND_MS, SHARD_LEASE_RENEW_DEFAULT_MS, SHARD_LEASE_SAFETY_MS } from '../domain/limits.ts';
import { elapsedMs, type Moment } from '../domain/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { Random } from '../ports/random.ts';
import type { Revision, ShardLeases, ShardRole } from '../ports/shard-leases.ts';
import type { Log, Telemetry } from '../ports/telemetry.ts';

export interface ShardOwnerOptions {
  readonly role: ShardRole;
  /** How many shards this process scans; all members together cover the largest number among them. */
  readonly scanShards: number;
  /** Of the host or process, for people who read the member list; a token makes it unique to this start. */
  readonly name: string;
  readonly renewEveryMs?: number | undefined;
  /** False while this process must not act, for example by a wrong clock: others get its shards until it is true again. */
  readonly mayAct?: () => boolean;
  /** The shard is ours from now on. */
  readonly onAcquired: (shard: number) => void;
  /** The shard is no longer ours; called before the lease is given away. */
  readonly onLost: (shard: number) => void;
}

export interface ShardOwnerDependencies {
  readonly leases: ShardLeases;
  readonly clock: Clock;
  readonly random: Random;
  readonly telemetry: Telemetry;
  readonly log: Log;
}

/** Members and leases are listed again at least this often, whatever the watch told or missed. */
const LIST_EVERY_MS = 10 * SECOND_MS;
/** While the bus fails: short beside a lease, so that one lost answer does not cost a shard. */
const RETRY_EVERY_MS = 500;
/** Leases of one owner end within a few hundred milliseconds of each other: one listing sees most of them. */
const SETTLE_MS = 100;
const STEPPED_ASIDE = 'stepped aside';

interface Lease {
  readonly revision: Revision;
  /** Before the last successful write was sent: the server's TTL starts later than this. */
  readonly sentAt: Moment;
}

/**
 * Keeps this process's share of the shards: announces itself, computes the same assignment as every other member, takes
 * what is its own as soon as it is free and gives away what is not. It never takes a live lease from another.
 *
 * One loop does everything, so that no two writes to one lease are ever under way. What must be true at every moment is
 * answered by holds(), from the clock alone: it needs no loop to be on time. Of the monotonic and the wall clock the faster
 * one counts, since the monotonic one stands still in a suspended machine.
 */
export class ShardOwner {
  readonly memberId: string;
  readonly #role: ShardRole;
  readonly #scanShards: number;
  readonly #renewEveryMs: number;
  readonly #safeForMs: number;
  readonly #mayAct: () => boolean;
  readonly #onAcquired: (shard: number) => void;
  readonly #onLost: (shard: number) => void;
  readonly #leases: ShardLeases;
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #telemetry: Telemetry;
  readonly #log: Log;

  readonly #held = new Map<number, Lease>();
  readonly #stopping = new AbortController();
  #loop: Promise<void> | undefined;
  #wake: AbortController | undefined;
  /** Something about members or leases changed since the last listing. */
  #changed = true;
  /** What the last turn met with, null when all is well: the buckets are looked after first. */
  #failure: string | null = 'not started';
  #renewedAt: Moment | undefined;
  #listedAt: Moment | undefined;
  #listEveryMs = LIST_EVERY_MS;
  /** Shards without a live lease as of the last listing; null while it cannot be known. */
  #unowned: number | null = null;

  constructor(options: ShardOwnerOptions, { leases, clock, random, telemetry, log }: ShardOwnerDependencies) {
    this.#role = options.role;
    this.#scanShards = options.scanShards;
    this.#renewEveryMs = options.renewEveryMs ?? SHARD_LEASE_RENEW_DEFAULT_MS;
    this.#safeForMs = leases.ttlMs - SHARD_LEASE_SAFETY_MS;
    if (this.#renewEveryMs * 2 > this.#safeForMs) {
      throw new RangeError(`leases of ${leases.ttlMs} ms are too short to be renewed every ${this.#renewEveryMs} ms`);
    }
    this.#mayAct = options.mayAct ?? (() => true);
    this.#onAcquired = options.onAcquired;
    this.#onLost = options.onLost;
    this.#leases = leases;
    this.#clock = clock;
    this.#random = random;
    this.#telemetry = telemetry;
    this.#log = log;
    this.memberId = `${options.name.replaceAll(/[^A-Za-z0-9_-]/g, '-')}-${random.token().slice(0, 8)}`;
  }

  /** Returns at once; without the bus it keeps trying. */
  start(): void {
    this.#loop ??= this.#run();
  }

  /** Stops acting at once, then hands everything over: others see it within a second. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    this.#wake?.abort();
    await this.#loop;
    await this.#handOver();
    this.#report();
  }

  /** Whether we may act for the shard at this very moment: false as soon as our lease may have lapsed. */
  holds(shard: number): boolean {
    const lease = this.#held.get(shard);
    return lease !== undefined && !this.#stopping.signal.aborted && this.#isSafe(lease) && this.#mayAct();
  }

  owned(): ReadonlySet<number> {
    return new Set([...this.#held.keys()].filter((shard) => this.holds(shard)));
  }

  async #run(): Promise<void> {
    const unwatch = this.#leases.watch(this.#role, () => {
      this.#changed = true;
      this.#wake?.abort();
    });
    while (!this.#stopping.signal.aborted) {
      await this.#turn();
      await this.#pause();
    }
    unwatch();
  }

  async #turn(): Promise<void> {
    if (this.#mayAct()) await this.#keep();
    else await this.#stepAside();
    this.#report();
  }

  /** Gives everything away once, and is looked after like a failure from then on: buckets first, then shards. */
  async #stepAside(): Promise<void> {
    if (this.#failure === STEPPED_ASIDE) return;
    this.#log.warn('giving all shards away: this process must not act', { role: this.#role });
    this.#failure = STEPPED_ASIDE;
    this.#unowned = null;
    await this.#handOver();
  }

  async #handOver(): Promise<void> {
    const releases = [...this.#held].map(([shard, { revision }]) => {
      this.#lose(shard);
      return this.#leases.release(this.#role, shard, revision);
    });
    await Promise.allSettled([this.#leases.withdraw(this.#role, this.memberId), ...releases]);
  }

  async #keep(): Promise<void> {
    try {
      const mending = this.#failure !== null;
      if (mending) await this.#leases.ensure();
      if (mending || this.#isPast(this.#renewedAt, this.#renewEveryMs)) await this.#renew();
      if (mending || this.#changed || this.#isPast(this.#listedAt, this.#listEveryMs)) await this.#reconcile();
      if (mending) this.#log.info('shard leases work', { role: this.#role, member: this.memberId });
      this.#failure = null;
    } catch (error) {
      const failure = String(error);
      if (failure !== this.#failure)
        this.#log.warn('shard leases cannot be kept', { role: this.#role, error: failure });
      this.#failure = failure;
      this.#unowned = null;
      this.#dropLapsed();
    }
  }

  /** Until the next renewal, or the next change a moment after it. */
  async #pause(): Promise<void> {
    if (this.#stopping.signal.aborted) return;
    if (!this.#changed || this.#failure !== null) {
      this.#wake = new AbortController();
      const untilRenewal = this.#renewedAt === undefined ? 0 : this.#renewEveryMs - this.#since(this.#renewedAt);
      await this.#clock.sleep(this.#failure === null ? Math.max(0, untilRenewal) : RETRY_EVERY_MS, this.#wake.signal);
      this.#wake = undefined;
    }
    if (this.#changed) await this.#clock.sleep(SETTLE_MS, this.#stopping.signal);
  }

  /** The sign of life and all leases at once. Throws when the outcome of one is not known. */
  async #renew(): Promise<void> {
    const sentAt = this.#clock.moment();
    const member = { id: this.memberId, scanShards: this.#scanShards };
    const announced = this.#leases.announce(this.#role, member);
    const renewed = [...this.#held].map(async ([shard, lease]) => {
      const revision = await this.#leases.renew(this.#role, shard, this.memberId, lease.revision);
      if (revision !== null) this.#held.set(shard, { revision, sentAt });
      else this.#taken(shard);
    });
    const results = await Promise.allSettled([announced, ...renewed]);
    const failures = results.filter((result) => result.status === 'rejected');
    if (failures[0] === undefined) {
      this.#renewedAt = sentAt;
      return;
    }
    this.#telemetry.count('punctual_lease_renew_failures_total', { role: this.#role }, failures.length);
    throw failures[0].reason;
  }

  /** Somebody else's, or expired while we slept: to be won again like any other. */
  #taken(shard: number): void {
    this.#telemetry.count('punctual_lease_renew_failures_total', { role: this.#role });
    this.#log.warn('a shard lease was lost', { role: this.#role, shard });
    this.#changed = true;
    this.#lose(shard);
  }

  /** Compares what we hold with what is ours by the present members, and mends the difference. */
  async #reconcile(): Promise<void> {
    this.#changed = false;
    const [members, holders] = await Promise.all([this.#leases.members(this.#role), this.#leases.holders(this.#role)]);
    this.#listedAt = this.#clock.moment();
    const shards = Math.max(this.#scanShards, ...members.map(({ scanShards }) => scanShards));
    const owners = assign(members, shards);
    const isOurs = (shard: number): boolean => owners.get(shard) === this.memberId;
    const isFree = (shard: number): boolean => (holders.get(shard) ?? this.memberId) === this.memberId;

    const surplus = [...this.#held.keys()].filter((shard) => !isOurs(shard));
    const wanted = [...owners.keys()].filter((shard) => isOurs(shard) && isFree(shard) && !this.#held.has(shard));
    const results = await Promise.allSettled([
      ...surplus.map((shard) => this.#giveUp(shard)),
      ...wanted.map((shard) => this.#acquire(shard)),
    ]);
    const held = new Set([...holders.keys(), ...this.#held.keys()]);
    this.#unowned = shards - held.size + surplus.length;
    // What is nobody's will soon be somebody's: look again with the next renewal.
    this.#listEveryMs = this.#unowned > 0 ? this.#renewEveryMs : LIST_EVERY_MS * (0.8 + 0.4 * this.#random.fraction());
    const failure = results.find((result) => result.status === 'rejected');
    if (failure !== undefined) throw failure.reason;
  }

  async #acquire(shard: number): Promise<void> {
    const sentAt = this.#clock.moment();
    const acquired = await this.#leases.acquire(this.#role, shard, this.memberId);
    if (acquired === null) return;
    this.#held.set(shard, { revision: acquired.revision, sentAt });
    if (acquired.before !== null) {
      const reason = acquired.before === 'expired' ? 'expired' : 'handover';
      this.#telemetry.count('punctual_shard_takeovers_total', { role: this.#role, reason });
    }
    if (this.#stopping.signal.aborted) return;
    this.#log.info('acquired a shard', { role: this.#role, shard, before: acquired.before });
    this.#tell(this.#onAcquired, shard);
  }

  async #giveUp(shard: number): Promise<void> {
    const lease = this.#held.get(shard);
    if (lease === undefined) return;
    this.#lose(shard);
    await this.#leases.release(this.#role, shard, lease.revision);
    this.#log.info('gave a shard up', { role: this.#role, shard });
  }

  /** What could not be renewed in time may be another's by now. */
  #dropLapsed(): void {
    for (const [shard, lease] of this.#held) {
      if (this.#isSafe(lease)) continue;
      this.#log.warn('a shard lease may have lapsed', { role: this.#role, shard });
      this.#lose(shard);
    }
  }

  #lose(shard: number): void {
    this.#held.delete(shard);
    this.#tell(this.#onLost, shard);
  }

  #tell(callback: (shard: number) => void, shard: number): void {
    try {
      callback(shard);
    } catch (error) {
      this.#log.error('a listener to shard ownership failed', { role: this.#role, shard, error: String(error) });
    }
  }

  #report(): void {
    const owned = this.#held.size;
    this.#telemetry.gauge('punctual_shards_owned', owned, { role: this.#role });
    // Without the bus nobody can renew: as far as we know what we do not hold is nobody's.
    this.#telemetry.gauge('punctual_shards_unowned', this.#unowned ?? this.#scanShards - owned, { role: this.#role });
  }

  #isSafe({ sentAt }: Lease): boolean {
    return this.#since(sentAt) < this.#safeForMs;
  }

  #isPast(moment: Moment | undefined, ms: number): boolean {
    return moment === undefined || this.#since(moment) >= ms;
  }

  #since(moment: Moment): number {
    return elapsedMs(moment, this.#clock.moment());
  }
}

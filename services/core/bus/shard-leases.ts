import { headers, type Msg, type MsgHdrs } from '@nats-io/transport-node';
import type { StoredMsg, StreamConfig } from '@nats-io/jetstream';
import leasesSchema from '../../../schema/nats/leases-bucket.json' with { type: 'json' };
import membersSchema from '../../../schema/nats/members-bucket.json' with { type: 'json' };
import { SECOND_MS, SHARD_LEASE_TTL_DEFAULT_MS } from '../domain/limits.ts';
import type { Acquired, Member, Revision, ShardLeases, ShardRole } from '../ports/shard-leases.ts';
import type { Log, Telemetry } from '../ports/telemetry.ts';
import { ApiCode, apiCodeOf, busError } from './bus-errors.ts';
import { BUS_REQUEST_TIMEOUT_MS, type BusConnection } from './connection.ts';
import { BusNames, type Bucket } from './names.ts';

export interface ShardLeasesConfig {
  readonly prefix?: string | undefined;
  /** 1 for development, 3 in production; counts when a bucket is made. */
  readonly replicas?: number | undefined;
  /** Whole seconds. */
  readonly ttlMs?: number | undefined;
}

export interface ShardLeasesDependencies {
  readonly bus: BusConnection;
  readonly telemetry: Telemetry;
  readonly log: Log;
}

/** How long a released key's marker stays: long enough for the next owner to see why the lease ended. */
const RELEASE_MARKER_TTL = '10s';

interface Key {
  readonly bucket: Bucket;
  readonly role: ShardRole;
  readonly name: string | number;
}

interface Entry {
  readonly sequence: Revision;
  /** Null for a marker: the key was released or has expired. */
  readonly value: string | null;
  readonly ended: Acquired['before'];
}

/**
 * Leases as plain JetStream publishes to the buckets' subjects, each with a TTL and the key's expected last sequence: the
 * KV client's own put and update drop the TTL, and the lease would last for ever. A lapsed owner can never renew by
 * accident: the expiry marker moves the sequence on.
 */
export class KvShardLeases implements ShardLeases {
  readonly ttlMs: number;
  readonly #bus: BusConnection;
  readonly #telemetry: Telemetry;
  readonly #log: Log;
  readonly #names: BusNames;
  readonly #ttl: string;
  readonly #replicas: number;
  readonly #bucketsSeen = new Set<Bucket>();

  constructor(config: ShardLeasesConfig, { bus, telemetry, log }: ShardLeasesDependencies) {
    this.ttlMs = config.ttlMs ?? SHARD_LEASE_TTL_DEFAULT_MS;
    if (this.ttlMs < SECOND_MS || this.ttlMs % SECOND_MS !== 0) {
      throw new RangeError(`a shard lease lasts whole seconds, got ${this.ttlMs} ms`);
    }
    this.#bus = bus;
    this.#telemetry = telemetry;
    this.#log = log;
    this.#names = new BusNames(config.prefix);
    this.#ttl = `${this.ttlMs / SECOND_MS}s`;
    this.#replicas = config.replicas ?? leasesSchema.num_replicas;
  }

  async ensure(): Promise<void> {
    await Promise.all([this.#ensureBucket('leases'), this.#ensureBucket('members')]);
  }

  async announce(role: ShardRole, member: Member): Promise<void> {
    const key: Key = { bucket: 'members', role, name: member.id };
    await this.#write(key, JSON.stringify({ scan_shards: member.scanShards }), undefined);
  }

  async withdraw(role: ShardRole, memberId: string): Promise<void> {
    await this.#purge({ bucket: 'members', role, name: memberId }, undefined);
  }

  async members(role: ShardRole): Promise<readonly Member[]> {
    const found: Member[] = [];
    for (const [id, value] of await this.#list('members', role)) {
      const scanShards = scanShardsOf(value);
      if (scanShards === null) this.#log.warn('a malformed member entry is ignored', { role, member: id });
      else found.push({ id, scanShards });
    }
    return found;
  }

  async acquire(role: ShardRole, shard: number, memberId: string): Promise<Acquired | null> {
    const key: Key = { bucket: 'leases', role, name: shard };
    const fresh = await this.#write(key, memberId, 0);
    if (fresh !== null) return { revision: fresh, before: null };
    const entry = await this.#read(key);
    // Live and another's. A lease of our own, from a write whose answer was lost, is written anew: its age is not known.
    if (entry !== null && entry.value !== null && entry.value !== memberId) return null;
    const revision = await this.#write(key, memberId, entry?.sequence ?? 0);
    return revision === null ? null : { revision, before: entry?.ended ?? null };
  }

  async renew(role: ShardRole, shard: number, memberId: string, revision: Revision): Promise<Revision | null> {
    const key: Key = { bucket: 'leases', role, name: shard };
    const renewed = await this.#write(key, memberId, revision);
    if (renewed !== null) return renewed;
    // Also the answer to a renewal that landed while its acknowledgement was lost: only the key itself tells.
    const entry = await this.#read(key);
    if (entry?.value !== memberId) return null;
    return this.#write(key, memberId, entry.sequence);
  }

  async release(role: ShardRole, shard: number, revision: Revision): Promise<void> {
    await this.#purge({ bucket: 'leases', role, name: shard }, revision);
  }

  async holders(role: ShardRole): Promise<ReadonlyMap<number, string>> {
    const values = await this.#list('leases', role);
    return new Map([...values].map(([name, value]) => [Number(name), value]));
  }

  watch(role: ShardRole, onChange: () => void): () => void {
    const ends = [
      this.#bus.onConnected(onChange),
      this.#bus.subscribe(this.#names.changeSubject('leases', role), (message) => {
        if (isEnd(message.headers)) onChange();
      }),
      this.#bus.subscribe(this.#names.changeSubject('members', role), (message) => {
        if (isEnd(message.headers) || isFirst(message)) onChange();
      }),
    ];
    return () => {
      for (const end of ends) end();
    };
  }

  async #ensureBucket(bucket: Bucket): Promise<void> {
    const config = this.#bucketConfig(bucket);
    try {
      const { jsm } = this.#bus.link();
      try {
        await jsm.streams.info(config.name);
      } catch (error) {
        if (apiCodeOf(error) !== ApiCode.streamNotFound) throw error;
        await jsm.streams.add(config).catch((refusal: unknown) => {
          // Somebody else made it in between, with other settings.
          if (apiCodeOf(refusal) !== ApiCode.streamNameInUse) throw refusal;
        });
        this.#made(bucket, config.name);
      }
      this.#bucketsSeen.add(bucket);
    } catch (error) {
      throw busError(`the bucket ${bucket}`, error);
    }
  }

  #made(bucket: Bucket, name: string): void {
    if (!this.#bucketsSeen.has(bucket)) {
      this.#log.info('made a bucket', { name });
      return;
    }
    this.#log.warn('a bucket was gone and is made again', { name });
    this.#telemetry.count('punctual_bus_recreated_total', { kind: 'bucket' });
  }

  #bucketConfig(bucket: Bucket): Partial<StreamConfig> & { name: string } {
    const subjects = [`$KV.${this.#names.bucket(bucket)}.>`];
    return {
      ...((bucket === 'leases' ? leasesSchema : membersSchema) as Partial<StreamConfig>),
      name: this.#names.bucketStream(bucket),
      subjects,
      num_replicas: this.#replicas,
      republish: {
        src: `$KV.${this.#names.bucket(bucket)}.>`,
        dest: `${this.#names.changesOf(bucket)}.>`,
        headers_only: true,
      },
    };
  }

  /** Null when the key's last sequence is another than the expected one (undefined expects nothing). */
  async #write(key: Key, value: string, expected: Revision | undefined): Promise<Revision | null> {
    return this.#publish(key, value, { ttl: this.#ttl, expected });
  }

  async #purge(key: Key, expected: Revision | undefined): Promise<void> {
    const marks = headers();
    marks.set('KV-Operation', 'PURGE');
    marks.set('Nats-Rollup', 'sub');
    await this.#publish(key, '', { ttl: RELEASE_MARKER_TTL, expected, headers: marks });
  }

  async #publish(
    { bucket, role, name }: Key,
    value: string,
    options: { ttl: string; expected: Revision | undefined; headers?: MsgHdrs },
  ): Promise<Revision | null> {
    const { ttl, expected } = options;
    try {
      const acknowledgement = await this.#bus.link().js.publish(this.#names.keySubject(bucket, role, name), value, {
        ttl,
        timeout: BUS_REQUEST_TIMEOUT_MS,
        ...(expected === undefined ? {} : { expect: { lastSubjectSequence: expected } }),
        ...(options.headers === undefined ? {} : { headers: options.headers }),
      });
      return acknowledgement.seq;
    } catch (error) {
      const code = apiCodeOf(error);
      if (code === ApiCode.wrongLastSequence || code === ApiCode.wrongLastSequenceUnknown) return null;
      throw busError(`write ${bucket} ${role} ${name}`, error);
    }
  }

  /** From the stream's leader, since direct gets are off: followers may lag behind. */
  async #read({ bucket, role, name }: Key): Promise<Entry | null> {
    return this.#readSubject(bucket, this.#names.keySubject(bucket, role, name));
  }

  async #readSubject(bucket: Bucket, subject: string): Promise<Entry | null> {
    try {
      const { jsm } = this.#bus.link();
      const message = await jsm.streams.getMessage(this.#names.bucketStream(bucket), { last_by_subj: subject });
      return message === null ? null : entryOf(message);
    } catch (error) {
      if (apiCodeOf(error) === ApiCode.noMessage) return null;
      throw busError(`read ${subject}`, error);
    }
  }

  /** Key name -> value of the role's live keys: one look at the subjects, then a read each, all from the leader. */
  async #list(bucket: Bucket, role: ShardRole): Promise<ReadonlyMap<string, string>> {
    const all = this.#names.keySubject(bucket, role, '>');
    const subjects = await this.#subjects(bucket, all);
    const entries = await Promise.all(subjects.map((subject) => this.#readSubject(bucket, subject)));
    const live = new Map<string, string>();
    for (const [index, subject] of subjects.entries()) {
      const value = entries[index]?.value;
      if (typeof value === 'string') live.set(subject.slice(all.length - 1), value);
    }
    return live;
  }

  async #subjects(bucket: Bucket, filter: string): Promise<readonly string[]> {
    try {
      const { jsm } = this.#bus.link();
      const info = await jsm.streams.info(this.#names.bucketStream(bucket), { subjects_filter: filter });
      return Object.keys(info.state.subjects ?? {});
    } catch (error) {
      throw busError(`list ${filter}`, error);
    }
  }
}

function entryOf(message: StoredMsg): Entry {
  const ended = endOf(message.header);
  return { sequence: message.seq, value: ended === null ? message.string() : null, ended };
}

/** Releases are purges of ours, expiries leave the server's marker. */
function endOf(marks: MsgHdrs): Acquired['before'] {
  if (marks.has('Nats-Marker-Reason')) return 'expired';
  return marks.has('KV-Operation') ? 'released' : null;
}

function isEnd(marks: MsgHdrs | undefined): boolean {
  return marks !== undefined && endOf(marks) !== null;
}

/** Whether a republished message is the first of its subject: a newcomer. */
function isFirst(message: Msg): boolean {
  return message.headers?.get('Nats-Last-Sequence') === '0';
}

function scanShardsOf(value: string): number | null {
  try {
    const { scan_shards: scanShards } = JSON.parse(value) as { scan_shards?: unknown };
    return typeof scanShards === 'number' && Number.isSafeInteger(scanShards) && scanShards > 0 ? scanShards : null;
  } catch {
    return null;
  }
}

export function createShardLeases(config: ShardLeasesConfig, dependencies: ShardLeasesDependencies): ShardLeases {
  return new KvShardLeases(config, dependencies);
}

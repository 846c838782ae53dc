/** Who owns which shard (design section 10): one KV key per (role, shard) and per live member, TTL on every write. */
export type ShardRole = 'dispatcher' | 'reaper';

export interface Member {
  readonly id: string;
  /** How many shards this member scans: it is given none beyond. */
  readonly scanShards: number;
}

/** The KV revision of our last write: the base of the next conditional one. */
export type Revision = number;

export interface Acquired {
  readonly revision: Revision;
  /** How the lease before ended, as far as the bucket still knows (a marker stays for seconds): null for none. */
  readonly before: 'expired' | 'released' | null;
}

/**
 * Conditional writes on the lease and member buckets. Methods throw BusError when the outcome is not known; a caller then
 * keeps acting only while its last successful write is fresh enough.
 */
export interface ShardLeases {
  /** A lease or a member not written again for this long is gone. Whole seconds: the server knows no finer. */
  readonly ttlMs: number;
  /** Makes both buckets when they are missing (same configuration, concurrent creates both succeed). */
  ensure(): Promise<void>;
  /** Also the member's sign of life: to be repeated well within ttlMs. */
  announce(role: ShardRole, member: Member): Promise<void>;
  withdraw(role: ShardRole, memberId: string): Promise<void>;
  members(role: ShardRole): Promise<readonly Member[]>;
  /** Null when somebody else holds a live lease. A lease found to be our own already is written anew. */
  acquire(role: ShardRole, shard: number, memberId: string): Promise<Acquired | null>;
  /** Null when the lease is no longer ours. An unclear answer is settled by reading the key from the stream's leader. */
  renew(role: ShardRole, shard: number, memberId: string, revision: Revision): Promise<Revision | null>;
  /** Does nothing when the lease is no longer at that revision. */
  release(role: ShardRole, shard: number, revision: Revision): Promise<void>;
  /** shard -> member id of the live leases. */
  holders(role: ShardRole): Promise<ReadonlyMap<number, string>>;
  /**
   * Calls back when a lease of the role is released or expires, when a member comes or goes, and when the connection is
   * back, until stopped. Best effort: list again now and then.
   */
  watch(role: ShardRole, onChange: () => void): () => void;
}

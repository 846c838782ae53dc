/** Who owns which shard (design section 10): one KV key per (role, shard) and per live member, TTL on every write. */
export type ShardRole = 'dispatcher' | 'reaper';

export interface Member {
  readonly id: string;
  /** How many shards this member scans: it is given none beyond. */
  readonly scanShards: number;
}

/** The KV revision of our last write: the base of the next conditional one. */
export type Revision = number;

/**
 * Conditional writes on the lease and member buckets. Methods throw BusError when the outcome is not known; a caller then
 * keeps acting only while its last successful write is fresh enough.
 */
export interface ShardLeases {
  /** Makes both buckets when they are missing (same configuration, concurrent creates both succeed). */
  ensure(): Promise<void>;
  announce(role: ShardRole, member: Member): Promise<void>;
  withdraw(role: ShardRole, memberId: string): Promise<void>;
  members(role: ShardRole): Promise<readonly Member[]>;
  /** Null when somebody else holds a live lease. */
  acquire(role: ShardRole, shard: number, memberId: string): Promise<Revision | null>;
  /** Null when the lease is no longer ours. An unclear answer is settled by reading the key from the stream's leader. */
  renew(role: ShardRole, shard: number, memberId: string, revision: Revision): Promise<Revision | null>;
  release(role: ShardRole, shard: number, revision: Revision): Promise<void>;
  /** shard -> member id of the live leases. */
  holders(role: ShardRole): Promise<ReadonlyMap<number, string>>;
  /** Calls back when a lease of the role is released or expires, or a member comes or goes, until stopped. */
  watch(role: ShardRole, onChange: () => void): Promise<() => void>;
}

import { createHash } from 'node:crypto';

/** A member that may be given shards: those below scanShards, and none beyond. */
export interface AssignableMember {
  readonly id: string;
  readonly scanShards: number;
}

/**
 * Which member should own which shard: rendezvous hashing with a cap, so that every process computes the same from the same
 * members in any order, and few shards move when one comes or goes. Of all (member, shard) pairs the highest score goes
 * first; a member takes at most ceil(shards / members). Plain rendezvous leaves 7 to 26 of 64 shards on each of 4 members.
 *
 * Only while members disagree on scanShards may some know too few shards for the cap to hold: the others then take more.
 * A shard that nobody scans is missing from the map.
 */
export function assign(members: readonly AssignableMember[], shards: number): ReadonlyMap<number, string> {
  const owners = new Map<number, string>();
  const loads = new Map(members.map(({ id }) => [id, 0]));
  const give = (shard: number, id: string): void => {
    owners.set(shard, id);
    loads.set(id, loadOf(loads, id) + 1);
  };

  const cap = Math.ceil(shards / members.length);
  for (const { shard, id } of rankedPairs(members, shards)) {
    if (!owners.has(shard) && loadOf(loads, id) < cap) give(shard, id);
  }
  for (let shard = 0; shard < shards; shard++) {
    if (owners.has(shard)) continue;
    const id = leastLoaded(members, shard, loads);
    if (id !== undefined) give(shard, id);
  }
  return owners;
}

interface Pair {
  readonly id: string;
  readonly shard: number;
  readonly score: number;
}

function rankedPairs(members: readonly AssignableMember[], shards: number): readonly Pair[] {
  const pairs: Pair[] = [];
  for (const { id, scanShards } of members) {
    for (let shard = 0; shard < Math.min(shards, scanShards); shard++)
      pairs.push({ id, shard, score: score(id, shard) });
  }
  return pairs.sort((a, b) => b.score - a.score || a.shard - b.shard || compare(a.id, b.id));
}

function score(id: string, shard: number): number {
  return createHash('sha256').update(`${shard} ${id}`).digest().readUIntBE(0, 6);
}

function leastLoaded(
  members: readonly AssignableMember[],
  shard: number,
  loads: ReadonlyMap<string, number>,
): string | undefined {
  const able = members.filter(({ scanShards }) => scanShards > shard).map(({ id }) => id);
  return able.sort((a, b) => loadOf(loads, a) - loadOf(loads, b) || compare(a, b))[0];
}

function loadOf(loads: ReadonlyMap<string, number>, id: string): number {
  return loads.get(id) ?? 0;
}

function compare(a: string, b: string): number {
  return a < b ? -1 : Number(a > b);
}

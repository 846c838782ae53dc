// Looks for seeds that catch planted faults.

import { Chance } from './chance.ts';
import { CHAOS_STREAM, drawProfile } from './chaos.ts';
import { PLANTED_FAULTS, type PlantedFault } from './planted-faults.ts';
import { runSeeds } from './seed-pool.ts';
import type { SeedOrder } from './seed-worker.ts';
import type { Violation } from './violation.ts';

export interface Caught {
  readonly seed: number;
  /** How many seeds were run before it did. */
  readonly tries: number;
  readonly violation: Violation;
}

/** The seeds in the order in which they promise most for the fault. */
export function promisingFirst({ besides }: PlantedFault, seeds: readonly number[]): readonly number[] {
  if (besides === undefined) return seeds;
  const strikesThere = (seed: number): boolean => drawProfile(new Chance(seed, CHAOS_STREAM)).focus === besides;
  const { true: promising = [], false: others = [] } = Object.groupBy(seeds, (seed) =>
    strikesThere(seed) ? 'true' : 'false',
  );
  return [...promising, ...others];
}

/** Runs each fault's seeds in turn until one catches it; by the fault's name. */
export async function searchPlanted(
  seedsOf: (fault: PlantedFault) => readonly number[],
  stopping: AbortSignal,
  onCaught: (name: string, caught: Caught) => void = () => undefined,
): Promise<ReadonlyMap<string, Caught>> {
  const caught = new Map<string, Caught>();
  const tries = new Map<string, number>();
  await runSeeds(
    ordersOf(seedsOf, caught),
    ({ violation }, { seed, plant }) => {
      const name = plant ?? '';
      tries.set(name, (tries.get(name) ?? 0) + 1);
      // A plant that only makes a process fall over shows nothing.
      if (violation === null || violation.rule.startsWith('an error') || caught.has(name)) return;
      caught.set(name, { seed, tries: tries.get(name) ?? 0, violation });
      onCaught(name, { seed, tries: tries.get(name) ?? 0, violation });
    },
    stopping,
  );
  return caught;
}

/** The first seed of every fault, then the second of those that are still uncaught, and so on. */
function* ordersOf(
  seedsOf: (fault: PlantedFault) => readonly number[],
  caught: ReadonlyMap<string, Caught>,
): Generator<SeedOrder> {
  const searches = PLANTED_FAULTS.map((fault) => ({ name: fault.name, seeds: seedsOf(fault) }));
  let isOver = false;
  for (let round = 0; !isOver; round += 1) {
    isOver = true;
    for (const { name, seeds } of searches) {
      const seed = seeds[round];
      if (seed === undefined || caught.has(name)) continue;
      isOver = false;
      yield { seed, plant: name };
    }
  }
}

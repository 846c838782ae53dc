// Faults planted into the product's parts as a process is put together, to see that the checkers find each of them.

import type { Plant } from './world.ts';

export interface PlantedFault {
  readonly name: string;
  readonly plant: Plant;
}

export const PLANTED_FAULTS: readonly PlantedFault[] = [];

// A thread that runs one seed after the other.

import { parentPort } from 'node:worker_threads';
import { PLANTED_FAULTS } from './planted-faults.ts';
import { simulate } from './simulation.ts';

export interface SeedOrder {
  readonly seed: number;
  /** Of PLANTED_FAULTS; null for the product as it is. */
  readonly plant: string | null;
}

parentPort?.on('message', ({ seed, plant }: SeedOrder) => {
  void simulate({ seed, plant: PLANTED_FAULTS.find(({ name }) => name === plant)?.plant }).then((result) => {
    parentPort?.postMessage(result);
  });
});

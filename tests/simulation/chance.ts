// Chance that is the same for the same seed, on every machine and in every run.

import { createHash } from 'node:crypto';
import type { Random } from '../../services/core/ports/random.ts';

/** One stream of chance; streams of one seed are independent, so that more draws in one do not change the others. */
export class Chance implements Random {
  readonly #state: Uint32Array;

  constructor(seed: number, stream: string) {
    const digest = createHash('sha256').update(`${seed} ${stream}`).digest();
    this.#state = Uint32Array.from({ length: 4 }, (_, index) => digest.readUInt32LE(4 * index));
  }

  /** sfc32, 32 bits of it. */
  fraction(): number {
    const [a = 0, b = 0, c = 0, counter = 0] = this.#state;
    const drawn = (a + b + counter) | 0;
    this.#state[3] = counter + 1;
    this.#state[0] = b ^ (b >>> 9);
    this.#state[1] = (c + (c << 3)) | 0;
    this.#state[2] = (((c << 21) | (c >>> 11)) + drawn) | 0;
    return (drawn >>> 0) / 2 ** 32;
  }

  bytes(count: number): Uint8Array {
    return Uint8Array.from({ length: count }, () => this.whole(0, 255));
  }

  token(): string {
    return [0, 1, 2, 3]
      .map(() =>
        this.whole(0, 2 ** 32 - 1)
          .toString(16)
          .padStart(8, '0'),
      )
      .join('-');
  }

  between(low: number, high: number): number {
    return low + (high - low) * this.fraction();
  }

  /** Both ends included. */
  whole(low: number, high: number): number {
    return low + Math.floor((high - low + 1) * this.fraction());
  }

  happens(probability: number): boolean {
    return this.fraction() < probability;
  }

  pick<Item>(items: readonly Item[]): Item {
    const item = items[this.whole(0, items.length - 1)];
    if (item === undefined) throw new Error('nothing to pick from');
    return item;
  }

  /** One of the names, each as often as its weight says; null when all weigh nothing. */
  weighted<Name extends string>(weights: Readonly<Partial<Record<Name, number>>>): Name | null {
    const entries = Object.entries(weights) as [Name, number][];
    let left = this.fraction() * entries.reduce((sum, [, weight]) => sum + weight, 0);
    for (const [name, weight] of entries) {
      if (left < weight) return name;
      left -= weight;
    }
    return null;
  }
}

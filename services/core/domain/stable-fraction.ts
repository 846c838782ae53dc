import { createHash } from 'node:crypto';

/** A number in [0, 1) that looks like chance and is the same whenever it is asked for the same text. */
export function stableFraction(text: string): number {
  return createHash('sha256').update(text).digest().readUInt32BE(4) / 2 ** 32;
}

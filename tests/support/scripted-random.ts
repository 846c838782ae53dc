import type { Random } from '../../services/core/ports/random.ts';

/** Chance that repeats itself from test to test: bytes and tokens count up, the fraction is always the same. */
export function scriptedRandom(fraction = 0.5): Random {
  let drawn = 0;
  return {
    bytes: (count) => {
      drawn += 1;
      return Uint8Array.from({ length: count }, (_, index) => (index < 4 ? (drawn >>> (5 * index)) & 31 : 0));
    },
    fraction: () => fraction,
    token: () => `token-${(drawn += 1)}`,
  };
}

// The checkers bite: every fault planted into the product is found. `./scripts/simulate --planted` looks for the seeds anew.

import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import { PLANTED_FAULTS } from './planted-faults.ts';
import { type Caught, promisingFirst, searchPlanted } from './planted-search.ts';

/** What a seed draws moves with the code: where the known one no longer does, others are tried. */
const OTHER_SEEDS = Array.from({ length: 500 }, (_, index) => index + 1);
const TIME_MAX_MS = 240_000;
const CLOSING_MS = 30_000;
/** A run's own limit for a test is a minute. */
const HOOK = { timeout: TIME_MAX_MS + CLOSING_MS };

describe('a planted fault is caught', HOOK, () => {
  let caught: ReadonlyMap<string, Caught> = new Map();

  before(async () => {
    const stop = new AbortController();
    const timer = setTimeout(() => stop.abort(), TIME_MAX_MS);
    caught = await searchPlanted((fault) => [fault.seed, ...promisingFirst(fault, OTHER_SEEDS)], stop.signal);
    clearTimeout(timer);
  }, HOOK);

  for (const { name } of PLANTED_FAULTS) {
    it(name, () => {
      assert.ok(caught.has(name), 'no seed caught it in time: look with ./scripts/simulate --planted');
    });
  }
});

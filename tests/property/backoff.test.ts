import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { backoffMs } from '../../services/core/domain/backoff.ts';
import type { RetryPolicy } from '../../services/core/domain/job.ts';

const YEAR_S = 31_536_000;

/** All that a caller may ask for (schema/http/openapi.yaml, Retry). */
const seconds = fc.oneof(fc.constantFrom(0.001, 1, 3_600, YEAR_S), fc.double({ min: 0.001, max: YEAR_S, noNaN: true }));
const policies = fc.record<RetryPolicy>({
  kind: fc.constantFrom('exponential', 'fixed'),
  baseS: seconds,
  factor: fc.oneof(fc.constantFrom(1, 2, 1_000), fc.double({ min: 1, max: 1_000, noNaN: true })),
  capS: seconds,
  jitter: fc.constantFrom('equal', 'full', 'none'),
});
const tries = fc.oneof(fc.integer({ min: 1, max: 40 }), fc.integer({ min: 1, max: 1_000_000 }));
const fractions = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });

describe('the backoff', () => {
  it('is a whole number of at least 1 ms and at most the cap, for every policy and any number of tries', () => {
    fc.assert(
      fc.property(policies, tries, fractions, (policy, count, fraction) => {
        const ms = backoffMs(policy, count, fraction);
        assert.ok(Number.isSafeInteger(ms), String(ms));
        assert.ok(ms >= 1 && ms <= Math.max(1, Math.round(policy.capS * 1_000)), String(ms));
      }),
    );
  });

  it('never gets shorter from one try to the next, and a fixed one stays the same', () => {
    fc.assert(
      fc.property(policies, tries, (drawn, count) => {
        const policy: RetryPolicy = { ...drawn, jitter: 'none' };
        const [one, next] = [backoffMs(policy, count, 0), backoffMs(policy, count + 1, 0)];
        if (policy.kind === 'fixed') assert.equal(next, one);
        else assert.ok(next >= one);
      }),
    );
  });

  it('is drawn from half to full by equal jitter, from nothing to full by full jitter', () => {
    fc.assert(
      fc.property(policies, tries, fractions, (policy, count, fraction) => {
        const full = backoffMs({ ...policy, jitter: 'none' }, count, fraction);
        const equal = backoffMs({ ...policy, jitter: 'equal' }, count, fraction);
        const wide = backoffMs({ ...policy, jitter: 'full' }, count, fraction);
        assert.ok(equal >= Math.floor(full / 2) && equal <= full, `${equal} of ${full}`);
        assert.ok(wide >= 1 && wide <= full, `${wide} of ${full}`);
      }),
    );
  });

  it('spreads over the whole of its range', () => {
    const policy: RetryPolicy = { kind: 'fixed', baseS: 100, factor: 1, capS: 100, jitter: 'equal' };
    const drawn = (jitter: RetryPolicy['jitter']): number[] =>
      [0, 0.25, 0.5, 0.75, 0.999_999]
        .map((fraction) => backoffMs({ ...policy, jitter }, 1, fraction))
        .toSorted((a, b) => a - b);
    assert.deepEqual(drawn('equal'), [50_000, 62_500, 75_000, 87_500, 100_000]);
    assert.deepEqual(drawn('full'), [1, 25_000, 50_000, 75_000, 100_000]);
  });
});

import type { RetryPolicy } from './job.ts';
import { SECOND_MS } from './limits.ts';

/**
 * Milliseconds until the next attempt after the nth counted try (n from 1): base, base x factor, base x factor^2 ... up to
 * the cap. Jitter `equal` draws from half to full, `full` from anything above 0 to full. Always at least 1 ms and finite,
 * however many tries there were. `fraction` is chance, evenly in [0, 1).
 */
export function backoffMs(policy: RetryPolicy, tries: number, fraction: number): number {
  const growth = policy.kind === 'fixed' ? 1 : policy.factor ** (tries - 1);
  const fullMs = Math.min(policy.baseS * growth, policy.capS) * SECOND_MS;
  return Math.max(1, Math.round(jittered(policy.jitter, fullMs, fraction)));
}

/** Before the store is asked again after so many failures in a row, from 1 on: 50 ms, twice as long each time, 1 s at most. */
export function storePauseMs(failures: number): number {
  return Math.min(STORE_PAUSE_MAX_MS, STORE_PAUSE_FIRST_MS * 2 ** (failures - 1));
}

const STORE_PAUSE_FIRST_MS = 50;
const STORE_PAUSE_MAX_MS = SECOND_MS;

function jittered(jitter: RetryPolicy['jitter'], fullMs: number, fraction: number): number {
  switch (jitter) {
    case 'none':
      return fullMs;
    case 'equal':
      return fullMs / 2 + (fullMs / 2) * fraction;
    case 'full':
      return fullMs * (1 - fraction);
  }
}

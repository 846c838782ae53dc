import { refused, type Problem, type ProblemCode } from '../../core/contract/problems.ts';
import { StoreError } from '../../core/ports/store-error.ts';
import type { RoundOutcome } from '../../core/rounds/rounds.ts';

const RETRY_AFTER_S = 1;

export const OUTCOME_UNKNOWN: Problem = {
  code: 'outcome_unknown',
  detail: 'The store did not answer in time; repeat the same request to learn what became of it.',
  retryAfterS: RETRY_AFTER_S,
};

/** What a caller is told when a round was not written, or did not say whether it was. */
export function problemOfRound(outcome: Extract<RoundOutcome, { kind: 'unknown' | 'not_written' }>): Problem {
  if (outcome.kind === 'unknown') return OUTCOME_UNKNOWN;
  if (outcome.reason === 'overloaded' || outcome.reason === 'expired') {
    return {
      code: 'too_many_requests',
      detail: 'The store is busy; nothing was written.',
      retryAfterS: RETRY_AFTER_S,
    };
  }
  return storeUnavailable();
}

/** Runs a use-case's work; a store that cannot answer becomes a problem, everything else is our bug and stays thrown. */
export async function withStore<T>(work: () => Promise<T>): Promise<T | ReturnType<typeof refused>> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof StoreError && error.kind !== 'invalid') return refused(problemOfStoreError(error));
    throw error;
  }
}

export function problemOfStoreError(error: StoreError): Problem {
  if (error.kind !== 'overloaded') return storeUnavailable();
  return { code: 'too_many_requests', detail: 'The store is busy; nothing was written.', retryAfterS: RETRY_AFTER_S };
}

function storeUnavailable(): Problem {
  return {
    code: 'store_unavailable',
    detail: 'The store cannot do this now.',
    retryAfterS: RETRY_AFTER_S,
  };
}

/** Whether the store could not tell, so that asking again may. */
export function isUndecided(code: ProblemCode): boolean {
  return code === 'store_unavailable' || code === 'outcome_unknown' || code === 'too_many_requests';
}

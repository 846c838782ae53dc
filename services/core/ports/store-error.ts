/**
 * What a failed store call means for its caller; driver errors are translated once, in core/storage/errors.ts.
 * - unknown: sent, no answer or an ambiguous one; a write may have applied, and may still for 4 s.
 * - unavailable: nothing was written (too few replicas, or no host took the request).
 * - overloaded: nothing was written, the store or our own bound on requests in flight refused it.
 * - invalid: the store refused the statement itself; our bug, or one poisonous operation in a batch.
 */
export type StoreErrorKind = 'unknown' | 'unavailable' | 'overloaded' | 'invalid';

export class StoreError extends Error {
  readonly kind: StoreErrorKind;

  constructor(kind: StoreErrorKind, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = 'StoreError';
    this.kind = kind;
  }
}

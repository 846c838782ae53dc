import type { Report } from './types.ts';

/** The API's bound. */
const SNOOZE_MAX_S = 31_536_000;

/** To be returned or thrown by a handler that cannot do the job yet: it is due again later, and the try is not counted. */
export class Snooze extends Error {
  readonly snoozeS: number;

  /** Throws RangeError for what is no time of 0 to 31,536,000 s. */
  constructor(snoozeS: number) {
    super(`not yet: again in ${snoozeS} s`);
    if (!(snoozeS >= 0 && snoozeS <= SNOOZE_MAX_S)) throw new RangeError(`a job cannot be put off by ${snoozeS} s`);
    this.name = 'Snooze';
    this.snoozeS = snoozeS;
  }
}

/** To be thrown by a handler that knows more about its failure. Any other error is a failure to be retried by the job's policy. */
export class JobFailure extends Error {
  readonly retryable: boolean;
  readonly retryAfterS: number | undefined;

  constructor(
    message: string,
    options: { readonly retryable?: boolean; readonly retryAfterS?: number; readonly cause?: unknown } = {},
  ) {
    super(message, { cause: options.cause });
    this.name = 'JobFailure';
    this.retryable = options.retryable ?? true;
    this.retryAfterS = options.retryAfterS;
  }
}

export type AbortCause =
  /** The attempt is no longer ours, or the job is over: what we do is done in vain, or twice. */
  | 'lease_lost'
  /** The job's timeout_s is over. */
  | 'timed_out'
  /** Somebody asked to cancel the job: a handler that throws now ends it as cancelled, one that returns has succeeded. */
  | 'cancel_requested'
  /** The worker stops and waits no longer: a handler that throws now gives the job back. */
  | 'worker_stopping';

/** The reason of an aborted ctx.signal. */
export class AttemptAborted extends Error {
  readonly abortCause: AbortCause;

  constructor(abortCause: AbortCause) {
    super(`the attempt was aborted: ${abortCause}`);
    this.name = 'AttemptAborted';
    this.abortCause = abortCause;
  }
}

/** The API's bound for an error text. */
const ERROR_MAX_BYTES = 2_048;

export function failureOf(error: unknown): Report {
  const text = error instanceof Error ? (error.name === 'JobFailure' ? error.message : String(error)) : String(error);
  const report = { ok: false as const, error: withinBytes(text || 'the handler failed', ERROR_MAX_BYTES) };
  if (!(error instanceof JobFailure)) return report;
  return {
    ...report,
    retryable: error.retryable,
    ...(error.retryAfterS === undefined ? {} : { retry_after_s: error.retryAfterS }),
  };
}

/** Cut at a character's end. */
function withinBytes(text: string, bytes: number): string {
  const { read } = new TextEncoder().encodeInto(text, new Uint8Array(bytes));
  return text.slice(0, read);
}

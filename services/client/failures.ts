import type { Report } from './types.ts';

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
  /** Somebody asked to cancel the job. */
  | 'cancel_requested'
  /** The worker stops and waits no longer; the job runs again elsewhere. */
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
  const report: Report = { ok: false, error: withinBytes(text || 'the handler failed', ERROR_MAX_BYTES) };
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

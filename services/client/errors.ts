/** A refusal in the words of application/problem+json. */
export interface ProblemDetails {
  readonly title: string;
  readonly status: number;
  readonly detail?: string;
  readonly code: string;
  readonly retryable: boolean;
  readonly errors?: readonly { readonly field: string; readonly message: string }[];
  readonly [member: string]: unknown;
}

/** Anything that a call can fail with; `retryable`: the same call may succeed later. */
export abstract class PunctualError extends Error {
  abstract readonly retryable: boolean;
}

/** The API answered, and refused. */
export class RefusedError extends PunctualError {
  readonly status: number;
  /** A word of the API's error table, such as `lease_lost`. */
  readonly code: string;
  readonly retryable: boolean;
  readonly problem: ProblemDetails;
  /** Seconds, when the answer named them. */
  readonly retryAfterS: number | undefined;

  constructor(problem: ProblemDetails, retryAfterS?: number) {
    super(`${problem.status} ${problem.code}: ${problem.detail ?? problem.title}`);
    this.name = 'RefusedError';
    this.status = problem.status;
    this.code = problem.code;
    this.retryable = problem.retryable;
    this.problem = problem;
    this.retryAfterS = retryAfterS;
  }
}

/** No answer: not connected, or broken off, or too slow. The call may have taken effect unless `sent` is false. */
export class UnansweredError extends PunctualError {
  readonly retryable = true;
  readonly sent: boolean;

  constructor(message: string, options: { readonly sent: boolean; readonly cause: unknown }) {
    super(message, { cause: options.cause });
    this.name = 'UnansweredError';
    this.sent = options.sent;
  }
}

/**
 * The one error table: code -> HTTP status, title, retryable. Answers are application/problem+json (RFC 9457) built from
 * it; schema/http/openapi.yaml and the docs name the same codes, held together by a test.
 */
export const PROBLEMS = {
  invalid_request: { status: 400, title: 'The request is malformed or out of range', retryable: false },
  invalid_json: { status: 400, title: 'The body is not valid JSON', retryable: false },
  not_found: { status: 404, title: 'No such path', retryable: false },
  job_not_found: { status: 404, title: 'No such job', retryable: false },
  operation_not_found: { status: 404, title: 'No such operation', retryable: false },
  schedule_not_found: { status: 404, title: 'No such schedule', retryable: false },
  method_not_allowed: { status: 405, title: 'The path does not take this method', retryable: false },
  job_running: { status: 409, title: 'The job is running', retryable: false },
  job_finished: { status: 409, title: 'The job has finished', retryable: false },
  job_not_changeable: { status: 409, title: 'The job cannot be changed in this state', retryable: false },
  operation_finished: { status: 409, title: 'The operation has ended', retryable: false },
  lease_lost: { status: 409, title: 'The attempt no longer holds the lease', retryable: false },
  attempt_timed_out: { status: 409, title: 'The attempt ran past its time limit', retryable: false },
  queue_paused: { status: 409, title: 'The queue is paused', retryable: true },
  queue_at_limit: { status: 409, title: 'The queue runs as many jobs as it may', retryable: true },
  queue_over_rate: { status: 409, title: 'The queue starts as many jobs as its rate allows', retryable: true },
  too_many_queues: { status: 409, title: 'As many queues are configured as there may be', retryable: false },
  schedule_paused: { status: 409, title: 'The schedule is paused', retryable: false },
  schedule_ended: { status: 409, title: 'The schedule has ended', retryable: false },
  changed_meanwhile: { status: 412, title: 'It was changed since it was read', retryable: false },
  body_too_large: { status: 413, title: 'The body is too large', retryable: false },
  unsupported_media_type: { status: 415, title: 'The body must be JSON', retryable: false },
  idempotency_key_reused: { status: 422, title: 'The idempotency key was used with other content', retryable: false },
  too_many_requests: { status: 429, title: 'Too much work is waiting; slow down', retryable: true },
  internal_error: { status: 500, title: 'Something went wrong on our side', retryable: true },
  store_unavailable: { status: 503, title: 'The store cannot take this now', retryable: true },
  outcome_unknown: { status: 503, title: 'The store did not say whether the write took effect', retryable: true },
  ready_stream_unavailable: { status: 503, title: 'The ready stream is away', retryable: true },
  wrong_clock: { status: 503, title: 'The clock of this API process is wrong', retryable: true },
} as const satisfies Record<string, { status: number; title: string; retryable: boolean }>;

export type ProblemCode = keyof typeof PROBLEMS;

export interface FieldError {
  /** Path of the field, such as `payload` or `jobs[3].run_at`. */
  readonly field: string;
  /** What is wrong and what would be right. */
  readonly message: string;
}

/** A refusal as a value; the http layer renders it, batch answers embed it. */
export interface Problem {
  readonly code: ProblemCode;
  readonly detail: string;
  readonly errors?: readonly FieldError[];
  /** Seconds after which a retry makes sense, for 429 and 503. */
  readonly retryAfterS?: number;
  /** Further members of the answer, such as current_attempt and job_status of a lease_lost; `status` is the HTTP status. */
  readonly members?: Readonly<Record<string, string | number | boolean | null>>;
}

export type Result<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly problem: Problem };

export function ok<T>(value: T): Result<T> {
  return { ok: true, value };
}

export function refused(problem: Problem): { readonly ok: false; readonly problem: Problem } {
  return { ok: false, problem };
}

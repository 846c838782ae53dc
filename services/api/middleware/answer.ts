import type { Response } from 'express';
import { type Problem, PROBLEMS } from '../../core/contract/problems.ts';

export interface Answer {
  readonly status: number;
  /** JSON text; texts that were stored are spliced in as they are. */
  readonly body: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly contentType?: string;
}

export function answer(status: number, value: unknown): Answer {
  return { status, body: JSON.stringify(value) };
}

/** The JSON text of an object, with members whose JSON text is known already: kept character by character, null if there is none. */
export function jsonWithRaw(value: object, raw: Readonly<Record<string, string | null>>): string {
  const members = Object.entries(raw).map(([name, text]) => `"${name}":${text ?? 'null'}`);
  const rest = JSON.stringify(value).slice(1, -1);
  return `{${[rest, ...members].filter((part) => part !== '').join(',')}}`;
}

/** Where a refusal happened. */
export interface RefusedRequest {
  readonly path: string;
  /** Told with 5xx: finds the request in our logs. */
  readonly traceId: () => string;
}

/** A 429 or 503 that names no time. */
const RETRY_AFTER_DEFAULT_S = 1;

/** RFC 9457. */
export function problemAnswer(problem: Problem, { path, traceId }: RefusedRequest): Answer {
  const { status } = PROBLEMS[problem.code];
  const retryLater = status === 429 || status === 503;
  return {
    status,
    contentType: 'application/problem+json',
    body: JSON.stringify({
      ...problemMembers(problem),
      type: `/problems#${problem.code}`,
      status,
      instance: path,
      ...(status >= 500 ? { trace_id: traceId() } : {}),
    }),
    ...(retryLater ? { headers: { 'retry-after': String(problem.retryAfterS ?? RETRY_AFTER_DEFAULT_S) } } : {}),
  };
}

/** The members that a whole refusal and the refusal of an item in a batch have in common. */
function problemMembers({ code, detail, errors, members }: Problem): Record<string, unknown> {
  const { title, retryable } = PROBLEMS[code];
  return { ...members, code, title, detail, retryable, ...(errors === undefined ? {} : { errors }) };
}

/** The refusal of one item of a batch: what the whole call would answer, with its time to wait beside it. */
export function itemProblem(problem: Problem): { readonly status: number; readonly error: object } {
  const retryAfter = problem.retryAfterS === undefined ? {} : { retry_after_s: problem.retryAfterS };
  return { status: PROBLEMS[problem.code].status, error: { ...problemMembers(problem), ...retryAfter } };
}

export function send(
  response: Response,
  { status, body, headers = {}, contentType = 'application/json' }: Answer,
): void {
  response.writeHead(status, { ...headers, 'content-type': contentType, 'content-length': Buffer.byteLength(body) });
  response.end(body);
}

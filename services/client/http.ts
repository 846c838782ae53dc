import { setTimeout as sleep } from 'node:timers/promises';
import { type ProblemDetails, type PunctualError, RefusedError, UnansweredError } from './errors.ts';

export interface HttpOptions {
  /** One address, or those of several api processes: a call that cannot connect goes to the next. */
  readonly apiUrl: string | readonly string[];
  readonly apiKey?: string | undefined;
  /** For one try of a call; default 10,000. */
  readonly timeoutMs?: number | undefined;
  /** How many more tries a call gets where a repeat is safe; default 4. */
  readonly retries?: number | undefined;
}

export interface HttpRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  readonly path: string;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  /** Whether the call may be sent again when it may have taken effect. */
  readonly repeatable: boolean;
  /** How long the API itself may wait before it answers, beside the time that a call may take; default 0. */
  readonly waitMs?: number;
  /** Breaks the call off, which the API notices. */
  readonly signal?: AbortSignal | undefined;
}

export interface HttpAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  readonly json: unknown;
}

const TIMEOUT_DEFAULT_MS = 10_000;
const RETRIES_DEFAULT = 4;
const BACKOFF_MIN_MS = 100;
const BACKOFF_MAX_MS = 5_000;
/** Refusals that say that nothing was written. */
const NOTHING_WRITTEN = ['store_unavailable', 'too_many_requests', 'wrong_clock'];
/** The connection was never made. */
const NOT_SENT = ['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'EHOSTUNREACH', 'ENETUNREACH', 'UND_ERR_CONNECT_TIMEOUT'];

/** Calls over Node's fetch, which keeps connections alive. */
export class Http {
  readonly #urls: readonly string[];
  readonly #apiKey: string | undefined;
  readonly #timeoutMs: number;
  readonly #retries: number;
  #next = 0;

  constructor({ apiUrl, apiKey, timeoutMs, retries }: HttpOptions) {
    this.#urls = (typeof apiUrl === 'string' ? [apiUrl] : apiUrl).map((url) => url.replace(/\/+$/, ''));
    if (this.#urls.length === 0) throw new TypeError('apiUrl names no address');
    this.#apiKey = apiKey;
    this.#timeoutMs = timeoutMs ?? TIMEOUT_DEFAULT_MS;
    this.#retries = retries ?? RETRIES_DEFAULT;
  }

  /** Throws PunctualError. */
  async call(request: HttpRequest): Promise<HttpAnswer> {
    for (let retry = 0; ; retry++) {
      try {
        return await this.#try(request);
      } catch (error) {
        if (retry >= this.#retries || !mayRepeat(error as PunctualError, request)) throw error;
        await sleep(backoffMs(error as PunctualError, retry));
      }
    }
  }

  async #try({ method, path, body, headers, waitMs = 0, signal }: HttpRequest): Promise<HttpAnswer> {
    const timeout = AbortSignal.timeout(this.#timeoutMs + waitMs);
    const url = `${this.#urls[this.#next % this.#urls.length] ?? ''}${path}`;
    try {
      const response = await fetch(url, {
        method,
        signal: signal === undefined ? timeout : AbortSignal.any([timeout, signal]),
        headers: {
          accept: 'application/json',
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
          ...(this.#apiKey === undefined ? {} : { authorization: `Bearer ${this.#apiKey}` }),
          ...headers,
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      return answerOf(response, await response.text());
    } catch (error) {
      if (error instanceof RefusedError) {
        // It is this process that cannot: the next one may.
        if (error.code === 'wrong_clock') this.#next++;
        throw error;
      }
      this.#next++;
      throw unanswered(`${method} ${url}`, error);
    }
  }
}

function answerOf({ ok, status, headers }: Response, text: string): HttpAnswer {
  const json = parse(text);
  if (ok) return { status, headers, text, json };
  const retryAfter = Number(headers.get('retry-after') ?? NaN);
  throw new RefusedError(problemOf(status, json), Number.isFinite(retryAfter) ? retryAfter : undefined);
}

/** Something in between, a proxy perhaps, may answer in other words. */
export function problemOf(status: number, json: unknown): ProblemDetails {
  const given = typeof json === 'object' && json !== null ? (json as Partial<ProblemDetails>) : {};
  return {
    ...given,
    title: given.title ?? `HTTP ${status}`,
    status: given.status ?? status,
    code: given.code ?? 'unknown',
    retryable: given.retryable ?? (status === 429 || status >= 500),
  };
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function unanswered(call: string, error: unknown): UnansweredError {
  const reason = error instanceof Error ? (error.cause ?? error) : error;
  const code = reason instanceof Error && 'code' in reason ? String(reason.code) : '';
  const message = reason instanceof Error ? reason.message || code : String(reason);
  return new UnansweredError(`${call}: ${message}`, { sent: !NOT_SENT.includes(code), cause: error });
}

function mayRepeat(error: PunctualError, { repeatable, signal }: HttpRequest): boolean {
  if (!error.retryable || signal?.aborted === true) return false;
  if (repeatable) return true;
  if (error instanceof UnansweredError) return !error.sent;
  return error instanceof RefusedError && NOTHING_WRITTEN.includes(error.code);
}

/** Full jitter, never earlier than the answer asked for. */
function backoffMs(error: PunctualError, retry: number): number {
  const asked = error instanceof RefusedError ? (error.retryAfterS ?? 0) * 1_000 : 0;
  const ceiling = Math.min(BACKOFF_MAX_MS, BACKOFF_MIN_MS * 2 ** retry);
  return Math.min(BACKOFF_MAX_MS, Math.max(asked, ceiling * Math.random()));
}

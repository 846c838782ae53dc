import { createHash } from 'node:crypto';
import { formatInstant, parseInstant } from '../../core/contract/instant.ts';
import { ok, type Problem, refused, type Result } from '../../core/contract/problems.ts';
import type { CreateJobRequest } from '../../core/contract/wire.ts';
import type { RetryPolicy } from '../../core/domain/job.ts';
import { Priority } from '../../core/domain/job-status.ts';
import {
  DAY_MS,
  HOUR_MS,
  LEASE_DEFAULT_S,
  MAX_ATTEMPTS_DEFAULT,
  PAYLOAD_MAX_BYTES,
  RETRY_BASE_DEFAULT_S,
  RETRY_CAP_DEFAULT_S,
  RETRY_FACTOR_DEFAULT,
  RUN_AT_PAST_MAX_MS,
  SECOND_MS,
  TIMEOUT_DEFAULT_S,
} from '../../core/domain/limits.ts';
import type { EpochMs } from '../../core/domain/time.ts';
import { canonicalJson } from '../middleware/canonical-json.ts';
import { invalidField, invalidRequest } from '../middleware/invalid-request.ts';
import type { ApiRequest } from '../middleware/operation-handler.ts';
import type { Violation } from '../middleware/violation-text.ts';
import type { CreateJob } from '../use-cases/types.ts';

/** Whose jobs these are while callers have no keys of their own. */
export const OWNER_DEFAULT = 'default';
export const PAYLOAD_MEMBER = 'payload';
const KEY_HEADER = 'Idempotency-Key';
const KEY_MEMBER = 'idempotency_key';

export const RETRY_DEFAULT: RetryPolicy = {
  kind: 'exponential',
  baseS: RETRY_BASE_DEFAULT_S,
  factor: RETRY_FACTOR_DEFAULT,
  capS: RETRY_CAP_DEFAULT_S,
  jitter: 'equal',
};

export interface JobTerms {
  readonly now: EpochMs;
  readonly horizonDays: number;
}

export interface ParsedJob {
  readonly job: CreateJob;
  /** Set when run_at is too long ago for a new job. A repeat of a request made in time is still answered with its job. */
  readonly tooLate: Problem | null;
}

/** What one field says of another and of the clock; each field for itself matches the document already. Fills in defaults. */
export function parseJob({ body, header }: ApiRequest, terms: JobTerms): Result<ParsedJob> {
  const request = body.value as unknown as CreateJobRequest;
  const payload = body.raw.get(0) ?? null;
  const payloadBytes = payload === null ? 0 : Buffer.byteLength(payload);
  const idempotencyKey = request.idempotency_key ?? header(KEY_HEADER) ?? null;
  const retry = retryOf(request.retry);
  const when = whenOf(request);

  const violations = [
    ...payloadViolations(payloadBytes),
    ...keyViolations(request.idempotency_key, header(KEY_HEADER)),
    ...timeViolations(request, when, terms),
    ...retryViolations(retry),
  ];
  if (violations.length > 0) return refused(invalidRequest(violations));
  const job: CreateJob = {
    owner: OWNER_DEFAULT,
    idempotencyKey,
    // Only keyed requests are ever compared, and hashing costs as much as all the rest of parsing.
    requestHash: idempotencyKey === null ? '' : contentHash(body.text),
    queue: request.queue,
    priority: request.priority ?? Priority.normal,
    payload,
    payloadBytes,
    when,
    maxAttempts: request.max_attempts ?? MAX_ATTEMPTS_DEFAULT,
    timeoutS: request.timeout_s ?? TIMEOUT_DEFAULT_S,
    leaseS: request.lease_s ?? LEASE_DEFAULT_S,
    retry,
    labels: request.labels ?? {},
    expiresAt: null,
    traceparent: traceparentOf(header('traceparent')),
  };
  return ok({ job, tooLate: tooLateOf(when, terms.now) });
}

function payloadViolations(payloadBytes: number): Violation[] {
  if (payloadBytes <= PAYLOAD_MAX_BYTES) return [];
  const message = `is ${payloadBytes} bytes of JSON text, and may be ${PAYLOAD_MAX_BYTES}; pass what is larger by reference`;
  return [{ path: [PAYLOAD_MEMBER], message }];
}

function keyViolations(inBody: string | undefined, inHeader: string | undefined): Violation[] {
  if (inBody === undefined || inHeader === undefined || inBody === inHeader) return [];
  return [{ path: [KEY_MEMBER], message: `differs from the header ${KEY_HEADER}; give one of the two` }];
}

function timeViolations(
  request: CreateJobRequest,
  when: CreateJob['when'],
  { now, horizonDays }: JobTerms,
): Violation[] {
  if (request.run_at !== undefined && request.delay_s !== undefined) {
    return [{ path: ['run_at'], message: 'and delay_s exclude each other: give one of them, or neither for now' }];
  }
  const aheadMs = 'at' in when ? when.at - now : when.delayMs;
  if (aheadMs <= horizonDays * DAY_MS) return [];
  return [{ path: ['at' in when ? 'run_at' : 'delay_s'], message: `may be at most ${horizonDays} days ahead` }];
}

function retryViolations({ baseS, capS }: RetryPolicy): Violation[] {
  if (capS >= baseS) return [];
  return [{ path: ['retry', 'cap_s'], message: `is ${capS} s, less than base_s, which is ${baseS} s` }];
}

function whenOf({ run_at: runAt, delay_s: delayS = 0 }: CreateJobRequest): CreateJob['when'] {
  const parsed = runAt === undefined ? null : parseInstant(runAt);
  return parsed?.ok === true ? { at: parsed.epochMs } : { delayMs: Math.round(delayS * SECOND_MS) };
}

function tooLateOf(when: CreateJob['when'], now: EpochMs): Problem | null {
  if (!('at' in when) || when.at >= now - RUN_AT_PAST_MAX_MS) return null;
  const message = `lies more than ${RUN_AT_PAST_MAX_MS / HOUR_MS} hour in the past: it is ${formatInstant(now)} now`;
  return invalidField('run_at', message);
}

function retryOf(retry: CreateJobRequest['retry']): RetryPolicy {
  return {
    kind: retry?.kind ?? RETRY_DEFAULT.kind,
    baseS: retry?.base_s ?? RETRY_DEFAULT.baseS,
    factor: retry?.factor ?? RETRY_DEFAULT.factor,
    capS: retry?.cap_s ?? RETRY_DEFAULT.capS,
    jitter: retry?.jitter ?? RETRY_DEFAULT.jitter,
  };
}

/** What a repeat must have in common with the request that first used the key; the key itself may come in either place. */
function contentHash(text: string): string {
  return createHash('sha256').update(canonicalJson(text, KEY_MEMBER)).digest('hex');
}

/** A trace context (W3C); one that is malformed is left out, as its standard wants it. */
function traceparentOf(header: string | undefined): string | null {
  return header !== undefined && /^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/.test(header) ? header : null;
}

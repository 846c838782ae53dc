import { createHash } from 'node:crypto';
import { formatInstant, parseInstant } from '../../core/contract/instant.ts';
import { ok, type Problem, refused, type Result } from '../../core/contract/problems.ts';
import type { CreateJobRequest, WireRetry } from '../../core/contract/wire.ts';
import type { RetryPolicy } from '../../core/domain/job.ts';
import { Priority } from '../../core/domain/job-status.ts';
import { DAY_MS, HOUR_MS, PAYLOAD_MAX_BYTES, RUN_AT_PAST_MAX_MS, SECOND_MS } from '../../core/domain/limits.ts';
import type { JobDefaults } from '../../core/domain/queue-settings.ts';
import type { EpochMs } from '../../core/domain/time.ts';
import { canonicalJson } from '../middleware/canonical-json.ts';
import { invalidRequest } from '../middleware/invalid-request.ts';
import type { Violation } from '../middleware/violation-text.ts';
import type { CreateJob, When } from '../use-cases/types.ts';

/** Whose jobs these are while callers have no keys of their own. */
export const OWNER_DEFAULT = 'default';
export const PAYLOAD_MEMBER = 'payload';
export const KEY_HEADER = 'Idempotency-Key';
const KEY_MEMBER = 'idempotency_key';

export interface TimeTerms {
  readonly now: EpochMs;
  readonly horizonDays: number;
}

export interface JobTerms extends TimeTerms {
  readonly defaultsOf: (queue: string) => JobDefaults;
}

/** A job as it came: the body of POST /jobs, or an item of a batch. */
export interface JobSource {
  readonly request: CreateJobRequest;
  /** The request's own text. */
  readonly text: string;
  readonly payload: string | null;
  /** The header of the call. */
  readonly keyHeader: string | undefined;
  /** The header stands for the whole call, of which this job is one of many. */
  readonly keyCoversCall: boolean;
  readonly traceparent: string | undefined;
  /** Where in the body it stands. */
  readonly path: Violation['path'];
}

export interface ParsedJob {
  readonly job: CreateJob;
  /** Set when the clock has passed the job's times. A repeat of a request made in time is still answered with its job. */
  readonly tooLate: Problem | null;
}

/** What one field says of another and of the clock; each field for itself matches the document already. Fills in defaults. */
export function parseJob(source: JobSource, terms: JobTerms): Result<ParsedJob> {
  const { request, payload } = source;
  const payloadBytes = payload === null ? 0 : Buffer.byteLength(payload);
  const idempotencyKey = keyOf(source);
  const defaults = terms.defaultsOf(request.queue);
  const retry = mergedRetry(request.retry ?? {}, { before: defaults.retry, preset: defaults.retry });
  const when = whenOf(request) ?? { delayMs: 0 };
  const jitterMs = milliseconds(request.jitter_s ?? 0);
  const expiresAt = instantOf(request.expires_at) ?? null;
  const refusal = (violations: readonly Violation[]): Problem | null =>
    violations.length === 0
      ? null
      : invalidRequest(violations.map(({ path, message }) => ({ path: [...source.path, ...path], message })));

  const problem = refusal([
    ...payloadViolations(payloadBytes),
    ...keyViolations(source),
    ...timeViolations(request, terms),
    ...('at' in when ? expiryViolations(expiresAt, when.at + jitterMs) : []),
    ...retryViolations(retry),
  ]);
  if (problem !== null) return refused(problem);
  const job: CreateJob = {
    owner: OWNER_DEFAULT,
    idempotencyKey,
    // Hashing costs as much as all the rest of parsing.
    requestHash: idempotencyKey === null ? null : contentHash(source.text),
    queue: request.queue,
    priority: request.priority ?? Priority.normal,
    payload,
    payloadBytes,
    when,
    jitterMs,
    maxAttempts: request.max_attempts ?? defaults.maxAttempts,
    timeoutS: request.timeout_s ?? defaults.timeoutS,
    leaseS: request.lease_s ?? defaults.leaseS,
    retry,
    labels: request.labels ?? {},
    expiresAt,
    scheduleId: null,
    traceparent: traceparentOf(source.traceparent),
  };
  const dueAt = dueTime(when, terms.now) + jitterMs;
  return ok({ job, tooLate: refusal([...pastViolations(when, terms.now), ...expiryViolations(expiresAt, dueAt)]) });
}

/** What a repeated call must have in common with the one that first used its key. */
export function contentHash(text: string): string {
  // In a job the key may come in either place, and in a batch it is no member of the outermost object.
  return createHash('sha256').update(canonicalJson(text, KEY_MEMBER)).digest('hex');
}

export function payloadViolations(payloadBytes: number): Violation[] {
  if (payloadBytes <= PAYLOAD_MAX_BYTES) return [];
  const message = `is ${payloadBytes} bytes of JSON text, and may be ${PAYLOAD_MAX_BYTES}; pass what is larger by reference`;
  return [{ path: [PAYLOAD_MEMBER], message }];
}

interface Times {
  readonly run_at?: string;
  readonly delay_s?: number;
}

export function timeViolations(times: Times, { now, horizonDays }: TimeTerms): Violation[] {
  if (times.run_at !== undefined && times.delay_s !== undefined) {
    return [{ path: ['run_at'], message: 'and delay_s exclude each other: give one of them, or neither for now' }];
  }
  const when = whenOf(times);
  if (when === undefined || dueTime(when, now) - now <= horizonDays * DAY_MS) return [];
  return [{ path: ['at' in when ? 'run_at' : 'delay_s'], message: `may be at most ${horizonDays} days ahead` }];
}

export function pastViolations(when: When, now: EpochMs): Violation[] {
  if (!('at' in when) || when.at >= now - RUN_AT_PAST_MAX_MS) return [];
  const message = `lies more than ${RUN_AT_PAST_MAX_MS / HOUR_MS} hour in the past: it is ${formatInstant(now)} now`;
  return [{ path: ['run_at'], message }];
}

/** @param dueAt with all of its jitter. */
export function expiryViolations(expiresAt: EpochMs | null, dueAt: EpochMs): Violation[] {
  if (expiresAt === null || expiresAt > dueAt) return [];
  const message = `must lie after the time at which the job is due, jitter_s included: ${formatInstant(dueAt)}`;
  return [{ path: ['expires_at'], message }];
}

export function retryViolations({ baseS, capS }: RetryPolicy): Violation[] {
  if (capS >= baseS) return [];
  return [{ path: ['retry', 'cap_s'], message: `is ${capS} s, less than base_s, which is ${baseS} s` }];
}

/** undefined: neither is given. */
export function whenOf({ run_at: runAt, delay_s: delayS }: Times): When | undefined {
  const at = instantOf(runAt);
  if (at !== undefined) return { at };
  return delayS === undefined ? undefined : { delayMs: milliseconds(delayS) };
}

/** A time that has passed counts as now. */
export function dueTime(when: When, now: EpochMs): EpochMs {
  return 'at' in when ? Math.max(when.at, now) : now + when.delayMs;
}

export function instantOf(text: string | undefined): EpochMs | undefined {
  const parsed = text === undefined ? undefined : parseInstant(text);
  return parsed?.ok === true ? parsed.epochMs : undefined;
}

/** What is absent stays as it was, and null stands for the preset. */
export function mergedRetry(
  patch: { readonly [Field in keyof WireRetry]?: WireRetry[Field] | null },
  { before, preset }: { readonly before: RetryPolicy; readonly preset: RetryPolicy },
): RetryPolicy {
  const merged = <T>(given: T | null | undefined, kept: T, byDefault: T): T =>
    given === undefined ? kept : (given ?? byDefault);
  return {
    kind: merged(patch.kind, before.kind, preset.kind),
    baseS: merged(patch.base_s, before.baseS, preset.baseS),
    factor: merged(patch.factor, before.factor, preset.factor),
    capS: merged(patch.cap_s, before.capS, preset.capS),
    jitter: merged(patch.jitter, before.jitter, preset.jitter),
  };
}

function keyOf({ request, keyHeader, keyCoversCall }: JobSource): string | null {
  if (keyCoversCall) return keyHeader === undefined ? (request.idempotency_key ?? null) : null;
  return request.idempotency_key ?? keyHeader ?? null;
}

function keyViolations({ request, keyHeader, keyCoversCall }: JobSource): Violation[] {
  const inBody = request.idempotency_key;
  if (inBody === undefined || keyHeader === undefined) return [];
  if (keyCoversCall) {
    return [{ path: [KEY_MEMBER], message: `cannot go with the header ${KEY_HEADER}, which covers the whole call` }];
  }
  if (inBody === keyHeader) return [];
  return [{ path: [KEY_MEMBER], message: `differs from the header ${KEY_HEADER}; give one of the two` }];
}

function milliseconds(seconds: number): number {
  return Math.round(seconds * SECOND_MS);
}

/** A trace context (W3C); one that is malformed is left out, as its standard wants it. */
export function traceparentOf(header: string | undefined): string | null {
  return header !== undefined && /^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/.test(header) ? header : null;
}

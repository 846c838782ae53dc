import { ok, refused, type Result } from '../../core/contract/problems.ts';
import type {
  BatchItem,
  ClaimRequest,
  CompleteRequest,
  HeartbeatRequest,
  LeaseRequest as WireLeaseRequest,
  ReleaseRequest,
} from '../../core/contract/wire.ts';
import { isJobId } from '../../core/domain/ids.ts';
import { PRIORITIES } from '../../core/domain/job-status.ts';
import {
  ERROR_TEXT_MAX_BYTES,
  LEASE_WAIT_DEFAULT_S,
  PROGRESS_MAX_BYTES,
  RESULT_MAX_BYTES,
  SECOND_MS,
} from '../../core/domain/limits.ts';
import { invalidField, invalidRequest } from '../middleware/invalid-request.ts';
import type { ApiRequest } from '../middleware/operation-handler.ts';
import type { Violation } from '../middleware/violation-text.ts';
import type { ClaimItem, HeartbeatItem, LeaseRequest, ReleaseItem, Report, ReportedEnd } from '../use-cases/types.ts';
import { jobNotFound } from '../use-cases/worker-refusals.ts';

/**
 * What one field of a worker's call says of another; each for itself matches the document already. The single call and the
 * item of a batch are the same here. @param raw the text of the member that is kept as it was written.
 */
export type ParseItem<Request, Item> = (request: BatchItem<Request>, raw: string | null) => Result<Item>;

export const parseClaim: ParseItem<ClaimRequest, ClaimItem> = ({ job_id: jobId, attempt, claim_id: claimId }) =>
  withJobId({ jobId, attempt, claimId: claimId ?? null });

export const parseHeartbeat: ParseItem<HeartbeatRequest, HeartbeatItem> = ({ job_id: jobId, attempt }, progress) => {
  if (isLonger(progress, PROGRESS_MAX_BYTES)) return refused(tooLong('progress', PROGRESS_MAX_BYTES));
  return withJobId({ jobId, attempt, progress });
};

export const parseReport: ParseItem<CompleteRequest, Report> = (request, result) => {
  const violations = reportViolations(request);
  if (violations.length > 0) return refused(invalidRequest(violations));
  if (isLonger(result, RESULT_MAX_BYTES)) return refused(tooLong('result', RESULT_MAX_BYTES));
  const { job_id: jobId, attempt } = request;
  return withJobId<Report>({ jobId, attempt, ...endOf(request, result) });
};

export const parseRelease: ParseItem<ReleaseRequest, ReleaseItem> = ({ job_id: jobId, attempt }) =>
  withJobId({ jobId, attempt });

export function parseLease({ body, path, waitEnds }: ApiRequest): LeaseRequest {
  const wire = body.value as unknown as WireLeaseRequest;
  return {
    queue: path['queue'] ?? '',
    // Whatever the order in which the caller names them: high goes before normal before low.
    priorities: PRIORITIES.filter((priority) => wire.priorities?.includes(priority) ?? true),
    max: wire.max ?? 1,
    waitMs: Math.round((wire.wait_s ?? LEASE_WAIT_DEFAULT_S) * SECOND_MS),
    worker: wire.worker,
    claimId: wire.claim_id ?? null,
    signal: waitEnds(),
  };
}

/** A text that is no job's id names no job. */
function withJobId<Item extends { readonly jobId: string }>(item: Item): Result<Item> {
  return isJobId(item.jobId) ? ok(item) : refused(jobNotFound(item.jobId));
}

function endOf(request: CompleteRequest, result: string | null): ReportedEnd {
  if (request.snooze_s !== undefined) return { kind: 'snoozed', delayMs: milliseconds(request.snooze_s) };
  if (request.cancelled === true) return { kind: 'cancelled' };
  if (request.ok === true) return { kind: 'succeeded', result };
  return {
    kind: 'failed',
    error: cutToBytes((request.error ?? '').toWellFormed(), ERROR_TEXT_MAX_BYTES),
    retryable: request.retryable ?? true,
    retryAfterMs: request.retry_after_s === undefined ? null : milliseconds(request.retry_after_s),
  };
}

/** The fields by which an attempt ends, of which a report has one. */
const ENDS = ['ok', 'snooze_s', 'cancelled'] as const;
const OF_SUCCESS = ['result'] as const;
const OF_FAILURE = ['error', 'retryable', 'retry_after_s'] as const;

function reportViolations(request: CompleteRequest): Violation[] {
  const [end, ...others] = ENDS.filter((field) => request[field] !== undefined);
  if (end === undefined) {
    return [{ path: ['ok'], message: 'is required, or one of snooze_s and cancelled in its place' }];
  }
  if (others.length > 0) {
    return others.map((field) => ({ path: [field], message: `cannot go with ${end}: an attempt ends in one way` }));
  }
  if (request.cancelled === false) {
    return [{ path: ['cancelled'], message: 'can only be true; say with ok how the attempt ended' }];
  }
  return [
    ...(request.ok === true ? [] : misplaced(request, OF_SUCCESS, 'goes with ok: true')),
    ...(request.ok === false ? [] : misplaced(request, OF_FAILURE, 'goes with ok: false')),
    ...(request.ok === false && request.error === undefined
      ? [{ path: ['error'], message: 'is required with ok: false' }]
      : []),
  ];
}

function misplaced(request: CompleteRequest, fields: readonly (keyof CompleteRequest)[], message: string): Violation[] {
  return fields.filter((field) => request[field] !== undefined).map((field) => ({ path: [field], message }));
}

function milliseconds(seconds: number): number {
  return Math.round(seconds * SECOND_MS);
}

function isLonger(text: string | null, maxBytes: number): boolean {
  return text !== null && Buffer.byteLength(text) > maxBytes;
}

function tooLong(field: string, maxBytes: number): ReturnType<typeof invalidField> {
  return invalidField(field, `may be at most ${maxBytes} bytes of JSON text`);
}

/** Cut at a character's boundary. */
export function cutToBytes(text: string, maxBytes: number): string {
  if (Buffer.byteLength(text) <= maxBytes) return text;
  const bytes = Buffer.from(text);
  let end = maxBytes;
  // Bytes 10xxxxxx continue a character.
  while (((bytes[end] ?? 0) & 0xc0) === 0x80) end -= 1;
  return bytes.toString('utf8', 0, end);
}

import { ok, refused, type Result } from '../../core/contract/problems.ts';
import type { BatchItem, ClaimRequest, CompleteRequest, HeartbeatRequest } from '../../core/contract/wire.ts';
import { isJobId } from '../../core/domain/ids.ts';
import { ERROR_TEXT_MAX_BYTES, PROGRESS_MAX_BYTES, RESULT_MAX_BYTES, SECOND_MS } from '../../core/domain/limits.ts';
import { invalidField, invalidRequest } from '../middleware/invalid-request.ts';
import type { Violation } from '../middleware/violation-text.ts';
import type { ClaimItem, HeartbeatItem, Report } from '../use-cases/types.ts';
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
  const violations = request.ok ? successViolations(request) : failureViolations(request);
  if (violations.length > 0) return refused(invalidRequest(violations));
  if (isLonger(result, RESULT_MAX_BYTES)) return refused(tooLong('result', RESULT_MAX_BYTES));
  const { job_id: jobId, attempt } = request;
  if (request.ok) return withJobId<Report>({ jobId, attempt, kind: 'succeeded', result });
  return withJobId<Report>({
    jobId,
    attempt,
    kind: 'failed',
    error: cutToBytes((request.error ?? '').toWellFormed(), ERROR_TEXT_MAX_BYTES),
    retryable: request.retryable ?? true,
    retryAfterMs: request.retry_after_s === undefined ? null : Math.round(request.retry_after_s * SECOND_MS),
  });
};

/** A text that is no job's id names no job. */
function withJobId<Item extends { readonly jobId: string }>(item: Item): Result<Item> {
  return isJobId(item.jobId) ? ok(item) : refused(jobNotFound(item.jobId));
}

function successViolations(request: CompleteRequest): Violation[] {
  const ofFailure = ['error', 'retryable', 'retry_after_s'] as const;
  return ofFailure
    .filter((field) => request[field] !== undefined)
    .map((field) => ({ path: [field], message: 'goes with ok: false' }));
}

function failureViolations(request: CompleteRequest): Violation[] {
  return [
    ...(request.error === undefined ? [{ path: ['error'], message: 'is required with ok: false' }] : []),
    ...(request.result === undefined ? [] : [{ path: ['result'], message: 'goes with ok: true' }]),
  ];
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

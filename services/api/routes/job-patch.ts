import { ok, refused, type Result } from '../../core/contract/problems.ts';
import type { PatchJobRequest } from '../../core/contract/wire.ts';
import type { JobRow } from '../../core/domain/job.ts';
import { Priority } from '../../core/domain/job-status.ts';
import { LABELS_MAX } from '../../core/domain/limits.ts';
import { invalidRequest } from '../middleware/invalid-request.ts';
import type { JsonBody } from '../middleware/json-body.ts';
import type { Violation } from '../middleware/violation-text.ts';
import type { ChangeJob } from '../use-cases/types.ts';
import {
  dueTime,
  expiryViolations,
  instantOf,
  type JobTerms,
  mergedRetry,
  pastViolations,
  payloadViolations,
  retryViolations,
  timeViolations,
  whenOf,
} from './job-request.ts';

/** What the patch makes of the job as it is: a merge, so that only the row tells what comes out and whether it is right. */
export type PatchOfJob = (job: JobRow) => Result<ChangeJob>;

/** A merge patch (RFC 7396). What is wrong with it whatever the job is like is refused at once. */
export function parsePatch(body: JsonBody, terms: JobTerms): Result<PatchOfJob> {
  const patch = body.value as PatchJobRequest;
  if (Object.keys(patch).length === 0) {
    return refused({ code: 'invalid_request', detail: 'The body names nothing to change.' });
  }
  const payload = body.raw.get(0);
  const when = whenOf(patch);
  const problem = refusal([
    ...payloadViolations(payload === undefined ? 0 : Buffer.byteLength(payload)),
    ...timeViolations(patch, terms),
    ...(when === undefined ? [] : pastViolations(when, terms.now)),
    ...labelNameViolations(patch.labels),
  ]);
  if (problem !== null) return problem;
  const same: ChangeJob = {
    ...(when !== undefined && { when }),
    ...(payload !== undefined && {
      payload: patch.payload === null ? null : { text: payload, bytes: Buffer.byteLength(payload) },
    }),
    ...(patch.priority !== undefined && { priority: patch.priority ?? Priority.normal }),
    ...(patch.expires_at !== undefined && { expiresAt: instantOf(patch.expires_at ?? undefined) ?? null }),
  };
  return ok((job) => merged(job, patch, same, terms));
}

function merged(
  job: JobRow,
  patch: PatchJobRequest,
  same: ChangeJob,
  { now, defaultsOf }: JobTerms,
): Result<ChangeJob> {
  const defaults = defaultsOf(job.queue);
  const change: ChangeJob = {
    ...same,
    ...(patch.max_attempts !== undefined && { maxAttempts: patch.max_attempts ?? defaults.maxAttempts }),
    ...(patch.timeout_s !== undefined && { timeoutS: patch.timeout_s ?? defaults.timeoutS }),
    ...(patch.labels !== undefined && { labels: mergedLabels(job.labels, patch.labels) }),
    ...(patch.retry !== undefined && {
      retry: mergedRetry(patch.retry ?? {}, {
        before: patch.retry === null ? defaults.retry : job.retry,
        preset: defaults.retry,
      }),
    }),
  };
  const { when = { at: job.runAt }, expiresAt = job.expiresAt } = change;
  const timesChange = change.when !== undefined || change.expiresAt !== undefined;
  const problem = refusal([
    ...(Object.keys(change.labels ?? {}).length > LABELS_MAX
      ? [{ path: ['labels'], message: `would be more than ${LABELS_MAX} with those that the job has` }]
      : []),
    ...(change.retry === undefined ? [] : retryViolations(change.retry)),
    ...(timesChange ? expiryViolations(expiresAt, dueTime(when, now)) : []),
  ]);
  return problem ?? ok(change);
}

/** No filter can name such a label. One from before this was refused can still be removed, so the document does not tell. */
export function labelNameViolations(labels: PatchJobRequest['labels']): Violation[] {
  const given = Object.entries(labels ?? {}).filter(([name, value]) => value !== null && name.includes('='));
  const message = 'is a key, and keys must be without =, which ends the name in a filter; null removes it';
  return given.map(([name]) => ({ path: ['labels', name], message }));
}

export function mergedLabels(
  before: JobRow['labels'],
  patch: NonNullable<PatchJobRequest['labels']> | null,
): JobRow['labels'] {
  if (patch === null) return {};
  const after = Object.entries({ ...before, ...patch }).filter((entry): entry is [string, string] => entry[1] !== null);
  return Object.fromEntries(after);
}

function refusal(violations: readonly Violation[]): ReturnType<typeof refused> | null {
  return violations.length === 0 ? null : refused(invalidRequest(violations));
}

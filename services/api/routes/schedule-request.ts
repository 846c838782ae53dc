import { ok, refused, type Result } from '../../core/contract/problems.ts';
import type { CreateScheduleRequest, PatchScheduleRequest } from '../../core/contract/wire.ts';
import { parseCron } from '../../core/domain/cron-schedule.ts';
import { Priority } from '../../core/domain/job-status.ts';
import { LABELS_MAX, MISSED_LIMIT_DEFAULT, SECOND_MS } from '../../core/domain/limits.ts';
import type { JobDefaults } from '../../core/domain/queue-settings.ts';
import { OnMissed, OnOverlap, type ScheduleDefinition, type ScheduleRow } from '../../core/domain/schedule.ts';
import { invalidRequest } from '../middleware/invalid-request.ts';
import type { JsonBody } from '../middleware/json-body.ts';
import type { Violation } from '../middleware/violation-text.ts';
import { instantOf, mergedRetry, payloadViolations, retryViolations } from './job-request.ts';
import { labelNameViolations, mergedLabels } from './job-patch.ts';
import { instantOrUndefined, wireRetry } from './schedule-view.ts';

export interface ScheduleTerms {
  /** What an occurrence gets in this queue where the schedule names nothing. */
  readonly defaultsOf: (queue: string) => JobDefaults;
}

/** A schedule as it came: the body of POST or PUT, an item of a batch, or what a patch makes of one. */
export interface ScheduleSource {
  readonly request: CreateScheduleRequest;
  /** The payload's own text. */
  readonly payload: string | null;
  /** Where in the body it stands. */
  readonly path: Violation['path'];
}

/** What the patch makes of the schedule as it is. */
export type PatchOfSchedule = (row: ScheduleRow) => Result<ScheduleDefinition>;

/** What one field says of another; each field for itself matches the document already. Fills in defaults. */
export function parseSchedule(
  { request, payload, path }: ScheduleSource,
  terms: ScheduleTerms,
): Result<ScheduleDefinition> {
  const payloadBytes = payload === null ? 0 : Buffer.byteLength(payload);
  const defaults = terms.defaultsOf(request.queue);
  const retry = mergedRetry(request.retry ?? {}, { before: defaults.retry, preset: defaults.retry });
  const violations = [
    ...timetableViolations(request),
    ...payloadViolations(payloadBytes),
    ...retryViolations(retry),
    ...labelViolations(request.labels ?? {}),
  ];
  if (violations.length > 0) {
    return refused(invalidRequest(violations.map((each) => ({ ...each, path: [...path, ...each.path] }))));
  }
  return ok({
    queue: request.queue,
    priority: request.priority ?? Priority.normal,
    payload,
    payloadBytes,
    target: null,
    labels: request.labels ?? {},
    maxAttempts: request.max_attempts ?? defaults.maxAttempts,
    timeoutS: request.timeout_s ?? defaults.timeoutS,
    leaseS: request.lease_s ?? defaults.leaseS,
    retry,
    cron: request.cron ?? null,
    everyS: request.every_s ?? null,
    timeZone: request.time_zone ?? null,
    onDstGap: request.on_dst_gap ?? null,
    onDstRepeat: request.on_dst_repeat ?? null,
    startAt: instantOf(request.start_at) ?? null,
    endAt: instantOf(request.end_at) ?? null,
    onOverlap: request.on_overlap ?? OnOverlap.skip,
    onMissed: request.on_missed ?? OnMissed.runOnce,
    missedLimit: request.missed_limit ?? MISSED_LIMIT_DEFAULT,
    missedWindowS: request.missed_window_s ?? null,
    jitterS: request.jitter_s ?? 0,
    maxRuns: request.max_runs ?? null,
  });
}

/** A merge patch (RFC 7396). What comes out is held to the same rules as a new schedule. */
export function parseSchedulePatch(body: JsonBody, terms: ScheduleTerms): Result<PatchOfSchedule> {
  const patch = body.value as PatchScheduleRequest;
  if (Object.keys(patch).length === 0) {
    return refused({ code: 'invalid_request', detail: 'The body names nothing to change.' });
  }
  const violations = labelNameViolations(patch.labels);
  if (violations.length > 0) return refused(invalidRequest(violations));
  const payload = patch.payload === undefined ? undefined : patch.payload === null ? null : (body.raw.get(0) ?? null);
  return ok((row) => {
    const request = patched(row, patch, terms);
    return parseSchedule({ request, payload: payload === undefined ? row.payload : payload, path: [] }, terms);
  });
}

function patched(row: ScheduleRow, patch: PatchScheduleRequest, terms: ScheduleTerms): CreateScheduleRequest {
  const { labels, retry, ...plain } = patch;
  const preset = terms.defaultsOf(patch.queue ?? row.queue).retry;
  const merged = {
    ...requestOf(row),
    ...plain,
    ...(labels !== undefined && { labels: mergedLabels(row.labels, labels) }),
    ...(retry !== undefined && {
      retry: wireRetry(retry === null ? preset : mergedRetry(retry, { before: row.retry, preset })),
    }),
  };
  const given = Object.entries(merged).filter(([, value]) => value !== null);
  return Object.fromEntries(given) as unknown as CreateScheduleRequest;
}

/** The request that would make this very schedule, its payload aside. */
function requestOf(row: ScheduleRow): Record<string, unknown> {
  return {
    queue: row.queue,
    priority: row.priority,
    max_attempts: row.maxAttempts,
    timeout_s: row.timeoutS,
    lease_s: row.leaseS,
    retry: wireRetry(row.retry),
    labels: row.labels,
    cron: row.cron,
    every_s: row.everyS,
    time_zone: row.timeZone,
    on_dst_gap: row.onDstGap,
    on_dst_repeat: row.onDstRepeat,
    start_at: instantOrUndefined(row.startAt),
    end_at: instantOrUndefined(row.endAt),
    on_overlap: row.onOverlap,
    on_missed: row.onMissed,
    missed_limit: row.missedLimit,
    missed_window_s: row.missedWindowS,
    jitter_s: row.jitterS,
    max_runs: row.maxRuns,
  };
}

function timetableViolations(request: CreateScheduleRequest): Violation[] {
  const { cron, every_s: everyS } = request;
  const startAt = instantOf(request.start_at);
  const endAt = instantOf(request.end_at);
  const violations: Violation[] =
    startAt !== undefined && endAt !== undefined && endAt < startAt
      ? [{ path: ['end_at'], message: 'must not lie before start_at' }]
      : [];
  if (cron !== undefined && everyS !== undefined) {
    return [...violations, { path: ['cron'], message: 'and every_s exclude each other: give one of them' }];
  }
  if (cron !== undefined) return [...violations, ...cronViolations(cron, request)];
  if (everyS !== undefined) return [...violations, ...intervalViolations(request, startAt)];
  return [...violations, { path: ['cron'], message: 'is required, or every_s for an interval' }];
}

function cronViolations(cron: string, request: CreateScheduleRequest): Violation[] {
  const { time_zone: timeZone = '', on_dst_gap: onDstGap } = request;
  const parsed = parseCron(cron, { timeZone, ...(onDstGap !== undefined && { onDstGap }) });
  return parsed.ok ? [] : parsed.errors.map(({ field, message }) => ({ path: [field], message }));
}

function intervalViolations(request: CreateScheduleRequest, startAt: number | undefined): Violation[] {
  const ofCron = (['time_zone', 'on_dst_gap', 'on_dst_repeat'] as const)
    .filter((field) => request[field] !== undefined)
    .map((field) => ({ path: [field], message: 'goes with cron; an interval is counted in real elapsed time' }));
  if (startAt === undefined || startAt % SECOND_MS === 0) return ofCron;
  return [...ofCron, { path: ['start_at'], message: 'must be a whole second, since slots are counted from it' }];
}

/** A patch merges labels, so that its result may be too many. */
function labelViolations(labels: Readonly<Record<string, string>>): Violation[] {
  if (Object.keys(labels).length <= LABELS_MAX) return [];
  return [{ path: ['labels'], message: `would be more than ${LABELS_MAX} with those that the schedule has` }];
}

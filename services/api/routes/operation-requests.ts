import { ok, refused, type Result } from '../../core/contract/problems.ts';
import type {
  BulkFilterRequest,
  DeadLettersRequest,
  ReplayDeadLettersRequest,
  ReplayJobRequest,
  StartOperationRequest,
} from '../../core/contract/wire.ts';
import {
  type BulkFilter,
  type BulkReplayChanges,
  BulkVerb,
  type NewTime,
  seeksDeadJobs,
  VERB_STATUSES,
} from '../../core/domain/bulk.ts';
import {
  DAY_MS,
  DEAD_LETTERS_WINDOW_MAX_MS,
  OPERATION_RATE_DEFAULT_PER_S,
  OPERATION_WINDOW_MAX_MS,
  SECOND_MS,
} from '../../core/domain/limits.ts';
import { invalidRequest } from '../middleware/invalid-request.ts';
import type { Violation } from '../middleware/violation-text.ts';
import { instantOf, type TimeTerms, pastViolations, payloadViolations, timeViolations } from './job-request.ts';
import { labelOf } from './list-routes.ts';

/** An operation as it was asked for. */
export interface OperationRequest {
  readonly verb: BulkVerb;
  readonly filter: BulkFilter;
  readonly newTime: NewTime | null;
  readonly replayChanges: BulkReplayChanges | null;
  readonly ratePerS: number;
  readonly dryRun: boolean;
}

/**
 * What one field says of another and of the clock; each for itself matches the document already.
 * @param payload its JSON text as it was sent; null: none was.
 */
export function parseOperation(
  request: StartOperationRequest,
  payload: string | null,
  terms: TimeTerms,
): Result<OperationRequest> {
  const { verb, filter, rate_per_s: ratePerS, dry_run: dryRun } = request;
  const violations = [
    ...filterViolations(verb, filter, ['filter']),
    ...newTimeViolations(request, terms),
    ...replayViolations(request, payload),
  ];
  if (violations.length > 0) return refused(invalidRequest(violations));
  return ok({
    verb,
    filter: filterOf(filter),
    newTime: newTimeOf(request),
    replayChanges: replayChangesOf(request, payload),
    ratePerS: ratePerS ?? OPERATION_RATE_DEFAULT_PER_S,
    dryRun: dryRun ?? false,
  });
}

/** POST /dead-letters/replay: the filter's fields stand in the body itself, beside what it changes. */
export function parseReplayLetters(
  request: ReplayDeadLettersRequest,
  payload: string | null,
): Result<OperationRequest> {
  const { to_queue: queue } = request;
  const changes = { payload: request.payload, ...(queue !== undefined && { queue }) };
  const violations = [...filterViolations(BulkVerb.replay, request, []), ...sizeViolations(payload)];
  return lettersRequest(BulkVerb.replay, request, violations, replayChangesOf(changes, payload));
}

/** POST /dead-letters/discard. */
export function parseDiscardLetters(request: DeadLettersRequest): Result<OperationRequest> {
  return lettersRequest(BulkVerb.discard, request, filterViolations(BulkVerb.discard, request, []), null);
}

function lettersRequest(
  verb: BulkVerb,
  request: DeadLettersRequest,
  violations: readonly Violation[],
  replayChanges: BulkReplayChanges | null,
): Result<OperationRequest> {
  if (violations.length > 0) return refused(invalidRequest(violations));
  const { rate_per_s: ratePerS, dry_run: dryRun } = request;
  return ok({
    verb,
    filter: filterOf(request),
    newTime: null,
    replayChanges,
    ratePerS: ratePerS ?? OPERATION_RATE_DEFAULT_PER_S,
    dryRun: dryRun ?? false,
  });
}

function filterOf({ queue, from, to, status, label, error }: BulkFilterRequest): BulkFilter {
  return {
    queue,
    from: instantOf(from) ?? 0,
    to: instantOf(to) ?? 0,
    status: status ?? null,
    label: labelOf(label),
    error: error ?? null,
  };
}

function filterViolations(verb: BulkVerb, request: BulkFilterRequest, path: Violation['path']): Violation[] {
  const { from, to, status } = filterOf(request);
  const maxMs = seeksDeadJobs(verb) ? DEAD_LETTERS_WINDOW_MAX_MS : OPERATION_WINDOW_MAX_MS;
  const violations: Violation[] = [];
  if (to <= from) violations.push({ path: [...path, 'to'], message: 'must lie after from' });
  if (to - from > maxMs) {
    const message = `may lie at most ${maxMs / DAY_MS} days after from; take one window after the other`;
    violations.push({ path: [...path, 'to'], message });
  }
  if (status !== null && !VERB_STATUSES[verb].includes(status)) {
    const message = `must be one of ${VERB_STATUSES[verb].join(', ')}: ${verb} changes no others`;
    violations.push({ path: [...path, 'status'], message });
  }
  return violations;
}

function newTimeViolations(request: StartOperationRequest, terms: TimeTerms): Violation[] {
  const { verb, run_at: runAt, shift_s: shiftS } = request;
  if (verb !== BulkVerb.reschedule) {
    const given = (['run_at', 'shift_s'] as const).filter((name) => request[name] !== undefined);
    return given.map((name) => ({ path: [name], message: 'goes with the verb reschedule' }));
  }
  if (runAt !== undefined && shiftS !== undefined) {
    return [{ path: ['shift_s'], message: 'and run_at exclude each other: give one of them' }];
  }
  if (shiftS === 0) return [{ path: ['shift_s'], message: 'must not be 0, which would move nothing' }];
  const newTime = newTimeOf(request);
  if (newTime === null) return [{ path: ['run_at'], message: 'is required for reschedule, or shift_s in its place' }];
  if (runAt === undefined || !('at' in newTime)) return [];
  return [...timeViolations({ run_at: runAt }, terms), ...pastViolations(newTime, terms.now)];
}

function newTimeOf({ run_at: runAt, shift_s: shiftS }: StartOperationRequest): NewTime | null {
  const at = instantOf(runAt);
  if (at !== undefined) return { at };
  return shiftS === undefined ? null : { shiftMs: Math.round(shiftS * SECOND_MS) };
}

function replayViolations(request: StartOperationRequest, payload: string | null): Violation[] {
  if (request.verb === BulkVerb.replay) return sizeViolations(payload);
  const given = (['payload', 'queue'] as const).filter((name) => request[name] !== undefined);
  return given.map((name) => ({ path: [name], message: `goes with the verb replay${MEANT[name]}` }));
}

/** What else may have been meant. */
const MEANT = { payload: '', queue: '; the jobs are chosen by filter.queue' } as const;

function sizeViolations(payload: string | null): Violation[] {
  return payloadViolations(payload === null ? 0 : Buffer.byteLength(payload));
}

/** Null: nothing is to be changed. */
function replayChangesOf({ payload, queue }: ReplayJobRequest, text: string | null): BulkReplayChanges | null {
  if (payload === undefined && queue === undefined) return null;
  const kept = payload === null ? null : text;
  return {
    ...(payload !== undefined && { payload: kept, payloadBytes: kept === null ? 0 : Buffer.byteLength(kept) }),
    ...(queue !== undefined && { queue }),
  };
}

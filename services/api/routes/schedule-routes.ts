import { formatInstant } from '../../core/contract/instant.ts';
import { ok, refused, type Result } from '../../core/contract/problems.ts';
import type {
  BackfillRequest,
  CreateScheduleRequest,
  CreateSchedulesRequest,
  PauseScheduleRequest,
  PauseSchedulesRequest,
} from '../../core/contract/wire.ts';
import { isScheduleId } from '../../core/domain/ids.ts';
import {
  BATCH_BODY_MAX_BYTES,
  DAY_MS,
  JOB_BODY_MAX_BYTES,
  OTHER_BODY_MAX_BYTES,
  PREVIEW_SLOTS_DEFAULT,
  SCHEDULE_RUNS_WINDOW_MAX_MS,
} from '../../core/domain/limits.ts';
import type { ScheduleDefinition, ScheduleRow } from '../../core/domain/schedule.ts';
import type { EpochMs } from '../../core/domain/time.ts';
import type { Clock } from '../../core/ports/clock.ts';
import { type Answer, answer } from '../middleware/answer.ts';
import { invalidField, invalidRequest } from '../middleware/invalid-request.ts';
import type { ApiRequest, Route } from '../middleware/operation-handler.ts';
import { firstSlot, previewRow } from '../use-cases/new-schedule.ts';
import { neverFires } from '../use-cases/schedule-problems.ts';
import type { CreateSchedule, ScheduleFilter, ScheduleReference, ScheduleTarget } from '../use-cases/schedule-types.ts';
import type { UseCases } from '../use-cases/types.ts';
import { contentHash, instantOf, KEY_HEADER, OWNER_DEFAULT, PAYLOAD_MEMBER, traceparentOf } from './job-request.ts';
import { createdJobAnswer } from './job-view.ts';
import { labelOf } from './list-routes.ts';
import { type ListFilter, pageSizeOf, placeOf, placeToken } from './page-token.ts';
import { revisionOf, untilProblem } from './queue-routes.ts';
import { previewView } from './schedule-preview.ts';
import { parseSchedule, parseSchedulePatch, type ScheduleTerms } from './schedule-request.ts';
import {
  backfilledView,
  createdScheduleView,
  runView,
  scheduleHref,
  scheduleJson,
  scheduleView,
} from './schedule-view.ts';

export interface ScheduleRouteParts {
  readonly useCases: UseCases;
  readonly clock: Clock;
  readonly horizonDays: number;
  /** Named in each schedule's ready-made query. */
  readonly keyspace: string;
}

type ScheduleOperation =
  | 'createSchedule'
  | 'createSchedules'
  | 'listSchedules'
  | 'previewNewSchedule'
  | 'pauseSchedules'
  | 'resumeSchedules'
  | 'getSchedule'
  | 'putSchedule'
  | 'changeSchedule'
  | 'deleteSchedule'
  | 'pauseSchedule'
  | 'resumeSchedule'
  | 'skipNextSlot'
  | 'runSchedule'
  | 'backfillSchedule'
  | 'previewSchedule'
  | 'listScheduleRuns';

/** Under these POST does something else. */
const NO_NAMES: ReadonlySet<string> = new Set(['batch', 'preview', 'pause', 'resume']);
const LIST_MEMBER = 'schedules';
const PATCH_TYPES = ['application/merge-patch+json', 'application/json'];
const ONE = { maxBytes: JOB_BODY_MAX_BYTES, raw: { member: PAYLOAD_MEMBER } };
const SMALL = { maxBytes: OTHER_BODY_MAX_BYTES, raw: { member: '' } };

export function scheduleRoutes(parts: ScheduleRouteParts): Record<ScheduleOperation, Route> {
  const { useCases, clock, horizonDays, keyspace } = parts;
  const terms: ScheduleTerms = { defaultsOf: (queue) => useCases.jobDefaultsOf(queue) };

  function shown(row: ScheduleRow, status = 200, headers: Readonly<Record<string, string>> = {}): Answer {
    const body = scheduleJson(row, { now: clock.now(), keyspace });
    return { status, body, headers: { ...headers, etag: `"${row.revision}"` } };
  }

  function found(result: Result<ScheduleRow>): Result<Answer> {
    return result.ok ? ok(shown(result.value)) : result;
  }

  function made(row: ScheduleRow): Answer {
    return shown(row, 201, { location: scheduleHref(row.scheduleId) });
  }

  function definitionIn({ body }: ApiRequest): Result<ScheduleDefinition> {
    const request = body.value as unknown as CreateScheduleRequest;
    return parseSchedule({ request, payload: body.raw.get(0) ?? null, path: [] }, terms);
  }

  function untilOf({ until }: PauseScheduleRequest): Result<EpochMs | null> {
    const at = instantOf(until) ?? null;
    const problem = untilProblem(at, clock.now(), horizonDays);
    return problem === null ? ok(at) : refused(invalidField('until', problem));
  }

  async function createOne(request: ApiRequest): Promise<Result<Answer>> {
    const definition = definitionIn(request);
    if (!definition.ok) return definition;
    const idempotencyKey = request.header(KEY_HEADER) ?? null;
    const result = await useCases.createSchedule({
      owner: OWNER_DEFAULT,
      idempotencyKey,
      requestHash: idempotencyKey === null ? null : contentHash(request.body.text),
      definition: definition.value,
      traceparent: traceparentOf(request.header('traceparent')),
    });
    if (!result.ok) return result;
    const { schedule, replayed } = result.value;
    return ok(replayed ? shown(schedule, 200, { 'idempotency-replayed': 'true' }) : made(schedule));
  }

  async function createMany({ body, header, itemProblems }: ApiRequest): Promise<Result<Answer>> {
    const { schedules: requests } = body.value as unknown as CreateSchedulesRequest;
    const idempotencyKey = header(KEY_HEADER) ?? null;
    const traceparent = traceparentOf(header('traceparent'));
    const schedules = requests.map((request, index): Result<CreateSchedule> => {
      const problem = itemProblems.get(index);
      if (problem !== undefined) return refused(problem);
      const source = { request, payload: body.raw.get(index) ?? null, path: [LIST_MEMBER, index] };
      const definition = parseSchedule(source, terms);
      if (!definition.ok) return definition;
      return ok({
        ...{ owner: OWNER_DEFAULT, idempotencyKey: null, requestHash: null },
        ...{ definition: definition.value, traceparent },
      });
    });
    const requestHash = idempotencyKey === null ? null : contentHash(body.text);
    const results = await useCases.createSchedules({ owner: OWNER_DEFAULT, idempotencyKey, requestHash, schedules });
    return results.ok ? ok(answer(200, { results: results.value.map(createdScheduleView) })) : results;
  }

  async function put(request: ApiRequest): Promise<Result<Answer>> {
    const { owner, schedule: name, revision } = targetOf(request);
    if (isScheduleId(name)) {
      const message = 'is the id of a schedule, which PATCH changes; PUT takes a name of your own';
      return refused(invalidField('schedule', message));
    }
    if (NO_NAMES.has(name)) {
      const message = `is no name: POST /schedules/${name} is about many schedules; take another`;
      return refused(invalidField('schedule', message));
    }
    const definition = definitionIn(request);
    if (!definition.ok) return definition;
    const result = await useCases.putSchedule({
      ...{ owner, name, revision, definition: definition.value },
      traceparent: traceparentOf(request.header('traceparent')),
    });
    if (!result.ok) return result;
    const { schedule, created } = result.value;
    return ok(created ? made(schedule) : shown(schedule));
  }

  async function list({ query }: ApiRequest): Promise<Result<Answer>> {
    const paused = query['paused'] ?? null;
    const names: ListFilter = ['schedules', OWNER_DEFAULT, query['queue'] ?? null, query['label'] ?? null, paused];
    const after = positionIn(names, query['page_token']);
    if (!after.ok) return after;
    const result = await useCases.listSchedules({
      ...filterOf(query),
      ...{ paused: paused === null ? null : paused === 'true', pageSize: pageSizeOf(query), after: after.value },
    });
    if (!result.ok) return result;
    const { schedules, next } = result.value;
    const viewTerms = { now: clock.now(), keyspace };
    return ok(
      answer(200, {
        schedules: schedules.map((row) => scheduleView(row, viewTerms)),
        next_page_token: next === null ? null : placeToken(names, next),
      }),
    );
  }

  async function changeMany({ body }: ApiRequest, verb: 'pause' | 'resume'): Promise<Result<Answer>> {
    const request = body.value as PauseSchedulesRequest;
    const { label, queue, reason, dry_run: dryRun = false } = request;
    if (label === undefined && queue === undefined) {
      return refused(invalidField('label', 'is required, or queue: all schedules at once are never meant'));
    }
    const names: ListFilter = [`schedules ${verb}`, OWNER_DEFAULT, queue ?? null, label ?? null];
    const after = positionIn(names, request.page_token);
    if (!after.ok) return after;
    const until = untilOf(request);
    if (!until.ok) return until;
    const result = await useCases.changeSchedules({
      owner: OWNER_DEFAULT,
      filter: filterOf({ ...(queue !== undefined && { queue }), ...(label !== undefined && { label }) }),
      pause: verb === 'pause' ? { reason: reason ?? null, until: until.value } : null,
      ...{ dryRun, after: after.value },
    });
    if (!result.ok) return result;
    const { matched, changed, next } = result.value;
    return ok(answer(200, { matched, changed, next_page_token: next === null ? null : placeToken(names, next) }));
  }

  async function backfill(request: ApiRequest): Promise<Result<Answer>> {
    const { from: fromText, to: toText, dry_run: dryRun = false } = request.body.value as unknown as BackfillRequest;
    const [from, to] = [instantOf(fromText) ?? 0, instantOf(toText) ?? 0];
    const now = clock.now();
    if (to <= from) return refused(invalidField('to', 'must lie after from'));
    if (to > now) return refused(invalidField('to', `must not lie ahead: it is ${formatInstant(now)} now`));
    const idempotencyKey = dryRun ? null : (request.header(KEY_HEADER) ?? null);
    const requestHash = idempotencyKey === null ? null : contentHash(request.body.text);
    const options = { from, to, dryRun, idempotencyKey, requestHash };
    const result = await useCases.backfillSchedule(referenceOf(request), options);
    return result.ok ? ok(answer(200, { results: result.value.map(backfilledView) })) : result;
  }

  function previewed(row: ScheduleRow, { query }: ApiRequest, isNew: boolean): Answer {
    const now = clock.now();
    const count = Number(query['count'] ?? PREVIEW_SLOTS_DEFAULT);
    return answer(200, previewView(row, { count, after: instantOf(query['after']) ?? now, now, isNew }));
  }

  function previewNew(request: ApiRequest): Result<Answer> {
    const definition = definitionIn(request);
    if (!definition.ok) return definition;
    const row = previewRow(definition.value, clock.now());
    if (firstSlot(row, row.scheduleId, clock.now()) === null) return refused(neverFires());
    return ok(previewed(row, request, true));
  }

  async function listRuns(request: ApiRequest): Promise<Result<Answer>> {
    const { query } = request;
    // Slots of a little ahead: this process's clock may be behind the one that decided them.
    const to = instantOf(query['to']) ?? clock.now() + DAY_MS;
    const from = instantOf(query['from']) ?? to - SCHEDULE_RUNS_WINDOW_MAX_MS;
    if (to <= from) return refused(invalidField('to', 'must lie after from'));
    if (to - from > SCHEDULE_RUNS_WINDOW_MAX_MS) {
      const days = SCHEDULE_RUNS_WINDOW_MAX_MS / DAY_MS;
      return refused(invalidField('to', `may lie at most ${days} days after from; ask for one window after the other`));
    }
    const reference = referenceOf(request);
    const names: ListFilter = ['runs', reference.owner, reference.schedule, query['from'] ?? null, query['to'] ?? null];
    const after = positionIn(names, query['page_token']);
    if (!after.ok) return after;
    const window = { from, to: after.value === null ? to - 1 : Number(after.value), pageSize: pageSizeOf(query) };
    const result = await useCases.listScheduleRuns(reference, window);
    if (!result.ok) return result;
    const { runs, next } = result.value;
    const token = next === null ? null : placeToken(names, String(next));
    return ok(answer(200, { runs: runs.map(runView), next_page_token: token }));
  }

  return {
    createSchedule: { body: ONE, handle: createOne },
    createSchedules: {
      body: { maxBytes: BATCH_BODY_MAX_BYTES, raw: { member: PAYLOAD_MEMBER, list: LIST_MEMBER } },
      handle: createMany,
    },
    listSchedules: { handle: list },
    previewNewSchedule: { body: ONE, handle: previewNew },
    pauseSchedules: { body: SMALL, handle: (request) => changeMany(request, 'pause') },
    resumeSchedules: { body: SMALL, handle: (request) => changeMany(request, 'resume') },
    getSchedule: { handle: async (request) => found(await useCases.getSchedule(referenceOf(request))) },
    putSchedule: { body: ONE, handle: put },
    changeSchedule: {
      body: { ...ONE, types: PATCH_TYPES },
      handle: async (request) => {
        const patch = parseSchedulePatch(request.body, terms);
        return patch.ok ? found(await useCases.changeSchedule(targetOf(request), patch.value)) : patch;
      },
    },
    deleteSchedule: {
      handle: async (request) => {
        const cancelPending = request.query['cancel_pending'] === 'true';
        const result = await useCases.deleteSchedule(targetOf(request), cancelPending);
        if (!result.ok) return result;
        const { schedule, cancelled } = result.value;
        return ok(answer(200, { schedule_id: schedule.scheduleId, key: schedule.key, deleted: true, cancelled }));
      },
    },
    pauseSchedule: {
      body: { ...SMALL, optional: true },
      handle: async (request) => {
        const pause = request.body.value as PauseScheduleRequest;
        const until = untilOf(pause);
        if (!until.ok) return until;
        const options = { reason: pause.reason ?? null, until: until.value };
        return found(await useCases.pauseSchedule(targetOf(request), options));
      },
    },
    resumeSchedule: { handle: async (request) => found(await useCases.resumeSchedule(targetOf(request))) },
    skipNextSlot: { handle: async (request) => found(await useCases.skipNextSlot(targetOf(request))) },
    runSchedule: {
      handle: async (request) => {
        const result = await useCases.runSchedule(referenceOf(request), request.header(KEY_HEADER) ?? null);
        return result.ok ? ok(createdJobAnswer(result.value, keyspace)) : result;
      },
    },
    backfillSchedule: { body: SMALL, handle: backfill },
    previewSchedule: {
      handle: async (request) => {
        const result = await useCases.getSchedule(referenceOf(request));
        return result.ok ? ok(previewed(result.value, request, false)) : result;
      },
    },
    listScheduleRuns: { handle: listRuns },
  };
}

function referenceOf({ path }: ApiRequest): ScheduleReference {
  return { owner: OWNER_DEFAULT, schedule: path['schedule'] ?? '' };
}

function targetOf(request: ApiRequest): ScheduleTarget {
  return { ...referenceOf(request), revision: revisionOf(request) };
}

function filterOf(query: Readonly<Record<string, string>>): Omit<ScheduleFilter, 'paused'> {
  return { queue: query['queue'] ?? null, label: labelOf(query['label']) };
}

function positionIn(names: ListFilter, token: string | undefined): Result<string | null> {
  if (token === undefined) return ok(null);
  const place = placeOf(names, token);
  if (place !== null) return ok(place);
  const message = 'is not from a page of this list: repeat the other parameters as they were, or begin without it';
  return refused(invalidRequest([{ path: ['page_token'], message }]));
}

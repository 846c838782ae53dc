import { ok, refused, type Result } from '../../core/contract/problems.ts';
import type { CreateJobRequest, CreateJobsRequest, ReplayJobRequest } from '../../core/contract/wire.ts';
import { isJobId } from '../../core/domain/ids.ts';
import type { JobRow } from '../../core/domain/job.ts';
import { BATCH_BODY_MAX_BYTES, JOB_BODY_MAX_BYTES } from '../../core/domain/limits.ts';
import type { JobDefaults } from '../../core/domain/queue-settings.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type { Answer } from '../middleware/answer.ts';
import { invalidRequest } from '../middleware/invalid-request.ts';
import type { ApiRequest, Route } from '../middleware/operation-handler.ts';
import type { CreateJob, ReplayJob, UseCases } from '../use-cases/types.ts';
import { jobNotFound } from '../use-cases/worker-refusals.ts';
import { parsePatch } from './job-patch.ts';
import {
  contentHash,
  type JobTerms,
  KEY_HEADER,
  OWNER_DEFAULT,
  type ParsedJob,
  parseJob,
  PAYLOAD_MEMBER,
  payloadViolations,
} from './job-request.ts';
import { createdJobAnswer, createdJobView, jobJson } from './job-view.ts';

export interface JobRouteParts {
  readonly useCases: UseCases;
  readonly clock: Clock;
  readonly horizonDays: number;
  /** Named in each job's ready-made query. */
  readonly keyspace: string;
}

type JobOperation =
  'createJob' | 'createJobs' | 'getJob' | 'changeJob' | 'cancelJob' | 'requestCancel' | 'runJobNow' | 'replayJob';

const JOBS_LIST = 'jobs';
const PATCH_TYPES = ['application/merge-patch+json', 'application/json'];

export function jobRoutes({ useCases, clock, horizonDays, keyspace }: JobRouteParts): Record<JobOperation, Route> {
  const defaultsOf = (queue: string): JobDefaults => useCases.jobDefaultsOf(queue);
  const terms = (): JobTerms => ({ now: clock.now(), horizonDays, defaultsOf });

  function found(result: Result<JobRow>): Result<Answer> {
    return result.ok ? ok({ status: 200, body: jobJson(result.value, keyspace) }) : result;
  }

  /** The one job of a path, handed to a use-case. */
  function ofJob(answer: (jobId: string, request: ApiRequest) => Promise<Result<Answer>>): Route['handle'] {
    return async (request) => {
      const jobId = request.path['job_id'] ?? '';
      // A text that is no job's id names no job.
      return isJobId(jobId) ? answer(jobId, request) : refused(jobNotFound(jobId));
    };
  }

  /** Refused as new; but a repeat of a request that came in time is answered with its job, however late it comes. */
  async function inTime({ job, tooLate }: ParsedJob, key: string | null): Promise<Result<CreateJob>> {
    if (tooLate === null) return ok(job);
    if (key === null) return refused(tooLate);
    const known = await useCases.findJobByKey(job.owner, key);
    if (known.ok) return ok(job);
    return known.problem.code === 'job_not_found' ? refused(tooLate) : known;
  }

  async function createOne({ body, header }: ApiRequest): Promise<Result<Answer>> {
    const parsed = parseJob(
      {
        request: body.value as unknown as CreateJobRequest,
        text: body.text,
        payload: body.raw.get(0) ?? null,
        keyHeader: header(KEY_HEADER),
        keyCoversCall: false,
        traceparent: header('traceparent'),
        path: [],
      },
      terms(),
    );
    if (!parsed.ok) return parsed;
    const job = await inTime(parsed.value, parsed.value.job.idempotencyKey);
    if (!job.ok) return job;
    const result = await useCases.createJob(job.value);
    return result.ok ? ok(createdJobAnswer(result.value, keyspace)) : result;
  }

  async function createMany(request: ApiRequest): Promise<Result<Answer>> {
    const { body, header, itemProblems } = request;
    const idempotencyKey = header(KEY_HEADER) ?? null;
    const requests = (body.value as unknown as CreateJobsRequest).jobs;
    const now = terms();
    const jobs = await Promise.all(
      requests.map(async (item, index): Promise<Result<CreateJob>> => {
        const problem = itemProblems.get(index);
        const parsed = problem === undefined ? parseJob(sourceOfItem(request, item, index), now) : refused(problem);
        if (!parsed.ok) return parsed;
        const ownKey = parsed.value.job.idempotencyKey;
        return inTime(parsed.value, idempotencyKey === null ? ownKey : `${idempotencyKey}/${index}`);
      }),
    );
    const requestHash = idempotencyKey === null ? null : contentHash(body.text);
    const results = await useCases.createJobs({ owner: OWNER_DEFAULT, idempotencyKey, requestHash, jobs });
    if (!results.ok) return results;
    return ok({ status: 200, body: JSON.stringify({ results: results.value.map(createdJobView) }) });
  }

  return {
    createJob: { body: { maxBytes: JOB_BODY_MAX_BYTES, raw: { member: PAYLOAD_MEMBER } }, handle: createOne },
    createJobs: {
      body: { maxBytes: BATCH_BODY_MAX_BYTES, raw: { member: PAYLOAD_MEMBER, list: JOBS_LIST } },
      handle: createMany,
    },
    getJob: { handle: ofJob(async (jobId) => found(await useCases.getJob(jobId))) },
    changeJob: {
      body: { maxBytes: JOB_BODY_MAX_BYTES, raw: { member: PAYLOAD_MEMBER }, types: PATCH_TYPES },
      handle: ofJob(async (jobId, { body }) => {
        const patch = parsePatch(body, terms());
        return patch.ok ? found(await useCases.changeJob(jobId, patch.value)) : patch;
      }),
    },
    cancelJob: { handle: ofJob(async (jobId) => found(await useCases.cancelJob(jobId))) },
    requestCancel: {
      handle: ofJob(async (jobId) => {
        const result = await useCases.requestCancel(jobId);
        if (!result.ok) return result;
        const { job, requested } = result.value;
        return ok({ status: requested ? 202 : 200, body: jobJson(job, keyspace) });
      }),
    },
    runJobNow: { handle: ofJob(async (jobId) => found(await useCases.runJobNow(jobId))) },
    replayJob: {
      body: { maxBytes: JOB_BODY_MAX_BYTES, raw: { member: PAYLOAD_MEMBER }, optional: true },
      handle: ofJob(async (jobId, { body }) => {
        const changes = parseReplay(body);
        return changes.ok ? found(await useCases.replayJob(jobId, changes.value)) : changes;
      }),
    },
  };
}

function parseReplay({ value, raw }: ApiRequest['body']): Result<ReplayJob> {
  const { payload, queue } = value as ReplayJobRequest;
  const text = raw.get(0) ?? '';
  const bytes = Buffer.byteLength(text);
  const violations = payloadViolations(bytes);
  if (violations.length > 0) return refused(invalidRequest(violations));
  return ok({
    ...(payload !== undefined && { payload: payload === null ? null : { text, bytes } }),
    ...(queue !== undefined && { queue }),
  });
}

function sourceOfItem(
  { body, header }: ApiRequest,
  request: CreateJobRequest,
  index: number,
): Parameters<typeof parseJob>[0] {
  return {
    request,
    text: body.items.get(index) ?? '',
    payload: body.raw.get(index) ?? null,
    keyHeader: header(KEY_HEADER),
    keyCoversCall: true,
    traceparent: header('traceparent'),
    path: [JOBS_LIST, index],
  };
}

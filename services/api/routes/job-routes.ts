import { ok, refused, type Result } from '../../core/contract/problems.ts';
import { isJobId } from '../../core/domain/ids.ts';
import type { JobRow } from '../../core/domain/job.ts';
import { JOB_BODY_MAX_BYTES } from '../../core/domain/limits.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type { Answer } from '../middleware/answer.ts';
import type { Route } from '../middleware/operation-handler.ts';
import type { CreatedJob, UseCases } from '../use-cases/types.ts';
import { jobNotFound } from '../use-cases/worker-refusals.ts';
import { OWNER_DEFAULT, type ParsedJob, parseJob, PAYLOAD_MEMBER } from './job-request.ts';
import { hrefOf, jobJson } from './job-view.ts';

export interface JobRouteParts {
  readonly useCases: UseCases;
  readonly clock: Clock;
  readonly horizonDays: number;
  /** Named in each job's ready-made query. */
  readonly keyspace: string;
}

type JobOperation = 'createJob' | 'findJobByKey' | 'getJob' | 'cancelJob';

export function jobRoutes({ useCases, clock, horizonDays, keyspace }: JobRouteParts): Record<JobOperation, Route> {
  function found(result: Result<JobRow>): Result<Answer> {
    return result.ok ? ok({ status: 200, body: jobJson(result.value, keyspace) }) : result;
  }

  function created(result: Result<CreatedJob>): Result<Answer> {
    if (!result.ok) return result;
    const { job, replayed } = result.value;
    const body = jobJson(job, keyspace);
    return replayed
      ? ok({ status: 200, body, headers: { 'idempotency-replayed': 'true' } })
      : ok({ status: 201, body, headers: { location: hrefOf(job.jobId) } });
  }

  /** Refused as new; but a repeat of a request that came in time is answered with its job, however late it comes. */
  async function createTooLate({ job, tooLate }: ParsedJob): Promise<Result<Answer> | null> {
    if (tooLate === null) return null;
    if (job.idempotencyKey === null) return refused(tooLate);
    const known = await useCases.findJobByKey(job.owner, job.idempotencyKey);
    if (known.ok) return null;
    return known.problem.code === 'job_not_found' ? refused(tooLate) : known;
  }

  return {
    createJob: {
      body: { maxBytes: JOB_BODY_MAX_BYTES, raw: { member: PAYLOAD_MEMBER } },
      handle: async (request) => {
        const parsed = parseJob(request, { now: clock.now(), horizonDays });
        if (!parsed.ok) return parsed;
        return (await createTooLate(parsed.value)) ?? created(await useCases.createJob(parsed.value.job));
      },
    },
    findJobByKey: {
      handle: async ({ query }) => found(await useCases.findJobByKey(OWNER_DEFAULT, query['idempotency_key'] ?? '')),
    },
    getJob: { handle: ({ path }) => ofJob(path, async (jobId) => found(await useCases.getJob(jobId))) },
    cancelJob: { handle: ({ path }) => ofJob(path, async (jobId) => found(await useCases.cancelJob(jobId))) },
  };
}

/** A text that is no job's id names no job. */
export async function ofJob(
  path: Readonly<Record<string, string>>,
  answer: (jobId: string) => Promise<Result<Answer>>,
): Promise<Result<Answer>> {
  const jobId = path['job_id'] ?? '';
  return isJobId(jobId) ? answer(jobId) : refused(jobNotFound(jobId));
}

import { formatInstant } from '../../core/contract/instant.ts';
import { ok, type Problem, refused, type Result } from '../../core/contract/problems.ts';
import type { BatchItem, BatchRequest, ClaimRequest } from '../../core/contract/wire.ts';
import { OTHER_BODY_MAX_BYTES, WORKER_BODY_MAX_BYTES } from '../../core/domain/limits.ts';
import { type Answer, itemProblem } from '../middleware/answer.ts';
import { ofItem } from '../middleware/invalid-request.ts';
import type { ApiRequest, Route } from '../middleware/operation-handler.ts';
import type { HeartbeatAnswer, ReportAnswer, UseCases } from '../use-cases/types.ts';
import { claimedJobJson } from './job-view.ts';
import {
  parseClaim,
  parseHeartbeat,
  type ParseItem,
  parseLease,
  parseRelease,
  parseReport,
} from './worker-requests.ts';

type WorkerOperation =
  | 'claimJob'
  | 'claimJobs'
  | 'heartbeatJob'
  | 'heartbeatJobs'
  | 'completeJob'
  | 'completeJobs'
  | 'releaseJob'
  | 'releaseJobs'
  | 'leaseJobs';

/** A call of workers, in one go for a single job and for the items of a batch. */
interface WorkerCall<Request, Item, Value> {
  /** The member that is kept as it was written. */
  readonly raw: string;
  readonly parse: ParseItem<Request, Item>;
  /** Results in the order of the items. */
  readonly work: (items: readonly Item[], request: ApiRequest) => Promise<readonly Result<Value>[]>;
  /** The answer as JSON text, with more members before its own. */
  readonly render: (value: Value, more: object) => string;
}

const LIST = 'items';

export function workerRoutes(useCases: UseCases): Record<WorkerOperation, Route> {
  const claim = callOf({
    raw: '',
    parse: parseClaim,
    work: (items, { body }) => useCases.claimJobs(items, (body.value as unknown as ClaimRequest).worker),
    render: (claimed, more) => claimedJobJson(claimed, more),
  });
  const heartbeat = callOf({
    raw: 'progress',
    parse: parseHeartbeat,
    work: (items) => useCases.heartbeatJobs(items),
    render: (answer, more) => JSON.stringify({ ...more, ...heartbeatView(answer) }),
  });
  const complete = callOf({
    raw: 'result',
    parse: parseReport,
    work: (items) => useCases.completeJobs(items),
    render: (answer, more) => JSON.stringify({ ...more, ...reportView(answer) }),
  });
  const release = callOf({
    raw: '',
    parse: parseRelease,
    work: (items) => useCases.releaseJobs(items),
    render: (answer, more) => JSON.stringify({ ...more, ...reportView(answer) }),
  });
  return {
    claimJob: claim.single,
    claimJobs: claim.batch,
    heartbeatJob: heartbeat.single,
    heartbeatJobs: heartbeat.batch,
    completeJob: complete.single,
    completeJobs: complete.batch,
    releaseJob: release.single,
    releaseJobs: release.batch,
    leaseJobs: {
      body: { maxBytes: OTHER_BODY_MAX_BYTES, raw: { member: '' } },
      handle: async (request) => {
        const result = await useCases.leaseJobs(parseLease(request));
        if (!result.ok) return result;
        return ok({ status: 200, body: `[${result.value.map((claimed) => claimedJobJson(claimed)).join(',')}]` });
      },
    },
  };
}

function callOf<Request, Item, Value>(call: WorkerCall<Request, Item, Value>): { single: Route; batch: Route } {
  return {
    single: {
      body: { maxBytes: OTHER_BODY_MAX_BYTES, raw: { member: call.raw } },
      handle: (request) => answerSingle(call, request),
    },
    batch: {
      body: { maxBytes: WORKER_BODY_MAX_BYTES, raw: { member: call.raw, list: LIST } },
      handle: (request) => answerBatch(call, request),
    },
  };
}

async function answerSingle<Request, Item, Value>(
  { parse, work, render }: WorkerCall<Request, Item, Value>,
  request: ApiRequest,
): Promise<Result<Answer>> {
  const { body, path } = request;
  const single = { ...body.value, job_id: path['job_id'] ?? '' } as unknown as BatchItem<Request>;
  const item = parse(single, body.raw.get(0) ?? null);
  if (!item.ok) return item;
  const [result] = await work([item.value], request);
  if (result === undefined) throw new Error('a use-case answered no result for its one item');
  return result.ok ? ok({ status: 200, body: render(result.value, {}) }) : result;
}

/** Each item stands for itself: those that can be understood go to the use-case, whatever the others look like. */
async function answerBatch<Request, Item, Value>(
  { parse, work, render }: WorkerCall<Request, Item, Value>,
  request: ApiRequest,
): Promise<Result<Answer>> {
  const { body, itemProblems } = request;
  const { items } = body.value as unknown as BatchRequest<Request>;
  const parsed = items.map((item, index) => {
    const problem = itemProblems.get(index);
    if (problem !== undefined) return refused(problem);
    const result = parse(item, body.raw.get(index) ?? null);
    return result.ok ? result : refused(ofItem(LIST, index, result.problem));
  });
  const understood = parsed.flatMap((item) => (item.ok ? [item.value] : []));
  const results = understood.length === 0 ? [] : await work(understood, request);
  const refusedText = (jobId: string, problem: Problem): string =>
    JSON.stringify({ job_id: jobId, ...itemProblem(problem) });
  let next = 0;
  const texts = parsed.map((item, index) => {
    const jobId = jobIdOf(items[index]);
    if (!item.ok) return refusedText(jobId, item.problem);
    const result = results[next++];
    if (result === undefined) throw new Error('a use-case answered fewer results than it got items');
    return result.ok ? render(result.value, { status: 200, job_id: jobId }) : refusedText(jobId, result.problem);
  });
  return ok({ status: 200, body: `{"results":[${texts.join(',')}]}` });
}

/** As the item gives it, even when the item is refused for its shape. */
function jobIdOf(item: unknown): string {
  const jobId = (item as { readonly job_id?: unknown } | null | undefined)?.job_id;
  return typeof jobId === 'string' ? jobId : '';
}

function heartbeatView({ leaseUntil, deadline, cancelRequested }: HeartbeatAnswer): object {
  return {
    lease_until: formatInstant(leaseUntil),
    deadline: formatInstant(deadline),
    cancel_requested: cancelRequested,
  };
}

function reportView({ outcome, status, replayed }: ReportAnswer): object {
  return { outcome, job_status: status, replayed };
}

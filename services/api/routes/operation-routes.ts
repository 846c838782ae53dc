import { formatInstant } from '../../core/contract/instant.ts';
import { ok, refused, type Result } from '../../core/contract/problems.ts';
import type { DeadLettersRequest, ReplayDeadLettersRequest, StartOperationRequest } from '../../core/contract/wire.ts';
import { type BulkOperation, BulkStatus } from '../../core/domain/bulk.ts';
import { JOB_BODY_MAX_BYTES, OTHER_BODY_MAX_BYTES, SECOND_MS } from '../../core/domain/limits.ts';
import type { EpochMs } from '../../core/domain/time.ts';
import type { Clock } from '../../core/ports/clock.ts';
import { type Answer, answer, jsonWithRaw } from '../middleware/answer.ts';
import { invalidField } from '../middleware/invalid-request.ts';
import type { ApiRequest, Route } from '../middleware/operation-handler.ts';
import type { KeyedRoute } from '../use-cases/keyed-calls.ts';
import type { DryRun, OperationPosition, UseCases } from '../use-cases/types.ts';
import { contentHash, KEY_HEADER, OWNER_DEFAULT, PAYLOAD_MEMBER, type TimeTerms } from './job-request.ts';
import { listedJobJson } from './job-view.ts';
import {
  type OperationRequest,
  parseDiscardLetters,
  parseOperation,
  parseReplayLetters,
} from './operation-requests.ts';
import { pageSizeOf, placeOf, placeToken } from './page-token.ts';

export interface OperationRouteParts {
  readonly useCases: UseCases;
  readonly clock: Clock;
  readonly horizonDays: number;
  readonly keyspace: string;
}

type OperationOperation =
  'startOperation' | 'listOperations' | 'getOperation' | 'stopOperation' | 'replayDeadLetters' | 'discardDeadLetters';

/** Whatever the texts of its filter: nothing is kept as it was written. */
const BODY = { maxBytes: OTHER_BODY_MAX_BYTES, raw: { member: '' } };
/** A replay may bring a payload. */
const REPLAY_BODY = { maxBytes: JOB_BODY_MAX_BYTES, raw: { member: PAYLOAD_MEMBER } };

const LIST = ['operations', OWNER_DEFAULT];

export function operationRoutes(parts: OperationRouteParts): Record<OperationOperation, Route> {
  const { useCases, clock, horizonDays, keyspace } = parts;
  const terms = (): TimeTerms => ({ now: clock.now(), horizonDays });

  async function start(
    parsed: Result<OperationRequest>,
    route: KeyedRoute,
    request: ApiRequest,
  ): Promise<Result<Answer>> {
    if (!parsed.ok) return parsed;
    const { dryRun, ratePerS, ...task } = parsed.value;
    if (dryRun) {
      const counted = await useCases.dryRun({ ...task, operationId: '', createdAt: clock.now() });
      return counted.ok ? ok({ status: 200, body: dryRunJson(parsed.value, counted.value, keyspace) }) : counted;
    }
    const keyText = request.header(KEY_HEADER);
    const key = keyText === undefined ? null : { text: keyText, route, requestHash: contentHash(request.body.text) };
    const started = await useCases.startOperation({ ...task, ratePerS, key, owner: OWNER_DEFAULT });
    if (!started.ok) return started;
    const { operation, replayed } = started.value;
    const headers = { location: hrefOf(operation), ...(replayed && { 'idempotency-replayed': 'true' }) };
    return ok({ ...operationAnswer(202, operation), headers });
  }

  return {
    startOperation: {
      body: REPLAY_BODY,
      handle: (request) =>
        start(
          parseOperation(request.body.value as unknown as StartOperationRequest, payloadOf(request), terms()),
          'POST /operations',
          request,
        ),
    },
    replayDeadLetters: {
      body: REPLAY_BODY,
      handle: (request) =>
        start(
          parseReplayLetters(request.body.value as unknown as ReplayDeadLettersRequest, payloadOf(request)),
          'POST /dead-letters/replay',
          request,
        ),
    },
    discardDeadLetters: {
      body: BODY,
      handle: (request) =>
        start(
          parseDiscardLetters(request.body.value as unknown as DeadLettersRequest),
          'POST /dead-letters/discard',
          request,
        ),
    },
    listOperations: {
      handle: async ({ query }) => {
        const after = positionOf(query['page_token']);
        if (!after.ok) return after;
        const listed = await useCases.listOperations({ pageSize: pageSizeOf(query), after: after.value });
        if (!listed.ok) return listed;
        const { operations, next } = listed.value;
        const token = next === null ? null : placeToken(LIST, `${next.at} ${next.operationId}`);
        return ok(answer(200, { operations: operations.map(operationView), next_page_token: token }));
      },
    },
    getOperation: {
      handle: async ({ path }) => {
        const found = await useCases.getOperation(path['operation_id'] ?? '');
        return found.ok ? ok(operationAnswer(200, found.value)) : found;
      },
    },
    stopOperation: {
      handle: async ({ path }) => {
        const stopped = await useCases.stopOperation(path['operation_id'] ?? '', OWNER_DEFAULT);
        return stopped.ok ? ok(operationAnswer(202, stopped.value)) : refused(stopped.problem);
      },
    },
  };
}

function positionOf(token: string | undefined): Result<OperationPosition | null> {
  if (token === undefined) return ok(null);
  const [, at, operationId = ''] = /^(\d{1,15}) (o_\w+)$/.exec(placeOf(LIST, token) ?? '') ?? [];
  if (at !== undefined) return ok({ at: Number(at), operationId });
  return refused(invalidField('page_token', 'is not from a page of this list: begin without it'));
}

function hrefOf({ operationId }: BulkOperation): string {
  return `/operations/${operationId}`;
}

function payloadOf({ body }: ApiRequest): string | null {
  return body.raw.get(0) ?? null;
}

function operationAnswer(status: number, operation: BulkOperation): Answer {
  const payload = operation.replayChanges?.payload ?? null;
  return { status, body: jsonWithRaw(operationView(operation), { payload }) };
}

/** As lists show it: without its payload. */
function operationView(operation: BulkOperation): object {
  const { position, finishedAt } = operation;
  return {
    operation_id: operation.operationId,
    href: hrefOf(operation),
    ...taskView(operation),
    rate_per_s: operation.ratePerS,
    status: operation.status,
    changed: operation.changed,
    failed: operation.failed,
    last_error: operation.lastError,
    progress: progressOf(operation),
    reached: position === null ? null : formatInstant(position.at),
    created_at: formatInstant(operation.createdAt),
    updated_at: formatInstant(operation.updatedAt),
    finished_at: finishedAt === null ? null : formatInstant(finishedAt),
  };
}

function dryRunJson(request: OperationRequest, counted: DryRun, keyspace: string): string {
  const { matched, refused: refusedJobs, reached, samples } = counted;
  const view = {
    dry_run: true,
    ...taskView(request),
    matched,
    refused: refusedJobs,
    complete: reached === null,
    reached: reached === null ? null : formatInstant(reached),
  };
  const payload = request.replayChanges?.payload ?? null;
  return jsonWithRaw(view, { payload, samples: `[${samples.map((job) => listedJobJson(job, keyspace)).join(',')}]` });
}

function taskView({
  verb,
  filter,
  newTime,
  replayChanges,
}: Pick<OperationRequest, 'verb' | 'filter' | 'newTime' | 'replayChanges'>): object {
  const { queue, from, to, status, label, error } = filter;
  return {
    verb,
    filter: {
      queue,
      from: formatInstant(from),
      to: formatInstant(to),
      status,
      label: label === null ? null : `${label.name}=${label.value}`,
      error,
    },
    run_at: newTime !== null && 'at' in newTime ? formatInstant(newTime.at) : null,
    shift_s: newTime !== null && 'shiftMs' in newTime ? newTime.shiftMs / SECOND_MS : null,
    queue: replayChanges?.queue ?? null,
    payload_bytes: replayChanges?.payloadBytes ?? null,
  };
}

/** How much of its window is done: jobs may lie unevenly in it. */
function progressOf({ status, position, filter }: BulkOperation): number {
  if (status === BulkStatus.done) return 1;
  const done = (at: EpochMs): number => (at - filter.from) / (filter.to - filter.from);
  return position === null ? 0 : Math.round(Math.min(1, Math.max(0, done(position.at))) * 1_000) / 1_000;
}

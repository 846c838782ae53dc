import { ok, refused, type Result } from '../../core/contract/problems.ts';
import type { JobStatus } from '../../core/domain/job-status.ts';
import { DAY_MS, DEAD_LETTERS_WINDOW_MAX_MS, HOUR_MS, LIST_WINDOW_MAX_MS } from '../../core/domain/limits.ts';
import type { EpochMs } from '../../core/domain/time.ts';
import type { Answer } from '../middleware/answer.ts';
import { invalidField, invalidRequest } from '../middleware/invalid-request.ts';
import type { ApiRequest, Route } from '../middleware/operation-handler.ts';
import type { Violation } from '../middleware/violation-text.ts';
import type { ListJobs, UseCases } from '../use-cases/types.ts';
import { instantOf, OWNER_DEFAULT } from './job-request.ts';
import { deadLetterView, jobJson, listedJobJson } from './job-view.ts';
import { type ListFilter, type PagePosition, pagePosition, pageSizeOf, pageToken } from './page-token.ts';

export interface ListRouteParts {
  readonly useCases: UseCases;
  readonly keyspace: string;
}

type ListOperation = 'findJobs' | 'listDeadLetters';

type Query = ApiRequest['query'];

interface Window {
  readonly queue: string;
  readonly from: EpochMs;
  readonly to: EpochMs;
}

export function listRoutes({ useCases, keyspace }: ListRouteParts): Record<ListOperation, Route> {
  async function jobOfKey(query: Query, key: string): Promise<Result<Answer>> {
    const others = Object.keys(query).filter((name) => name !== 'idempotency_key');
    if (others.length > 0) {
      return refused(
        invalidRequest(
          others.map((name) => ({ path: [name], message: 'cannot go with idempotency_key, which names one job' })),
        ),
      );
    }
    const result = await useCases.findJobByKey(OWNER_DEFAULT, key);
    return result.ok ? ok({ status: 200, body: jobJson(result.value, keyspace) }) : result;
  }

  async function jobsOf(query: Query): Promise<Result<Answer>> {
    const window = windowOf(query, LIST_WINDOW_MAX_MS, 'is required, unless idempotency_key names a job');
    if (!window.ok) return window;
    const status = (query['status'] as JobStatus | undefined) ?? null;
    const { queue, from, to } = window.value;
    const filter = ['jobs', OWNER_DEFAULT, queue, from, to, status, query['label'] ?? null];
    const after = positionIn(filter, query);
    if (!after.ok) return after;
    const result = await useCases.listJobs({
      ...window.value,
      status,
      label: labelOf(query['label']),
      pageSize: pageSizeOf(query),
      after: after.value,
    });
    if (!result.ok) return result;
    const { jobs, next } = result.value;
    const items = jobs.map((job) => listedJobJson(job, keyspace)).join(',');
    const token = next === null ? null : pageToken(filter, next);
    return ok({ status: 200, body: `{"jobs":[${items}],"next_page_token":${JSON.stringify(token)}}` });
  }

  return {
    findJobs: {
      handle: ({ query }) => {
        const key = query['idempotency_key'];
        return key === undefined ? jobsOf(query) : jobOfKey(query, key);
      },
    },
    listDeadLetters: {
      handle: async ({ query }) => {
        const window = windowOf(query, DEAD_LETTERS_WINDOW_MAX_MS, 'is required');
        if (!window.ok) return window;
        const { queue, from, to } = window.value;
        const error = query['error'] ?? null;
        const filter = ['dead-letters', OWNER_DEFAULT, queue, from, to, query['label'] ?? null, error];
        const after = positionIn(filter, query);
        if (!after.ok) return after;
        const result = await useCases.listDeadLetters({
          ...window.value,
          label: labelOf(query['label']),
          error,
          pageSize: pageSizeOf(query),
          after: after.value,
        });
        if (!result.ok) return result;
        const { deadJobs, next } = result.value;
        const body = {
          dead_letters: deadJobs.map(deadLetterView),
          next_page_token: next === null ? null : pageToken(filter, next),
        };
        return ok({ status: 200, body: JSON.stringify(body) });
      },
    },
  };
}

/** @param missing said of each part of the window that is not given. */
function windowOf(query: Query, maxMs: number, missing: string): Result<Window> {
  const absent = ['queue', 'from', 'to'].filter((name) => query[name] === undefined);
  if (absent.length > 0) return refused(invalidRequest(absent.map((name) => ({ path: [name], message: missing }))));
  const window = { queue: query['queue'] ?? '', from: instantOf(query['from']) ?? 0, to: instantOf(query['to']) ?? 0 };
  const violations = windowViolations(window, maxMs);
  return violations.length > 0 ? refused(invalidRequest(violations)) : ok(window);
}

function windowViolations({ from, to }: Window, maxMs: number): Violation[] {
  if (to <= from) return [{ path: ['to'], message: 'must lie after from' }];
  if (to - from <= maxMs) return [];
  const most = maxMs > DAY_MS ? `${maxMs / DAY_MS} days` : `${maxMs / HOUR_MS} hours`;
  return [{ path: ['to'], message: `may lie at most ${most} after from; ask for one window after the other` }];
}

function positionIn(filter: ListFilter, query: Query): Result<PagePosition | null> {
  const token = query['page_token'];
  if (token === undefined) return ok(null);
  const position = pagePosition(filter, token);
  if (position !== null) return ok(position);
  const message = 'is not from a page of this list: repeat the other parameters as they were, or begin without it';
  return refused(invalidField('page_token', message));
}

/** `name=value`: the first = divides, so that a value may have some too. */
export function labelOf(text: string | undefined): ListJobs['label'] {
  if (text === undefined) return null;
  const equals = text.indexOf('=');
  return { name: text.slice(0, equals), value: text.slice(equals + 1) };
}

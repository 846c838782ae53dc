import { formatInstant } from '../../core/contract/instant.ts';
import { ok, refused, type Result } from '../../core/contract/problems.ts';
import type { PauseQueueRequest, QueueSettingsRequest } from '../../core/contract/wire.ts';
import { DAY_MS, OTHER_BODY_MAX_BYTES, SECOND_MS } from '../../core/domain/limits.ts';
import { defaultSettings, isPaused, JOB_DEFAULTS, type QueueSettings } from '../../core/domain/queue-settings.ts';
import type { EpochMs } from '../../core/domain/time.ts';
import type { Clock } from '../../core/ports/clock.ts';
import { type Answer, answer } from '../middleware/answer.ts';
import { invalidField, invalidRequest } from '../middleware/invalid-request.ts';
import type { ApiRequest, Route } from '../middleware/operation-handler.ts';
import type { Violation } from '../middleware/violation-text.ts';
import type { QueueCounts } from '../use-cases/queue-counters.ts';
import type { ChangeQueue, UseCases } from '../use-cases/types.ts';
import { instantOf, mergedRetry, retryViolations } from './job-request.ts';
import { instantOrNull, retryView } from './job-view.ts';
import { placeToken, placeOf, pageSizeOf } from './page-token.ts';

export interface QueueRouteParts {
  readonly useCases: UseCases;
  readonly clock: Clock;
  readonly horizonDays: number;
}

type QueueOperation = 'describeQueue' | 'listQueues' | 'setQueue' | 'changeQueue' | 'pauseQueue' | 'resumeQueue';

const LIST = ['queues'];
const PATCH_TYPES = ['application/merge-patch+json', 'application/json'];
/** A change that takes the rate away is refused with this, too. */
const NEEDS_RATE =
  'needs rate_per_s, without which it changes nothing: set that, or give this its default (null) as well';
const BODY = { maxBytes: OTHER_BODY_MAX_BYTES, raw: { member: '' } };

export function queueRoutes({ useCases, clock, horizonDays }: QueueRouteParts): Record<QueueOperation, Route> {
  function shown(result: Result<QueueSettings>): Result<Answer> {
    return result.ok ? ok(queueAnswer(result.value, clock.now())) : result;
  }

  async function change(request: ApiRequest, changeOf: ChangeQueue['changeOf']): Promise<Result<Answer>> {
    const queue = request.path['queue'] ?? '';
    return shown(await useCases.changeQueue({ queue, revision: revisionOf(request), changeOf }));
  }

  return {
    describeQueue: {
      handle: async ({ path }) => {
        const result = await useCases.describeQueue(path['queue'] ?? '');
        if (!result.ok) return result;
        const { settings, counts, ready } = result.value;
        return ok(queueAnswer(settings, clock.now(), { counts: countsView(counts), ready }));
      },
    },
    listQueues: {
      handle: async ({ query }) => {
        const token = query['page_token'];
        const after = token === undefined ? null : placeOf(LIST, token);
        if (token !== undefined && after === null) {
          return refused(invalidField('page_token', 'is not from a page of this list: begin without it'));
        }
        const result = await useCases.listQueues({ pageSize: pageSizeOf(query), after });
        if (!result.ok) return result;
        const { queues, next } = result.value;
        const now = clock.now();
        return ok(
          answer(200, {
            queues: queues.map(({ settings, counts }) => ({ ...queueView(settings, now), counts: countsView(counts) })),
            next_page_token: next === null ? null : placeToken(LIST, next),
          }),
        );
      },
    },
    setQueue: {
      body: BODY,
      handle: (request) => {
        const wanted = request.body.value as QueueSettingsRequest;
        return change(request, (before) => {
          const { pause, resumedAt } = before;
          return merged({ ...defaultSettings(before.queue), pause, resumedAt }, wanted);
        });
      },
    },
    changeQueue: {
      body: { ...BODY, types: PATCH_TYPES },
      handle: async (request) => {
        const patch = request.body.value as QueueSettingsRequest;
        if (Object.keys(patch).length === 0) {
          return refused({ code: 'invalid_request', detail: 'The body names nothing to change.' });
        }
        return change(request, (before) => merged(before, patch));
      },
    },
    pauseQueue: {
      body: BODY,
      handle: async ({ path, body }) => {
        const { reason = null, until } = body.value as PauseQueueRequest;
        const untilAt = instantOf(until) ?? null;
        const problem = untilProblem(untilAt, clock.now(), horizonDays);
        if (problem !== null) return refused(invalidField('until', problem));
        return shown(await useCases.pauseQueue({ queue: path['queue'] ?? '', reason, until: untilAt }));
      },
    },
    resumeQueue: { handle: async ({ path }) => shown(await useCases.resumeQueue(path['queue'] ?? '')) },
  };
}

/** `"3"`, as the ETag has it. */
export function revisionOf({ header }: ApiRequest): number | null {
  const text = header('If-Match');
  return text === undefined ? null : Number(text.slice(1, -1));
}

export function untilProblem(until: EpochMs | null, now: EpochMs, horizonDays: number): string | null {
  if (until === null) return null;
  if (until <= now) return `must lie ahead: it is ${formatInstant(now)} now`;
  return until - now > horizonDays * DAY_MS ? `may be at most ${horizonDays} days ahead` : null;
}

/** A merge patch (RFC 7396): what is absent stays, null sets the default. */
function merged(before: QueueSettings, patch: QueueSettingsRequest): Result<QueueSettings> {
  const retry =
    patch.retry === undefined
      ? before.retry
      : patch.retry === null
        ? null
        : mergedRetry(patch.retry, { before: before.retry ?? JOB_DEFAULTS.retry, preset: JOB_DEFAULTS.retry });
  const kept = <T>(given: T | null | undefined, former: T | null): T | null => (given === undefined ? former : given);
  const next: QueueSettings = {
    ...before,
    ratePerS: kept(patch.rate_per_s, before.ratePerS),
    burst: kept(patch.burst, before.burst),
    rampS: kept(patch.ramp_s, before.rampS),
    maxRunning: kept(patch.max_running, before.maxRunning),
    readyMax: kept(patch.ready_max, before.readyMax),
    maxWaiting: kept(patch.max_waiting, before.maxWaiting),
    maxAttempts: kept(patch.max_attempts, before.maxAttempts),
    timeoutS: kept(patch.timeout_s, before.timeoutS),
    leaseS: kept(patch.lease_s, before.leaseS),
    retry,
    retentionDays: kept(patch.retention_days, before.retentionDays),
    deadRetentionDays: kept(patch.dead_retention_days, before.deadRetentionDays),
  };
  const violations: Violation[] = [
    ...(retry === null ? [] : retryViolations(retry)),
    ...(['burst', 'ramp_s'] as const)
      .filter((name) => next.ratePerS === null && next[name === 'burst' ? 'burst' : 'rampS'] !== null)
      .map((name) => ({ path: [name], message: NEEDS_RATE })),
  ];
  return violations.length > 0 ? refused(invalidRequest(violations)) : ok(next);
}

function queueAnswer(settings: QueueSettings, now: EpochMs, more: object = {}): Answer {
  const body = { ...queueView(settings, now), ...more };
  return { ...answer(200, body), headers: { etag: `"${settings.revision}"` } };
}

function countsView(counts: QueueCounts): object {
  const { waiting, held, ready, running, dead, oldestReadyAgeMs, startLag, countedAt } = counts;
  return {
    waiting,
    held,
    ready,
    running,
    dead,
    oldest_ready_age_s: oldestReadyAgeMs === null ? null : oldestReadyAgeMs / SECOND_MS,
    start_lag:
      startLag === null
        ? null
        : {
            starts: startLag.starts,
            p50_s: startLag.p50Ms / SECOND_MS,
            p95_s: startLag.p95Ms / SECOND_MS,
            p99_s: startLag.p99Ms / SECOND_MS,
          },
    counted_at: instantOrNull(countedAt),
  };
}

function queueView(settings: QueueSettings, now: EpochMs): object {
  const { pause, retry } = settings;
  const shownPause = pause === null || !isPaused(settings, now) ? null : pause;
  return {
    queue: settings.queue,
    rate_per_s: settings.ratePerS,
    burst: settings.burst,
    ramp_s: settings.rampS,
    max_running: settings.maxRunning,
    ready_max: settings.readyMax,
    max_waiting: settings.maxWaiting,
    max_attempts: settings.maxAttempts,
    timeout_s: settings.timeoutS,
    lease_s: settings.leaseS,
    retry: retry === null ? null : retryView(retry),
    retention_days: settings.retentionDays,
    dead_retention_days: settings.deadRetentionDays,
    paused: shownPause !== null,
    pause:
      shownPause === null
        ? null
        : { at: formatInstant(shownPause.at), reason: shownPause.reason, until: instantOrNull(shownPause.until) },
    resumed_at: instantOrNull(settings.resumedAt),
    revision: settings.revision,
    created_at: instantOrNull(settings.createdAt),
    updated_at: instantOrNull(settings.updatedAt),
  };
}

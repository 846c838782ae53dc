import { ok, PROBLEMS } from '../../core/contract/problems.ts';
import { PRIORITIES, Priority } from '../../core/domain/job-status.ts';
import {
  ANSWER_MAX_BYTES,
  ATTEMPTS_KEPT,
  BACKFILL_SLOTS_MAX,
  BATCH_BODY_MAX_BYTES,
  CLAIM_ID_MAX_CHARS,
  CRON_MAX_CHARS,
  DAY_MS,
  DEAD_LETTERS_WINDOW_MAX_MS,
  DEAD_RETENTION_DEFAULT_DAYS,
  ERROR_TEXT_MAX_BYTES,
  EVERY_MAX_S,
  HEARTBEATS_PER_LEASE,
  IDEMPOTENCY_KEY_KEPT_DAYS,
  IDEMPOTENCY_KEY_MAX_CHARS,
  JITTER_MAX_S,
  JOB_BATCH_MAX_ITEMS,
  JOB_BODY_MAX_BYTES,
  LABEL_KEY_MAX_CHARS,
  LABEL_VALUE_MAX_CHARS,
  LABELS_MAX,
  LEASE_CALL_MAX_JOBS,
  LEASE_DEFAULT_S,
  LEASE_MAX_S,
  LEASE_MIN_S,
  LEASE_WAIT_DEFAULT_S,
  LEASE_WAIT_MAX_S,
  LIST_WINDOW_MAX_MS,
  MAX_ATTEMPTS_DEFAULT,
  MAX_ATTEMPTS_MAX,
  OPERATION_KEPT_DAYS,
  OPERATION_RATE_DEFAULT_PER_S,
  OPERATION_RATE_MAX_PER_S,
  OPERATION_WINDOW_MAX_MS,
  MISSED_LIMIT_DEFAULT,
  MISSED_LIMIT_MAX,
  OTHER_BODY_MAX_BYTES,
  OVERLAP_WAITING_MAX,
  PAGE_SIZE_DEFAULT,
  PAGE_SIZE_MAX,
  PAYLOAD_MAX_BYTES,
  PREVIEW_SLOTS_MAX,
  PROGRESS_MAX_BYTES,
  PAUSE_REASON_MAX_CHARS,
  QUEUE_BURST_MAX,
  QUEUE_NAME_PATTERN,
  QUEUE_RAMP_MAX_S,
  QUEUE_RATE_MAX_PER_S,
  QUEUE_RUNNING_MAX,
  QUEUE_WAITING_MAX,
  QUEUES_CONFIGURED_MAX,
  READY_PER_QUEUE_MAX,
  RESULT_MAX_BYTES,
  RETENTION_DEFAULT_DAYS,
  RUN_AT_PAST_MAX_MS,
  SCHEDULE_BATCH_MAX_ITEMS,
  SCHEDULE_RUNS_WINDOW_MAX_MS,
  SECOND_MS,
  TIMEOUT_DEFAULT_S,
  TIMEOUT_MAX_S,
  WORKER_BATCH_MAX_ITEMS,
  WORKER_BODY_MAX_BYTES,
} from '../../core/domain/limits.ts';
import { JOB_DEFAULTS } from '../../core/domain/queue-settings.ts';
import type { Readiness } from '../../core/runtime/readiness.ts';
import { answer } from '../middleware/answer.ts';
import type { Route } from '../middleware/operation-handler.ts';
import { retryView } from './job-view.ts';

export interface ServiceRouteParts {
  readonly horizonDays: number;
  readonly readiness: () => Promise<Readiness>;
}

type ServiceOperation = 'getLimits' | 'listProblems' | 'getHealth' | 'getReadiness';

export function serviceRoutes({ horizonDays, readiness }: ServiceRouteParts): Record<ServiceOperation, Route> {
  const limits = answer(200, limitsView(horizonDays));
  const problems = answer(200, { problems: Object.entries(PROBLEMS).map(([code, row]) => ({ code, ...row })) });
  return {
    getLimits: { handle: () => ok(limits) },
    listProblems: { handle: () => ok(problems) },
    getHealth: { handle: () => ok(answer(200, { status: 'ok' })) },
    getReadiness: {
      handle: async () => {
        const state = await readiness();
        return ok(answer(state.ready ? 200 : 503, state));
      },
    },
  };
}

function limitsView(horizonDays: number): object {
  return {
    queue_name_pattern: QUEUE_NAME_PATTERN,
    payload_max_bytes: PAYLOAD_MAX_BYTES,
    job_body_max_bytes: JOB_BODY_MAX_BYTES,
    batch_body_max_bytes: BATCH_BODY_MAX_BYTES,
    worker_body_max_bytes: WORKER_BODY_MAX_BYTES,
    other_body_max_bytes: OTHER_BODY_MAX_BYTES,
    job_batch_max_items: JOB_BATCH_MAX_ITEMS,
    schedule_batch_max_items: SCHEDULE_BATCH_MAX_ITEMS,
    cron_max_chars: CRON_MAX_CHARS,
    every_max_s: EVERY_MAX_S,
    missed_limit_default: MISSED_LIMIT_DEFAULT,
    missed_limit_max: MISSED_LIMIT_MAX,
    overlap_waiting_max: OVERLAP_WAITING_MAX,
    preview_slots_max: PREVIEW_SLOTS_MAX,
    backfill_slots_max: BACKFILL_SLOTS_MAX,
    schedule_runs_window_max_days: SCHEDULE_RUNS_WINDOW_MAX_MS / DAY_MS,
    worker_batch_max_items: WORKER_BATCH_MAX_ITEMS,
    horizon_days: horizonDays,
    run_at_past_max_s: RUN_AT_PAST_MAX_MS / SECOND_MS,
    jitter_max_s: JITTER_MAX_S,
    max_attempts_default: MAX_ATTEMPTS_DEFAULT,
    max_attempts_max: MAX_ATTEMPTS_MAX,
    timeout_default_s: TIMEOUT_DEFAULT_S,
    timeout_max_s: TIMEOUT_MAX_S,
    lease_default_s: LEASE_DEFAULT_S,
    lease_min_s: LEASE_MIN_S,
    lease_max_s: LEASE_MAX_S,
    heartbeats_per_lease: HEARTBEATS_PER_LEASE,
    retry_default: retryView(JOB_DEFAULTS.retry),
    labels_max: LABELS_MAX,
    label_key_max_chars: LABEL_KEY_MAX_CHARS,
    label_value_max_chars: LABEL_VALUE_MAX_CHARS,
    idempotency_key_max_chars: IDEMPOTENCY_KEY_MAX_CHARS,
    idempotency_key_kept_days: IDEMPOTENCY_KEY_KEPT_DAYS,
    error_max_bytes: ERROR_TEXT_MAX_BYTES,
    result_max_bytes: RESULT_MAX_BYTES,
    progress_max_bytes: PROGRESS_MAX_BYTES,
    claim_id_max_chars: CLAIM_ID_MAX_CHARS,
    lease_call_max_jobs: LEASE_CALL_MAX_JOBS,
    lease_call_max_bytes: ANSWER_MAX_BYTES,
    lease_wait_default_s: LEASE_WAIT_DEFAULT_S,
    lease_wait_max_s: LEASE_WAIT_MAX_S,
    page_size_default: PAGE_SIZE_DEFAULT,
    page_size_max: PAGE_SIZE_MAX,
    list_window_max_s: LIST_WINDOW_MAX_MS / SECOND_MS,
    dead_letters_window_max_days: DEAD_LETTERS_WINDOW_MAX_MS / DAY_MS,
    operation_window_max_days: OPERATION_WINDOW_MAX_MS / DAY_MS,
    operation_rate_default_per_s: OPERATION_RATE_DEFAULT_PER_S,
    operation_rate_max_per_s: OPERATION_RATE_MAX_PER_S,
    operation_kept_days: OPERATION_KEPT_DAYS,
    attempts_kept: ATTEMPTS_KEPT,
    ready_per_queue_max: READY_PER_QUEUE_MAX,
    queues_configured_max: QUEUES_CONFIGURED_MAX,
    queue_rate_max_per_s: QUEUE_RATE_MAX_PER_S,
    queue_burst_max: QUEUE_BURST_MAX,
    queue_ramp_max_s: QUEUE_RAMP_MAX_S,
    queue_running_max: QUEUE_RUNNING_MAX,
    queue_waiting_max: QUEUE_WAITING_MAX,
    pause_reason_max_chars: PAUSE_REASON_MAX_CHARS,
    retention_days: RETENTION_DEFAULT_DAYS,
    dead_retention_days: DEAD_RETENTION_DEFAULT_DAYS,
    priorities: PRIORITIES,
    priority_default: Priority.normal,
  };
}

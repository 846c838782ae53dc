/**
 * Requests and answers as they are on the wire (schema/http/openapi.yaml): times are RFC 3339 in UTC, `_s` is seconds.
 */
import type {
  BackfillRequest,
  CreateJobRequest,
  CreateScheduleRequest,
  LeaseRequest as WireLeaseRequest,
  PatchJobRequest,
  PatchScheduleRequest,
  PauseQueueRequest,
  PauseScheduleRequest,
  PauseSchedulesRequest,
  QueueSettingsRequest,
  ReplayJobRequest,
  ResumeSchedulesRequest,
  StartOperationRequest,
  WireBulkVerb,
  WirePriority,
  WireRetry,
} from '../core/contract/wire.ts';

export type Priority = WirePriority;
export type RetryPolicy = WireRetry;
export type JobStatus = 'scheduled' | 'enqueued' | 'running' | 'succeeded' | 'cancelled' | 'dead';
export type Outcome = 'succeeded' | 'failed' | 'lease_expired' | 'timed_out' | 'snoozed' | 'released' | 'cancelled';

/** Neither run_at nor delay_s: due now. JSON.rawJSON sends a payload's text as it is. */
export type NewJob = CreateJobRequest;
/** What is absent stays, null removes or sets the default, labels and retry are merged member by member. */
export type JobPatch = PatchJobRequest;
/** What is absent stays; a payload of null: none. */
export type ReplayChanges = ReplayJobRequest;

export interface Attempt {
  readonly attempt: number;
  readonly worker: string | null;
  readonly started_at: string | null;
  readonly ended_at: string | null;
  /** Null while the attempt runs. */
  readonly outcome: Outcome | null;
  readonly error: string | null;
}

export interface Job {
  readonly job_id: string;
  readonly href: string;
  readonly queue: string;
  readonly priority: Priority;
  readonly status: JobStatus;
  /** Why a cancelled or dead job ended so. */
  readonly reason: string | null;
  /** When the next or current try is due; retries move it. */
  readonly run_at: string;
  /** The time asked for; it never moves. */
  readonly scheduled_for: string;
  readonly created_at: string;
  readonly enqueued_at: string | null;
  readonly finished_at: string | null;
  readonly expires_at: string | null;
  readonly attempt: number;
  readonly tries: number;
  readonly lapses: number;
  readonly lost_claims: number;
  readonly max_attempts: number;
  readonly timeout_s: number;
  readonly lease_s: number;
  readonly retry: RetryPolicy;
  readonly labels: Readonly<Record<string, string>>;
  readonly idempotency_key: string | null;
  readonly worker: string | null;
  readonly lease_until: string | null;
  readonly deadline_at: string | null;
  readonly cancel_requested: boolean;
  /** The last bulk operations that moved it, the oldest first. */
  readonly operation_ids: readonly string[];
  readonly last_error: string | null;
  /** The last 50, oldest first. */
  readonly attempts: readonly Attempt[];
  readonly owner: string;
  readonly target: string | null;
  readonly schedule_id: string | null;
  readonly traceparent: string | null;
  readonly payload_bytes: number;
  readonly cohort: string;
  readonly shard: number;
  /** Reads the row with cqlsh. */
  readonly cql: string;
  readonly payload: unknown;
  /** The payload's JSON text, character for character; null without a payload. Cut out of the answer when first read. */
  readonly payloadText: string | null;
  readonly result: unknown;
  readonly progress: unknown;
}

/** How one job of a batch was accepted. */
export interface AcceptedJob {
  readonly job_id: string;
  readonly href: string;
  readonly run_at: string;
  /** The key had been used for this very job before. */
  readonly replayed: boolean;
}

/** As lists show it. */
export type ListedJob = Omit<Job, 'payload' | 'payloadText'>;

/** `to` is exclusive; times are RFC 3339. */
export interface ListWindow extends PageRequest {
  readonly queue: string;
  readonly from: string;
  readonly to: string;
}

/** A window of at most 24 hours, by run_at. */
export interface JobFilter extends ListWindow {
  readonly status?: JobStatus;
  /** `name=value` */
  readonly label?: string;
}

/** May be short or empty and still have a next one. */
export interface JobPage {
  readonly jobs: readonly ListedJob[];
  readonly next_page_token: string | null;
}

export interface DeadLetter {
  readonly job_id: string;
  readonly href: string;
  readonly queue: string;
  readonly dead_at: string;
  readonly attempt: number;
  readonly reason: string;
  readonly error: string | null;
  readonly labels: Readonly<Record<string, string>>;
  /** The last 50, oldest first. */
  readonly attempts: readonly Attempt[];
}

/** A window of at most 31 days, by the time of death. */
export interface DeadLetterFilter extends ListWindow {
  /** `name=value` */
  readonly label?: string;
  /** A part of the last error. */
  readonly error?: string;
}

export interface DeadLetterPage {
  readonly dead_letters: readonly DeadLetter[];
  readonly next_page_token: string | null;
}

/** What to do to all jobs that a filter names. */
export type NewOperation = Omit<StartOperationRequest, 'dry_run'>;

/** As it was understood. */
interface OperationTask {
  readonly verb: WireBulkVerb;
  readonly filter: {
    readonly queue: string;
    readonly from: string;
    readonly to: string;
    readonly status: JobStatus | null;
    readonly label: string | null;
    readonly error: string | null;
  };
  readonly run_at: string | null;
  readonly shift_s: number | null;
  /** Of a replay: where its jobs go to; null: nowhere else. */
  readonly queue: string | null;
  /** Of the payload that a replay gives its jobs, 0 for none; null: they keep their own. */
  readonly payload_bytes: number | null;
  readonly payload: unknown;
  /** The payload's JSON text, character for character; null without one. Cut out of the answer when first read. */
  readonly payloadText: string | null;
}

export interface Operation extends OperationTask {
  readonly operation_id: string;
  readonly href: string;
  readonly rate_per_s: number;
  readonly status: 'running' | 'stopping' | 'stopped' | 'done';
  /** Jobs, each once. */
  readonly changed: number;
  readonly failed: number;
  readonly last_error: string | null;
  /** How much of its window is done, from 0 to 1. */
  readonly progress: number;
  readonly reached: string | null;
  readonly created_at: string;
  readonly updated_at: string;
  readonly finished_at: string | null;
}

export type ListedOperation = Omit<Operation, 'payload' | 'payloadText'>;

export interface OperationPage {
  readonly operations: readonly ListedOperation[];
  readonly next_page_token: string | null;
}

/** What an operation would change. */
export interface DryRun extends OperationTask {
  readonly matched: number;
  readonly refused: number;
  /** False: there may be more than were counted. */
  readonly complete: boolean;
  readonly reached: string | null;
  /** The first of those that match. */
  readonly samples: readonly ListedJob[];
}

export interface ReadyConsumer {
  readonly priority: Priority;
  readonly stream: string;
  readonly subject: string;
  readonly consumer: string;
}

/** Null is the default. */
export interface QueueSettings {
  readonly queue: string;
  readonly rate_per_s: number | null;
  readonly burst: number | null;
  readonly ramp_s: number | null;
  readonly max_running: number | null;
  readonly ready_max: number | null;
  readonly max_waiting: number | null;
  readonly max_attempts: number | null;
  readonly timeout_s: number | null;
  readonly lease_s: number | null;
  readonly retry: RetryPolicy | null;
  /** Of jobs that succeeded or were cancelled, and of the history of all. */
  readonly retention_days: number | null;
  readonly dead_retention_days: number | null;
  readonly paused: boolean;
  readonly pause: { readonly at: string; readonly reason: string | null; readonly until: string | null } | null;
  readonly resumed_at: string | null;
  /** One more with each change; 0: never configured. */
  readonly revision: number;
  readonly created_at: string | null;
  readonly updated_at: string | null;
}

export type NewQueueSettings = QueueSettingsRequest;
export type PauseRequest = PauseQueueRequest;

/** How many jobs of a queue are where, a few seconds ago. */
export interface QueueCounts {
  /** Scheduled for a time ahead. */
  readonly waiting: number;
  /** Due, and not taken by their queue yet: it is paused, over its rate, or runs as many as it may. */
  readonly held: number;
  /** They wait for a worker; null while NATS is away. */
  readonly ready: Readonly<Record<Priority, number>> | null;
  readonly running: number;
  /** Null: not counted yet. */
  readonly dead: number | null;
  readonly oldest_ready_age_s: number | null;
  /** Of the jobs that the answering api handed out in the last five minutes; null: none. */
  readonly start_lag: {
    readonly starts: number;
    readonly p50_s: number;
    readonly p95_s: number;
    readonly p99_s: number;
  } | null;
  /** Null: not all was counted lately. */
  readonly counted_at: string | null;
}

export interface CountedQueue extends QueueSettings {
  readonly counts: QueueCounts;
}

export interface Queue extends CountedQueue {
  /** In the order in which a worker should ask them. */
  readonly ready: readonly ReadyConsumer[];
}

export interface PageRequest {
  /** Default 50, at most 500. */
  readonly page_size?: number;
  /** The next_page_token of the page before. */
  readonly page_token?: string;
}

export interface QueuePage {
  readonly queues: readonly CountedQueue[];
  readonly next_page_token: string | null;
}

export interface ClaimItem {
  readonly job_id: string;
  /** The number that the ready message names and the claim will get. */
  readonly attempt: number;
  /** The caller's own mark: a claim repeated with it gets the same attempt again. */
  readonly claim_id?: string;
}

/** A job in the hands of its worker. */
export interface ClaimedJob {
  readonly job_id: string;
  readonly attempt: number;
  readonly lease_until: string;
  readonly heartbeat_s: number;
  readonly queue: string;
  readonly priority: Priority;
  readonly scheduled_for: string;
  /** The creator's, else the job id: stable over all attempts, to be passed on to the services that the handler calls. */
  readonly idempotency_key: string;
  readonly max_attempts: number;
  readonly timeout_s: number;
  readonly labels: Readonly<Record<string, string>>;
  readonly traceparent: string | null;
  readonly payload: unknown;
  /** The payload's JSON text, character for character; null without a payload. Cut out of the answer when first read. */
  readonly payloadText: string | null;
}

export interface HeartbeatItem {
  readonly job_id: string;
  readonly attempt: number;
  /** Any JSON, at most 1 KiB. */
  readonly progress?: unknown;
}

export interface Heartbeat {
  readonly lease_until: string;
  readonly deadline: string;
  readonly cancel_requested: boolean;
}

export type LeaseRequest = WireLeaseRequest;

/** How an attempt ended. */
export type Report =
  | { readonly ok: true; readonly result?: unknown }
  | { readonly ok: false; readonly error: string; readonly retryable?: boolean; readonly retry_after_s?: number }
  /** Not yet: due again after this long, and the try is not counted. */
  | { readonly snooze_s: number }
  /** Stopped, as it was asked to. */
  | { readonly cancelled: true };

/** An attempt in hand, by its job. */
export interface AttemptItem {
  readonly job_id: string;
  readonly attempt: number;
}

export type ReportItem = AttemptItem & Report;

export interface ReportAnswer {
  readonly outcome: Outcome;
  readonly job_status: JobStatus;
  /** The same report had been taken before. */
  readonly replayed: boolean;
}

export type OnOverlap = 'skip' | 'queue' | 'allow' | 'replace';
export type OnMissed = 'run_once' | 'run_all' | 'skip';
export type ScheduleStatus = 'active' | 'paused' | 'ended';
export type RunOutcome =
  'fired' | 'missed' | 'skipped_overlap' | 'skipped_by_request' | 'skipped_paused' | 'skipped_by_change';

/** Of cron (with time_zone) and every_s one. */
export type NewSchedule = CreateScheduleRequest;
/** What is absent stays, null removes or sets the default, labels and retry are merged member by member. */
export type SchedulePatch = PatchScheduleRequest;

export interface Schedule {
  readonly schedule_id: string;
  readonly href: string;
  /** The name that it was made under, with putSchedule. */
  readonly key: string | null;
  readonly queue: string;
  readonly priority: Priority;
  readonly cron: string | null;
  readonly every_s: number | null;
  readonly time_zone: string | null;
  readonly on_overlap: OnOverlap;
  readonly on_missed: OnMissed;
  readonly missed_limit: number;
  readonly missed_window_s: number | null;
  readonly on_dst_gap: 'run_after' | 'skip' | null;
  readonly on_dst_repeat: 'first' | 'both' | null;
  readonly jitter_s: number;
  readonly start_at: string | null;
  readonly end_at: string | null;
  readonly max_runs: number | null;
  /** Occurrences so far. */
  readonly runs: number;
  readonly status: ScheduleStatus;
  /** The next slot that will be run; null when it has ended, or is paused without an end. */
  readonly next_run_at: string | null;
  readonly paused_reason: string | null;
  readonly paused_until: string | null;
  readonly skip_slot: string | null;
  readonly last_slot: string | null;
  readonly last_job_id: string | null;
  /** Occurrences that wait for their predecessors, oldest first. */
  readonly waiting: readonly string[];
  readonly labels: Readonly<Record<string, string>>;
  readonly max_attempts: number;
  readonly timeout_s: number;
  readonly lease_s: number;
  readonly retry: RetryPolicy;
  /** Grows with every change by a caller. */
  readonly revision: number;
  readonly owner: string;
  readonly traceparent: string | null;
  readonly payload_bytes: number;
  readonly cohort: string;
  readonly shard: number;
  readonly created_at: string;
  readonly updated_at: string;
  /** Reads the row with cqlsh. */
  readonly cql: string;
  readonly payload: unknown;
  /** The payload's JSON text, character for character; null without a payload. Cut out of the answer when first read. */
  readonly payloadText: string | null;
}

/** As lists show it. */
export type ListedSchedule = Omit<Schedule, 'payload' | 'payloadText'>;

/** How one schedule of a batch was made. */
export interface AcceptedSchedule {
  readonly schedule_id: string;
  readonly href: string;
  readonly next_run_at: string | null;
  /** The key had been used for this very schedule before. */
  readonly replayed: boolean;
}

export interface ScheduleFilter {
  readonly queue?: string;
  /** `name=value` */
  readonly label?: string;
  readonly paused?: boolean;
  /** Default 50, at most 500. */
  readonly page_size?: number;
  /** The next_page_token of the page before. */
  readonly page_token?: string;
}

/** May be short or empty and still have a next one. */
export interface SchedulePage {
  readonly schedules: readonly ListedSchedule[];
  readonly next_page_token: string | null;
}

export type SchedulePause = PauseScheduleRequest;

/** By label, by queue, or by both. */
export type SchedulesPause = PauseSchedulesRequest;
export type SchedulesResume = ResumeSchedulesRequest;

export interface ChangedSchedules {
  readonly matched: number;
  /** With dry_run: that would be. */
  readonly changed: number;
  /** Where to go on; null: that was all. */
  readonly next_page_token: string | null;
}

export interface DeletedSchedule {
  readonly schedule_id: string;
  readonly key: string | null;
  readonly deleted: true;
  /** The occurrences that were cancelled. */
  readonly cancelled: readonly string[];
}

export interface PreviewOptions {
  /** Default 10, at most 1,000. */
  readonly count?: number;
  /** RFC 3339; default now. */
  readonly after?: string;
}

export interface PreviewSlot {
  readonly slot: string;
  /** What clocks in the time zone show. */
  readonly local: string | null;
  readonly starts_at: string;
  /** False when it is left out as things stand. */
  readonly runs: boolean;
  readonly reason: string | null;
}

export interface ClockChange {
  readonly at: string;
  readonly clocks_from: string;
  readonly clocks_to: string;
  readonly times: readonly string[];
  readonly more_times: number;
  readonly effect: 'moved_after_gap' | 'skipped' | 'runs_once' | 'runs_twice';
}

export interface SchedulePreview {
  /** The timetable in words. */
  readonly meaning: string;
  readonly note: string | null;
  readonly slots: readonly PreviewSlot[];
  readonly clock_changes: readonly ClockChange[];
}

export type BackfillRange = BackfillRequest;

/** A slot, and the job that was made for it, which a dry run leaves out. */
export interface BackfilledSlot extends Partial<AcceptedJob> {
  readonly slot: string;
  readonly status?: number;
  readonly error?: { readonly code: string; readonly detail: string };
}

export interface ScheduleRun {
  readonly slot: string;
  /** The last slot of a range that was not run. */
  readonly slot_until: string | null;
  readonly outcome: RunOutcome;
  readonly reason: string | null;
  readonly job_id: string;
  readonly href: string;
  readonly decided_at: string;
  readonly job_status: JobStatus | null;
  /** How long after the slot its job first started; null: it has not. */
  readonly lag_ms: number | null;
}

/** A window of at most 31 days; without one the last of them. */
export interface RunFilter {
  readonly from?: string;
  /** Exclusive. */
  readonly to?: string;
  readonly page_size?: number;
  readonly page_token?: string;
}

/** The latest slot first. */
export interface ScheduleRunPage {
  readonly runs: readonly ScheduleRun[];
  readonly next_page_token: string | null;
}

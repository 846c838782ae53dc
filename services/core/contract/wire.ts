/** Requests as they stand on the wire; schema/http/openapi.yaml says the same and refuses everything else. */
export type WirePriority = 'high' | 'normal' | 'low';
export interface WireRetry {
  readonly kind: 'exponential' | 'fixed';
  readonly base_s: number;
  readonly factor: number;
  readonly cap_s: number;
  readonly jitter: 'equal' | 'full' | 'none';
}

export interface CreateJobRequest {
  readonly queue: string;
  readonly payload?: unknown;
  readonly run_at?: string;
  readonly delay_s?: number;
  readonly jitter_s?: number;
  readonly priority?: WirePriority;
  readonly max_attempts?: number;
  readonly timeout_s?: number;
  readonly lease_s?: number;
  readonly retry?: Partial<WireRetry>;
  readonly labels?: Readonly<Record<string, string>>;
  readonly idempotency_key?: string;
  readonly expires_at?: string;
}

export interface CreateJobsRequest {
  readonly jobs: readonly CreateJobRequest[];
}

type Removable<Fields> = { readonly [Field in keyof Fields]?: Fields[Field] | null };

/** A merge patch (RFC 7396): what is absent stays, null removes, and so inside labels and retry. */
export interface PatchJobRequest extends Removable<{
  readonly payload: unknown;
  readonly labels: Removable<Readonly<Record<string, string>>>;
  readonly max_attempts: number;
  readonly timeout_s: number;
  readonly retry: Removable<WireRetry>;
  readonly priority: WirePriority;
  readonly expires_at: string;
}> {
  readonly run_at?: string;
  readonly delay_s?: number;
}

/** Null takes the payload away. */
export interface ReplayJobRequest {
  readonly payload?: unknown;
  readonly queue?: string;
}

/** What is absent stays (PATCH) or has its default (PUT), and null sets the default. */
export type QueueSettingsRequest = Removable<{
  readonly rate_per_s: number;
  readonly burst: number;
  readonly ramp_s: number;
  readonly max_running: number;
  readonly ready_max: number;
  readonly max_waiting: number;
  readonly max_attempts: number;
  readonly timeout_s: number;
  readonly lease_s: number;
  readonly retry: Removable<WireRetry>;
  readonly retention_days: number;
  readonly dead_retention_days: number;
}>;

export interface PauseQueueRequest {
  readonly reason?: string;
  readonly until?: string;
}

export type WireJobStatus = 'scheduled' | 'enqueued' | 'running' | 'succeeded' | 'cancelled' | 'dead';
export type WireBulkVerb = 'cancel' | 'reschedule' | 'run' | 'replay' | 'discard';

/** Which jobs a bulk operation is for. */
export interface BulkFilterRequest {
  readonly queue: string;
  readonly from: string;
  readonly to: string;
  readonly status?: WireJobStatus;
  /** `name=value` */
  readonly label?: string;
  /** A part of the last error. */
  readonly error?: string;
}

export interface StartOperationRequest {
  readonly verb: WireBulkVerb;
  readonly filter: BulkFilterRequest;
  readonly run_at?: string;
  readonly shift_s?: number;
  /** With replay, as queue: null takes the payloads away. */
  readonly payload?: unknown;
  readonly queue?: string;
  readonly rate_per_s?: number;
  readonly dry_run?: boolean;
}

export interface DeadLettersRequest extends Omit<BulkFilterRequest, 'status'> {
  readonly rate_per_s?: number;
  readonly dry_run?: boolean;
}

/** Its `queue` is the filter's, so the queue that they go to has another name. */
export interface ReplayDeadLettersRequest extends DeadLettersRequest {
  readonly payload?: unknown;
  readonly to_queue?: string;
}

/** Of cron and every_s one; time_zone goes with cron. */
export interface CreateScheduleRequest {
  readonly queue: string;
  readonly cron?: string;
  readonly every_s?: number;
  readonly time_zone?: string;
  readonly payload?: unknown;
  readonly priority?: WirePriority;
  readonly max_attempts?: number;
  readonly timeout_s?: number;
  readonly lease_s?: number;
  readonly retry?: Partial<WireRetry>;
  readonly labels?: Readonly<Record<string, string>>;
  readonly on_overlap?: 'skip' | 'queue' | 'allow' | 'replace';
  readonly on_missed?: 'run_once' | 'run_all' | 'skip';
  readonly missed_limit?: number;
  readonly missed_window_s?: number;
  readonly on_dst_gap?: 'run_after' | 'skip';
  readonly on_dst_repeat?: 'first' | 'both';
  readonly jitter_s?: number;
  readonly start_at?: string;
  readonly end_at?: string;
  readonly max_runs?: number;
}

export interface CreateSchedulesRequest {
  readonly schedules: readonly CreateScheduleRequest[];
}

/** A merge patch, as that of a job. */
export interface PatchScheduleRequest extends Removable<
  Omit<Required<CreateScheduleRequest>, 'queue' | 'labels' | 'retry'>
> {
  readonly queue?: string;
  readonly labels?: Removable<Readonly<Record<string, string>>> | null;
  readonly retry?: Removable<WireRetry> | null;
}

export interface PauseScheduleRequest {
  readonly reason?: string;
  readonly until?: string;
}

/** By label (`name=value`), by queue, or by both. */
export interface ResumeSchedulesRequest {
  readonly label?: string;
  readonly queue?: string;
  readonly dry_run?: boolean;
  readonly page_token?: string;
}

export interface PauseSchedulesRequest extends ResumeSchedulesRequest, PauseScheduleRequest {}

export interface BackfillRequest {
  readonly from: string;
  /** Exclusive. */
  readonly to: string;
  readonly dry_run?: boolean;
}

export interface LeaseRequest {
  readonly worker: string;
  readonly max?: number;
  readonly wait_s?: number;
  readonly priorities?: readonly WirePriority[];
  readonly claim_id?: string;
}

export interface ClaimRequest {
  readonly attempt: number;
  readonly worker: string;
  readonly claim_id?: string;
}

export interface HeartbeatRequest {
  readonly attempt: number;
  readonly progress?: unknown;
}

export interface CompleteRequest {
  readonly attempt: number;
  readonly ok?: boolean;
  readonly result?: unknown;
  readonly error?: string;
  readonly retryable?: boolean;
  readonly retry_after_s?: number;
  readonly snooze_s?: number;
  readonly cancelled?: boolean;
}

export interface ReleaseRequest {
  readonly attempt: number;
}

/** An item of a batch is the single request, and which job it is for. */
export type BatchItem<Request> = Omit<Request, 'worker'> & { readonly job_id: string };

/** A claim's worker stands beside the items, once for all. */
export interface BatchRequest<Request> {
  readonly items: readonly BatchItem<Request>[];
}

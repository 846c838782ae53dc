/** Requests and answers as they are on the wire (schema/http/openapi.yaml); times are RFC 3339 in UTC, `_s` is seconds. */

export type Priority = 'high' | 'normal' | 'low';
export type JobStatus = 'scheduled' | 'enqueued' | 'running' | 'succeeded' | 'cancelled' | 'dead';

export interface RetryPolicy {
  readonly kind?: 'exponential' | 'fixed';
  readonly base_s?: number;
  readonly factor?: number;
  readonly cap_s?: number;
  readonly jitter?: 'equal' | 'full' | 'none';
}

export interface NewJob {
  readonly queue: string;
  /** Any JSON. Wrap text in JSON.rawJSON to send it as it is. */
  readonly payload?: unknown;
  /** Neither run_at nor delay_s: now. */
  readonly run_at?: string;
  readonly delay_s?: number;
  readonly priority?: Priority;
  readonly max_attempts?: number;
  readonly timeout_s?: number;
  readonly lease_s?: number;
  readonly retry?: RetryPolicy;
  readonly labels?: Readonly<Record<string, string>>;
  readonly idempotency_key?: string;
  readonly expires_at?: string;
}

export interface Attempt {
  readonly attempt: number;
  readonly worker: string;
  readonly started_at: string;
  readonly ended_at: string | null;
  readonly outcome: string | null;
  readonly error: string | null;
}

/** The fields that callers most often read; the answer has more (api reference). */
export interface Job {
  readonly job_id: string;
  readonly queue: string;
  readonly status: JobStatus;
  readonly priority: Priority;
  readonly payload: unknown;
  readonly run_at: string;
  readonly scheduled_for: string;
  readonly attempt: number;
  readonly max_attempts: number;
  readonly attempts: readonly Attempt[];
  readonly last_error: string | null;
  readonly created_at: string;
  readonly finished_at: string | null;
  readonly [field: string]: unknown;
}

export interface CreatedJob {
  readonly job_id: string;
  readonly status: JobStatus;
  readonly run_at: string;
  readonly [field: string]: unknown;
}

export interface ReadyConsumer {
  readonly priority: Priority;
  readonly stream: string;
  readonly subject: string;
  readonly consumer: string;
}

export interface Queue {
  readonly queue: string;
  /** In the order in which a worker takes them. */
  readonly ready: readonly ReadyConsumer[];
  readonly [field: string]: unknown;
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
  readonly payload: unknown;
  /** The payload's JSON text, character for character; null without a payload. Cut out of the answer when first read. */
  readonly payloadText: string | null;
  readonly queue: string;
  readonly priority: Priority;
  /** The time asked for; it stays the same over all attempts. */
  readonly scheduled_for: string;
  /** The caller's, else the job id: stable over all attempts, to be handed on to the services that the handler calls. */
  readonly idempotency_key: string;
  readonly max_attempts: number;
  readonly timeout_s: number;
  readonly heartbeat_s: number;
  readonly labels: Readonly<Record<string, string>>;
  readonly traceparent?: string | null;
}

export interface HeartbeatItem {
  readonly job_id: string;
  readonly attempt: number;
}

export interface Heartbeat {
  readonly lease_until: string;
  readonly deadline: string;
  readonly cancel_requested: boolean;
}

export type Report = { readonly ok: true; readonly result?: unknown } | FailureReport;

export interface FailureReport {
  readonly ok: false;
  readonly error: string;
  readonly retryable?: boolean;
  readonly retry_after_s?: number;
}

export type ReportItem = HeartbeatItem & Report;

export interface ReportAnswer {
  readonly status?: unknown;
  readonly replayed?: boolean;
  readonly [field: string]: unknown;
}

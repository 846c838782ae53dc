import type { Outcome, Priority } from '../domain/job-status.ts';
import type { Edge } from '../domain/operation.ts';
import type { ScheduleEdge } from '../domain/schedule-operation.ts';
import type { RunOutcome } from '../domain/schedule.ts';
import type { ShardRole } from './shard-leases.ts';

/**
 * Metric names are a contract (shared with dashboards and alerts). Never a job or schedule id as a label; the queue label
 * is capped at 500 values, then `other`, by the implementation. Durations are in seconds.
 */
export interface CounterLabels {
  punctual_jobs_created_total: { queue: string; outcome: 'created' | 'replayed' | 'refused' };
  punctual_attempts_total: { queue: string; outcome: Outcome };
  punctual_lease_expiries_total: { queue: string };
  punctual_stale_reports_total: { queue: string; call: 'claim' | 'heartbeat' | 'complete' };
  punctual_dead_letters_total: { queue: string; reason: 'attempts' | 'not_retryable' };
  /** By retention. */
  punctual_jobs_removed_total: { queue: string };
  punctual_reaper_repairs_total: { kind: 'missed_due' | 'stuck_enqueued' | 'lapsed' | 'orphan' };
  punctual_schedule_fires_total: { outcome: RunOutcome };
  punctual_shard_takeovers_total: { role: ShardRole; reason: 'expired' | 'handover' };
  punctual_lease_renew_failures_total: { role: ShardRole };
  punctual_store_errors_total: { kind: string };
  punctual_ready_publish_total: { outcome: 'stored' | 'full' | 'failed' };
  punctual_ready_removed_total: Readonly<Record<string, never>>;
  /** Parts of NATS that were there, vanished and were made again. */
  punctual_bus_recreated_total: { kind: 'stream' | 'consumer' | 'bucket' };
}

export interface HistogramLabels {
  punctual_start_lag_seconds: { queue: string; priority: Priority };
  punctual_dispatch_lag_seconds: { queue: string };
  punctual_round_duration_seconds: {
    edge: Edge | ScheduleEdge;
    outcome: 'applied' | 'lost' | 'unknown' | 'not_written';
  };
  punctual_round_rows: { edge: Edge | ScheduleEdge };
  punctual_http_request_duration_seconds: { route: string; method: string; status: string };
}

/** Why due jobs of a queue wait in held rows: for the others' turns, in the case of `share`. */
export type HoldReason = 'paused' | 'rate' | 'running' | 'stream_full' | 'share';

export interface GaugeLabels {
  punctual_queue_held: { queue: string; reason: HoldReason };
  punctual_queue_held_oldest_age_seconds: { queue: string };
  punctual_oldest_due_age_seconds: { shard: string };
  punctual_second_look_lag_seconds: { shard: string };
  punctual_retention_lag_seconds: Readonly<Record<string, never>>;
  punctual_shards_owned: { role: ShardRole };
  punctual_shards_unowned: { role: ShardRole };
  /** Our clock minus the server's; a source is `nats` or one Cassandra node. */
  punctual_clock_skew_seconds: { source: string };
  punctual_store_in_flight: { class: 'round' | 'plain' | 'read' };
  /** The jobs in the shards of one reaper: their sum is the queue's. */
  punctual_queue_running_jobs: { queue: string; priority: Priority };
  /** Told by the reaper that owns shard 0. */
  punctual_queue_ready_jobs: { queue: string; priority: Priority };
  punctual_queue_oldest_ready_age_seconds: { queue: string; priority: Priority };
  /** Told by one reaper for each queue. */
  punctual_dead_letters: { queue: string };
}

/** A listener's fault never reaches the work: implementations never throw. */
export interface Telemetry {
  count<Name extends keyof CounterLabels>(name: Name, labels: CounterLabels[Name], by?: number): void;
  observe<Name extends keyof HistogramLabels>(name: Name, value: number, labels: HistogramLabels[Name]): void;
  gauge<Name extends keyof GaugeLabels>(name: Name, value: number, labels: GaugeLabels[Name]): void;
  /** Takes a label set away, for example of a shard no longer owned. */
  dropGauge<Name extends keyof GaugeLabels>(name: Name, labels: GaugeLabels[Name]): void;
}

export type LogFields = Readonly<Record<string, unknown>>;

export interface Log {
  debug(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  error(message: string, fields?: LogFields): void;
}

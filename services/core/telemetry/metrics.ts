import type { CounterLabels, GaugeLabels, HistogramLabels } from '../ports/telemetry.ts';

/**
 * What each metric says, in the words that /metrics shows. The names are a contract (dashboards, alerts); units are in
 * them. The labels of each stand in ports/telemetry.ts.
 */
export const COUNTERS: Readonly<Record<keyof CounterLabels, string>> = {
  punctual_jobs_created_total: 'Jobs asked for: created, replayed by their idempotency key, or refused',
  punctual_attempts_total: 'Attempts that ended, by how they ended',
  punctual_lease_expiries_total: 'Attempts whose worker was no longer heard of',
  punctual_stale_reports_total: 'Calls of workers that no longer hold the attempt',
  punctual_dead_letters_total: 'Jobs that ended dead',
  punctual_jobs_removed_total: 'Jobs removed because their retention was over',
  punctual_reaper_repairs_total: 'Jobs that the reaper had to move on',
  punctual_schedule_fires_total:
    'Slots decided, by what became of them; a range of slots that were not run counts once',
  punctual_shard_takeovers_total: 'Shards taken over from another process',
  punctual_lease_renew_failures_total: 'Renewals of shard leases that failed',
  punctual_store_errors_total: 'Failed calls of Cassandra',
  punctual_ready_publish_total: 'Ready messages published',
  punctual_ready_removed_total: 'Ready messages removed because their jobs stopped waiting without a claim',
  punctual_bus_recreated_total: 'Streams, consumers and buckets that were missing and made anew',
};

interface HistogramDefinition {
  readonly help: string;
  readonly buckets: readonly number[];
}

const LAG_BUCKETS_S = [0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 300];
const CALL_BUCKETS_S = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20];
const ROUND_ROWS_BUCKETS = [1, 2, 4, 8, 16, 32, 64];

export const HISTOGRAMS: Readonly<Record<keyof HistogramLabels, HistogramDefinition>> = {
  punctual_start_lag_seconds: { help: 'From the due time of a job to its claim', buckets: LAG_BUCKETS_S },
  punctual_dispatch_lag_seconds: { help: 'From the due time of a job to its ready message', buckets: LAG_BUCKETS_S },
  punctual_round_duration_seconds: { help: 'Conditional writes to one cohort', buckets: CALL_BUCKETS_S },
  punctual_round_rows: { help: 'Jobs moved in one conditional write', buckets: ROUND_ROWS_BUCKETS },
  punctual_http_request_duration_seconds: { help: 'Requests answered', buckets: CALL_BUCKETS_S },
};

export const GAUGES: Readonly<Record<keyof GaugeLabels, string>> = {
  punctual_oldest_due_age_seconds: 'Age of the oldest due job that is neither enqueued nor held',
  punctual_queue_held: 'Due jobs that wait until their queue takes them, by what it is that holds them',
  punctual_queue_held_oldest_age_seconds: 'Age of the oldest of them',
  punctual_second_look_lag_seconds: 'How far the second look at closed minutes is behind',
  punctual_retention_lag_seconds: 'How far the removal of jobs past their retention is behind',
  punctual_shards_owned: 'Shards that this process owns',
  punctual_shards_unowned: 'Shards that nobody owns',
  punctual_clock_skew_seconds: 'How far the clock of this machine is ahead of a server’s',
  punctual_store_in_flight: 'Calls of Cassandra in flight',
  punctual_queue_running_jobs: 'Jobs running now, of the shards that this process owns',
  punctual_queue_ready_jobs: 'Jobs that wait for a worker',
  punctual_queue_oldest_ready_age_seconds: 'How long the first of them has waited',
  punctual_dead_letters: 'Jobs that are dead now, to be replayed or given up',
};

/** Gauges of the process itself, read when they are asked for. */
export const PROCESS_GAUGES = {
  punctual_build_info: 'Always 1; the labels say what runs',
  punctual_event_loop_delay_seconds: 'How late the event loop was since the last scrape',
  punctual_process_resident_memory_bytes: 'Memory that the process holds (RSS)',
} as const;
export type ProcessGauge = keyof typeof PROCESS_GAUGES;

import { monitorEventLoopDelay } from 'node:perf_hooks';
import type { PrometheusTelemetry } from '../telemetry/prometheus-telemetry.ts';

const NANOSECONDS_PER_S = 1e9;
/** The monitor's clock ticks this often, and counts the tick itself as delay. */
const RESOLUTION_MS = 10;

export interface BuildInfo {
  readonly version: string;
  /** Release of the time-zone data that schedules are computed with. */
  readonly tzdata: string;
  /** Version of the database schema that the service runs on. */
  readonly schema: string;
}

/** The gauges that every process has. buildInfo is asked at each scrape: the schema is known once the store is reached. */
export function registerProcessMetrics(telemetry: PrometheusTelemetry, buildInfo: () => BuildInfo): void {
  const delay = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
  delay.enable();
  telemetry.onCollect('punctual_event_loop_delay_seconds', () => {
    const readings = [0.5, 0.99, 1].map((quantile) => ({
      labels: { quantile: String(quantile) },
      value: Math.max(0, delay.percentile(quantile * 100) / NANOSECONDS_PER_S - RESOLUTION_MS / 1_000),
    }));
    delay.reset();
    return readings;
  });
  telemetry.onCollect('punctual_process_resident_memory_bytes', () => [
    { labels: {}, value: process.memoryUsage.rss() },
  ]);
  telemetry.onCollect('punctual_build_info', () => [{ labels: { ...buildInfo() }, value: 1 }]);
}

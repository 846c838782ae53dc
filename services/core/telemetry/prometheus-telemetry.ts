import type { Attributes, Meter } from '@opentelemetry/api';
import { PrometheusSerializer } from '@opentelemetry/exporter-prometheus';
import { AggregationTemporality, InstrumentType, MeterProvider, MetricReader } from '@opentelemetry/sdk-metrics';
import type { Telemetry } from '../ports/telemetry.ts';
import { COUNTERS, GAUGES, HISTOGRAMS, PROCESS_GAUGES, type ProcessGauge } from './metrics.ts';

/** Beyond these, queues share the label `other`: every series costs memory here and in Prometheus. */
export const QUEUE_LABELS_MAX = 500;
const OTHER = 'other';
/** Label sets of one metric; the SDK's own bound of 2,000 is below 500 queues times seven outcomes. */
const SERIES_MAX = 10_000;

export interface Reading {
  readonly labels: Attributes;
  readonly value: number;
}

export interface PrometheusTelemetry extends Telemetry {
  /** What /metrics answers, in Prometheus' text format. */
  render(): Promise<string>;
  /** Has a gauge of the process read whenever somebody asks for /metrics. */
  onCollect(name: ProcessGauge, read: () => readonly Reading[]): void;
}

export function createTelemetry(): PrometheusTelemetry {
  const reader = new PullReader();
  const meter = new MeterProvider({ readers: [reader] }).getMeter('punctual');
  const serializer = new PrometheusSerializer(undefined, false, undefined, true, true);
  const counters = mapValues(COUNTERS, (name, description) => meter.createCounter(name, { description }));
  const histograms = mapValues(HISTOGRAMS, (name, { help, buckets }) =>
    meter.createHistogram(name, { description: help, advice: { explicitBucketBoundaries: [...buckets] } }),
  );
  const gauges = mapValues(GAUGES, (name, help) => new GaugeSeries(meter, name, help));
  const capQueue = queueCap();

  return {
    count: (name, labels, by = 1) => counters[name].add(by, capQueue(labels)),
    observe: (name, value, labels) => histograms[name].record(value, capQueue(labels)),
    gauge: (name, value, labels) => gauges[name].set(labels, value),
    dropGauge: (name, labels) => gauges[name].drop(labels),
    render: async () => {
      const { resourceMetrics } = await reader.collect();
      return `${serializer.serialize(resourceMetrics)}\n`;
    },
    onCollect: (name, read) => observe(meter, name, PROCESS_GAUGES[name], read),
  };
}

/** Collects when asked; the exporter's own reader comes with an HTTP server, and ours also answers other paths. */
class PullReader extends MetricReader {
  constructor() {
    super({
      // Cumulative gauges would go on telling label sets that are no longer observed.
      aggregationTemporalitySelector: (type) =>
        type === InstrumentType.OBSERVABLE_GAUGE ? AggregationTemporality.DELTA : AggregationTemporality.CUMULATIVE,
      cardinalitySelector: () => SERIES_MAX,
    });
  }

  protected override async onShutdown(): Promise<void> {
    // Nothing is held.
  }

  protected override async onForceFlush(): Promise<void> {
    // Nothing is pushed.
  }
}

/** The last value of each label set, until it is dropped; the SDK's own synchronous gauges keep every set for ever. */
class GaugeSeries {
  readonly #readings = new Map<string, Reading>();

  constructor(meter: Meter, name: string, help: string) {
    observe(meter, name, help, () => [...this.#readings.values()]);
  }

  set(labels: Attributes, value: number): void {
    this.#readings.set(JSON.stringify(labels), { labels, value });
  }

  drop(labels: Attributes): void {
    this.#readings.delete(JSON.stringify(labels));
  }
}

function observe(meter: Meter, name: string, description: string, read: () => readonly Reading[]): void {
  meter.createObservableGauge(name, { description }).addCallback((result) => {
    for (const { labels, value } of read()) result.observe(value, labels);
  });
}

function queueCap(): <L extends Attributes>(labels: L) => L {
  const known = new Set<string>();
  return (labels) => {
    const { queue } = labels;
    if (typeof queue !== 'string' || known.has(queue)) return labels;
    if (known.size >= QUEUE_LABELS_MAX) return { ...labels, queue: OTHER };
    known.add(queue);
    return labels;
  };
}

function mapValues<K extends string, V, R>(
  record: Readonly<Record<K, V>>,
  make: (name: K, value: V) => R,
): Record<K, R> {
  return Object.fromEntries(Object.entries<V>(record).map(([name, value]) => [name, make(name as K, value)])) as Record<
    K,
    R
  >;
}

import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { type BusConnection, connectBus } from '../../services/core/bus/connection.ts';
import type { CounterLabels, Log, Telemetry } from '../../services/core/ports/telemetry.ts';
import { systemClock } from '../../services/core/runtime/system-clock.ts';

/** Where the runner's nats-server listens. */
export function natsServers(): string[] {
  const servers = process.env['PUNCTUAL_NATS_SERVERS'];
  assert.ok(servers, 'PUNCTUAL_NATS_SERVERS names no server: run the tests with scripts/test');
  return servers.split(',');
}

/** Names of one test's own on the shared server. */
export function testPrefix(): string {
  return `t${randomBytes(5).toString('hex')}_`;
}

export const silentLog: Log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };

/** Counts by name and labels, gauges by name; histograms are dropped. */
export class RecordingTelemetry implements Telemetry {
  readonly counts = new Map<string, number>();
  readonly gauges = new Map<string, number>();

  count<Name extends keyof CounterLabels>(name: Name, labels: CounterLabels[Name], by = 1): void {
    const key = `${name} ${Object.values(labels).join(' ')}`;
    this.counts.set(key, (this.counts.get(key) ?? 0) + by);
  }

  observe(): void {}

  gauge(name: string, value: number, labels: object): void {
    this.gauges.set(`${name} ${Object.values(labels).join(' ')}`, value);
  }

  dropGauge(): void {}
}

/** A connection that is up. */
export async function connectedBus(servers = natsServers(), log = silentLog): Promise<BusConnection> {
  const bus = connectBus({ servers }, { clock: systemClock, log });
  await whenConnected(bus);
  return bus;
}

export async function whenConnected(bus: BusConnection, withinMs = 10_000): Promise<void> {
  await eventually(() => bus.connected(), 'connected to nats', withinMs);
}

/** Polls until the condition holds; fails with the description after the time given. */
export async function eventually(
  holds: () => boolean | Promise<boolean>,
  what: string,
  withinMs = 5_000,
): Promise<number> {
  const start = performance.now();
  while (!(await holds())) {
    if (performance.now() - start > withinMs) assert.fail(`not within ${withinMs} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  return performance.now() - start;
}

/** Deletes every stream of the prefix. */
export async function dropStreams(bus: BusConnection, prefix: string): Promise<void> {
  const { jsm } = bus.link();
  for (const name of [`${prefix}READY_0`, `KV_${prefix}leases`, `KV_${prefix}members`]) {
    await jsm.streams.delete(name).catch(() => false);
  }
}

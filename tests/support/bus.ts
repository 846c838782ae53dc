import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { after, before } from 'node:test';
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

/** A ready message as the stream carries it. */
export interface WireMessage {
  readonly v: number;
  readonly job_id: string;
  readonly attempt: number;
  readonly run_at: string;
  readonly queue: string;
  readonly priority: string;
}

/** Two connections to the shared server for a suite, and names that are removed at its end. To be made in its body. */
export class TestBus {
  readonly #prefixes: string[] = [];
  #buses: readonly BusConnection[] = [];

  constructor() {
    before(async () => {
      this.#buses = await Promise.all([connectedBus(), connectedBus()]);
    });
    after(async () => {
      for (const prefix of this.#prefixes) await dropStreams(this.bus, prefix);
      await Promise.all(this.#buses.map((bus) => bus.close()));
    });
  }

  get bus(): BusConnection {
    return this.#buses[0]!;
  }

  get otherBus(): BusConnection {
    return this.#buses[1]!;
  }

  /** Fresh names, and a size that lets many streams fit on the server. */
  names(): { readonly prefix: string; readonly maxBytes: number } {
    const prefix = testPrefix();
    this.#prefixes.push(prefix);
    return { prefix, maxBytes: 16 * 1024 * 1024 };
  }

  /** Takes and acknowledges at most `max` of the messages that wait at a consumer. */
  async take(stream: string, name: string, max: number): Promise<readonly WireMessage[]> {
    const consumer = await this.bus.link().js.consumers.get(stream, name);
    const waiting = Math.min(max, (await consumer.info()).num_pending);
    const taken: WireMessage[] = [];
    if (waiting === 0) return taken;
    for await (const message of await consumer.fetch({ max_messages: waiting, expires: 2_000 })) {
      taken.push(message.json<WireMessage>());
      await message.ackAck();
    }
    return taken;
  }
}

/** Deletes every stream of the prefix. */
export async function dropStreams(bus: BusConnection, prefix: string): Promise<void> {
  const { jsm } = bus.link();
  for (const name of [`${prefix}READY_0`, `KV_${prefix}leases`, `KV_${prefix}members`]) {
    await jsm.streams.delete(name).catch(() => false);
  }
}

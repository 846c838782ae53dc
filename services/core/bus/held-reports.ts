import { PRIORITIES } from '../domain/job-status.ts';
import type { HeldDepth, HeldReport, HeldReports } from '../ports/held-reports.ts';
import type { Log } from '../ports/telemetry.ts';
import type { BusConnection } from './connection.ts';
import { BusNames } from './names.ts';

/** Keeps a report far below the server's 1 MB for a message; the fullest queues are told of. */
const REPORT_MAX_DEPTHS = 5_000;

export class NatsHeldReports implements HeldReports {
  readonly #bus: BusConnection;
  readonly #log: Log;
  readonly #subject: string;

  constructor(config: { readonly prefix?: string | undefined }, { bus, log }: { bus: BusConnection; log: Log }) {
    this.#bus = bus;
    this.#log = log;
    this.#subject = new BusNames(config.prefix).heldSubject();
  }

  send({ member, shards, held }: HeldReport): void {
    if (!this.#bus.connected()) return;
    const told = held.toSorted((one, other) => other.count - one.count).slice(0, REPORT_MAX_DEPTHS);
    try {
      this.#bus.link().nats.publish(this.#subject, JSON.stringify({ member, shards, held: told } satisfies HeldReport));
    } catch (error) {
      // The link broke in between: the next one follows in a second.
      this.#log.debug('what is held was not told', { error: String(error) });
    }
  }

  listen(onReport: (report: HeldReport) => void): () => void {
    return this.#bus.subscribe(this.#subject, (message) => {
      const report = parse(message.string());
      if (report !== null) onReport(report);
      else this.#log.warn('a malformed report of what is held is ignored', { bytes: message.data.length });
    });
  }
}

function parse(text: string): HeldReport | null {
  try {
    const report = JSON.parse(text) as Partial<HeldReport> | null;
    if (typeof report !== 'object' || report === null) return null;
    const { member, shards, held } = report;
    if (typeof member !== 'string' || typeof shards !== 'number' || !Array.isArray(held)) return null;
    return held.every(isDepth) ? { member, shards, held } : null;
  } catch {
    return null;
  }
}

function isDepth(value: unknown): value is HeldDepth {
  if (typeof value !== 'object' || value === null) return false;
  const { queue, priority, count, oldestAt } = value as Partial<HeldDepth>;
  const isKnown = PRIORITIES.some((each) => each === priority);
  return typeof queue === 'string' && isKnown && Number.isFinite(count) && Number.isFinite(oldestAt);
}

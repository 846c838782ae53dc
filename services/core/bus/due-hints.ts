import { isJobId, isScheduleId } from '../domain/ids.ts';
import { PRIORITIES } from '../domain/job-status.ts';
import type { DueEntry } from '../domain/operation.ts';
import type { DueHints } from '../ports/due-hints.ts';
import type { Log } from '../ports/telemetry.ts';
import type { BusConnection } from './connection.ts';
import { BusNames } from './names.ts';

export interface DueHintsConfig {
  readonly prefix?: string | undefined;
}

export interface DueHintsDependencies {
  readonly bus: BusConnection;
  readonly log: Log;
}

/** Keeps a hint far below the server's 1 MB for a message: a row is at most 250 bytes of JSON. */
const HINT_MAX_ROWS = 1_000;

/** A due row on the wire: `due.<shard>` carries an array of them. */
interface HintRow {
  readonly job_id: string;
  readonly run_at: string;
  readonly queue: string;
  readonly priority: string;
  readonly attempt: number;
  readonly direct: boolean;
}

export class NatsDueHints implements DueHints {
  readonly #bus: BusConnection;
  readonly #log: Log;
  readonly #names: BusNames;

  constructor(config: DueHintsConfig, { bus, log }: DueHintsDependencies) {
    this.#bus = bus;
    this.#log = log;
    this.#names = new BusNames(config.prefix);
  }

  send(rows: readonly DueEntry[]): void {
    if (!this.#bus.connected()) return;
    for (const [shard, ofShard] of Map.groupBy(rows, (row) => row.shard)) {
      for (let from = 0; from < ofShard.length; from += HINT_MAX_ROWS) {
        this.#publish(shard, ofShard.slice(from, from + HINT_MAX_ROWS));
      }
    }
  }

  listen(shard: number, onRow: (row: DueEntry) => void): () => void {
    return this.#bus.subscribe(this.#names.hintSubject(shard), (message) => {
      const rows = parse(message.string(), shard);
      if (rows === null) this.#log.warn('a malformed due hint is ignored', { shard, bytes: message.data.length });
      else rows.forEach(onRow);
    });
  }

  #publish(shard: number, rows: readonly DueEntry[]): void {
    try {
      this.#bus.link().nats.publish(this.#names.hintSubject(shard), JSON.stringify(rows.map(encode)));
    } catch (error) {
      // The link broke in between: the dispatcher's next whole read finds the rows.
      this.#log.debug('a due hint was not sent', { shard, error: String(error) });
    }
  }
}

function encode({ jobId, runAt, queue, priority, attempt, direct }: DueEntry): HintRow {
  return { job_id: jobId, run_at: new Date(runAt).toISOString(), queue, priority, attempt, direct };
}

function parse(text: string, shard: number): readonly DueEntry[] | null {
  try {
    const rows: unknown = JSON.parse(text);
    if (!Array.isArray(rows)) return null;
    const entries = rows.map((row: unknown) => decode(row as Partial<HintRow> | null, shard));
    return entries.includes(null) ? null : (entries as readonly DueEntry[]);
  } catch {
    return null;
  }
}

function decode(row: Partial<HintRow> | null, shard: number): DueEntry | null {
  if (typeof row !== 'object' || row === null) return null;
  const { job_id: jobId, run_at: at, queue, attempt, direct } = row;
  const priority = PRIORITIES.find((each) => each === row.priority);
  const runAt = typeof at === 'string' ? Date.parse(at) : NaN;
  if (typeof jobId !== 'string' || !(isJobId(jobId) || isScheduleId(jobId)) || Number.isNaN(runAt)) return null;
  if (typeof queue !== 'string' || priority === undefined) return null;
  if (typeof attempt !== 'number' || !Number.isSafeInteger(attempt) || typeof direct !== 'boolean') return null;
  return { jobId, shard, runAt, queue, priority, attempt, direct };
}

export function createDueHints(config: DueHintsConfig, dependencies: DueHintsDependencies): DueHints {
  return new NatsDueHints(config, dependencies);
}

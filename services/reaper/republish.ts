import { isJobId } from '../core/domain/ids.ts';
import type { JobRow } from '../core/domain/job.ts';
import { JobStatus } from '../core/domain/job-status.ts';
import { ENQUEUED_LOOK_MAX_MS, MINUTE_MS, PUBLISHED_SLACK_MS, SECOND_MS } from '../core/domain/limits.ts';
import { elapsedMs, type EpochMs } from '../core/domain/time.ts';
import type { Clock } from '../core/ports/clock.ts';
import type { JobReader } from '../core/ports/job-store.ts';
import { BusError, type ReadyMessage, type ReadyQueue } from '../core/ports/ready-queue.ts';
import type { Telemetry } from '../core/ports/telemetry.ts';
import type { TimerStore } from '../core/ports/timer-store.ts';
import { minutes } from '../core/scan/minutes.ts';

export interface RepublisherParts {
  readonly timerStore: TimerStore;
  readonly reader: JobReader;
  readonly queue: ReadyQueue;
  readonly clock: Clock;
  readonly telemetry: Telemetry;
}

export interface LostMessages {
  readonly shard: number;
  /** When the ready stream began anew: what was published before is lost. */
  readonly lostAt: EpochMs;
  /** The first due minute that had no second look yet. */
  readonly dueFrom: EpochMs;
  /** False ends the walk. */
  readonly holds: () => boolean;
}

/** Rows that one walk passes a second: below a tenth of what one Cassandra node reads and NATS stores beside the real work. */
const ROWS_PER_S = 2_500;

/** A timer of a job that may wait for a claim. */
interface Waiting {
  readonly jobId: string;
  readonly publishedAt: EpochMs | null;
}

/**
 * Publishes the waiting jobs of one shard again after the ready stream lost its messages. They are found by timers that are
 * still to be read: deadline rows ahead, and due minutes before their second look. So nothing has to be written, and whoever
 * dies half-way leaves everything as it was. A job published twice is harmless.
 */
export class Republisher {
  readonly #parts: RepublisherParts;

  constructor(parts: RepublisherParts) {
    this.#parts = parts;
  }

  /** How many it published; null when it was ended early. Throws StoreError or BusError; to be begun again then. */
  async walk(lost: LostMessages): Promise<number | null> {
    const { clock } = this.#parts;
    let published = 0;
    for await (const page of this.#waiting(lost)) {
      if (!lost.holds()) return null;
      const startedAt = clock.moment();
      published += await this.#publish(page, lost.lostAt + PUBLISHED_SLACK_MS);
      const paceMs = (page.length * SECOND_MS) / ROWS_PER_S - elapsedMs(startedAt, clock.moment());
      if (paceMs > 0) await clock.sleep(paceMs);
    }
    return published;
  }

  /** Those that have waited for long first. */
  async *#waiting({ shard, lostAt, dueFrom }: LostMessages): AsyncGenerator<readonly Waiting[]> {
    const { timerStore, clock } = this.#parts;
    const now = clock.now();
    for (const range of minutes(shard, now, now + ENQUEUED_LOOK_MAX_MS + MINUTE_MS)) {
      for await (const page of timerStore.readDeadlines(range)) {
        yield page.filter(({ publishedAt }) => publishedAt !== null);
      }
    }
    for (const range of minutes(shard, dueFrom, Math.min(now, lostAt + PUBLISHED_SLACK_MS))) {
      for await (const page of timerStore.readDue(range)) {
        yield page.filter(({ jobId }) => isJobId(jobId)).map(({ jobId }) => ({ jobId, publishedAt: null }));
      }
    }
  }

  async #publish(page: readonly Waiting[], publishedBefore: EpochMs): Promise<number> {
    const { reader, queue, telemetry } = this.#parts;
    const jobs = await reader.read(page.map(({ jobId }) => jobId));
    const messages = page.flatMap(({ jobId, publishedAt }) => {
      const job = jobs.get(jobId);
      if (job?.status !== JobStatus.enqueued) return [];
      return Math.max(publishedAt ?? 0, job.enqueuedAt ?? 0) < publishedBefore ? [messageOf(job)] : [];
    });
    if (messages.length === 0) return 0;
    const outcomes = await queue.publish(messages);
    if (outcomes.includes('failed')) throw new BusError('ready messages could not be published again');
    // A full subject has work enough; the timers of the others stand.
    const stored = outcomes.filter((outcome) => outcome === 'stored').length;
    telemetry.count('punctual_reaper_repairs_total', { kind: 'stuck_enqueued' }, stored);
    return stored;
  }
}

function messageOf({ jobId, attempt, runAt, queue, priority }: JobRow): ReadyMessage {
  return { jobId, attempt: attempt + 1, runAt, queue, priority };
}

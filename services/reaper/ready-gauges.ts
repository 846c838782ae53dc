import { type Priority, subjectKey } from '../core/domain/job-status.ts';
import { SECOND_MS } from '../core/domain/limits.ts';
import type { Clock } from '../core/ports/clock.ts';
import type { ReadyDepth, ReadyQueue } from '../core/ports/ready-queue.ts';
import type { Telemetry } from '../core/ports/telemetry.ts';

export interface ReadyGaugesParts {
  readonly queue: Pick<ReadyQueue, 'connected' | 'depths' | 'oldestMessageAt'>;
  readonly clock: Clock;
  readonly telemetry: Telemetry;
  /** Whether it is this process that tells: the stream is one for all. */
  readonly tells: () => boolean;
}

interface Labels {
  readonly queue: string;
  readonly priority: Priority;
}

/** One small request each; the fullest subjects first. */
const OLDEST_ASKED_MAX = 200;

/** What waits in the ready stream, by queue and priority. */
export class ReadyGauges {
  readonly #parts: ReadyGaugesParts;
  #told: readonly Labels[] = [];

  constructor(parts: ReadyGaugesParts) {
    this.#parts = parts;
  }

  /** A duty of the loop, every CENSUS_EVERY_MS. Throws BusError. */
  async runOnce(): Promise<void> {
    const { queue, tells } = this.#parts;
    const depths = tells() && queue.connected() ? await queue.depths() : [];
    const told = await Promise.all(
      depths
        .toSorted((one, other) => other.messages - one.messages)
        .slice(0, OLDEST_ASKED_MAX)
        .map((depth) => this.#tell(depth)),
    );
    const standing = new Set(told.map(subjectKey));
    for (const labels of this.#told) if (!standing.has(subjectKey(labels))) this.#drop(labels);
    this.#told = told;
  }

  async #tell({ queue, priority, messages }: ReadyDepth): Promise<Labels> {
    const { telemetry, clock, queue: stream } = this.#parts;
    const labels = { queue, priority };
    const oldestAt = await stream.oldestMessageAt(queue, priority);
    const ageS = oldestAt === null ? 0 : Math.max(0, clock.now() - oldestAt) / SECOND_MS;
    telemetry.gauge('punctual_queue_ready_jobs', messages, labels);
    telemetry.gauge('punctual_queue_oldest_ready_age_seconds', ageS, labels);
    return labels;
  }

  #drop(labels: Labels): void {
    const { telemetry } = this.#parts;
    telemetry.dropGauge('punctual_queue_ready_jobs', labels);
    telemetry.dropGauge('punctual_queue_oldest_ready_age_seconds', labels);
  }
}

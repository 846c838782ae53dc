import { SECOND_MS } from '../core/domain/limits.ts';
import type { EpochMs } from '../core/domain/time.ts';
import type { HeldDepth } from '../core/ports/held-reports.ts';
import type { HoldReason, Telemetry } from '../core/ports/telemetry.ts';
import type { Subject } from './queue-allowance.ts';

/** Tells by queue what this process holds, and takes the figures away where it holds nothing any more. */
export class HeldGauges {
  readonly #telemetry: Telemetry;
  readonly #reasonOf: (subject: Subject) => HoldReason;
  readonly #shown = new Map<string, HoldReason>();

  constructor(parts: { telemetry: Telemetry; reasonOf: (subject: Subject) => HoldReason }) {
    this.#telemetry = parts.telemetry;
    this.#reasonOf = parts.reasonOf;
  }

  show(depths: readonly HeldDepth[], now: EpochMs): void {
    const byQueue = Map.groupBy(depths, ({ queue }) => queue);
    for (const queue of [...this.#shown.keys()].filter((each) => !byQueue.has(each))) {
      this.#hide(queue);
      this.#telemetry.dropGauge('punctual_queue_held_oldest_age_seconds', { queue });
    }
    for (const [queue, [first, ...others]] of byQueue) {
      if (first === undefined) continue;
      const reason = this.#reasonOf(first);
      if (this.#shown.get(queue) !== reason) this.#hide(queue);
      this.#shown.set(queue, reason);
      const [count, oldestAt] = others.reduce(
        ([sum, oldest], each) => [sum + each.count, Math.min(oldest, each.oldestAt)],
        [first.count, first.oldestAt],
      );
      this.#telemetry.gauge('punctual_queue_held', count, { queue, reason });
      const ageS = Math.max(0, now - oldestAt) / SECOND_MS;
      this.#telemetry.gauge('punctual_queue_held_oldest_age_seconds', ageS, { queue });
    }
  }

  #hide(queue: string): void {
    const reason = this.#shown.get(queue);
    if (reason === undefined) return;
    this.#telemetry.dropGauge('punctual_queue_held', { queue, reason });
    this.#shown.delete(queue);
  }
}

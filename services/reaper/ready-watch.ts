import type { EpochMs } from '../core/domain/time.ts';
import type { Clock } from '../core/ports/clock.ts';
import { BusError, type ReadyIncarnation, type ReadyQueue } from '../core/ports/ready-queue.ts';
import type { Log } from '../core/ports/telemetry.ts';

/**
 * Watches for the loss of ready messages. A life of the ready stream is named by the time it began: when the stream was
 * created, or, when a look finds it set back, the time of that look.
 */
export class ReadyWatch {
  readonly #queue: ReadyQueue;
  readonly #clock: Clock;
  readonly #log: Log;
  #seen: ReadyIncarnation | null = null;
  #lifeSince: EpochMs = 0;

  constructor(parts: { queue: ReadyQueue; clock: Clock; log: Log }) {
    this.#queue = parts.queue;
    this.#clock = parts.clock;
    this.#log = parts.log;
  }

  /** Since when the present life goes: whatever was published before is lost. Null while the stream is away. */
  async lifeSince(): Promise<EpochMs | null> {
    let found: ReadyIncarnation;
    try {
      found = await this.#queue.incarnation();
    } catch (error) {
      if (error instanceof BusError) return null;
      throw error;
    }
    const since = lifeAfter({ seen: this.#seen, since: this.#lifeSince, found, now: this.#clock.now() });
    if (this.#seen !== null && since !== this.#lifeSince) {
      this.#log.warn('the ready stream lost messages', { before: this.#seen, found });
    }
    this.#seen = found;
    this.#lifeSince = since;
    return since;
  }
}

export function lifeAfter(look: {
  readonly seen: ReadyIncarnation | null;
  readonly since: EpochMs;
  readonly found: ReadyIncarnation;
  readonly now: EpochMs;
}): EpochMs {
  const { seen, since, found, now } = look;
  if (seen === null || found.createdAt > since) return found.createdAt;
  // Also a stream made again by a server whose clock is behind.
  const setBack = found.createdAt !== seen.createdAt || found.lastSequence < seen.lastSequence;
  return setBack ? Math.max(now, since + 1) : since;
}

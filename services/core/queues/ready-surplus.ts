import { readyKeptOf } from '../domain/queue-settings.ts';
import type { QueueBook } from './queue-book.ts';
import type { ReadyDepths } from './ready-depths.ts';

/**
 * What was published of a queue with a rate beyond what its dispatchers publish ahead: before it had that rate, mostly. Soft, by
 * the ready stream's own depth: a few more or less may be found too many, by as many as are under way.
 */
export class ReadySurplus {
  readonly #book: QueueBook;
  readonly #depths: Pick<ReadyDepths, 'recentOf' | 'added'>;

  constructor(parts: { book: QueueBook; depths: Pick<ReadyDepths, 'recentOf' | 'added'> }) {
    this.#book = parts.book;
    this.#depths = parts.depths;
  }

  /** Whether it can have any; else nothing need be asked. */
  isPossible(queue: string): boolean {
    return this.#book.settingsOf(queue).ratePerS !== null;
  }

  /** Of so many messages of the queue that are being claimed: how many must not start. None while the stream does not tell. */
  async among(queue: string, claimed: number): Promise<number> {
    const kept = readyKeptOf(this.#book.settingsOf(queue));
    if (kept === null) return 0;
    const depth = await this.#depths.recentOf(queue);
    if (depth === null) return 0;
    // Whatever comes of the claims, their messages go: the next batch sees what is left.
    this.#depths.added(queue, -claimed);
    return Math.min(claimed, Math.max(0, depth - kept));
  }
}

import type { Problem } from '../../core/contract/problems.ts';
import type { HeldBoard } from '../../core/queues/held-board.ts';
import type { QueueBook } from '../../core/queues/queue-book.ts';
import type { ReadyDepths } from '../../core/queues/ready-depths.ts';

const RETRY_AFTER_S = 5;

/** Refuses creates of a queue in which too many jobs are due and not started: about, by what was told in the last seconds. */
export class WaitingLimit {
  readonly #book: QueueBook;
  readonly #board: Pick<HeldBoard, 'heldIn'>;
  readonly #depths: Pick<ReadyDepths, 'freshOf'>;

  constructor(parts: { book: QueueBook; board: Pick<HeldBoard, 'heldIn'>; depths: Pick<ReadyDepths, 'freshOf'> }) {
    this.#book = parts.book;
    this.#board = parts.board;
    this.#depths = parts.depths;
  }

  /** Null where there is room. */
  async refusal(queue: string): Promise<Problem | null> {
    const { maxWaiting } = this.#book.settingsOf(queue);
    if (maxWaiting === null) return null;
    const held = this.#board.heldIn(queue).reduce((sum, { count }) => sum + count, 0);
    const waiting = held + (await this.#depths.freshOf(queue));
    if (waiting < maxWaiting) return null;
    return {
      code: 'too_many_requests',
      detail: `About ${waiting} jobs of the queue ${queue} are due and not started, and it takes ${maxWaiting} (max_waiting).`,
      retryAfterS: RETRY_AFTER_S,
    };
  }
}

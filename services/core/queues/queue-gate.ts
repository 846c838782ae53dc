import type { Priority } from '../domain/job-status.ts';
import type { ReadyPublisher } from '../moves/ready-publisher.ts';
import type { ReadyQueue } from '../ports/ready-queue.ts';
import type { HeldBoard } from './held-board.ts';
import type { QueueBook } from './queue-book.ts';

/**
 * Whether a job that is due may go to the ready stream past the dispatcher: for whoever makes one (creates, occurrences) or
 * puts one back (lapses, releases, repairs). Only a queue that nobody holds back takes it; in every other one it stays
 * `scheduled` under a timer, and the dispatcher decides when its turn is.
 */
export class QueueGate {
  readonly #book: QueueBook;
  readonly #publisher: ReadyPublisher;
  readonly #queue: ReadyQueue;
  readonly #board: HeldBoard;

  constructor(parts: { book: QueueBook; publisher: ReadyPublisher; queue: ReadyQueue; board: HeldBoard }) {
    this.#book = parts.book;
    this.#publisher = parts.publisher;
    this.#queue = parts.queue;
    this.#board = parts.board;
  }

  /** Whether nothing of it may be started, not even what was handed to the ready stream already. */
  isPaused(queue: string): boolean {
    return this.#book.isPaused(queue);
  }

  /** Null: its jobs need no slots to start. */
  maxRunning(queue: string): number | null {
    return this.#book.settingsOf(queue).maxRunning;
  }

  isOpen(subject: { readonly queue: string; readonly priority: Priority }): boolean {
    const { ratePerS, maxRunning, readyMax } = this.#book.settingsOf(subject.queue);
    return (
      ratePerS === null &&
      maxRunning === null &&
      readyMax === null &&
      !this.#book.isPaused(subject.queue) &&
      this.#queue.connected() &&
      this.#publisher.takesDirect(subject) &&
      !this.#board.hasWaiting(subject)
    );
  }
}

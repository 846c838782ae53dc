import type { DueEntry } from '../core/domain/operation.ts';
import type { EpochMs } from '../core/domain/time.ts';

/**
 * A job that is due, in the custody of whoever read its row (the scanner of due rows, or the feed of held ones): that reader
 * never passes the row before the job is settled.
 */
export abstract class DueJob {
  readonly row: DueEntry;
  /** The job's attempt, as far as it is known: the ready message carries the next. */
  attempt: number;
  /** When it was first looked at in vain. */
  firstSeenAt: EpochMs | null = null;
  /** It may have been enqueued without a message: by us, with the answer lost, or by whoever had the row before. */
  maybeUnpublished = false;
  /** Enqueued by us for certain, and not published for lack of room. */
  isEnqueued = false;

  constructor(row: DueEntry) {
    this.row = row;
    this.attempt = row.attempt;
  }

  /** Whether our lease on its shard certainly stands. */
  abstract mayAct(): boolean;
  /** It has another timer, or needs none any more. */
  abstract settle(): void;
  /** Not now: it comes again at that time. */
  abstract again(at: EpochMs): void;
  /** Its queue does not take it now: it becomes, or stays, a held row. */
  abstract passOver(): void;
}

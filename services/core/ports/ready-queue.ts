import type { Priority } from '../domain/job-status.ts';
import type { EpochMs } from '../domain/time.ts';

/** What the ready stream carries: never the payload (api.md, JetStream contract). */
export interface ReadyMessage {
  readonly jobId: string;
  /** The number the claim will get. */
  readonly attempt: number;
  readonly runAt: EpochMs;
  readonly queue: string;
  readonly priority: Priority;
}

/** stored: acknowledged by the stream. full: its subject or stream is at its bound. failed: no answer, or the stream is away. */
export type PublishOutcome = 'stored' | 'full' | 'failed';

export interface ReadyConsumer {
  readonly priority: Priority;
  readonly stream: string;
  readonly subject: string;
  readonly consumer: string;
}

export interface PullRequest {
  readonly queue: string;
  /** In the order in which they are taken; of ten messages one at least is of each later one that waits. */
  readonly priorities: readonly Priority[];
  readonly max: number;
  /** How long to wait for a first message when none is there. */
  readonly waitMs: number;
  /** Once aborted nothing is taken any more. */
  readonly signal: AbortSignal;
}

/** A message in our hands: neither acknowledged nor given back, it is delivered again after the consumer's ack_wait. */
export interface PulledMessage {
  readonly message: ReadyMessage;
  ack(): void;
  /** To be delivered again, to whoever asks, after the milliseconds. */
  nakAfter(ms: number): void;
}

export interface ReadyDepth {
  readonly queue: string;
  readonly priority: Priority;
  readonly messages: number;
}

/** A message as it stands in the stream, in a worker's hands or not. */
export interface StoredMessage {
  /** Never given twice in one life of the stream. */
  readonly sequence: number;
  readonly message: ReadyMessage;
}

export interface StoredPage {
  readonly messages: readonly StoredMessage[];
  /** Where to read on; null: that was the end of the subject. */
  readonly next: { readonly sequence: number } | null;
}

export interface ReadMessages {
  readonly queue: string;
  readonly priority: Priority;
  /** The first message of this sequence or a later one, or stored at this time or later. */
  readonly from: { readonly sequence: number } | { readonly storedAt: EpochMs };
  readonly max: number;
}

/** Which life of the ready streams this is. Another createdAt, or a sequence gone back, means that messages were lost. */
export interface ReadyIncarnation {
  readonly createdAt: EpochMs;
  readonly lastSequence: number;
}

/** JetStream's ready streams. It holds no truth: whatever is lost there makes jobs late, never lost. */
export interface ReadyQueue {
  /** Whether the connection is up: the fast path asks before it relies on a publish. */
  connected(): boolean;
  /** Outcomes in the order of the messages; never rejects. */
  publish(messages: readonly ReadyMessage[]): Promise<readonly PublishOutcome[]>;
  /** Makes the queue's consumers when they are missing and names them. Throws BusError. */
  ensureQueue(queue: string): Promise<readonly ReadyConsumer[]>;
  /**
   * How many messages stand on each subject, of one queue or of all, until they are acknowledged; an empty subject is left
   * out. Throws BusError.
   */
  depths(queue?: string): Promise<readonly ReadyDepth[]>;
  /** When the oldest message that waits on the subject was stored; null when none waits. Throws BusError. */
  oldestMessageAt(queue: string, priority: Priority): Promise<EpochMs | null>;
  /**
   * At most `max` waiting messages, or the first ones to come within waitMs; [] when none came or the signal was aborted.
   * Every message goes to one caller. Throws BusError.
   */
  pull(request: PullRequest): Promise<readonly PulledMessage[]>;
  /** Messages of a subject, oldest first; any replica may answer, so the newest may be missing. Throws BusError. */
  readMessages(request: ReadMessages): Promise<StoredPage>;
  /**
   * Takes them out of the stream; what is there no longer is no fault. A worker that holds one acknowledges in vain, which harms
   * nothing. Throws BusError: then some of them may be gone.
   */
  removeMessages(sequences: readonly number[]): Promise<void>;
  /** Makes the stream when it is missing. Throws BusError. */
  incarnation(): Promise<ReadyIncarnation>;
}

/** The bus could not do it now (no connection, stream missing, election under way): try again later. */
export class BusError extends Error {
  constructor(message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = 'BusError';
  }
}

import { errors } from '@nats-io/transport-node';
import { JetStreamApiError } from '@nats-io/jetstream';
import { BusError } from '../ports/ready-queue.ts';

/** Error codes of the JetStream API that we act on. */
export const ApiCode = {
  streamNotFound: 10059,
  streamNameInUse: 10058,
  consumerExists: 10148,
  noMessage: 10037,
  /** To a request to delete: that message is gone, from among others, or with all before it. */
  sequenceNotFound: 10043,
  messageNotDeleted: 10057,
  /** A bound of the stream or of the subject is reached, and discard is `new`. */
  full: 10077,
  wrongLastSequence: 10071,
  /** The same, from a stream that does not tell the sequence. */
  wrongLastSequenceUnknown: 10164,
} as const;

/** The JetStream API's own error code; undefined when it gave no answer. */
export function apiCodeOf(error: unknown): number | undefined {
  return error instanceof JetStreamApiError ? error.code : undefined;
}

/**
 * Nobody listens on the subject: the stream is missing, or its leader is being elected. The client reports it in two guises,
 * as "no responders" and, from JetStream calls, as "jetstream is not enabled" caused by it.
 */
export function isNoResponders(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  if (error instanceof errors.NoRespondersError) return true;
  if (error instanceof errors.RequestError && error.isNoResponders()) return true;
  return error.cause !== undefined && isNoResponders(error.cause);
}

export function isStreamMissing(error: unknown): boolean {
  return apiCodeOf(error) === ApiCode.streamNotFound || isNoResponders(error);
}

/** The bus's failure in the words of the port. */
export function busError(doing: string, cause: unknown): BusError {
  if (cause instanceof BusError) return cause;
  return new BusError(`${doing}: ${cause instanceof Error ? cause.message : String(cause)}`, { cause });
}

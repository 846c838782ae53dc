import type { Msg } from '@nats-io/transport-node';

/** A job that waits for a worker; delivered again unless it is acknowledged within the consumer's ack_wait. */
export interface ReadyMessage {
  readonly jobId: string;
  /** The number that the claim will get. */
  readonly attempt: number;
  /** Of the message in its stream: the same when it is delivered again. */
  readonly sequence: number;
  /** 1 at first. */
  readonly deliveries: number;
  /** Whether its consumer may have more that can be taken now: new ones, or others that are delivered again. */
  readonly mayBeFollowed: boolean;
  ack(): void;
  /** To be delivered again, to whoever asks, after the milliseconds. */
  giveBack(delayMs: number): void;
}

const NANOS_PER_MS = 1_000_000;

/** Null for what is no ready message of version 1. */
export function readyMessageOf(message: Msg): ReadyMessage | null {
  const body = bodyOf(message);
  const delivery = deliveryOf(message.reply ?? '');
  if (body === null || delivery === null) return null;
  return {
    ...body,
    ...delivery,
    ack: () => message.respond('+ACK'),
    giveBack: (delayMs) => message.respond(`-NAK ${JSON.stringify({ delay: Math.round(delayMs) * NANOS_PER_MS })}`),
  };
}

function bodyOf(message: Msg): { jobId: string; attempt: number } | null {
  try {
    const body = message.json<{ v?: unknown; job_id?: unknown; attempt?: unknown } | null>();
    if (body?.v !== 1 || typeof body.job_id !== 'string' || typeof body.attempt !== 'number') return null;
    return { jobId: body.job_id, attempt: body.attempt };
  } catch {
    return null;
  }
}

/**
 * What the acknowledgement subject tells, in its two forms:
 * $JS.ACK.<stream>.<consumer>.<deliveries>.<stream sequence>.<consumer sequence>.<time>.<pending>, and with
 * <domain>.<account> before the stream and a token at the end.
 */
function deliveryOf(reply: string): Pick<ReadyMessage, 'sequence' | 'deliveries' | 'mayBeFollowed'> | null {
  const tokens = reply.split('.');
  if (tokens[0] !== '$JS' || tokens[1] !== 'ACK' || tokens.length < 9) return null;
  const at = tokens.length === 9 ? 4 : 6;
  const numberAt = (field: number): number => Number(tokens[at + field]);
  const deliveries = numberAt(0);
  // Those that are delivered again are not counted as pending.
  return { deliveries, sequence: numberAt(1), mayBeFollowed: numberAt(4) > 0 || deliveries > 1 };
}

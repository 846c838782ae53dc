import { createInbox, type Msg, type NatsConnection } from '@nats-io/transport-node';
import type { ReadyConsumer } from './types.ts';

/** done: all that was there, or that was asked for, has come. missing: there is no such consumer. */
export type PullEnd = 'done' | 'missing' | 'broken';

export interface PullOptions {
  readonly batch: number;
  /** How long to wait for a first message when none is there; 0: not at all. */
  readonly expiresMs: number;
  readonly inboxPrefix: string | undefined;
  /** Aborted when the link breaks: the server forgets requests with it. */
  readonly broken: AbortSignal;
  /** Aborted to call the request off; messages on their way still come. */
  readonly stopping: AbortSignal;
}

/** Beyond its expiry, a request without any answer was lost. */
const ANSWER_MS = 2_000;
const NANOS_PER_MS = 1_000_000;

const Status = { noMessages: 404, expired: 408, conflict: 409, noResponders: 503 } as const;

/**
 * One pull request to a durable consumer. With no_wait and an expiry the server answers with what is there, or else with the
 * first message that comes; the client's own fetch would wait for all of the batch.
 */
export function pull(
  nats: NatsConnection,
  consumer: ReadyConsumer,
  { batch, expiresMs, inboxPrefix, broken, stopping }: PullOptions,
  onMessage: (message: Msg) => void,
): Promise<PullEnd> {
  return new Promise((resolve) => {
    const inbox = createInbox(inboxPrefix);
    let left = batch;
    const subscription = nats.subscribe(inbox, {
      callback: (error, message) => {
        if (error !== null) finish('broken');
        else if (message.subject === inbox) finish(endOf(message));
        else {
          left -= 1;
          onMessage(message);
          if (left === 0) finish('done');
        }
      },
    });
    const finish = (end: PullEnd): void => {
      clearTimeout(guard);
      broken.removeEventListener('abort', breakOff);
      stopping.removeEventListener('abort', callOff);
      subscription.unsubscribe();
      resolve(end);
    };
    const breakOff = (): void => finish('broken');
    const callOff = (): void => {
      subscription.drain().then(() => finish('done'), breakOff);
    };
    const guard = setTimeout(breakOff, expiresMs + ANSWER_MS);
    broken.addEventListener('abort', breakOff);
    stopping.addEventListener('abort', callOff);
    const request = { batch, no_wait: true, ...(expiresMs === 0 ? {} : { expires: expiresMs * NANOS_PER_MS }) };
    const subject = `$JS.API.CONSUMER.MSG.NEXT.${consumer.stream}.${consumer.consumer}`;
    nats.publish(subject, JSON.stringify(request), { reply: inbox });
  });
}

function endOf({ headers }: Msg): PullEnd {
  switch (headers?.code) {
    case Status.noMessages:
    case Status.expired:
      return 'done';
    case Status.noResponders:
      return 'missing';
    case Status.conflict:
      return headers.description.toLowerCase().includes('deleted') ? 'missing' : 'broken';
    default:
      return 'broken';
  }
}

import { createInbox, type Msg, type Subscription } from '@nats-io/transport-node';
import type { Clock } from '../ports/clock.ts';
import { BusError } from '../ports/ready-queue.ts';
import { BUS_REQUEST_TIMEOUT_MS, type BusLink } from './connection.ts';

/** The consumer, or its whole stream, is not there. */
export class ConsumerMissing extends BusError {}

export interface Pull {
  /** What is taken from what is there, in this order, by the consumers' MSG.NEXT subjects. */
  readonly steps: readonly { readonly consumer: string; readonly most: number }[];
  /** All of them: while nothing is there, the first message of any is waited for. */
  readonly consumers: readonly string[];
  readonly max: number;
  readonly waitMs: number;
  /** Nothing is taken any more once it is aborted. */
  readonly signal: AbortSignal;
}

const NANOS_PER_MS = 1_000_000;

/**
 * Takes what is there, consumer by consumer; when nothing is, waits on all of them for the first message and takes what
 * else is there then. Throws BusError, ConsumerMissing among others; no message is in hand then.
 */
export async function pullMessages(link: BusLink, clock: Clock, pull: Pull): Promise<readonly Msg[]> {
  const atOnce = await takeWaiting(link, clock, pull);
  if (atOnce.length > 0 || pull.waitMs <= 0 || pull.signal.aborted) return atOnce;
  const first = await takeFirst(link, clock, pull);
  if (first.length === 0 || first.length >= pull.max) return first;
  try {
    return [...first, ...(await takeWaiting(link, clock, { ...pull, max: pull.max - first.length }))];
  } catch {
    // What is in hand is not lost over the rest; whatever is wrong meets the next pull.
    return first;
  }
}

/** To be delivered again, to whoever asks, after the milliseconds. */
export function giveBack(message: Msg, delayMs: number): void {
  answer(message, delayMs > 0 ? `-NAK ${JSON.stringify({ delay: Math.round(delayMs) * NANOS_PER_MS })}` : '-NAK');
}

export function acknowledge(message: Msg): void {
  answer(message, '+ACK');
}

/** An answer that cannot be sent is made good by ack_wait: the message is delivered again. */
function answer(message: Msg, text: string): void {
  try {
    message.respond(text);
  } catch {
    // The connection is closed.
  }
}

async function takeWaiting(link: BusLink, clock: Clock, { steps, max, signal }: Pull): Promise<readonly Msg[]> {
  const taken: Msg[] = [];
  for (const { consumer, most } of steps) {
    if (taken.length >= max || signal.aborted) break;
    const poll = new Poll(link, [consumer], { batch: Math.min(most, max - taken.length), no_wait: true });
    await poll.wait(clock, BUS_REQUEST_TIMEOUT_MS, () => poll.isOver(), signal);
    const answered = poll.isOver() || signal.aborted;
    taken.push(...(await poll.close()));
    const problem = answered ? poll.problem() : new BusError('the ready stream gives no answer');
    if (problem !== null && taken.length === 0) throw problem;
    if (problem !== null) break;
  }
  return taken;
}

/** One message of each consumer at most, since each may have sent one before it heard that another was first. */
async function takeFirst(
  link: BusLink,
  clock: Clock,
  { consumers, max, waitMs, signal }: Pull,
): Promise<readonly Msg[]> {
  const poll = new Poll(link, consumers, { batch: 1, expires: Math.ceil(waitMs) * NANOS_PER_MS });
  await poll.wait(clock, waitMs, () => poll.hasMessages() || poll.isOver() || poll.problem() !== null, signal);
  const messages = await poll.close();
  const problem = poll.problem();
  if (messages.length === 0 && problem !== null) throw problem;
  for (const surplus of messages.slice(max)) giveBack(surplus, 0);
  return messages.slice(0, max);
}

interface Ask {
  readonly batch: number;
  /** Ends as soon as nothing is there. */
  readonly no_wait?: true;
  /** Nanoseconds. */
  readonly expires?: number;
}

interface Request {
  readonly subscription: Subscription;
  readonly messages: Msg[];
  isOver: boolean;
  problem: BusError | null;
}

/** Requests for messages, one a consumer, each on an inbox of its own: the server forgets a request without a listener. */
class Poll {
  readonly #link: BusLink;
  readonly #requests: readonly Request[];
  #onChange: () => void = () => undefined;

  constructor(link: BusLink, consumers: readonly string[], ask: Ask) {
    this.#link = link;
    this.#requests = consumers.map((consumer) => this.#send(consumer, ask));
  }

  /** Until the condition holds, the time is over, the signal aborts or the link goes down. */
  async wait(clock: Clock, ms: number, isEnough: () => boolean, signal: AbortSignal): Promise<void> {
    const { down } = this.#link;
    await new Promise<void>((resolve) => {
      const end = (): void => {
        cancelTimer();
        signal.removeEventListener('abort', end);
        down.removeEventListener('abort', end);
        this.#onChange = () => undefined;
        resolve();
      };
      const cancelTimer = clock.after(ms, end);
      signal.addEventListener('abort', end, { once: true });
      down.addEventListener('abort', end, { once: true });
      this.#onChange = () => {
        if (isEnough()) end();
      };
      if (signal.aborted || down.aborted || isEnough()) end();
    });
  }

  hasMessages(): boolean {
    return this.#requests.some(({ messages }) => messages.length > 0);
  }

  /** Nothing more will come of any of them. */
  isOver(): boolean {
    return this.#requests.every(({ isOver }) => isOver);
  }

  problem(): BusError | null {
    if (this.#link.down.aborted) return new BusError('the connection to NATS broke off');
    return this.#requests.find(({ problem }) => problem !== null)?.problem ?? null;
  }

  /**
   * Takes the requests back and returns all that came, in the order of the consumers. A message sent before the server heard
   * of it arrives before the drain ends; one that crosses a route of a cluster at that moment comes again after ack_wait.
   */
  async close(): Promise<readonly Msg[]> {
    await Promise.all(
      this.#requests.map(async ({ subscription, isOver }) => {
        if (isOver) subscription.unsubscribe();
        else await subscription.drain().catch(() => undefined);
      }),
    );
    return this.#requests.flatMap(({ messages }) => messages);
  }

  #send(consumer: string, ask: Ask): Request {
    const { nats } = this.#link;
    const inbox = createInbox();
    const subscription = nats.subscribe(inbox, {
      callback: (_error, message) => {
        receive(request, message, ask.batch);
        this.#onChange();
      },
    });
    const request: Request = { subscription, messages: [], isOver: false, problem: null };
    nats.publish(consumer, JSON.stringify(ask), { reply: inbox });
    return request;
  }
}

function receive(request: Request, message: Msg, batch: number): void {
  const status = message.headers?.code ?? 0;
  if (status === 0) {
    request.messages.push(message);
    if (request.messages.length >= batch) request.isOver = true;
    return;
  }
  request.isOver = true;
  request.problem ??= problemOf(status, message.headers?.description ?? '');
}

/** 404: nothing is there; 408: the time is over, or others wait for the same messages. */
function problemOf(status: number, description: string): BusError | null {
  if (status === 404 || status === 408) return null;
  if (status === 409 && /batch completed/i.test(description)) return null;
  if (status === 503 || /consumer deleted/i.test(description)) return new ConsumerMissing('the consumer is not there');
  return new BusError(`the ready stream refuses to deliver: ${status} ${description}`);
}

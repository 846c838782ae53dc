import { setTimeout as sleep } from 'node:timers/promises';
import { connect, type Msg, type NatsConnection, type NodeConnectionOptions } from '@nats-io/transport-node';
import { prioritySteps } from '../core/contract/priority-turns.ts';
import { pull } from './pull.ts';
import { type ReadyMessage, readyMessageOf } from './ready-message.ts';
import type { ReadyConsumer } from './types.ts';
import type { WorkerLog } from './worker-log.ts';

export interface ReadyFeedOptions {
  readonly connection: NodeConnectionOptions;
  /** Names the queue's consumers, those to be served first first. */
  readonly learnConsumers: () => Promise<readonly ReadyConsumer[]>;
  readonly log: WorkerLog;
}

/** How long the server holds a request while nothing waits. */
const POLL_MS = 5_000;
const REDIAL_MS = 500;
const DIAL_TIMEOUT_MS = 5_000;
/** What a drain may take at the end. */
const DRAIN_MAX_MS = 2_000;
const PING_EVERY_MS = 5_000;

/**
 * Takes ready messages from the queue's consumers, one for each priority: first what is there, by priority (of ten messages
 * one at least is of each lower one that waits), else whatever comes first. Never more than asked for: a message held back
 * here would be late for a worker with a free slot.
 */
export class ReadyFeed {
  readonly #options: ReadyFeedOptions;
  readonly #stopping = new AbortController();
  readonly #dialing: Promise<void>;
  #nats: NatsConnection | undefined;
  /** Aborted when the link breaks; undefined while there is none. */
  #linked: AbortController | undefined;
  #onLinked: (() => void) | undefined;
  #consumers: readonly ReadyConsumer[] | undefined;
  /** Consumers at which a request is held open. */
  readonly #polled = new Set<string>();
  /** Consumers that had nothing more when they were heard of last: a request held open finds what has come since. */
  readonly #drained = new Set<string>();
  readonly #arrived: ReadyMessage[] = [];
  /** Counts messages: which priority is asked first. */
  #turn = 0;
  /** How many messages the present take() has use for. */
  #wanted = 0;
  #trouble: string | undefined;
  #notify: (() => void) | undefined;

  constructor(options: ReadyFeedOptions) {
    this.#options = options;
    this.#dialing = this.#keepConnected();
  }

  /** 1 to `max` messages, or none when none came for a while; waits for NATS. Throws while the queue's consumers are away. */
  async take(max: number): Promise<readonly ReadyMessage[]> {
    await this.#untilLinked();
    if (this.#isStopping()) return [];
    this.#wanted = max;
    this.#trouble = undefined;
    try {
      this.#consumers ??= await this.#learn();
      await this.#pullWaiting(this.#consumers, max);
      if (this.#arrived.length === 0) {
        await this.#poll(this.#consumers);
        this.#throwTrouble();
        // What was published together is claimed together.
        await this.#pullWaiting(this.#consumers, max);
      }
      this.#turn += this.#arrived.length;
      return this.#arrived.splice(0);
    } finally {
      this.#wanted = 0;
    }
  }

  async #learn(): Promise<readonly ReadyConsumer[]> {
    this.#drained.clear();
    return this.#options.learnConsumers();
  }

  /** What is there already, by priority. */
  async #pullWaiting(consumers: readonly ReadyConsumer[], max: number): Promise<void> {
    const unpolled = consumers.filter(({ consumer }) => !this.#polled.has(consumer));
    // Only for one of them alone a request held open serves as well: those of several are not answered by priority.
    if (unpolled.length <= 1 && consumers.every(({ consumer }) => this.#drained.has(consumer))) return;
    for (const { priority: consumer, most } of prioritySteps(consumers, max, this.#turn)) {
      if (this.#isStopping()) return;
      // What is in hand does not wait until NATS is back.
      if (this.#arrived.length > 0 && (this.#trouble !== undefined || this.#linked === undefined)) return;
      const missing = Math.min(most, max - this.#arrived.length);
      // A request held open is the first that gets something.
      if (missing > 0 && !this.#polled.has(consumer.consumer)) await this.#pull(consumer, missing, 0);
    }
    this.#throwTrouble();
  }

  /** Asks for nothing more, and gives back what still comes. */
  stopPulling(): void {
    this.#stopping.abort();
    this.#onLinked?.();
    this.#notify?.();
  }

  /** Sends the last acknowledgements and hangs up. */
  async close(): Promise<void> {
    this.stopPulling();
    if (this.#nats !== undefined) await this.#hangUp(this.#nats);
    await this.#dialing;
  }

  /** Draining hangs when the server goes away at the same time. */
  async #hangUp(nats: NatsConnection): Promise<void> {
    const drained = nats.drain().catch(() => undefined);
    if (this.#linked !== undefined) await Promise.race([drained, sleep(DRAIN_MAX_MS, undefined, { ref: false })]);
    await nats.close();
  }

  /** What has arrived goes first. */
  #throwTrouble(): void {
    if (this.#trouble !== undefined && this.#arrived.length === 0) throw new Error(this.#trouble);
  }

  /** Holds a request for one message open at each consumer, and waits until one of them ends. */
  async #poll(consumers: readonly ReadyConsumer[]): Promise<void> {
    if (this.#isStopping()) return;
    const ended = new Promise<void>((resolve) => {
      this.#notify = resolve;
    });
    for (const consumer of consumers) void this.#holdOpen(consumer);
    await ended;
    this.#notify = undefined;
  }

  async #holdOpen(consumer: ReadyConsumer): Promise<void> {
    if (this.#polled.has(consumer.consumer)) return;
    this.#polled.add(consumer.consumer);
    try {
      await this.#pull(consumer, 1, POLL_MS);
    } catch (error) {
      this.#trouble = String(error);
    }
    this.#polled.delete(consumer.consumer);
    this.#notify?.();
  }

  async #pull(consumer: ReadyConsumer, batch: number, expiresMs: number): Promise<void> {
    if (this.#nats === undefined || this.#linked === undefined) throw new Error('not connected to NATS');
    const { inboxPrefix } = this.#options.connection;
    const options = { batch, expiresMs, inboxPrefix, broken: this.#linked.signal, stopping: this.#stopping.signal };
    // Until a message of it tells otherwise.
    this.#drained.add(consumer.consumer);
    const end = await pull(this.#nats, consumer, options, (message) => {
      if (this.#arrive(message)) this.#drained.delete(consumer.consumer);
      else this.#drained.add(consumer.consumer);
    });
    if (end === 'done') return;
    this.#drained.delete(consumer.consumer);
    // Whoever lost it makes it again, or names another.
    if (end === 'missing') this.#consumers = undefined;
    this.#trouble = `the pull from consumer ${consumer.consumer} of ${consumer.stream} is ${end}`;
  }

  /** Whether more may wait behind it. */
  #arrive(message: Msg): boolean {
    const ready = readyMessageOf(message);
    if (ready === null) {
      this.#options.log('dropped a malformed ready message', { subject: message.subject });
      message.respond('+TERM');
      return true;
    }
    if (this.#arrived.length < this.#wanted && !this.#isStopping()) {
      this.#arrived.push(ready);
    } else {
      // From a request held open since there was a free slot.
      ready.giveBack(0);
      return true;
    }
    return ready.mayBeFollowed;
  }

  async #untilLinked(): Promise<void> {
    if (this.#linked !== undefined || this.#isStopping()) return;
    await new Promise<void>((resolve) => {
      this.#onLinked = resolve;
    });
  }

  #isStopping(): boolean {
    return this.#stopping.signal.aborted;
  }

  async #keepConnected(): Promise<void> {
    const { connection, log } = this.#options;
    for (let problem = ''; !this.#stopping.signal.aborted;) {
      try {
        const nats = await connect({
          maxReconnectAttempts: -1,
          reconnectTimeWait: REDIAL_MS,
          pingInterval: PING_EVERY_MS,
          timeout: DIAL_TIMEOUT_MS,
          ignoreAuthErrorAbort: true,
          noAsyncTraces: true,
          ...connection,
        });
        await this.#use(nats);
        problem = '';
      } catch (error) {
        if (String(error) !== problem) log('cannot connect to NATS', { error: String(error) });
        problem = String(error);
      }
      if (!this.#isStopping()) await sleep(REDIAL_MS);
    }
  }

  /** Until the connection is closed for good. */
  async #use(nats: NatsConnection): Promise<void> {
    const statuses = nats.status();
    this.#nats = nats;
    this.#link();
    if (this.#isStopping()) await nats.close();
    for await (const { type } of statuses) {
      if (type === 'disconnect') {
        this.#unlink();
        this.#options.log('the connection to NATS broke off', {});
      } else if (type === 'reconnect') {
        this.#link();
        this.#options.log('connected to NATS again', {});
      }
    }
    this.#unlink();
  }

  #link(): void {
    this.#linked = new AbortController();
    this.#onLinked?.();
  }

  #unlink(): void {
    this.#linked?.abort();
    this.#linked = undefined;
  }
}

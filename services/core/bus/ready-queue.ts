import { LRUCache } from 'lru-cache';
import { headers, nuid, type Msg } from '@nats-io/transport-node';
import type { ConsumerConfig, JetStreamManager, MsgRequest, StreamConfig, StreamInfo } from '@nats-io/jetstream';
import consumerSchema from '../../../schema/nats/ready-consumer.json' with { type: 'json' };
import streamSchema from '../../../schema/nats/ready-stream.json' with { type: 'json' };
import { chunks } from '../domain/chunks.ts';
import { prioritySteps } from '../contract/priority-turns.ts';
import { PRIORITIES, type Priority } from '../domain/job-status.ts';
import { msBetween, type EpochMs, type MonotonicMs } from '../domain/time.ts';
import type { Clock } from '../ports/clock.ts';
import type {
  PublishOutcome,
  PulledMessage,
  PullRequest,
  ReadMessages,
  ReadyConsumer,
  ReadyDepth,
  ReadyIncarnation,
  ReadyMessage,
  ReadyQueue,
  StoredPage,
} from '../ports/ready-queue.ts';
import type { Log, Telemetry } from '../ports/telemetry.ts';
import { ApiCode, apiCodeOf, busError, isNoResponders, isStreamMissing } from './bus-errors.ts';
import { BUS_REQUEST_TIMEOUT_MS, type BusConnection } from './connection.ts';
import { BusNames } from './names.ts';
import { readStored } from './stored-messages.ts';
import { decodeReady, encodeReady } from './ready-message.ts';
import { acknowledge, ConsumerMissing, giveBack, pullMessages } from './ready-pull.ts';

export interface ReadyQueueConfig {
  readonly prefix?: string | undefined;
  /** 1 for development, 3 in production. Like maxBytes it counts when the stream is made; later `nats stream edit` does it. */
  readonly replicas?: number | undefined;
  /** The server reserves this much of its storage for the stream. */
  readonly maxBytes?: number | undefined;
}

export interface ReadyQueueDependencies {
  readonly bus: BusConnection;
  readonly clock: Clock;
  readonly telemetry: Telemetry;
  readonly log: Log;
}

/** From here on an atomic batch costs less than single publishes: on a file stream each batch is staged in a store of its own. */
const BATCH_MIN_MESSAGES = 100;
/** The server's own bound. */
const BATCH_MAX_MESSAGES = 1_000;
/** Deletions asked for at a time: 10,000 a second are done, and the server throws requests of all away once 10,000 wait. */
const REMOVED_AT_ONCE = 256;
const QUEUES_KNOWN_MAX = 1_000;
/** How long a queue's consumers are taken to be still there. */
const ENSURED_FOR_MS = 10_000;

/** A message that is to be removed is gone. */
const GONE_CODES: readonly (number | undefined)[] = [
  ApiCode.sequenceNotFound,
  ApiCode.messageNotDeleted,
  ApiCode.streamNotFound,
];

type SingleOutcome = PublishOutcome | 'missing';

interface Ensured {
  readonly at: MonotonicMs;
  readonly consumers: Promise<readonly ReadyConsumer[]>;
}

export class JetStreamReadyQueue implements ReadyQueue {
  readonly #bus: BusConnection;
  readonly #clock: Clock;
  readonly #telemetry: Telemetry;
  readonly #log: Log;
  readonly #names: BusNames;
  readonly #stream: Partial<StreamConfig> & { name: string };
  readonly #ensured = new Map<string, Ensured>();
  readonly #queuesMet = new Set<string>();
  /** Whether the stream was there once: then making it is a repair. */
  #streamSeen = false;
  #directRefused = false;
  /** When each consumer was made: another time on a later look tells that it was lost in between. */
  readonly #consumersSeen = new Map<string, string>();
  /** How many messages were pulled from each queue: whose turn it is among the priorities. */
  readonly #turns = new LRUCache<string, number>({ max: QUEUES_KNOWN_MAX });
  #ensuringStream: Promise<StreamInfo> | undefined;

  constructor(config: ReadyQueueConfig, { bus, clock, telemetry, log }: ReadyQueueDependencies) {
    this.#bus = bus;
    this.#clock = clock;
    this.#telemetry = telemetry;
    this.#log = log;
    this.#names = new BusNames(config.prefix);
    this.#stream = {
      ...(streamSchema as Partial<StreamConfig>),
      name: this.#names.streamOf(''),
      subjects: streamSchema.subjects.map((subject) => `${this.#names.prefix}${subject}`),
      num_replicas: config.replicas ?? streamSchema.num_replicas,
      max_bytes: config.maxBytes ?? streamSchema.max_bytes,
    };
    // The server may have come back with an empty disk.
    bus.onConnected(() => {
      this.#ensured.clear();
    });
  }

  connected(): boolean {
    return this.#bus.connected();
  }

  async publish(messages: readonly ReadyMessage[]): Promise<readonly PublishOutcome[]> {
    const outcomes: PublishOutcome[] = [];
    for (let from = 0; from < messages.length; from += BATCH_MAX_MESSAGES) {
      outcomes.push(...(await this.#publishChunk(messages.slice(from, from + BATCH_MAX_MESSAGES))));
    }
    this.#count(outcomes);
    this.#keepConsumers(messages);
    return outcomes;
  }

  async pull(request: PullRequest): Promise<readonly PulledMessage[]> {
    const { queue, waitMs, signal } = request;
    const startedAt = this.#clock.monotonic();
    let taken: readonly Msg[];
    try {
      try {
        taken = await this.#take(request);
      } catch (error) {
        if (!(error instanceof ConsumerMissing)) throw error;
        this.#ensured.delete(queue);
        await this.ensureQueue(queue);
        taken = await this.#take({ ...request, waitMs: waitMs - msBetween(startedAt, this.#clock.monotonic()) });
      }
    } catch (error) {
      throw busError(`pull from queue ${queue}`, error);
    }
    if (!signal.aborted) return this.#pulledOf(taken);
    for (const message of taken) giveBack(message, 0);
    return [];
  }

  async incarnation(): Promise<ReadyIncarnation> {
    try {
      const { created, state } = await this.#ensureStream();
      return { createdAt: Date.parse(created), lastSequence: state.last_seq };
    } catch (error) {
      throw busError('the ready stream', error);
    }
  }

  ensureQueue(queue: string): Promise<readonly ReadyConsumer[]> {
    const known = this.#ensured.get(queue);
    const now = this.#clock.monotonic();
    if (known !== undefined && msBetween(known.at, now) < ENSURED_FOR_MS) return known.consumers;
    const ensured = { at: now, consumers: this.#makeQueue(queue) };
    this.#ensured.set(queue, ensured);
    this.#queuesMet.add(queue);
    ensured.consumers.catch(() => {
      if (this.#ensured.get(queue) === ensured) this.#ensured.delete(queue);
    });
    return ensured.consumers;
  }

  async depths(queue?: string): Promise<readonly ReadyDepth[]> {
    const filter = this.#names.readySubjects(queue);
    try {
      const { jsm } = this.#bus.link();
      const { state } = await jsm.streams.info(this.#names.streamOf(''), { subjects_filter: filter });
      return Object.entries(state.subjects ?? {}).flatMap(([subject, messages]) => {
        const place = this.#names.readyPlaceOf(subject);
        return place === null ? [] : [{ ...place, messages }];
      });
    } catch (error) {
      if (apiCodeOf(error) === ApiCode.streamNotFound) return [];
      throw busError('the depths of the ready stream', error);
    }
  }

  async oldestMessageAt(queue: string, priority: Priority): Promise<EpochMs | null> {
    // Answered by the stream's leader; the typings leave this form of the request out.
    const request: MsgRequest = { seq: 1, next_by_subj: this.#names.readySubject(queue, priority) } as MsgRequest;
    try {
      const { jsm } = this.#bus.link();
      const message = await jsm.streams.getMessage(this.#names.streamOf(queue), request);
      return message === null ? null : message.time.getTime();
    } catch (error) {
      if (apiCodeOf(error) === ApiCode.noMessage) return null;
      // A stream that is gone holds no message; the publish that follows makes it again.
      if (apiCodeOf(error) === ApiCode.streamNotFound) return null;
      throw busError(`the oldest ready message of ${queue}`, error);
    }
  }

  async readMessages({ queue, priority, from, max }: ReadMessages): Promise<StoredPage> {
    try {
      return await readStored(this.#bus.link(), this.#clock, {
        stream: this.#names.streamOf(queue),
        subject: this.#names.readySubject(queue, priority),
        from,
        max,
      });
    } catch (error) {
      throw busError(`the ready messages of ${queue}`, error);
    }
  }

  async removeMessages(sequences: readonly number[]): Promise<void> {
    try {
      const { jsm } = this.#bus.link();
      for (const some of chunks(sequences, REMOVED_AT_ONCE)) {
        await Promise.all(some.map((sequence) => this.#removeOne(jsm, sequence)));
      }
    } catch (error) {
      throw busError('the removal of ready messages', error);
    }
  }

  async #removeOne(jsm: JetStreamManager, sequence: number): Promise<void> {
    try {
      // Without overwriting the bytes: they hold no payload.
      await jsm.streams.deleteMessage(this.#stream.name, sequence, false);
    } catch (error) {
      if (!GONE_CODES.includes(apiCodeOf(error))) throw error;
    }
  }

  async #publishChunk(messages: readonly ReadyMessage[]): Promise<readonly PublishOutcome[]> {
    if (!this.connected()) return messages.map(() => 'failed');
    if (messages.length >= BATCH_MIN_MESSAGES) {
      const outcome = await this.#publishBatch(messages);
      if (outcome !== 'refused') return messages.map(() => outcome);
    }
    const outcomes = await this.#publishSingly(messages);
    if (!outcomes.includes('missing')) return outcomes as PublishOutcome[];
    return this.#publishAgain(messages, outcomes);
  }

  /** The stream is gone, or has no leader: makes sure of it, then gives those messages a second and last chance. */
  async #publishAgain(
    messages: readonly ReadyMessage[],
    outcomes: readonly SingleOutcome[],
  ): Promise<readonly PublishOutcome[]> {
    const missing = messages.filter((_, index) => outcomes[index] === 'missing');
    try {
      await this.#ensureQueuesAnew(missing);
    } catch (error) {
      this.#log.warn('the ready stream is away', { error: busError('ensure', error).message });
    }
    const again = await this.#publishSingly(missing);
    let next = 0;
    return outcomes.map((outcome) => {
      const last = outcome === 'missing' ? (again[next++] ?? 'failed') : outcome;
      return last === 'missing' ? 'failed' : last;
    });
  }

  async #ensureQueuesAnew(messages: readonly ReadyMessage[]): Promise<void> {
    await this.#ensureStream();
    const queues = new Set([...this.#queuesMet, ...messages.map(({ queue }) => queue)]);
    this.#ensured.clear();
    await Promise.all([...queues].map((queue) => this.ensureQueue(queue)));
  }

  #publishSingly(messages: readonly ReadyMessage[]): Promise<readonly SingleOutcome[]> {
    return Promise.all(messages.map((message) => this.#publishOne(message)));
  }

  async #publishOne(message: ReadyMessage): Promise<SingleOutcome> {
    try {
      const { js } = this.#bus.link();
      await js.publish(this.#names.readySubject(message.queue, message.priority), encodeReady(message));
      return 'stored';
    } catch (error) {
      if (apiCodeOf(error) === ApiCode.full) return 'full';
      if (isNoResponders(error)) return 'missing';
      this.#log.debug('a ready message was not acknowledged', { error: busError('publish', error).message });
      return 'failed';
    }
  }

  /**
   * All or nothing. The client's own batch hides the server's error code behind a wrong count, hence the headers by hand.
   * `refused`: nothing was stored, and single publishes tell why. After a time-out the batch may be stored, and publishing
   * singly would only wait again.
   */
  async #publishBatch(messages: readonly ReadyMessage[]): Promise<'stored' | 'failed' | 'refused'> {
    const batch = nuid.next();
    const last = messages.length - 1;
    try {
      const { nats } = this.#bus.link();
      for (const [index, message] of messages.entries()) {
        const subject = this.#names.readySubject(message.queue, message.priority);
        const marks = headers();
        marks.set('Nats-Batch-Id', batch);
        marks.set('Nats-Batch-Sequence', String(index + 1));
        if (index < last) {
          nats.publish(subject, encodeReady(message), { headers: marks });
          continue;
        }
        marks.set('Nats-Batch-Commit', '1');
        const answer = await nats.request(subject, encodeReady(message), {
          headers: marks,
          timeout: BUS_REQUEST_TIMEOUT_MS,
        });
        return answer.json<BatchAnswer>().count === messages.length ? 'stored' : 'refused';
      }
    } catch (error) {
      if (isNoResponders(error)) return 'refused';
      this.#log.debug('a batch of ready messages was not acknowledged', { error: busError('publish', error).message });
    }
    return 'failed';
  }

  async #makeQueue(queue: string): Promise<readonly ReadyConsumer[]> {
    try {
      try {
        return await this.#makeConsumers(queue);
      } catch (error) {
        if (!isStreamMissing(error)) throw error;
        await this.#ensureStream();
        return await this.#makeConsumers(queue);
      }
    } catch (error) {
      throw busError(`the consumers of queue ${queue}`, error);
    }
  }

  #makeConsumers(queue: string): Promise<readonly ReadyConsumer[]> {
    return Promise.all(PRIORITIES.map((priority) => this.#makeConsumer(queue, priority)));
  }

  async #makeConsumer(queue: string, priority: Priority): Promise<ReadyConsumer> {
    const { jsm } = this.#bus.link();
    const stream = this.#names.streamOf(queue);
    const consumer = this.#names.readyConsumer(queue, priority);
    const subject = this.#names.readySubject(queue, priority);
    try {
      const { created } = await jsm.consumers.add(stream, {
        ...(consumerSchema as Partial<ConsumerConfig>),
        durable_name: consumer,
        filter_subject: subject,
      });
      const before = this.#consumersSeen.get(consumer);
      if (before !== undefined && before !== created) this.#recreated('consumer', consumer);
      this.#consumersSeen.set(consumer, created);
    } catch (error) {
      // There with other settings: an operator's, or an older version's. It serves, and it is not ours to fight over.
      if (apiCodeOf(error) !== ApiCode.consumerExists) throw error;
    }
    return { priority, stream, subject, consumer };
  }

  /** Finds the stream or makes it; concurrent calls, of other processes too, end up with the same one. */
  #ensureStream(): Promise<StreamInfo> {
    this.#ensuringStream ??= this.#findOrMakeStream().finally(() => {
      this.#ensuringStream = undefined;
    });
    return this.#ensuringStream;
  }

  async #findOrMakeStream(): Promise<StreamInfo> {
    const { jsm } = this.#bus.link();
    const { name } = this.#stream;
    let info: StreamInfo;
    try {
      info = await jsm.streams.info(name);
    } catch (error) {
      if (apiCodeOf(error) !== ApiCode.streamNotFound) throw error;
      info = await jsm.streams.add(this.#stream).catch((refusal: unknown) => {
        // Somebody else made it in between, with other settings.
        if (apiCodeOf(refusal) !== ApiCode.streamNameInUse) throw refusal;
        return jsm.streams.info(name);
      });
      if (this.#streamSeen) this.#recreated('stream', name);
      else this.#log.info('made the ready stream', { stream: name });
    }
    this.#streamSeen = true;
    return info.config.allow_direct ? info : this.#allowDirect(info);
  }

  /** A stream that an earlier version made cannot be read in batches. Where we may not change that, all else goes on. */
  async #allowDirect(info: StreamInfo): Promise<StreamInfo> {
    if (this.#directRefused) return info;
    const { name } = this.#stream;
    try {
      return await this.#bus.link().jsm.streams.update(name, { allow_direct: true });
    } catch (error) {
      if (!this.connected()) throw error;
      this.#directRefused = true;
      const fields = { stream: name, error: String(error) };
      this.#log.warn('allow_direct cannot be switched on: messages of cancelled jobs stay until a worker asks', fields);
      return info;
    }
  }

  /** A stream that somebody else made again has no consumers; workers that pull by themselves make none. */
  #keepConsumers(messages: readonly ReadyMessage[]): void {
    if (!this.connected()) return;
    for (const queue of new Set(messages.map((message) => message.queue))) {
      this.ensureQueue(queue).catch((error: unknown) => {
        this.#log.warn('the consumers of a queue could not be made', {
          queue,
          error: busError('ensure', error).message,
        });
      });
    }
  }

  async #take({ queue, priorities, max, waitMs, signal }: PullRequest): Promise<readonly Msg[]> {
    const subjectOf = (priority: Priority): string => this.#names.nextSubject(queue, priority);
    const turn = this.#turns.get(queue) ?? 0;
    const taken = await pullMessages(this.#bus.link(), this.#clock, {
      steps: prioritySteps(priorities, max, turn).map(({ priority, most }) => ({
        consumer: subjectOf(priority),
        most,
      })),
      consumers: priorities.map(subjectOf),
      max,
      waitMs,
      signal,
    });
    this.#turns.set(queue, turn + taken.length);
    return taken;
  }

  #pulledOf(taken: readonly Msg[]): readonly PulledMessage[] {
    return taken.flatMap((stored) => {
      const message = decodeReady(stored.string());
      if (message !== null) {
        return [{ message, ack: () => acknowledge(stored), nakAfter: (ms: number) => giveBack(stored, ms) }];
      }
      this.#log.warn('a malformed ready message is thrown away', {
        subject: stored.subject,
        bytes: stored.data.length,
      });
      acknowledge(stored);
      return [];
    });
  }

  #recreated(kind: 'stream' | 'consumer', name: string): void {
    this.#log.warn(`a ready ${kind} was gone and is made again`, { name });
    this.#telemetry.count('punctual_bus_recreated_total', { kind });
  }

  #count(outcomes: readonly PublishOutcome[]): void {
    for (const outcome of ['stored', 'full', 'failed'] as const) {
      const count = outcomes.filter((each) => each === outcome).length;
      if (count > 0) this.#telemetry.count('punctual_ready_publish_total', { outcome }, count);
    }
  }
}

interface BatchAnswer {
  readonly count?: number;
}

export function createReadyQueue(config: ReadyQueueConfig, dependencies: ReadyQueueDependencies): ReadyQueue {
  return new JetStreamReadyQueue(config, dependencies);
}

import { readFileSync } from 'node:fs';
import { jetstream, jetstreamManager, type JetStreamClient, type JetStreamManager } from '@nats-io/jetstream';
import {
  connect,
  credsAuthenticator,
  type Msg,
  type NatsConnection,
  type NodeConnectionOptions,
} from '@nats-io/transport-node';
import type { Clock } from '../ports/clock.ts';
import { BusError } from '../ports/ready-queue.ts';
import type { Log } from '../ports/telemetry.ts';

export interface BusConfig {
  /** host:port, or tls://host:port. */
  readonly servers: readonly string[];
  readonly user?: string | undefined;
  readonly password?: string | undefined;
  readonly credsFile?: string | undefined;
  readonly tls?: BusTls | undefined;
  /** Shown in the server's list of connections. */
  readonly name?: string | undefined;
}

export interface BusTls {
  readonly caFile?: string | undefined;
  readonly certFile?: string | undefined;
  readonly keyFile?: string | undefined;
}

/** Per-message TTL and its markers came with 2.11, atomic batches with 2.12, freezing a stream on write errors with 2.14. */
const SERVER_VERSION_MIN = [2, 14] as const;
const RECONNECT_WAIT_MS = 400;
const DIAL_TIMEOUT_MS = 5_000;
/** A half-open link is noticed after two of these without an answer; the client's own default is two minutes. */
const PING_EVERY_MS = 5_000;
/** What a drain may take at the end. */
const DRAIN_MAX_MS = 2_000;
/** How long an answer of JetStream is waited for. */
export const BUS_REQUEST_TIMEOUT_MS = 3_000;

/** What calls go through while the link is up. */
export interface BusLink {
  readonly nats: NatsConnection;
  readonly js: JetStreamClient;
  readonly jsm: JetStreamManager;
  /** Aborted when the link goes down: what was asked over it will not be answered. */
  readonly down: AbortSignal;
}

export interface BusDependencies {
  readonly clock: Clock;
  readonly log: Log;
}

/**
 * A process's one connection to NATS. It is made in the background and dialled for ever, so that services start without
 * NATS. While it is down every call fails at once: the client drops what is written to a broken link, silently.
 */
export class BusConnection {
  readonly #options: NodeConnectionOptions;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #closing = new AbortController();
  readonly #onConnected = new Set<() => void>();
  readonly #subscriptions = new Set<Subscribed>();
  readonly #dialing: Promise<void>;
  #nats: NatsConnection | undefined;
  #link: BusLink | undefined;
  #linkDown = new AbortController();
  #problem = 'not connected to NATS yet';

  constructor(config: BusConfig, { clock, log }: BusDependencies) {
    this.#options = optionsOf(config);
    this.#clock = clock;
    this.#log = log;
    this.#dialing = this.#keepConnected();
  }

  connected(): boolean {
    return this.#link !== undefined;
  }

  /** Why the link is down, for readiness answers; null while it is up. */
  problem(): string | null {
    return this.#link === undefined ? this.#problem : null;
  }

  /** Throws BusError while the link is down. */
  link(): BusLink {
    if (this.#link === undefined) throw new BusError(this.#problem);
    return this.#link;
  }

  /** Calls back whenever the link comes up, and at once when it is; the returned function ends it. */
  onConnected(callback: () => void): () => void {
    this.#onConnected.add(callback);
    if (this.connected()) callback();
    return () => {
      this.#onConnected.delete(callback);
    };
  }

  /** A core-NATS subscription that outlives the link; the returned function ends it. */
  subscribe(subject: string, onMessage: (message: Msg) => void): () => void {
    const subscribed: Subscribed = { subject, onMessage, end: undefined };
    this.#subscriptions.add(subscribed);
    if (this.#nats !== undefined) listen(this.#nats, subscribed);
    return () => {
      this.#subscriptions.delete(subscribed);
      subscribed.end?.();
    };
  }

  /** Sends what is still to be sent (acknowledgements included) and hangs up. */
  async close(): Promise<void> {
    this.#closing.abort();
    if (this.#nats !== undefined) await this.#hangUp(this.#nats);
    await this.#dialing;
  }

  /** Draining hangs when the server goes away at the same time. */
  async #hangUp(nats: NatsConnection): Promise<void> {
    const drained = new AbortController();
    const done = (): void => {
      drained.abort();
    };
    nats.drain().then(done, done);
    if (this.connected()) await this.#clock.sleep(DRAIN_MAX_MS, drained.signal);
    await nats.close();
  }

  async #keepConnected(): Promise<void> {
    while (!this.#closing.signal.aborted) {
      try {
        const nats = await connect(this.#options);
        await this.#use(nats);
      } catch (error) {
        this.#down(error instanceof Error ? error.message : String(error));
      }
      await this.#clock.sleep(RECONNECT_WAIT_MS, this.#closing.signal);
    }
  }

  /** Resolves when the client gave the connection up for good. */
  async #use(nats: NatsConnection): Promise<void> {
    const jsm = await jetstreamManager(nats, { timeout: BUS_REQUEST_TIMEOUT_MS, checkAPI: false });
    if (this.#closing.signal.aborted) {
      await nats.close();
      return;
    }
    this.#nats = nats;
    const clients = { nats, js: jetstream(nats, { timeout: BUS_REQUEST_TIMEOUT_MS }), jsm };
    const statuses = nats.status();
    for (const subscribed of this.#subscriptions) listen(nats, subscribed);
    this.#up(clients);
    for await (const status of statuses) {
      switch (status.type) {
        case 'disconnect':
          this.#down('the connection to NATS broke off');
          break;
        case 'reconnect':
          this.#up(clients);
          break;
        case 'ldm':
        case 'slowConsumer':
        case 'staleConnection':
          this.#log.warn('nats connection', { event: status.type });
          break;
        case 'error':
          this.#log.warn('nats refused something', { error: status.error.message });
          break;
        case 'reconnecting':
        case 'update':
        case 'ping':
        case 'forceReconnect':
        case 'close':
          break;
      }
    }
    this.#nats = undefined;
    this.#down('the connection to NATS is closed');
  }

  #up(clients: Omit<BusLink, 'down'>): void {
    const version = clients.nats.info?.version ?? 'unknown';
    if (!isSupported(version)) {
      this.#down(`nats-server ${version} is too old: ${SERVER_VERSION_MIN.join('.')} or later is needed`);
      return;
    }
    this.#linkDown = new AbortController();
    this.#link = { ...clients, down: this.#linkDown.signal };
    this.#problem = '';
    this.#log.info('connected to nats', { server: clients.nats.getServer(), version });
    for (const callback of this.#onConnected) callback();
  }

  /** Logged once per reason: dialling goes on several times a second. */
  #down(problem: string): void {
    this.#link = undefined;
    this.#linkDown.abort();
    if (this.#problem === problem || this.#closing.signal.aborted) return;
    this.#problem = problem;
    this.#log.warn('no connection to nats', { problem });
  }
}

interface Subscribed {
  readonly subject: string;
  readonly onMessage: (message: Msg) => void;
  end: (() => void) | undefined;
}

function listen(nats: NatsConnection, subscribed: Subscribed): void {
  const subscription = nats.subscribe(subscribed.subject, {
    callback: (error, message) => {
      if (error === null) subscribed.onMessage(message);
    },
  });
  subscribed.end = () => {
    subscription.unsubscribe();
  };
}

function isSupported(version: string): boolean {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  const [wantedMajor, wantedMinor] = SERVER_VERSION_MIN;
  return major > wantedMajor || (major === wantedMajor && minor >= wantedMinor);
}

function optionsOf({ servers, user, password, credsFile, tls, name }: BusConfig): NodeConnectionOptions {
  return {
    servers: [...servers],
    maxReconnectAttempts: -1,
    reconnectTimeWait: RECONNECT_WAIT_MS,
    timeout: DIAL_TIMEOUT_MS,
    pingInterval: PING_EVERY_MS,
    // Credentials may be mended on the server while we dial.
    ignoreAuthErrorAbort: true,
    // A stack per request costs more than the request.
    noAsyncTraces: true,
    ...(name === undefined ? {} : { name }),
    ...(user === undefined ? {} : { user, pass: password ?? '' }),
    ...(credsFile === undefined ? {} : { authenticator: credsAuthenticator(() => readFileSync(credsFile)) }),
    ...(tls === undefined ? {} : { tls: withoutUndefined(tls) }),
  };
}

function withoutUndefined({ caFile, certFile, keyFile }: BusTls): {
  caFile?: string;
  certFile?: string;
  keyFile?: string;
} {
  return {
    ...(caFile === undefined ? {} : { caFile }),
    ...(certFile === undefined ? {} : { certFile }),
    ...(keyFile === undefined ? {} : { keyFile }),
  };
}

export function connectBus(config: BusConfig, dependencies: BusDependencies): BusConnection {
  return new BusConnection(config, dependencies);
}

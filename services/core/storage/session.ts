import { readFileSync } from 'node:fs';
import { auth, Client, errors, policies, types, type ClientOptions, type QueryOptions } from 'cassandra-driver';
import PrepareHandler from 'cassandra-driver/lib/prepare-handler.js';
import { SECOND_MS } from '../domain/limits.ts';
import type { ClockSource } from '../ports/clock-source.ts';
import type { Clock } from '../ports/clock.ts';
import { StoreError } from '../ports/store-error.ts';
import type { Log, Telemetry } from '../ports/telemetry.ts';
import { STATEMENTS } from './cql/statements.ts';
import { describeCause, innerErrors, isUnreached, toStoreError, type Access } from './errors.ts';
import { RequestGate } from './request-gate.ts';
import { requireSchema, SchemaError } from './schema-version.ts';
import type { Bound, Row } from './statement.ts';

export interface CassandraConfig {
  /** host:port of some nodes; the driver finds the others. */
  readonly contactPoints: readonly string[];
  readonly localDatacenter: string;
  readonly keyspace: string;
  readonly username?: string | undefined;
  readonly password?: string | undefined;
  readonly tls?: TlsConfig | undefined;
}

export interface TlsConfig {
  readonly caFile?: string | undefined;
  readonly certFile?: string | undefined;
  readonly keyFile?: string | undefined;
  /** True unless said otherwise; the driver's own default accepts any certificate. */
  readonly rejectUnauthorized?: boolean | undefined;
}

export interface ConnectFailure {
  readonly attempt: number;
  readonly error: Error;
  readonly retryInMs: number;
}

export interface SessionDeps {
  readonly telemetry: Telemetry;
  readonly clock: Clock;
  readonly log?: Log;
  /** Called after each failed attempt to connect; the next one follows by itself. */
  readonly onConnectFailure?: (failure: ConnectFailure) => void;
  /** Gives up connecting when aborted. */
  readonly signal?: AbortSignal;
}

type RequestClass = 'round' | 'plain' | 'read';

/** Above the server's 2 s for a write; with the driver's 12 s one frozen node costs each call 12 s. */
const READ_TIMEOUT_MS = 4 * SECOND_MS;
/**
 * A node that leaves more requests than this without an answer at a time is taken for dead. The driver's own 64 come together within
 * seconds under high load only, and until then each request that a frozen node gets waits 4 s.
 */
const UNANSWERED_MAX = 8;
const CONNECT_TIMEOUT_MS = 5 * SECOND_MS;
const CONNECT_RETRY_FIRST_MS = 250;
const CONNECT_RETRY_MAX_MS = 5 * SECOND_MS;
/** The driver's own 10 min would leave us without a node for as long again as it was away: 31 s after one of 20 s. */
const RECONNECT_MAX_MS = 2 * SECOND_MS;
/** A read that reached no node is sent again after each of these: a lost connection is dialled again after CONNECT_RETRY_FIRST_MS. */
const READ_AGAIN_AFTER_MS = [300, 700];
const IN_FLIGHT_MAX: Record<RequestClass, number> = { round: 128, plain: 256, read: 128 };
/** At the lowest rate measured on three nodes (350 rounds/s) so many wait 6 s, below an operation's deadline. */
const WAITING_MAX: Record<RequestClass, number> = { round: 2_048, plain: 8_192, read: 4_096 };
export const PAGE_ROWS = 1_000;

/** Of the node's own table: answered by the node that is asked. */
const READ_CLOCK = 'SELECT toTimestamp(now()) AS at FROM system.local';

const LEVELS = {
  consistency: types.consistencies.localQuorum,
  serialConsistency: types.consistencies.localSerial,
} as const;
/** A conditional write is never sent twice by the driver: whoever sent it settles it by its own mark. */
const ROUND_OPTIONS: QueryOptions = {
  ...LEVELS,
  prepare: true,
  isIdempotent: false,
  retry: new policies.retry.FallthroughRetryPolicy(),
  logged: false,
};
/** A plain write lands on the same row however often it is sent. Unlogged: whoever gets an error writes all of the batch again, or goes without. */
const PLAIN_OPTIONS: QueryOptions = { ...LEVELS, prepare: true, isIdempotent: true, logged: false };
const READ_OPTIONS: QueryOptions = { ...LEVELS, prepare: true, isIdempotent: true };
const SERIAL_READ_OPTIONS: QueryOptions = { ...READ_OPTIONS, consistency: types.consistencies.localSerial };

/** All requests to Cassandra pass here: their levels, bounds, retries and the translation of their errors. */
export class Session {
  readonly keyspace: string;
  readonly #client: Client;
  readonly #loadBalancing: policies.loadBalancing.LoadBalancingPolicy;
  readonly #telemetry: Telemetry;
  readonly #clock: Clock;
  /** Every node object that the driver ever made. */
  readonly #hosts = new Set<object>();
  readonly #gates: Record<RequestClass, RequestGate>;

  constructor(driver: Driver, keyspace: string, { telemetry, clock }: Pick<SessionDeps, 'telemetry' | 'clock'>) {
    this.#client = driver.client;
    this.#loadBalancing = driver.loadBalancing;
    for (const host of driver.client.hosts.values()) this.#hosts.add(host);
    driver.client.on('hostAdd', (host: object) => this.#hosts.add(host));
    this.keyspace = keyspace;
    this.#telemetry = telemetry;
    this.#clock = clock;
    this.#gates = { round: this.#gate('round'), plain: this.#gate('plain'), read: this.#gate('read') };
  }

  /**
   * One conditional write: several statements are of one partition and one table, and all apply or none does. Returns null
   * when it applied, otherwise the rows found. Throws StoreError.
   */
  async conditional(statements: readonly Bound[]): Promise<readonly Row[] | null> {
    const result = await this.#request('round', 'write', () => this.#send(statements, ROUND_OPTIONS));
    return result.wasApplied() ? null : result.rows;
  }

  /** Plain idempotent writes of one partition, or of a few, as one; some may be written when it fails. Throws StoreError. */
  async write(statements: readonly Bound[]): Promise<void> {
    await this.#request('plain', 'write', () => this.#send(statements, PLAIN_OPTIONS));
  }

  /**
   * All rows of a bounded read. Serial: completes or sees conditional writes still in flight; a plain read may miss one that
   * was not answered yet. Throws StoreError.
   */
  async read(statement: Bound, options: { serial?: boolean } = {}): Promise<readonly Row[]> {
    const pages = this.pages(statement, { ...options, pageRows: Number.POSITIVE_INFINITY });
    const rows: Row[] = [];
    for await (const page of pages) rows.push(...page);
    return rows;
  }

  /** Page by page: 5,000 rows (the driver's default) is a page, never the result. Throws StoreError. */
  async *pages(
    statement: Bound,
    options: { serial?: boolean; pageRows?: number } = {},
  ): AsyncGenerator<readonly Row[], void, undefined> {
    const base = options.serial === true ? SERIAL_READ_OPTIONS : READ_OPTIONS;
    const fetchSize = Math.min(options.pageRows ?? PAGE_ROWS, 5_000);
    let pageState: string | null = null;
    do {
      const queryOptions: QueryOptions = { ...base, fetchSize, ...(pageState !== null && { pageState }) };
      const result = await this.#readPage(statement, queryOptions);
      if (result.rows.length > 0) yield result.rows;
      pageState = nextPage(result);
    } while (pageState !== null);
  }

  /** Prepares every statement on every host, so that the first request after a start is not the slow one. */
  async prepareAll(): Promise<void> {
    for (const cql of STATEMENTS)
      await PrepareHandler.getPrepared(this.#client, this.#loadBalancing, cql, this.keyspace);
  }

  /** The wall clock of each connected node, asked of that very node, past the gate: a queue before it would blur the time. */
  clockSources(): readonly ClockSource[] {
    return this.#client
      .getState()
      .getConnectedHosts()
      .map((host) => ({
        name: `cassandra ${host.address}`,
        now: async () => {
          const { rows } = await this.#client.execute(READ_CLOCK, [], {
            host,
            consistency: types.consistencies.localOne,
          });
          const at: unknown = rows[0]?.['at'];
          if (!(at instanceof Date)) throw new Error('cassandra does not tell its time');
          return at.getTime();
        },
      }));
  }

  /** For readiness answers: null while some node is connected. */
  problem(): string | null {
    return this.#client.getState().getConnectedHosts().length > 0 ? null : 'no Cassandra node is connected';
  }

  /** Waits for nothing: stop the callers first. */
  async close(): Promise<void> {
    await shutDown(this.#client, this.#hosts);
  }

  /** Writes that reached no node are their callers' to settle; a read has nothing to settle. */
  async #readPage(statement: Bound, options: QueryOptions): Promise<types.ResultSet> {
    for (let failures = 0; ; failures++) {
      try {
        return await this.#request('read', 'read', () =>
          this.#client.execute(statement.cql, [...statement.values], options),
        );
      } catch (error) {
        const againAfterMs = READ_AGAIN_AFTER_MS[failures];
        if (againAfterMs === undefined || !(error instanceof StoreError && isUnreached(error.cause))) throw error;
        await this.#clock.sleep(againAfterMs);
      }
    }
  }

  #send(statements: readonly Bound[], options: QueryOptions): Promise<types.ResultSet> {
    const [first] = statements;
    if (first === undefined) throw new Error('a write without statements');
    if (statements.length === 1) return this.#client.execute(first.cql, [...first.values], options);
    return this.#client.batch(
      statements.map(({ cql, values }) => ({ query: cql, params: [...values] })),
      options,
    );
  }

  async #request<Result>(name: RequestClass, access: Access, send: () => Promise<Result>): Promise<Result> {
    try {
      return await this.#gates[name].run(send);
    } catch (cause) {
      const error = toStoreError(cause, access);
      this.#telemetry.count('punctual_store_errors_total', { kind: error.kind });
      throw error;
    }
  }

  #gate(name: RequestClass): RequestGate {
    return new RequestGate({
      inFlightMax: IN_FLIGHT_MAX[name],
      waitingMax: WAITING_MAX[name],
      onChange: (inFlight) => {
        this.#telemetry.gauge('punctual_store_in_flight', inFlight, { class: name });
      },
    });
  }
}

/**
 * Connects, for as long as it takes; checks the schema; prepares all statements. Throws SchemaError at once when the schema is
 * missing or older than this build, for no waiting helps then, and the abort reason when the signal aborts.
 */
export async function openSession(config: CassandraConfig, deps: SessionDeps): Promise<Session> {
  for (let attempt = 1; ; attempt++) {
    deps.signal?.throwIfAborted();
    const driver = createDriver(config, { log: deps.log, keyspace: config.keyspace });
    try {
      await driver.client.connect();
      const session = new Session(driver, config.keyspace, deps);
      await requireSchema(session);
      await session.prepareAll();
      warnOfOneCopy(driver.client, config.keyspace, deps.log);
      return session;
    } catch (cause) {
      await driver.client.shutdown().catch(() => undefined);
      if (cause instanceof SchemaError) throw cause;
      if (isMissingKeyspace(cause)) throw new SchemaError(config.keyspace, 'does not exist', { cause });
      const error = new Error(describeCause(cause), { cause });
      const retryInMs = Math.min(CONNECT_RETRY_FIRST_MS * 2 ** (attempt - 1), CONNECT_RETRY_MAX_MS);
      deps.onConnectFailure?.({ attempt, error, retryInMs });
      await deps.clock.sleep(retryInMs, deps.signal);
    }
  }
}

interface Driver {
  readonly client: Client;
  readonly loadBalancing: policies.loadBalancing.LoadBalancingPolicy;
}

/** The driver with our settings: also what the schema command connects with, without a keyspace. */
export function createDriver(
  config: Omit<CassandraConfig, 'keyspace'>,
  options: {
    keyspace?: string;
    readTimeoutMs?: number;
    /** How long a schema statement waits until all nodes have heard of it. */
    schemaAgreementMaxS?: number;
    log?: Log | undefined;
    withoutMetadata?: boolean;
  } = {},
): Driver {
  const loadBalancing = policies.defaultLoadBalancingPolicy(config.localDatacenter);
  const settings: ClientOptions = {
    contactPoints: [...config.contactPoints],
    localDataCenter: config.localDatacenter,
    // The driver looks for the nodes that it finds by itself at this port, and at 9042 without: it would find none elsewhere.
    protocolOptions: {
      ...portOptions(config.contactPoints),
      ...(options.schemaAgreementMaxS !== undefined && { maxSchemaAgreementWaitSeconds: options.schemaAgreementMaxS }),
    },
    socketOptions: {
      readTimeout: options.readTimeoutMs ?? READ_TIMEOUT_MS,
      connectTimeout: CONNECT_TIMEOUT_MS,
      defunctReadTimeoutThreshold: UNANSWERED_MAX,
    },
    queryOptions: LEVELS,
    policies: {
      loadBalancing,
      reconnection: new policies.reconnection.ExponentialReconnectionPolicy(
        CONNECT_RETRY_FIRST_MS,
        RECONNECT_MAX_MS,
        false,
      ),
    },
    // Map: an object would take a label named __proto__ for its prototype.
    encoding: { useUndefinedAsUnset: true, map: Map },
  };
  // Reading the whole schema again after each of a migrator's statements would double its time.
  if (options.withoutMetadata === true) settings.isMetadataSyncEnabled = false;
  if (options.keyspace !== undefined) settings.keyspace = options.keyspace;
  if (config.username !== undefined) {
    settings.authProvider = new auth.PlainTextAuthProvider(config.username, config.password ?? '');
  }
  if (config.tls !== undefined) settings.sslOptions = tlsOptions(config.tls);
  const client = new Client(settings);
  client.on('log', (level: string, source: string, message: string) => {
    if (level === 'error' || level === 'warning') options.log?.warn(`cassandra: ${message}`, { source });
  });
  return { client, loadBalancing };
}

/** Of the first contact point: all nodes of a cluster listen on the same one. */
function portOptions([first = '']: readonly string[]): { readonly port?: number } {
  const port = /:(\d+)$/.exec(first)?.[1];
  return port === undefined ? {} : { port: Number(port) };
}

/**
 * When the driver has lost every node it makes a new Host of the first that it reaches again and forgets the old one, which
 * keeps its connection, or goes on dialling, and the process alive with it.
 */
async function shutDown(client: Client, hosts: Iterable<object>): Promise<void> {
  await client.shutdown();
  // Not in the driver's types.
  for (const host of hosts) await (host as { shutdown?(waitForPending: boolean): Promise<void> }).shutdown?.(false);
}

/** Absent after the last page, which the driver's types leave out. */
function nextPage(result: { readonly pageState?: string | null }): string | null {
  return result.pageState ?? null;
}

function warnOfOneCopy(client: Client, keyspace: string, log: Log | undefined): void {
  const stored = client.metadata.keyspaces[keyspace] as { strategyOptions?: Record<string, string> } | undefined;
  if (Object.values(stored?.strategyOptions ?? {}).some((factor) => factor === '1')) {
    log?.warn('the keyspace keeps one copy of each row: for development only', { keyspace });
  }
}

function tlsOptions(tls: TlsConfig): NonNullable<ClientOptions['sslOptions']> {
  return {
    rejectUnauthorized: tls.rejectUnauthorized ?? true,
    ...(tls.caFile === undefined ? {} : { ca: readFileSync(tls.caFile) }),
    ...(tls.certFile === undefined ? {} : { cert: readFileSync(tls.certFile) }),
    ...(tls.keyFile === undefined ? {} : { key: readFileSync(tls.keyFile) }),
  };
}

function isMissingKeyspace(cause: unknown): boolean {
  const causes = cause instanceof errors.NoHostAvailableError ? innerErrors(cause) : [cause];
  return causes.some(
    (each) => each instanceof errors.ResponseError && /keyspace .* does not exist/i.test(each.message),
  );
}

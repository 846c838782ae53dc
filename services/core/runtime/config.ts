import { closest } from '../domain/closest.ts';
import { SHARD_LEASE_SAFETY_MS } from '../domain/limits.ts';
import { systemRandom } from './system-random.ts';
import {
  type LogLevel,
  READ_BY_SCRIPTS,
  type ServiceName,
  type Values,
  type Variable,
  VARIABLES,
} from './variables.ts';

export interface TlsFiles {
  readonly caFile: string | undefined;
  readonly certFile: string | undefined;
  readonly keyFile: string | undefined;
}

/** Read once at start and frozen. Nothing else in the product reads the environment. */
export interface Config {
  readonly service: ServiceName;
  readonly cassandra: {
    readonly contactPoints: readonly string[];
    readonly keyspace: string;
    readonly localDatacenter: string;
    readonly username: string | undefined;
    readonly password: string | undefined;
    /** undefined: not encrypted. */
    readonly tls: TlsFiles | undefined;
  };
  readonly nats: {
    readonly servers: readonly string[];
    readonly user: string | undefined;
    readonly password: string | undefined;
    readonly credsFile: string | undefined;
    readonly tls: TlsFiles | undefined;
    readonly replicas: number;
    readonly prefix: string;
  };
  readonly api: { readonly host: string; readonly port: number };
  readonly metrics: { readonly host: string; readonly port: number };
  readonly writeShards: number;
  readonly shardLease: { readonly ttlMs: number; readonly renewMs: number };
  readonly cohortSize: number;
  readonly horizonDays: number;
  readonly logLevel: LogLevel;
  readonly shutdownGraceMs: number;
  readonly memberId: string;
}

export interface LoadedConfig {
  readonly config: Config;
  /** Variable -> what it is set to, secrets masked, for the start-up log. */
  readonly settings: Readonly<Record<string, string>>;
  /** Variables that begin with PUNCTUAL_ and that nobody reads: probably typos. */
  readonly warnings: readonly string[];
}

export class ConfigError extends Error {
  readonly faults: readonly string[];

  constructor(faults: readonly string[]) {
    super(`the configuration has ${faults.length} ${faults.length === 1 ? 'fault' : 'faults'}`);
    this.name = 'ConfigError';
    this.faults = faults;
  }
}

/** Throws ConfigError that lists every fault there is, each with its variable, what is wrong and what is right. */
export function loadConfig(service: ServiceName, environment: NodeJS.ProcessEnv = process.env): LoadedConfig {
  const faults: string[] = [];
  const settings: Record<string, string> = {};
  const values: Record<string, unknown> = {};
  const given = new Set<string>();
  for (const [key, variable] of Object.entries<Variable<unknown>>(VARIABLES)) {
    const text = environment[variable.name] || defaultOf(variable, service);
    if (text === undefined) continue;
    given.add(key);
    settings[variable.name] = variable.secret === true ? '***' : text;
    const value = variable.kind.parse(text);
    if (value === undefined) faults.push(faultOf(variable, text));
    else values[key] = value;
  }
  faults.push(...brokenBounds(values, service), ...brokenCompany(values, given));
  if (faults.length > 0) throw new ConfigError(faults);
  return { config: assemble(service, values as Values), settings, warnings: unknownVariables(environment) };
}

/** Where the operator's tool, which needs nothing else of the configuration, finds the API: one address, or several with commas. */
export function configuredApiUrl(environment: NodeJS.ProcessEnv = process.env): string {
  return environment['PUNCTUAL_API_URL'] || 'http://127.0.0.1:7400';
}

/** What `--help` prints. */
export function helpText(service: ServiceName): string {
  const lines = Object.values<Variable<unknown>>(VARIABLES)
    .filter(({ only }) => only?.includes(service) ?? true)
    .map((variable) => {
      const fallback = defaultOf(variable, service);
      const preset = fallback === undefined || fallback === '' ? 'not set' : `default ${fallback}`;
      return `  ${variable.name}\n      ${variable.about}\n      ${variable.kind.expects}; ${preset}`;
    });
  return [
    `Punctual ${service}. It takes no arguments; set these variables in its environment:`,
    '',
    ...lines,
    '',
    'SIGTERM or SIGINT stops it after the work in hand, a second one at once.',
    '',
  ].join('\n');
}

function defaultOf({ fallback }: Variable<unknown>, service: ServiceName): string | undefined {
  return typeof fallback === 'object' ? fallback[service] : fallback;
}

function faultOf({ name, kind, secret }: Variable<unknown>, text: string): string {
  const wrong = kind.wrong?.(text) ?? '';
  const shown = secret === true || wrong !== '' ? '' : `=${text}`;
  return wrong === '' ? `${name}${shown}: must be ${kind.expects}` : `${name}: ${wrong}`;
}

/** Relations between numbers; a value that was refused already is missing here. */
function brokenBounds(values: Partial<Values>, service: ServiceName): string[] {
  const faults: string[] = [];
  const { shardLeaseTtlMs: ttlMs, shardLeaseRenewMs: renewMs } = values;
  if (ttlMs !== undefined && ttlMs % 1_000 !== 0) {
    faults.push(`PUNCTUAL_SHARD_LEASE_TTL_MS=${ttlMs}: must be whole seconds, such as 8000; NATS rounds down the rest`);
  }
  if (ttlMs !== undefined && renewMs !== undefined && 2 * renewMs > ttlMs - SHARD_LEASE_SAFETY_MS) {
    faults.push(
      `PUNCTUAL_SHARD_LEASE_RENEW_MS=${renewMs}: must be at most ${(ttlMs - SHARD_LEASE_SAFETY_MS) / 2}, ` +
        `so that a lease of ${ttlMs} ms outlives one renewal that fails`,
    );
  }
  const { apiHost, apiPort, metricsHost, metricsPort } = values;
  if (service === 'api' && apiPort !== 0 && apiPort === metricsPort && apiHost === metricsHost) {
    faults.push(`PUNCTUAL_METRICS_PORT=${metricsPort}: must differ from PUNCTUAL_API_PORT on the same host`);
  }
  return faults;
}

type Key = keyof Values;
type Given = ReadonlySet<string>;

/** Variables that go together, or that exclude each other. */
function brokenCompany(values: Partial<Values>, given: Given): string[] {
  const both = given.has('natsUser') && given.has('natsCredsFile');
  return [
    ...together(given, 'cassandraUsername', 'cassandraPassword'),
    ...together(given, 'natsUser', 'natsPassword'),
    ...together(given, 'cassandraTlsCertFile', 'cassandraTlsKeyFile'),
    ...together(given, 'natsTlsCertFile', 'natsTlsKeyFile'),
    ...(values.cassandraTls === false
      ? unused(given, 'cassandraTls', ['cassandraTlsCaFile', 'cassandraTlsCertFile', 'cassandraTlsKeyFile'])
      : []),
    ...(values.natsTls === false
      ? unused(given, 'natsTls', ['natsTlsCaFile', 'natsTlsCertFile', 'natsTlsKeyFile'])
      : []),
    ...(both ? ['PUNCTUAL_NATS_CREDS_FILE: is set beside PUNCTUAL_NATS_USER; keep one of the two'] : []),
  ];
}

function together(given: Given, one: Key, other: Key): string[] {
  if (given.has(one) === given.has(other)) return [];
  const [present, absent] = given.has(one) ? [one, other] : [other, one];
  return [`${VARIABLES[absent].name}: must be set too, since ${VARIABLES[present].name} is`];
}

function unused(given: Given, tls: Key, files: readonly Key[]): string[] {
  return files
    .filter((file) => given.has(file))
    .map((file) => `${VARIABLES[file].name}: is set, but ${VARIABLES[tls].name} is off; set that to on`);
}

function unknownVariables(environment: NodeJS.ProcessEnv): string[] {
  const known = Object.values<Variable<unknown>>(VARIABLES).map(({ name }) => name as string);
  return Object.keys(environment)
    .filter((name) => name.startsWith('PUNCTUAL_') && !known.includes(name) && !READ_BY_SCRIPTS.test(name))
    .sort()
    .map((name) => {
      const meant = closest(name, known);
      return `${name} is set, but there is no such variable${meant === undefined ? '' : `: did you mean ${meant}?`}`;
    });
}

function assemble(service: ServiceName, values: Values): Config {
  return Object.freeze({
    service,
    cassandra: Object.freeze({
      contactPoints: values.cassandraContactPoints,
      keyspace: values.cassandraKeyspace,
      localDatacenter: values.cassandraLocalDatacenter,
      username: values.cassandraUsername,
      password: values.cassandraPassword,
      tls: values.cassandraTls
        ? Object.freeze({
            caFile: values.cassandraTlsCaFile,
            certFile: values.cassandraTlsCertFile,
            keyFile: values.cassandraTlsKeyFile,
          })
        : undefined,
    }),
    nats: Object.freeze({
      servers: values.natsServers,
      user: values.natsUser,
      password: values.natsPassword,
      credsFile: values.natsCredsFile,
      tls: values.natsTls
        ? Object.freeze({
            caFile: values.natsTlsCaFile,
            certFile: values.natsTlsCertFile,
            keyFile: values.natsTlsKeyFile,
          })
        : undefined,
      replicas: Number(values.natsReplicas),
      prefix: values.natsPrefix,
    }),
    api: Object.freeze({ host: values.apiHost, port: values.apiPort }),
    metrics: Object.freeze({ host: values.metricsHost, port: values.metricsPort }),
    writeShards: values.writeShards,
    shardLease: Object.freeze({ ttlMs: values.shardLeaseTtlMs, renewMs: values.shardLeaseRenewMs }),
    cohortSize: values.cohortSize,
    horizonDays: values.horizonDays,
    logLevel: values.logLevel,
    shutdownGraceMs: values.shutdownGraceMs,
    memberId: values.memberId ?? `${service}-${systemRandom.token().slice(0, 8)}`,
  });
}

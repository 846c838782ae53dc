import {
  COHORT_SIZE,
  HORIZON_DEFAULT_DAYS,
  ROUND_MAX_ROWS,
  SHARD_LEASE_RENEW_DEFAULT_MS,
  SHARD_LEASE_TTL_DEFAULT_MS,
  SHARDS_DEFAULT,
  SLEEP_MAX_MS,
} from '../domain/limits.ts';
import { choice, hostPorts, integer, type Kind, natsServers, onOff, readableFile, text } from './variable-kinds.ts';

export const SERVICES = ['api', 'dispatcher', 'reaper'] as const;
export type ServiceName = (typeof SERVICES)[number];

export const LOG_LEVELS = ['debug', 'info', 'warn', 'error'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

export interface Variable<T> {
  readonly name: `PUNCTUAL_${string}`;
  readonly kind: Kind<T>;
  readonly about: string;
  /** As text, so that a default goes the same way as what is set; undefined: nothing is set. */
  readonly fallback?: string | Readonly<Record<ServiceName, string>>;
  /** Never printed. */
  readonly secret?: true;
  /** Which services read it; all, unless it says so. */
  readonly only?: readonly ServiceName[];
}

const PORT = integer({ min: 0, max: 65_535 });
const HOST = text('a host name or address to listen on', /^[A-Za-z0-9_.:-]+$/);
const NOT_EMPTY = text('not empty', /./);
const GRACE_DEFAULT_MS = 20_000;

/** Every variable there is: parsing, --help, the docs and the search for typos all come from this table. */
export const VARIABLES = {
  cassandraContactPoints: {
    name: 'PUNCTUAL_CASSANDRA_CONTACT_POINTS',
    kind: hostPorts(9042),
    fallback: '127.0.0.1:9042',
    about: 'Cassandra nodes to begin with',
  },
  cassandraKeyspace: {
    name: 'PUNCTUAL_CASSANDRA_KEYSPACE',
    kind: text('1 to 48 of a-z, 0-9 and _, beginning with a letter', /^[a-z][a-z0-9_]{0,47}$/),
    fallback: 'punctual',
    about: 'keyspace',
  },
  cassandraLocalDatacenter: {
    name: 'PUNCTUAL_CASSANDRA_LOCAL_DATACENTER',
    kind: NOT_EMPTY,
    fallback: 'datacenter1',
    about: 'data centre whose replicas form the quorum',
  },
  cassandraUsername: {
    name: 'PUNCTUAL_CASSANDRA_USERNAME',
    kind: NOT_EMPTY,
    about: 'user, when Cassandra asks for one',
  },
  cassandraPassword: {
    name: 'PUNCTUAL_CASSANDRA_PASSWORD',
    kind: NOT_EMPTY,
    secret: true,
    about: 'its password',
  },
  cassandraTls: {
    name: 'PUNCTUAL_CASSANDRA_TLS',
    kind: onOff,
    fallback: 'off',
    about: 'encrypt the connections to Cassandra',
  },
  cassandraTlsCaFile: {
    name: 'PUNCTUAL_CASSANDRA_TLS_CA_FILE',
    kind: readableFile,
    about: "authority that signed Cassandra's certificates (PEM), if not a public one",
  },
  cassandraTlsCertFile: {
    name: 'PUNCTUAL_CASSANDRA_TLS_CERT_FILE',
    kind: readableFile,
    about: 'our certificate (PEM), when Cassandra asks for one',
  },
  cassandraTlsKeyFile: {
    name: 'PUNCTUAL_CASSANDRA_TLS_KEY_FILE',
    kind: readableFile,
    about: 'its key (PEM)',
  },
  natsServers: {
    name: 'PUNCTUAL_NATS_SERVERS',
    kind: natsServers(4222),
    fallback: '127.0.0.1:4222',
    about: 'NATS servers to begin with',
  },
  natsUser: { name: 'PUNCTUAL_NATS_USER', kind: NOT_EMPTY, about: 'user, when NATS asks for one' },
  natsPassword: { name: 'PUNCTUAL_NATS_PASSWORD', kind: NOT_EMPTY, secret: true, about: 'its password' },
  natsCredsFile: {
    name: 'PUNCTUAL_NATS_CREDS_FILE',
    kind: readableFile,
    about: 'credentials file, in place of user and password',
  },
  natsTls: { name: 'PUNCTUAL_NATS_TLS', kind: onOff, fallback: 'off', about: 'encrypt the connection to NATS' },
  natsTlsCaFile: {
    name: 'PUNCTUAL_NATS_TLS_CA_FILE',
    kind: readableFile,
    about: "authority that signed NATS' certificates (PEM), if not a public one",
  },
  natsTlsCertFile: {
    name: 'PUNCTUAL_NATS_TLS_CERT_FILE',
    kind: readableFile,
    about: 'our certificate (PEM), when NATS asks for one',
  },
  natsTlsKeyFile: { name: 'PUNCTUAL_NATS_TLS_KEY_FILE', kind: readableFile, about: 'its key (PEM)' },
  natsReplicas: {
    name: 'PUNCTUAL_NATS_REPLICAS',
    kind: choice('1', '3', '5'),
    fallback: '1',
    about: 'copies of each stream and bucket that we make (3 with three NATS servers)',
  },
  natsPrefix: {
    name: 'PUNCTUAL_NATS_PREFIX',
    kind: text('letters, digits and _', /^[A-Za-z0-9_]*$/),
    fallback: '',
    about: 'stands before every subject, stream and bucket, so that installations can share a NATS',
  },
  apiHost: {
    name: 'PUNCTUAL_API_HOST',
    kind: HOST,
    fallback: '127.0.0.1',
    about: 'address the REST API listens on',
    only: ['api'],
  },
  apiPort: {
    name: 'PUNCTUAL_API_PORT',
    kind: PORT,
    fallback: '7400',
    about: 'port of the REST API; 0 takes a free one',
    only: ['api'],
  },
  metricsHost: {
    name: 'PUNCTUAL_METRICS_HOST',
    kind: HOST,
    fallback: '127.0.0.1',
    about: 'address of /metrics, /healthz and /readyz',
  },
  metricsPort: {
    name: 'PUNCTUAL_METRICS_PORT',
    kind: PORT,
    fallback: { api: '7401', dispatcher: '7402', reaper: '7403' },
    about: 'their port; 0 takes a free one',
  },
  writeShards: {
    name: 'PUNCTUAL_WRITE_SHARDS',
    kind: integer({ min: 1, max: 4_096 }),
    fallback: String(SHARDS_DEFAULT),
    about: 'shards of a new installation; once stored in the settings table, that value stands',
  },
  shardLeaseTtlMs: {
    name: 'PUNCTUAL_SHARD_LEASE_TTL_MS',
    kind: integer({ min: 3_000, max: 60_000 }),
    fallback: String(SHARD_LEASE_TTL_DEFAULT_MS),
    about: 'after this long without renewal a shard goes to another process; whole seconds',
    only: ['dispatcher', 'reaper'],
  },
  shardLeaseRenewMs: {
    name: 'PUNCTUAL_SHARD_LEASE_RENEW_MS',
    kind: integer({ min: 200, max: 20_000 }),
    fallback: String(SHARD_LEASE_RENEW_DEFAULT_MS),
    about: 'how often a shard lease is renewed',
    only: ['dispatcher', 'reaper'],
  },
  cohortSize: {
    name: 'PUNCTUAL_COHORT_SIZE',
    kind: integer({ min: 1, max: ROUND_MAX_ROWS }),
    fallback: String(COHORT_SIZE),
    about: 'jobs stored together and moved in one conditional write',
    only: ['api'],
  },
  horizonDays: {
    name: 'PUNCTUAL_HORIZON_DAYS',
    kind: integer({ min: 1, max: 3_650 }),
    fallback: String(HORIZON_DEFAULT_DAYS),
    about: 'how far ahead a job may be due',
    only: ['api'],
  },
  logLevel: {
    name: 'PUNCTUAL_LOG_LEVEL',
    kind: choice(...LOG_LEVELS),
    fallback: 'info',
    about: 'least level that is logged',
  },
  shutdownGraceMs: {
    name: 'PUNCTUAL_SHUTDOWN_GRACE_MS',
    kind: integer({ min: 0, max: SLEEP_MAX_MS }),
    fallback: String(GRACE_DEFAULT_MS),
    about: 'how long work in hand may take to end after SIGTERM or SIGINT',
  },
  memberId: {
    name: 'PUNCTUAL_MEMBER_ID',
    kind: text('1 to 64 letters, digits, - and _', /^[A-Za-z0-9_-]{1,64}$/),
    about: 'name of this process among its kind; a random one if left out',
  },
} as const satisfies Record<string, Variable<unknown>>;

type Table = typeof VARIABLES;
type ValueOf<V> = V extends { kind: Kind<infer T> } ? (V extends { fallback: unknown } ? T : T | undefined) : never;
/** What each variable stands for, by its key in the table. */
export type Values = { readonly [Key in keyof Table]: ValueOf<Table[Key]> };

/** Read by scripts/ (embedded servers, tests, benchmarks) and never by a service: no typos, though no service knows them. */
export const READ_BY_SCRIPTS = new RegExp(
  `^PUNCTUAL_(${[
    'CACHE_DIR|STATE_DIR|JAVA|PORT_OFFSET|API_URL',
    'CASSANDRA_(PORT|STORAGE_PORT|HEAP_MB|COMMITLOG_SYNC|REPLICATION_FACTOR)',
    'NATS_(PORT|MONITOR_PORT)',
    '(API|DISPATCHER|REAPER)_METRICS_PORT',
    '(TEST|BENCH)_.*',
  ].join('|')})$`,
);

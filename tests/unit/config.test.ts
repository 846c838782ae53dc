import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { describe, it } from 'node:test';
import { ConfigError, helpText, loadConfig } from '../../services/core/runtime/config.ts';
import { READ_BY_SCRIPTS, SERVICES, VARIABLES } from '../../services/core/runtime/variables.ts';

const NAMES: readonly string[] = Object.values(VARIABLES).map(({ name }) => name);

function faultsOf(environment: NodeJS.ProcessEnv, service: 'api' | 'dispatcher' | 'reaper' = 'api'): readonly string[] {
  try {
    loadConfig(service, environment);
  } catch (error) {
    if (error instanceof ConfigError) return error.faults;
    throw error;
  }
  return [];
}

describe('the configuration', () => {
  it('is complete without any variable, each service on its own metrics port', () => {
    assert.deepEqual(
      SERVICES.map((service) => loadConfig(service, {}).config.metrics.port),
      [7401, 7402, 7403],
    );
    const { config } = loadConfig('api', {});
    assert.deepEqual(config.api, { host: '127.0.0.1', port: 7400 });
    assert.deepEqual(config.cassandra.contactPoints, ['127.0.0.1:9042']);
    assert.equal(config.writeShards, 64);
    assert.match(config.memberId, /^api-[0-9a-f]{8}$/);
  });

  it('takes an empty variable for one that is not set, as compose files write them', () => {
    assert.equal(loadConfig('api', { PUNCTUAL_API_PORT: '' }).config.api.port, 7400);
  });

  it('reads addresses with and without ports, schemes and brackets', () => {
    const { config } = loadConfig('api', {
      PUNCTUAL_CASSANDRA_CONTACT_POINTS: 'c1, c2:9043,[::1]:9044',
      PUNCTUAL_NATS_SERVERS: 'n1,nats://n2:4223,tls://n3',
    });
    assert.deepEqual(config.cassandra.contactPoints, ['c1:9042', 'c2:9043', '[::1]:9044']);
    assert.deepEqual(config.nats.servers, ['n1:4222', 'n2:4223', 'tls://n3:4222']);
  });

  it('cannot be changed once it is read', () => {
    const { config } = loadConfig('api', {});
    assert.throws(() => Object.assign(config.api, { port: 1 }), TypeError);
    assert.throws(() => Object.assign(config, { api: {} }), TypeError);
    assert.throws(() => (config.nats.servers as string[]).push('other'), TypeError);
  });

  it('tells every fault at once, each with its variable, what is wrong and what is right', () => {
    assert.deepEqual(
      faultsOf({
        PUNCTUAL_CASSANDRA_KEYSPACE: 'Punctual-1',
        PUNCTUAL_NATS_SERVERS: 'nats://me:secret@n1',
        PUNCTUAL_API_PORT: '74000',
        PUNCTUAL_COHORT_SIZE: '65',
        PUNCTUAL_NATS_REPLICAS: '2',
        PUNCTUAL_LOG_LEVEL: 'trace',
        PUNCTUAL_CASSANDRA_TLS_CA_FILE: '/no/such/ca.pem',
      }),
      [
        'PUNCTUAL_CASSANDRA_KEYSPACE=Punctual-1: must be 1 to 48 of a-z, 0-9 and _, beginning with a letter',
        'PUNCTUAL_CASSANDRA_TLS_CA_FILE: there is no readable file /no/such/ca.pem',
        'PUNCTUAL_NATS_SERVERS: credentials do not belong in an address: set PUNCTUAL_NATS_USER and PUNCTUAL_NATS_PASSWORD',
        'PUNCTUAL_NATS_REPLICAS=2: must be one of 1, 3, 5',
        'PUNCTUAL_API_PORT=74000: must be a whole number from 0 to 65535',
        'PUNCTUAL_COHORT_SIZE=65: must be a whole number from 1 to 64',
        'PUNCTUAL_LOG_LEVEL=trace: must be one of debug, info, warn, error',
        'PUNCTUAL_CASSANDRA_TLS_CA_FILE: is set, but PUNCTUAL_CASSANDRA_TLS is off; set that to on',
      ],
    );
  });

  it('holds the bounds of shard leases against each other', () => {
    assert.deepEqual(faultsOf({ PUNCTUAL_SHARD_LEASE_TTL_MS: '4500', PUNCTUAL_SHARD_LEASE_RENEW_MS: '2000' }), [
      'PUNCTUAL_SHARD_LEASE_TTL_MS=4500: must be whole seconds, such as 8000; NATS rounds down the rest',
      'PUNCTUAL_SHARD_LEASE_RENEW_MS=2000: must be at most 1750, so that a lease of 4500 ms outlives one renewal that fails',
    ]);
    assert.deepEqual(faultsOf({ PUNCTUAL_SHARD_LEASE_TTL_MS: '5000', PUNCTUAL_SHARD_LEASE_RENEW_MS: '2000' }), []);
  });

  it('wants what goes together to be set together', () => {
    assert.deepEqual(faultsOf({ PUNCTUAL_NATS_PASSWORD: 'x', PUNCTUAL_CASSANDRA_USERNAME: 'me' }), [
      'PUNCTUAL_CASSANDRA_PASSWORD: must be set too, since PUNCTUAL_CASSANDRA_USERNAME is',
      'PUNCTUAL_NATS_USER: must be set too, since PUNCTUAL_NATS_PASSWORD is',
    ]);
    const file = import.meta.filename;
    assert.deepEqual(
      faultsOf({ PUNCTUAL_NATS_USER: 'me', PUNCTUAL_NATS_PASSWORD: 'x', PUNCTUAL_NATS_CREDS_FILE: file }),
      ['PUNCTUAL_NATS_CREDS_FILE: is set beside PUNCTUAL_NATS_USER; keep one of the two'],
    );
  });

  it('refuses one port for two servers of the api alone', () => {
    const environment = { PUNCTUAL_API_PORT: '7402', PUNCTUAL_METRICS_PORT: '7402' };
    assert.deepEqual(faultsOf(environment), [
      'PUNCTUAL_METRICS_PORT=7402: must differ from PUNCTUAL_API_PORT on the same host',
    ]);
    assert.deepEqual(faultsOf(environment, 'dispatcher'), []);
    assert.deepEqual(faultsOf({ PUNCTUAL_API_PORT: '0', PUNCTUAL_METRICS_PORT: '0' }), []);
  });

  it('shows secrets neither in the settings nor in faults', () => {
    const { settings } = loadConfig('api', { PUNCTUAL_NATS_USER: 'me', PUNCTUAL_NATS_PASSWORD: 'hunter2' });
    assert.equal(settings['PUNCTUAL_NATS_PASSWORD'], '***');
    assert.equal(settings['PUNCTUAL_NATS_USER'], 'me');
    const faults = faultsOf({ PUNCTUAL_CASSANDRA_PASSWORD: 'hunter2', PUNCTUAL_NATS_SERVERS: 'nats://a:hunter2@b' });
    assert.doesNotMatch(faults.join(), /hunter2/);
  });

  it('names variables that nobody reads as probable typos', () => {
    assert.deepEqual(
      loadConfig('api', { PUNCTUAL_CASANDRA_KEYSPACE: 'x', PUNCTUAL_FLUX: '1', PATH: '/bin' }).warnings,
      [
        'PUNCTUAL_CASANDRA_KEYSPACE is set, but there is no such variable: did you mean PUNCTUAL_CASSANDRA_KEYSPACE?',
        'PUNCTUAL_FLUX is set, but there is no such variable',
      ],
    );
    assert.deepEqual(loadConfig('api', { PUNCTUAL_PORT_OFFSET: '100' }).warnings, []);
  });

  it('knows every variable that scripts and tests set', () => {
    const root = resolve(import.meta.dirname, '../..');
    const files = globSync(['scripts/**/*.{ts,sh}', 'tests/{support,end-to-end}/**/*.ts'], { cwd: root });
    const used = files.flatMap((file) => readFileSync(resolve(root, file), 'utf8').match(/PUNCTUAL_[A-Z_]+\b/g) ?? []);
    const unknown = new Set(used.filter((name) => !NAMES.includes(name) && !READ_BY_SCRIPTS.test(name)));
    assert.deepEqual([...unknown], []);
  });

  it('is explained by --help, with the defaults of the service', () => {
    const help = helpText('dispatcher');
    assert.match(help, /PUNCTUAL_METRICS_PORT\n.*\n.*default 7402/);
    assert.doesNotMatch(help, /PUNCTUAL_API_PORT/);
    const told = new Set(SERVICES.flatMap((service) => helpText(service).match(/PUNCTUAL_[A-Z_]+/g) ?? []));
    assert.deepEqual([...told].sort(), [...NAMES].sort());
  });
});

import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import type { Clock } from '../ports/clock.ts';
import type { Random } from '../ports/random.ts';
import type { Log, Telemetry } from '../ports/telemetry.ts';
import { createLog } from '../telemetry/json-log.ts';
import { createTelemetry } from '../telemetry/prometheus-telemetry.ts';
import { startAdminServer } from './admin-server.ts';
import { type Config, ConfigError, helpText, loadConfig, type LoadedConfig } from './config.ts';
import { errorText } from './error-fields.ts';
import { EXIT_FAILED, Lifecycle } from './lifecycle.ts';
import { registerProcessMetrics } from './process-metrics.ts';
import { type Readiness, type ReadyCheck, readinessOf } from './readiness.ts';
import { systemClock } from './system-clock.ts';
import { systemRandom } from './system-random.ts';
import type { ServiceName } from './variables.ts';

/** What the process lends to the service that runs in it. */
export interface ServiceContext {
  readonly config: Config;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly telemetry: Telemetry;
  /** Aborted as soon as the process begins to stop: dialling and other waits end then. */
  readonly stopping: AbortSignal;
  /** To be called as soon as a part has started: parts are stopped in reverse order. */
  readonly onStop: (part: string, stop: () => Promise<void>) => void;
  /** Adds to what /readyz looks at. */
  readonly addReadyCheck: (check: ReadyCheck) => void;
  readonly readiness: () => Promise<Readiness>;
}

/**
 * Puts a service together and starts it; resolves once it is at work. Rejects only for what no waiting mends (a schema
 * too old, a port in use): the process then ends with the error's one line.
 */
export type Compose = (context: ServiceContext) => Promise<{ readonly schemaVersion: string }>;

const EXIT_USAGE = 2;

/** The whole life of a service's process: configuration, --help, log, metrics port, start, signals, orderly end. */
export async function runService(name: ServiceName, compose: Compose): Promise<void> {
  const argument = process.argv[2];
  if (argument === '--help' || argument === '-h') {
    process.stdout.write(helpText(name));
    return;
  }
  if (argument !== undefined) fail(EXIT_USAGE, [`${name}: takes no argument ${argument}; see --help`]);
  await start(configOf(name), compose);
}

/**
 * Node's heap grows far beyond what is in use before it is collected, and many processes share a machine with the stores: so it
 * grows by a quarter of what is in use at a time. Measured in a burst (MB resident, CPU ms a job, of the api): Node's own way 460 and
 * 0.4, this 300 and 0.55, `--optimize-for-size` 167 and 1.3.
 */
const HEAP_FLAGS = ['--heap-growing-percent=25', '--max-semi-space-size=8'];

async function start({ config, settings, warnings }: LoadedConfig, compose: Compose): Promise<void> {
  const { service, memberId, logLevel } = config;
  for (const flag of HEAP_FLAGS) setFlagsFromString(flag);
  const log = createLog({ service, memberId, level: logLevel });
  const version = packageVersion();
  log.info('starting', { version, node: process.version, settings });
  for (const warning of warnings) log.warn(warning);

  const telemetry = createTelemetry();
  let schema = '';
  registerProcessMetrics(telemetry, () => ({ version, tzdata: process.versions.tz ?? 'none', schema }));

  const lifecycle = new Lifecycle({ clock: systemClock, log, graceMs: config.shutdownGraceMs });
  lifecycle.watchProcess();
  let started = false;
  const checks: ReadyCheck[] = [
    {
      name: 'process',
      required: true,
      problem: () => (lifecycle.stopping.aborted ? 'stopping' : started ? null : 'starting'),
    },
  ];
  const context: ServiceContext = {
    config,
    clock: systemClock,
    random: systemRandom,
    log,
    telemetry,
    stopping: lifecycle.stopping,
    onStop: (part, stop) => lifecycle.onStop(part, stop),
    addReadyCheck: (check) => checks.push(check),
    readiness: () => readinessOf(checks, systemClock),
  };

  try {
    const admin = await startAdminServer({
      address: config.metrics,
      metrics: () => telemetry.render(),
      readiness: context.readiness,
    });
    lifecycle.onStop('metrics server', () => admin.close());
    log.info('metrics', { url: `http://${admin.address.host}:${admin.address.port}/metrics` });
    ({ schemaVersion: schema } = await compose(context));
    started = true;
    log.info('started');
  } catch (error) {
    if (lifecycle.stopping.aborted) return;
    process.stderr.write(`punctual ${service} cannot start: ${errorText(error)}\n`);
    await lifecycle.stop('could not start', EXIT_FAILED);
  }
}

function configOf(name: ServiceName): LoadedConfig {
  try {
    return loadConfig(name);
  } catch (error) {
    if (error instanceof ConfigError) fail(EXIT_USAGE, [`${name}: ${error.message}`, ...error.faults]);
    throw error;
  }
}

function fail(code: number, lines: readonly string[]): never {
  process.stderr.write(`punctual ${lines.join('\n  ')}\n`);
  process.exit(code);
}

function packageVersion(): string {
  const file = resolve(import.meta.dirname, '../../../package.json');
  return (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version;
}

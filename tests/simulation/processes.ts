// The processes of the product, put together by their own compose functions over the wires.

import type { UseCases } from '../../services/api/use-cases/types.ts';
import { composeUseCases } from '../../services/api/compose.ts';
import { buildFoundation, type LayFoundation } from '../../services/core/foundation/foundation.ts';
import type { LogFields } from '../../services/core/ports/telemetry.ts';
import { loadConfig } from '../../services/core/runtime/config.ts';
import { readinessOf, type ReadyCheck } from '../../services/core/runtime/readiness.ts';
import type { ServiceContext } from '../../services/core/runtime/run-service.ts';
import type { ServiceName } from '../../services/core/runtime/variables.ts';
import { composeDispatcher } from '../../services/dispatcher/compose.ts';
import { composeReaper } from '../../services/reaper/compose.ts';
import { silentTelemetry } from '../support/silent-telemetry.ts';
import { type Host, type ProcessKind, type Running, SHARDS } from './world.ts';

const COHORT_SIZE = 8;

/** What runs in a simulated cluster besides workers. A new kind of process is one more entry. */
export const SERVICES: readonly ProcessKind[] = [
  { name: 'api', instances: 2, start: (host) => startService('api', host, composeUseCases) },
  { name: 'dispatcher', instances: 2, start: (host) => startService('dispatcher', host, composeDispatcher) },
  { name: 'reaper', instances: 2, start: (host) => startService('reaper', host, composeReaper) },
];

interface Parts {
  readonly schemaVersion: string;
  readonly useCases?: UseCases;
}

async function startService(
  service: ServiceName,
  host: Host,
  compose: (context: ServiceContext, lay: LayFoundation) => Promise<Parts>,
): Promise<Running> {
  const { world, machine, connections, kind } = host;
  const stops: (() => Promise<void>)[] = [];
  const checks: ReadyCheck[] = [];
  const stopping = new AbortController();
  const context = contextOf(service, host, { stops, checks, stopping: stopping.signal });
  const lay: LayFoundation = async (_, options) => {
    const { plant } = world;
    const planted = { world, kind, clock: machine.clock };
    const foundation = await buildFoundation(
      plant.connections?.(connections, planted) ?? connections,
      context,
      options,
    );
    plant.foundation?.(foundation, planted);
    return foundation;
  };
  const { useCases } = await compose(context, lay);
  return {
    ...(useCases === undefined ? {} : { useCases }),
    problem: () => {
      const problems = checks.filter(({ required }) => required).map((check) => check.problem());
      return problems.find((problem) => typeof problem === 'string') ?? null;
    },
    stop: async () => {
      stopping.abort();
      for (const stop of stops.reverse()) await stop();
    },
  };
}

function contextOf(
  service: ServiceName,
  { world, machine, random }: Host,
  ends: {
    readonly stops: (() => Promise<void>)[];
    readonly checks: ReadyCheck[];
    readonly stopping: AbortSignal;
  },
): ServiceContext {
  const { config } = loadConfig(service, {
    PUNCTUAL_MEMBER_ID: machine.name,
    PUNCTUAL_WRITE_SHARDS: String(SHARDS),
    PUNCTUAL_COHORT_SIZE: String(COHORT_SIZE),
  });
  const say = (level: string) => (message: string, fields?: LogFields) => {
    world.trace.add(machine.name, `${level}: ${message}`, () => (fields === undefined ? '' : fieldsText(fields)));
    if (isOurFault(fields)) {
      world.report({ rule: 'an error of our own', detail: `${message}: ${fieldsText(fields)}`, subject: null });
    }
  };
  return {
    config,
    clock: machine.clock,
    random,
    log: { debug: say('debug'), info: say('info'), warn: say('warn'), error: say('error') },
    telemetry: silentTelemetry,
    stopping: ends.stopping,
    onStop: (_, stop) => ends.stops.push(stop),
    addReadyCheck: (check) => ends.checks.push(check),
    readiness: () => readinessOf(ends.checks, machine.clock),
  };
}

function fieldsText(fields: LogFields): string {
  const { stack: _, ...short } = fields;
  return JSON.stringify(short);
}

/** The store and the bus may fail in every way; a TypeError in a loop that goes on is a fault all the same. */
function isOurFault(fields: LogFields | undefined): fields is LogFields {
  const error = fields?.['stack'] ?? fields?.['error'];
  return typeof error === 'string' && /^(Type|Range|Reference|Syntax|Assertion)?Error\b/.test(error);
}

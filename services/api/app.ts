import express, {
  type ErrorRequestHandler,
  type Express,
  type Request,
  type RequestHandler,
  type Response,
} from 'express';
import type { Problem } from '../core/contract/problems.ts';
import { SECOND_MS } from '../core/domain/limits.ts';
import { msBetween } from '../core/domain/time.ts';
import type { Clock } from '../core/ports/clock.ts';
import type { Random } from '../core/ports/random.ts';
import type { Log, Telemetry } from '../core/ports/telemetry.ts';
import { errorFields } from '../core/runtime/error-fields.ts';
import type { Readiness } from '../core/runtime/readiness.ts';
import { problemAnswer, send } from './middleware/answer.ts';
import { type Operation, readApiDocument } from './middleware/api-document.ts';
import { operationHandler, type Route } from './middleware/operation-handler.ts';
import { Validation } from './middleware/validation.ts';
import { jobRoutes } from './routes/job-routes.ts';
import { listRoutes } from './routes/list-routes.ts';
import { queueRoutes } from './routes/queue-routes.ts';
import { operationRoutes } from './routes/operation-routes.ts';
import { scheduleRoutes } from './routes/schedule-routes.ts';
import { serviceRoutes } from './routes/service-routes.ts';
import { workerRoutes } from './routes/worker-routes.ts';
import type { UseCases } from './use-cases/types.ts';

export interface AppParts {
  readonly useCases: UseCases;
  readonly clock: Clock;
  readonly random: Random;
  readonly telemetry: Telemetry;
  readonly log: Log;
  readonly horizonDays: number;
  readonly keyspace: string;
  readonly readiness: () => Promise<Readiness>;
  /** Aborts when the process stops: calls that wait for something answer then. */
  readonly stopping: AbortSignal;
}

/** The api as an express application that does not listen. Throws when the document and the routes do not name the same. */
export function buildApp(parts: AppParts): Express {
  const { clock, random, telemetry, log, stopping } = parts;
  const document = readApiDocument();
  const validation = new Validation(document);
  const routes = routesOf(parts);
  assertAllDocumented(routes, document.operations);
  const traceIdOf = (request: Request): string => traceIdFrom(request) ?? random.token().replaceAll('-', '');

  const app = express();
  app.disable('x-powered-by').disable('etag').enable('case sensitive routing').enable('strict routing');
  app.use(measured(clock, telemetry));
  for (const operation of document.operations) {
    const handler = operationHandler(routeOf(routes, operation), validation.of(operation), { traceIdOf, stopping });
    app[operation.method](expressPath(operation.path), handler);
  }
  for (const [path, methods] of Map.groupBy(document.operations, (operation) => operation.path)) {
    app.all(expressPath(path), refuseMethod(methods));
  }
  app.use(refusePath);
  app.use(answerError(log, traceIdOf));
  return app;
}

type Routes = Readonly<Record<string, Route>>;

function routesOf({ useCases, clock, horizonDays, keyspace, readiness }: AppParts): Routes {
  return {
    ...jobRoutes({ useCases, clock, horizonDays, keyspace }),
    ...listRoutes({ useCases, keyspace }),
    ...operationRoutes({ useCases, clock, horizonDays, keyspace }),
    ...scheduleRoutes({ useCases, clock, horizonDays, keyspace }),
    ...workerRoutes(useCases),
    ...queueRoutes({ useCases, clock, horizonDays }),
    ...serviceRoutes({ horizonDays, readiness }),
  };
}

function assertAllDocumented(routes: Routes, operations: readonly Operation[]): void {
  const known = new Set(operations.map(({ id }) => id));
  const unknown = Object.keys(routes).filter((id) => !known.has(id));
  if (unknown.length > 0) throw new Error(`openapi.yaml does not name ${unknown.join(', ')}, which routes serve`);
}

function routeOf(routes: Routes, { id, requestSchema }: Operation): Route {
  const route = routes[id];
  if (route === undefined) throw new Error(`openapi.yaml names ${id}, which no route serves`);
  if ((route.body === undefined) !== (requestSchema === undefined)) {
    throw new Error(`openapi.yaml and the route of ${id} differ on whether it takes a body`);
  }
  return route;
}

/** /jobs/{job_id} as Express writes it. */
function expressPath(path: string): string {
  return path.replaceAll(/\{(\w+)\}/g, ':$1');
}

function measured(clock: Clock, telemetry: Telemetry): RequestHandler {
  return (request, response, next) => {
    const started = clock.monotonic();
    response.once('finish', () => {
      telemetry.observe('punctual_http_request_duration_seconds', msBetween(started, clock.monotonic()) / SECOND_MS, {
        // The pattern, never the path itself: job ids are no labels.
        route: (request.route as { path: string } | undefined)?.path ?? 'unknown',
        method: request.method,
        status: String(response.statusCode),
      });
    });
    next();
  };
}

function refuseMethod(operations: readonly Operation[]): RequestHandler {
  const methods = operations.flatMap(({ method }) => (method === 'get' ? ['GET', 'HEAD'] : [method.toUpperCase()]));
  const allow = methods.sort().join(', ');
  return (request, response) => {
    const detail = `${request.path} takes ${allow}, not ${request.method}.`;
    response.setHeader('allow', allow);
    refuse(request, response, { code: 'method_not_allowed', detail });
  };
}

const refusePath: RequestHandler = (request, response) =>
  refuse(request, response, {
    code: 'not_found',
    detail: 'There is no such path; schema/http/openapi.yaml lists those there are.',
  });

/** For refusals that are no fault of ours, which carry no trace id. */
function refuse(request: Request, response: Response, problem: Problem): void {
  send(response, problemAnswer(problem, { path: request.path, traceId: () => '' }));
}

/** What no route answered: a path that cannot be decoded, or a fault of ours. */
function answerError(log: Log, traceIdOf: (request: Request) => string): ErrorRequestHandler {
  return (error, request, response, next) => {
    if (response.headersSent) {
      next(error);
      return;
    }
    if (error instanceof URIError) {
      refuse(request, response, { code: 'invalid_request', detail: 'The path is not properly percent-encoded.' });
      return;
    }
    const traceId = traceIdOf(request);
    log.error('a request failed', {
      trace_id: traceId,
      method: request.method,
      path: request.path,
      ...errorFields(error),
    });
    const detail = 'This is our fault; the trace_id finds it in our log.';
    send(response, problemAnswer({ code: 'internal_error', detail }, { path: request.path, traceId: () => traceId }));
  };
}

/** The caller's own trace (W3C trace context), if it sends one. */
function traceIdFrom(request: Request): string | undefined {
  return /^00-([0-9a-f]{32})-/.exec(String(request.headers['traceparent']))?.[1];
}

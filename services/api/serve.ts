import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { Compose, ServiceContext } from '../core/runtime/run-service.ts';
import { listen } from '../core/runtime/listen.ts';
import { buildApp } from './app.ts';
import type { ApiParts } from './compose.ts';
import { refuseMalformed } from './middleware/malformed-request.ts';

/** A request must have arrived whole within this. */
const REQUEST_TIMEOUT_MS = 30_000;
/** Longer than the idle timeouts of common load balancers (60 s), so that they never send into a connection that closes. */
const KEEP_ALIVE_TIMEOUT_MS = 65_000;

/** Starts listening. Stopping answers what was accepted: no new connections, requests in hand end, idle connections close. */
export async function serveApi(context: ServiceContext, { useCases, schemaVersion }: ApiParts): ReturnType<Compose> {
  const { config, clock, random, telemetry, log, stopping, readiness } = context;
  const app = buildApp({
    useCases,
    clock,
    random,
    telemetry,
    log,
    readiness,
    stopping,
    horizonDays: config.horizonDays,
    keyspace: config.cassandra.keyspace,
  });
  const server = createServer({ requestTimeout: REQUEST_TIMEOUT_MS, keepAliveTimeout: KEEP_ALIVE_TIMEOUT_MS });
  const inHand = new Set<ServerResponse>();
  const answer = (request: IncomingMessage, response: ServerResponse): void => {
    if (stopping.aborted) closeAfter(response);
    inHand.add(response);
    response.once('close', () => inHand.delete(response));
    app(request, response);
  };
  server.on('request', answer);
  // Whatever else a client expects than to go on: it gets the answer all the same.
  server.on('checkExpectation', answer);
  server.on('clientError', (error, socket) => {
    const isAnswering = [...inHand].some((response) => response.socket === socket && response.headersSent);
    if (isAnswering) socket.destroy();
    else refuseMalformed(error, socket);
  });
  const { host, port } = await listen(server, config.api, 'PUNCTUAL_API_HOST or PUNCTUAL_API_PORT');
  context.onStop('http server', async () => {
    inHand.forEach(closeAfter);
    await new Promise((resolve) => server.close(resolve));
  });
  log.info('listening', { url: `http://${host}:${port}` });
  return { schemaVersion };
}

/** Node closes idle connections when a server stops, and leaves those that become idle later open for their whole timeout. */
function closeAfter(response: ServerResponse): void {
  if (!response.headersSent) response.setHeader('connection', 'close');
}

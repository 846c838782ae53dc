import { createServer, type ServerResponse } from 'node:http';
import { errorText } from './error-fields.ts';
import { type Address, listen } from './listen.ts';
import type { Readiness } from './readiness.ts';

export interface AdminServerOptions {
  readonly address: Address;
  /** Prometheus' text format. */
  readonly metrics: () => Promise<string>;
  readonly readiness: () => Promise<Readiness>;
}

export interface AdminServer {
  readonly address: Address;
  close(): Promise<void>;
}

interface Answer {
  readonly status: number;
  readonly type: string;
  readonly text: string;
}

/** /metrics, /healthz (the process lives) and /readyz (it can do its work) of any service, on a port of their own. */
export async function startAdminServer({ address, metrics, readiness }: AdminServerOptions): Promise<AdminServer> {
  const pages: Readonly<Record<string, () => Promise<Answer>>> = {
    '/metrics': async () => ({ status: 200, type: 'text/plain; version=0.0.4; charset=utf-8', text: await metrics() }),
    '/healthz': async () => json(200, { status: 'ok' }),
    '/readyz': async () => {
      const state = await readiness();
      return json(state.ready ? 200 : 503, state);
    },
  };

  const server = createServer((request, response) => {
    const path = new URL(request.url ?? '/', 'http://admin').pathname;
    const page = pages[path];
    if (page === undefined)
      send(response, json(404, { error: `no such path; there are ${Object.keys(pages).join(', ')}` }));
    else
      page().then(
        (answer) => send(response, answer),
        (error: unknown) => send(response, json(500, { error: errorText(error) })),
      );
  });
  const taken = await listen(server, address, 'PUNCTUAL_METRICS_HOST or PUNCTUAL_METRICS_PORT');
  return {
    address: taken,
    close: async () => {
      await new Promise((resolve) => {
        server.close(resolve);
        server.closeAllConnections();
      });
    },
  };
}

function json(status: number, value: unknown): Answer {
  return { status, type: 'application/json', text: `${JSON.stringify(value)}\n` };
}

function send(response: ServerResponse, { status, type, text }: Answer): void {
  response.writeHead(status, { 'content-type': type, 'content-length': Buffer.byteLength(text) });
  response.end(text);
}

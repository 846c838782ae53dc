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
  async function answerTo(path: string | undefined): Promise<Answer> {
    switch (path) {
      case '/metrics':
        return { status: 200, type: 'text/plain; version=0.0.4; charset=utf-8', text: await metrics() };
      case '/healthz':
        return json(200, { status: 'ok' });
      case '/readyz': {
        const state = await readiness();
        return json(state.ready ? 200 : 503, state);
      }
      default:
        return json(404, { error: 'no such path; there are /metrics, /healthz and /readyz' });
    }
  }

  const server = createServer((request, response) => {
    answerTo(request.url?.split('?')[0]).then(
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

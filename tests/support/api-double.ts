import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { ReadyConsumer } from '../../services/client/types.ts';

interface Call {
  readonly path: string;
  readonly items: readonly Record<string, unknown>[];
}

type Answer = Record<string, unknown> & { readonly status: number };

/** The worker's part of the REST API, as far as a worker can tell: jobs are what their claims are answered with. */
export class ApiDouble {
  readonly calls: Call[] = [];
  /** Job id -> raw JSON of the payload. */
  readonly payloads = new Map<string, string>();
  readonly ready: ReadyConsumer[] = [];
  readonly completed: Record<string, unknown>[] = [];
  heartbeatS = 10;
  timeoutS = 60;
  /** Replaces the answer to an item; undefined leaves it. */
  override: (path: string, item: Record<string, unknown>) => Answer | undefined = () => undefined;
  /** Refuses whole calls with this status while it is set. */
  failing: number | undefined;
  readonly #server: Server;

  constructor() {
    this.#server = createServer((request, response) => {
      void read(request).then((body) => {
        const { status, text } = this.#answer(request.url ?? '', body);
        response.writeHead(status, { 'content-type': 'application/json' }).end(text);
      });
    });
  }

  async start(): Promise<string> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve));
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  stop(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }

  /** The items of all calls to a path. */
  itemsOf(path: string): readonly Record<string, unknown>[] {
    return this.calls.filter((call) => call.path === path).flatMap(({ items }) => items);
  }

  #answer(path: string, body: string): { status: number; text: string } {
    if (this.failing !== undefined) {
      const status = this.failing;
      const problem = { title: 'not now', status, code: 'store_unavailable', retryable: status >= 500 };
      return { status, text: JSON.stringify(problem) };
    }
    if (path.startsWith('/queues/')) {
      return { status: 200, text: JSON.stringify({ queue: path.slice(8), ready: this.ready }) };
    }
    const { items } = JSON.parse(body) as { items: Record<string, unknown>[] };
    this.calls.push({ path, items });
    const results = items.map((item) => {
      const override = this.override(path, item);
      return override === undefined ? this.#answerItem(path, item) : JSON.stringify(override);
    });
    return { status: 200, text: `{"results":[${results.join(',')}]}` };
  }

  #answerItem(path: string, item: Record<string, unknown>): string {
    if (path === '/jobs/complete' || path === '/jobs/release') {
      this.completed.push(item);
      return JSON.stringify({ status: 200, job_id: item['job_id'] });
    }
    if (path === '/jobs/heartbeat') {
      const at = new Date().toISOString();
      return JSON.stringify({ status: 200, lease_until: at, deadline: at, cancel_requested: false });
    }
    const jobId = String(item['job_id']);
    const claimed = {
      status: 200,
      job_id: jobId,
      attempt: item['attempt'],
      lease_until: new Date().toISOString(),
      queue: 'mail',
      priority: 'normal',
      scheduled_for: new Date().toISOString(),
      idempotency_key: jobId,
      max_attempts: 5,
      timeout_s: this.timeoutS,
      heartbeat_s: this.heartbeatS,
      labels: {},
    };
    return `${JSON.stringify(claimed).slice(0, -1)}, "payload" : ${this.payloads.get(jobId) ?? 'null'} }`;
  }
}

/** How a batch call refuses one item. */
export function refusal(status: number, code: string): Answer {
  return { status, error: { title: code, status, code, retryable: status >= 500 } };
}

async function read(request: IncomingMessage): Promise<string> {
  let text = '';
  for await (const chunk of request) text += String(chunk);
  return text;
}

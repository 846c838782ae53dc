// One HTTP/1.1 connection for one request after the other. Node's own clients take 60-100 us of CPU a request, more than the
// api itself may take on the same two cores; this takes a tenth of it.

import { once } from 'node:events';
import { connect, type Socket } from 'node:net';

export interface PostAnswer {
  readonly status: number;
  readonly body: string;
}

const HEADERS_END = '\r\n\r\n';

export class KeepAliveConnection {
  readonly #socket: Socket;
  readonly #host: string;
  #received: Buffer = Buffer.alloc(0);
  #waiting: { resolve: (answer: PostAnswer) => void; reject: (error: Error) => void } | undefined;

  private constructor(socket: Socket, host: string) {
    this.#socket = socket;
    this.#host = host;
    socket.setNoDelay(true);
    socket.on('data', (chunk) => this.#receive(chunk));
    socket.on('error', (error) => this.#fail(error));
    socket.on('close', () => this.#fail(new Error('the api closed the connection')));
  }

  static async open(url: string): Promise<KeepAliveConnection> {
    const { hostname, port, host } = new URL(url);
    const socket = connect({ host: hostname, port: Number(port) });
    await once(socket, 'connect');
    return new KeepAliveConnection(socket, host);
  }

  /** One at a time. */
  post(path: string, body: string): Promise<PostAnswer> {
    return new Promise((resolve, reject) => {
      this.#waiting = { resolve, reject };
      this.#socket.write(
        `POST ${path} HTTP/1.1\r\nhost: ${this.#host}\r\ncontent-type: application/json\r\n` +
          `content-length: ${Buffer.byteLength(body)}${HEADERS_END}${body}`,
      );
    });
  }

  close(): void {
    this.#socket.destroy();
  }

  /** The api's answers carry content-length, all of them. */
  #receive(chunk: Buffer): void {
    this.#received = this.#received.length === 0 ? chunk : Buffer.concat([this.#received, chunk]);
    const headersEnd = this.#received.indexOf(HEADERS_END);
    if (headersEnd < 0) return;
    const head = this.#received.toString('latin1', 0, headersEnd);
    const start = headersEnd + HEADERS_END.length;
    const end = start + Number(/^content-length: *(\d+)/im.exec(head)?.[1] ?? 0);
    if (this.#received.length < end) return;
    const answer = { status: Number(head.slice(9, 12)), body: this.#received.toString('utf8', start, end) };
    this.#received = this.#received.subarray(end);
    const waiting = this.#waiting;
    this.#waiting = undefined;
    waiting?.resolve(answer);
  }

  #fail(error: Error): void {
    this.#waiting?.reject(error);
    this.#waiting = undefined;
  }
}

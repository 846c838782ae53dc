import { maxHeaderSize } from 'node:http';
import type { Duplex } from 'node:stream';
import { problemAnswer } from './answer.ts';

/** What is no HTTP request, which Node finds before there is one to be routed: refused in the form of all refusals. */
export function refuseMalformed(error: NodeJS.ErrnoException, socket: Duplex): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy();
    return;
  }
  const problem = { code: 'invalid_request', detail: detailOf(error) } as const;
  const { status, body, contentType } = problemAnswer(problem, { path: '', traceId: () => '' });
  const head = [
    `HTTP/1.1 ${status} Bad Request`,
    'connection: close',
    `content-type: ${contentType ?? ''}`,
    `content-length: ${Buffer.byteLength(body)}`,
  ];
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`);
}

function detailOf(error: NodeJS.ErrnoException): string {
  switch (error.code) {
    case 'HPE_HEADER_OVERFLOW':
      return `The path with its query, and the headers, may be at most ${maxHeaderSize} bytes together.`;
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return 'The request did not arrive whole in time.';
    default:
      return `This is not a request in HTTP/1.1: ${error.message}.`;
  }
}

// A TCP proxy before Cassandra that knows which statements a request carries (native protocol v4, uncompressed, as our driver
// speaks it): a test can act at the very moment when one passes, hold it back, or lose its answer.

import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import type { AddressInfo } from 'node:net';
import { type Cleanup, sharedServers } from './servers.ts';

/** One request with prepared statements: an EXECUTE or a BATCH. */
export interface ProxiedRequest {
  readonly cql: readonly string[];
  /** Whether the text is among the values. */
  carries(text: string): boolean;
}

/** What befalls one request; everything else passes. */
export interface Interference {
  /** The request goes on when this has ended. */
  readonly beforeSend?: () => Promise<void>;
  /** Called when Cassandra has answered, before the answer goes on. */
  readonly beforeAnswer?: () => void;
  /** lost: the answer never comes. cut: the connection ends in its place. */
  readonly answer?: 'lost' | 'cut';
}

export interface CassandraProxy {
  readonly contactPoint: string;
  /** Asked about each request until the returned function is called; the first that says something is followed. */
  onRequest(interfere: (request: ProxiedRequest) => Interference | undefined): () => void;
}

interface Frame {
  readonly bytes: Buffer;
  readonly opcode: number;
  readonly stream: number;
  readonly body: Buffer;
}

const HEADER_BYTES = 9;
const PREPARE = 0x09;
const EXECUTE = 0x0a;
const BATCH = 0x0d;
const RESULT = 0x08;
const RESULT_PREPARED = 4;

/** Before the shared Cassandra, until the test ends. */
export async function startCassandraProxy(test: Cleanup): Promise<CassandraProxy> {
  const [host = '', port = ''] = (sharedServers().cassandraContactPoints[0] ?? '').split(':');
  const interferences = new Set<(request: ProxiedRequest) => Interference | undefined>();
  /** CQL by the id that the server gives it, the same on all connections. */
  const prepared = new Map<string, string>();
  const sockets = new Set<Socket>();
  const server = createServer((client) => {
    const upstream = connect(Number(port), host);
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on('error', () => undefined);
      socket.once('close', () => {
        sockets.delete(socket);
        client.destroy();
        upstream.destroy();
      });
    }
    relay(client, upstream, prepared, (request) => {
      for (const interfere of interferences) {
        const found = interfere(request);
        if (found !== undefined) return found;
      }
      return {};
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  test.after(async () => {
    for (const socket of sockets) socket.destroy();
    server.close();
    await once(server, 'close');
  });
  return {
    contactPoint: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    onRequest: (interfere) => {
      interferences.add(interfere);
      return () => void interferences.delete(interfere);
    },
  };
}

function relay(
  client: Socket,
  upstream: Socket,
  prepared: Map<string, string>,
  interferenceWith: (request: ProxiedRequest) => Interference,
): void {
  const preparing = new Map<number, string>();
  const answering = new Map<number, Interference>();
  eachFrame(client, ({ bytes, opcode, stream, body }) => {
    if (opcode === PREPARE) preparing.set(stream, body.toString('utf8', 4, 4 + body.readInt32BE(0)));
    const ids = opcode === EXECUTE ? [shortBytes(body, 0)] : opcode === BATCH ? idsOfBatch(body) : [];
    if (ids.length === 0) {
      upstream.write(bytes);
      return;
    }
    const cql = ids.map((id) => prepared.get(id.toString('hex')) ?? '');
    const interference = interferenceWith({ cql, carries: (text) => body.includes(text) });
    answering.set(stream, interference);
    if (interference.beforeSend === undefined) upstream.write(bytes);
    else void interference.beforeSend().then(() => upstream.write(bytes));
  });
  eachFrame(upstream, ({ bytes, opcode, stream, body }) => {
    const cql = preparing.get(stream);
    if (cql !== undefined && opcode === RESULT && body.readInt32BE(0) === RESULT_PREPARED) {
      prepared.set(shortBytes(body, 4).toString('hex'), cql);
    }
    preparing.delete(stream);
    const { beforeAnswer, answer } = answering.get(stream) ?? {};
    answering.delete(stream);
    beforeAnswer?.();
    if (answer === 'cut') client.destroy();
    else if (answer !== 'lost') client.write(bytes);
  });
}

function eachFrame(socket: Socket, take: (frame: Frame) => void): void {
  let received = Buffer.alloc(0);
  socket.on('data', (chunk: Buffer) => {
    received = Buffer.concat([received, chunk]);
    while (received.length >= HEADER_BYTES) {
      const end = HEADER_BYTES + received.readInt32BE(5);
      if (received.length < end) return;
      const bytes = received.subarray(0, end);
      received = received.subarray(end);
      take({ bytes, stream: bytes.readInt16BE(2), opcode: bytes.readUInt8(4), body: bytes.subarray(HEADER_BYTES) });
    }
  });
}

/** Of statements that are all prepared: type, count, then for each its kind, its id and its values. */
function idsOfBatch(body: Buffer): Buffer[] {
  const ids: Buffer[] = [];
  let at = 3;
  for (let left = body.readUInt16BE(1); left > 0; left -= 1) {
    const id = shortBytes(body, at + 1);
    ids.push(id);
    at += 3 + id.length;
    const values = body.readUInt16BE(at);
    at += 2;
    // A value that is null or unset has a length below zero and no bytes.
    for (let value = 0; value < values; value += 1) at += 4 + Math.max(0, body.readInt32BE(at));
  }
  return ids;
}

function shortBytes(body: Buffer, at: number): Buffer {
  const start = at + 2;
  return body.subarray(start, start + body.readUInt16BE(at));
}

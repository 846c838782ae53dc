// A stretch of network that can break: what connects through it is cut off at will.

import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import type { Cleanup } from './servers.ts';

export interface TcpProxy {
  /** host:port, in place of the server's. */
  readonly address: string;
  /** Breaks off all connections; new ones go through. */
  cut(): void;
}

/** @param target host:port. */
export async function startTcpProxy(test: Cleanup, target: string): Promise<TcpProxy> {
  const [host = '', port = ''] = target.split(':');
  const sockets = new Set<Socket>();
  const cut = (): void => sockets.forEach((socket) => socket.destroy());
  const server = createServer((near) => {
    const far = connect({ host, port: Number(port) });
    for (const [socket, other] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(socket);
      socket.pipe(other);
      socket.on('error', () => undefined);
      socket.once('close', () => {
        sockets.delete(socket);
        other.destroy();
      });
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  test.after(async () => {
    server.close();
    cut();
  });
  return { address: `127.0.0.1:${(server.address() as AddressInfo).port}`, cut };
}

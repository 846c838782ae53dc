import { once } from 'node:events';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface Address {
  readonly host: string;
  readonly port: number;
}

/** Listens, and returns the address with the port that was taken. An address in use is told with the variable to change. */
export async function listen(server: Server, { host, port }: Address, variable: string): Promise<Address> {
  server.listen({ host, port });
  try {
    await once(server, 'listening');
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : '';
    const reason = REASONS[code] ?? 'cannot be listened on';
    throw new Error(`${host}:${port} ${reason}; set ${variable} to another`, { cause: error });
  }
  return { host, port: (server.address() as AddressInfo).port };
}

const REASONS: Readonly<Record<string, string>> = {
  EADDRINUSE: 'is in use by another process',
  EADDRNOTAVAIL: 'is not an address of this machine',
  EACCES: 'may not be listened on by this user',
};

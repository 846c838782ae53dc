import { accessSync, constants } from 'node:fs';

/** What the text of an environment variable may be, and the value it stands for. */
export interface Kind<T> {
  /** Said in --help and in faults: what is right. */
  readonly expects: string;
  /** The value, or undefined when the text is not what is expected. */
  parse(text: string): T | undefined;
  /** What is wrong with a text that parse refused, where "expects" alone would leave one guessing. */
  wrong?(text: string): string;
}

/** A whole number, unit in the variable's name. */
export function integer({ min, max }: { min: number; max: number }): Kind<number> {
  return {
    expects: `a whole number from ${min} to ${max}`,
    parse: (text) => {
      const value = /^\d{1,15}$/.test(text) ? Number(text) : NaN;
      return value >= min && value <= max ? value : undefined;
    },
  };
}

export function choice<const T extends string>(...choices: readonly T[]): Kind<T> {
  return {
    expects: `one of ${choices.join(', ')}`,
    parse: (text) => choices.find((candidate) => candidate === text),
  };
}

export const onOff: Kind<boolean> = {
  expects: 'on or off',
  parse: (text) => (text === 'on' ? true : text === 'off' ? false : undefined),
};

export function text(expects: string, pattern: RegExp): Kind<string> {
  return { expects, parse: (value) => (pattern.test(value) ? value : undefined) };
}

/** A path; whether the file can be read is found out at start, not at the first connection. */
export const readableFile: Kind<string> = {
  expects: 'the path of a file that can be read',
  parse: (path) => (isReadable(path) ? path : undefined),
  wrong: (path) => `there is no readable file ${path}`,
};

/** host:port pairs, comma-separated; a missing port is the default one. IPv6 addresses stand in brackets. */
export function hostPorts(defaultPort: number): Kind<readonly string[]> {
  return list(`host:port, comma-separated (port ${defaultPort} if left out)`, (item) => hostPort(item, defaultPort));
}

/** As hostPorts, and each may begin with nats:// or tls://. Credentials have variables of their own, which are masked. */
export function natsServers(defaultPort: number): Kind<readonly string[]> {
  const kind = list(`host:port, nats://host:port or tls://host:port, comma-separated`, (item) => {
    const [, scheme = '', rest = ''] = /^(nats:\/\/|tls:\/\/)?(.*)$/.exec(item) ?? [];
    const address = hostPort(rest, defaultPort);
    return address === undefined ? undefined : `${scheme === 'tls://' ? scheme : ''}${address}`;
  });
  return {
    ...kind,
    wrong: (servers) =>
      servers.includes('@')
        ? 'credentials do not belong in an address: set PUNCTUAL_NATS_USER and PUNCTUAL_NATS_PASSWORD'
        : '',
  };
}

function list(expects: string, parseItem: (item: string) => string | undefined): Kind<readonly string[]> {
  return {
    expects,
    parse: (text) => {
      const items = text.split(',').map((item) => parseItem(item.trim()));
      return items.every((item) => item !== undefined) ? Object.freeze(items) : undefined;
    },
  };
}

function hostPort(item: string, defaultPort: number): string | undefined {
  const [, host, port = String(defaultPort)] = /^(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9_.-]+)(?::(\d{1,5}))?$/.exec(item) ?? [];
  if (host === undefined || Number(port) < 1 || Number(port) > 65_535) return undefined;
  return `${host}:${port}`;
}

function isReadable(path: string): boolean {
  try {
    accessSync(path, constants.R_OK);
    return true;
  } catch {
    return false;
  }
}

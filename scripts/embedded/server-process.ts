// One embedded server as a process: started detached, found again by its server.json, stopped by its pid and nothing else.

import { spawn } from 'node:child_process';
import {
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Port } from './settings.ts';
import { tiedToUs } from './tied-child.ts';

const POLL_MS = 50;
const START_LIMIT_MS = 120_000;
const TERMINATE_LIMIT_MS = 20_000;
const KILL_LIMIT_MS = 5_000;
const LOG_TAIL_CHARACTERS = 3_000;
const RUNNING_FILE = 'server.json';

interface RunningServer {
  readonly pid: number;
  readonly contactPoint: string;
}

/** A running server. `dir` holds all that is its own: configuration, data, log, pid. */
export interface ServerProcess {
  readonly pid: number;
  readonly dir: string;
  /** address:port, as the clients take it. */
  readonly contactPoint: string;
  readonly logFile: string;
  isRunning(): boolean;
  /** SIGTERM, then SIGKILL after 20 s. Ends when the process is gone. */
  stop(): Promise<void>;
  /** Sends a signal. After SIGKILL it ends when the process is gone; a stopped one (SIGSTOP) goes on with SIGCONT. */
  kill(signal: NodeJS.Signals): Promise<void>;
}

interface Launch {
  readonly name: string;
  /** Absolute; must stand in the command line followed by a slash: by it a pid is known to be this server's. */
  readonly dir: string;
  readonly contactPoint: string;
  readonly ports: { readonly address: string; readonly wanted: readonly Port[] };
  readonly command: string;
  readonly args: readonly string[];
  /** `ours` goes down with us, however we die; a detached one outlives us. */
  readonly lifetime: 'ours' | 'detached';
  readonly isReady: () => Promise<boolean>;
}

/** Is this pid alive and the server of that folder? server.json may outlive its process, and pids come round again. */
function isServerOf(pid: number, dir: string): boolean {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(`${dir}/`);
  } catch {
    return false;
  }
}

/**
 * Has the last thread of that server ended? A killed process loses its command line before it closes its ports, so that
 * an empty one does not mean gone yet; and a zombie that nobody reaps holds nothing any more.
 */
function hasEnded(pid: number, dir: string): boolean {
  try {
    const commandLine = readFileSync(`/proc/${pid}/cmdline`, 'utf8');
    if (commandLine !== '') return !commandLine.includes(`${dir}/`);
    const isZombie = /\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));
    return isZombie && readdirSync(`/proc/${pid}/task`).length === 1;
  } catch {
    return true;
  }
}

async function waitUntilGone(pid: number, dir: string, limitMs: number): Promise<boolean> {
  for (let waitedMs = 0; waitedMs < limitMs; waitedMs += POLL_MS) {
    if (hasEnded(pid, dir)) return true;
    await sleep(POLL_MS);
  }
  return false;
}

function handleOf(dir: string, running: RunningServer): ServerProcess {
  const { pid, contactPoint } = running;
  const send = (signal: NodeJS.Signals): void => {
    if (isServerOf(pid, dir)) process.kill(pid, signal);
  };
  return {
    pid,
    dir,
    contactPoint,
    logFile: join(dir, 'server.log'),
    isRunning: () => isServerOf(pid, dir),
    async stop() {
      send('SIGTERM');
      send('SIGCONT');
      if (!(await waitUntilGone(pid, dir, TERMINATE_LIMIT_MS))) await this.kill('SIGKILL');
      rmSync(join(dir, RUNNING_FILE), { force: true });
    },
    async kill(signal) {
      send(signal);
      if (signal !== 'SIGKILL') return;
      if (!(await waitUntilGone(pid, dir, KILL_LIMIT_MS))) throw new Error(`process ${pid} survives SIGKILL`);
    },
  };
}

/** The server of that folder, if one runs. */
export function findServer(dir: string): ServerProcess | undefined {
  const file = join(dir, RUNNING_FILE);
  if (!existsSync(file)) return undefined;
  const running = JSON.parse(readFileSync(file, 'utf8')) as RunningServer;
  return isServerOf(running.pid, dir) ? handleOf(dir, running) : undefined;
}

function readFrom(file: string, offset: number): string {
  return readFileSync(file).subarray(offset).toString('utf8').slice(-LOG_TAIL_CHARACTERS);
}

/** Starts a server and waits until it is ready. Throws with the end of its log when it ends first or takes over 2 min. */
export async function launchServer(launch: Launch): Promise<ServerProcess> {
  const { name, dir } = launch;
  // Else another server's answer on our port would look like ours.
  await assertPortsFree(launch.ports.address, launch.ports.wanted);
  mkdirSync(dir, { recursive: true });
  const logFile = join(dir, 'server.log');
  const log = openSync(logFile, 'a');
  const logStart = statSync(logFile).size;
  // A process group of its own: Ctrl-C at our terminal must not reach the server before we stop it in good order.
  const [command, args] =
    launch.lifetime === 'ours' ? tiedToUs(launch.command, launch.args) : [launch.command, launch.args];
  const child = spawn(command, args, { detached: true, stdio: ['ignore', log, log] });
  closeSync(log);
  child.unref();
  let failure: Error | undefined;
  child.once('error', (error) => (failure = error));
  child.once('exit', (code, signal) => (failure = new Error(`it ended with ${signal ?? `code ${code}`}`)));
  const running = { pid: child.pid ?? 0, contactPoint: launch.contactPoint };
  if (child.pid !== undefined) writeFileSync(join(dir, RUNNING_FILE), JSON.stringify(running));

  for (let waitedMs = 0; failure === undefined; waitedMs += POLL_MS) {
    if (await launch.isReady()) return handleOf(dir, running);
    if (waitedMs > START_LIMIT_MS) failure = new Error(`it is not ready after ${START_LIMIT_MS / 1_000} s`);
    await sleep(POLL_MS);
  }
  await handleOf(dir, running).stop();
  throw new Error(`${name} does not start: ${failure.message}\n${readFrom(logFile, logStart)}\n(log: ${logFile})`);
}

async function isPortFree(address: string, port: number): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const probe = createServer();
  probe.once('error', () => {
    resolve(false);
  });
  probe.listen({ host: address, port, exclusive: true }, () => {
    probe.close(() => {
      resolve(true);
    });
  });
  return promise;
}

/** Throws one error that names all the ports that are taken, what wanted them and how to choose others. */
export async function assertPortsFree(address: string, ports: readonly Port[]): Promise<void> {
  const free = await Promise.all(ports.map((port) => isPortFree(address, port.number)));
  const taken = ports.filter((_, index) => free[index] === false);
  if (taken.length === 0) return;
  const lines = taken.map(({ number, purpose, variable }) => {
    const chosenBy = variable === undefined ? '' : ` (${variable})`;
    return `  ${address}:${number}, wanted by ${purpose}${chosenBy}`;
  });
  const advice = 'Choose others by the variables named, or move all of them at once: PUNCTUAL_PORT_OFFSET=1000';
  throw new Error(`ports in use:\n${lines.join('\n')}\n${advice}`);
}

/** Ports that nobody listens on at this moment. Another process may take one before we do: start soon. */
export async function findFreePorts(address: string, count: number): Promise<number[]> {
  const probes = Array.from({ length: count }, () => createServer());
  const ports = await Promise.all(
    probes.map(async (probe) => {
      const { promise, resolve, reject } = Promise.withResolvers<number>();
      probe.once('error', reject);
      probe.listen({ host: address, port: 0 }, () => {
        const bound = probe.address();
        if (bound !== null && typeof bound === 'object') resolve(bound.port);
      });
      return promise;
    }),
  );
  await Promise.all(probes.map((probe) => new Promise((resolve) => probe.close(resolve))));
  return ports;
}

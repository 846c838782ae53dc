// One of our services as a child process: started, waited for until it is ready, stopped. It never outlives us.

import { spawn } from 'node:child_process';
import { closeSync, mkdirSync, openSync, readFileSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { ADDRESS } from './servers.ts';
import { ROOT } from './settings.ts';
import { tiedToUs } from './tied-child.ts';

const POLL_MS = 50;
const READY_LIMIT_MS = 60_000;
const PROBE_LIMIT_MS = 3_000;
/** Longer than the services' own grace (PUNCTUAL_SHUTDOWN_GRACE_MS, 20 s unless set). */
const TERMINATE_LIMIT_MS = 25_000;
const LOG_TAIL_CHARACTERS = 3_000;

export interface ServiceOptions {
  readonly name: 'api' | 'dispatcher' | 'reaper';
  /** On top of ours. */
  readonly environment: Readonly<Record<string, string>>;
  readonly metricsPort: number;
  readonly logFile: string;
}

export interface ServiceProcess {
  readonly name: string;
  readonly pid: number;
  readonly metricsUrl: string;
  readonly logFile: string;
  /** Resolves when the process has ended, whoever ended it, with how: "code 0", "SIGKILL". */
  readonly ended: Promise<string>;
  /** SIGTERM, then SIGKILL after 25 s. */
  stop(): Promise<void>;
}

async function isReady(metricsUrl: string): Promise<boolean> {
  try {
    const response = await fetch(`${metricsUrl}/readyz`, { signal: AbortSignal.timeout(PROBE_LIMIT_MS) });
    return response.ok;
  } catch {
    return false;
  }
}

/** Starts a service; resolves when /readyz says 200. Throws with the end of its log when it ends first or takes over 60 s. */
export async function startService(options: ServiceOptions): Promise<ServiceProcess> {
  const { name, metricsPort, logFile } = options;
  const metricsUrl = `http://${ADDRESS}:${metricsPort}`;
  mkdirSync(dirname(logFile), { recursive: true });
  const log = openSync(logFile, 'a');
  const logStart = statSync(logFile).size;
  // A process group of its own: Ctrl-C at our terminal is ours to pass on.
  const child = spawn(...tiedToUs(process.execPath, [join(ROOT, 'services', name, 'main.ts')]), {
    cwd: ROOT,
    detached: true,
    stdio: ['ignore', log, log],
    env: { ...process.env, ...options.environment, PUNCTUAL_METRICS_PORT: String(metricsPort) },
  });
  closeSync(log);
  let outcome: string | undefined;
  const ended = new Promise<string>((resolve) => {
    const end = (how: string): void => {
      outcome = how;
      resolve(how);
    };
    child.once('error', (error) => end(error.message));
    child.once('exit', (code, signal) => end(signal ?? `code ${code ?? 'unknown'}`));
  });
  const service: ServiceProcess = {
    name,
    pid: child.pid ?? 0,
    metricsUrl,
    logFile,
    ended,
    async stop() {
      child.kill('SIGTERM');
      const kill = setTimeout(() => child.kill('SIGKILL'), TERMINATE_LIMIT_MS);
      await ended;
      clearTimeout(kill);
    },
  };

  for (let waitedMs = 0; ; waitedMs += POLL_MS) {
    if (outcome === undefined && (await isReady(metricsUrl))) return service;
    const fault =
      outcome === undefined ? `it is not ready after ${READY_LIMIT_MS / 1_000} s` : `it ended with ${outcome}`;
    if (outcome !== undefined || waitedMs > READY_LIMIT_MS) {
      await service.stop();
      const tail = readFileSync(logFile).subarray(logStart).toString('utf8').slice(-LOG_TAIL_CHARACTERS);
      throw new Error(`${name} does not start: ${fault}\n${tail}\n(log: ${logFile})`);
    }
    await sleep(POLL_MS);
  }
}

// Brings Cassandra, nats-server and cqlsh into the cache with nothing but the package registries: Maven, Go and Python.

import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { once } from 'node:events';
import { withLock } from './lock.ts';
import { type Progress, withProgress } from './progress.ts';
import { CACHE_DIR } from './settings.ts';
import { tiedToUs } from './tied-child.ts';

const NATS_VERSION = 'v2.15.2';
const CQLSH_VERSION = '6.2.2';
const NATS_PY_VERSION = '2.16.0';
const POM = join(import.meta.dirname, 'pom.xml');

/** Runs a command to its end. Throws with the end of its output when it fails. */
async function run(command: string, args: readonly string[], environment: NodeJS.ProcessEnv = {}): Promise<void> {
  const child = spawn(...tiedToUs(command, args), {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, ...environment },
  });
  let output = '';
  const collect = (chunk: Buffer): void => {
    output = (output + chunk.toString()).slice(-4_000);
  };
  child.stdout.on('data', collect);
  child.stderr.on('data', collect);
  const [code] = (await once(child, 'close')) as [number | null];
  if (code !== 0) throw new Error(`${[command, ...args].join(' ')} failed:\n${output}`);
}

/**
 * Fills a folder of the cache once. The name is a link, set when all is there, to a folder that no other run writes to:
 * what a run cut short has started (pip, the Go compiler) may live on for seconds and spoils nothing.
 */
async function installOnce(
  progress: Progress,
  item: { readonly folder: string; readonly title: string; readonly fill: (dir: string) => Promise<void> },
): Promise<string> {
  const link = join(CACHE_DIR, item.folder);
  if (existsSync(link)) return link;
  await withProgress(progress, item.title, () =>
    withLock(`${link}.lock`, async () => {
      if (existsSync(link)) return;
      const dir = mkdtempSync(`${link}-`);
      await item.fill(dir);
      rmSync(link, { force: true });
      symlinkSync(dir, link);
    }),
  );
  return link;
}

/** Returns the folder with Cassandra's jars: 100 files, 66 MB, 14 s from an empty cache. */
export async function installCassandra(progress: Progress): Promise<string> {
  const pom = readFileSync(POM);
  const digest = createHash('sha256').update(pom).digest('hex').slice(0, 8);
  return installOnce(progress, {
    folder: `cassandra-${digest}`,
    title: 'Fetching Cassandra (66 MB, Maven)',
    fill: async (dir) => {
      const args = ['--batch-mode', '--quiet', `--file=${POM}`, 'dependency:copy-dependencies'];
      await run('mvn', [...args, '-DincludeScope=runtime', `-DoutputDirectory=${dir}`]);
    },
  });
}

/** Returns the path of the nats-server program: built in 25-50 s from an empty cache, the Go toolchain it asks for included. */
export async function installNats(progress: Progress): Promise<string> {
  const dir = await installOnce(progress, {
    folder: `nats-server-${NATS_VERSION}`,
    title: `Building nats-server ${NATS_VERSION} (Go)`,
    fill: (dir) =>
      run('go', ['install', `github.com/nats-io/nats-server/v2@${NATS_VERSION}`], { GOBIN: dir, GOFLAGS: '' }),
  });
  return join(dir, 'nats-server');
}

/** Returns the path of the cqlsh program: 12 s from an empty cache. */
export async function installCqlsh(progress: Progress): Promise<string> {
  const dir = await installOnce(progress, {
    folder: `cqlsh-${CQLSH_VERSION}`,
    title: `Fetching cqlsh ${CQLSH_VERSION} (pip)`,
    fill: async (dir) => {
      await run('python3', ['-m', 'venv', dir]);
      await run(join(dir, 'bin', 'pip'), ['install', '--quiet', `cqlsh==${CQLSH_VERSION}`]);
    },
  });
  return join(dir, 'bin', 'cqlsh');
}

/** Returns a Python that has nats-py, for the test of a worker made of stock parts. */
export async function installNatsPy(progress: Progress): Promise<string> {
  const dir = await installOnce(progress, {
    folder: `nats-py-${NATS_PY_VERSION}`,
    title: `Fetching nats-py ${NATS_PY_VERSION} (pip)`,
    fill: async (dir) => {
      await run('python3', ['-m', 'venv', dir]);
      await run(join(dir, 'bin', 'pip'), ['install', '--quiet', `nats-py==${NATS_PY_VERSION}`]);
    },
  });
  return join(dir, 'bin', 'python');
}

// All of production on loopback, under a steady load, for tests that strike one part of it after the other.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { showProgress, withProgress } from '../../scripts/embedded/progress.ts';
import { ROOT } from '../../scripts/embedded/settings.ts';
import { isTerminal, JobStatus, Outcome } from '../../services/core/domain/job-status.ts';
import type { JobRow } from '../../services/core/domain/job.ts';
import { systemClock } from '../../services/core/runtime/system-clock.ts';
import { openSession } from '../../services/core/storage/session.ts';
import { createStores, type Stores } from '../../services/core/storage/stores.ts';
import { type Cluster, startCluster } from './cluster.ts';
import { createJob, untilStatus } from './rest.ts';
import { type Cleanup } from './servers.ts';
import { silentTelemetry } from './silent-telemetry.ts';
import { postSteadily } from './steady-load.ts';
import { startThreeNodes, type ThreeNodes } from './three-nodes.ts';
import { startWorker, type WorkerProcess } from './worker-process.ts';

export interface Stage {
  readonly nodes: ThreeNodes;
  readonly cluster: Cluster;
  readonly workers: readonly WorkerProcess[];
  readonly stores: Stores;
  readonly cleanup: Cleanup;
}

export interface Fault {
  readonly name: string;
  /** From the blow until what was struck is whole again. */
  strike(stage: Stage): Promise<void>;
}

/** What one fault did. Times in ms. */
export interface FaultRow {
  readonly name: string;
  readonly lastedMs: number;
  readonly accepted: number;
  readonly refused: number;
  /** From the end of the load until the last job had ended. */
  readonly drainedMs: number;
  readonly during: Lags;
  readonly after: Lags;
}

interface Lags {
  readonly jobs: number;
  readonly p50: number;
  readonly p99: number;
  readonly max: number;
}

const QUEUE = 'steady';
const BEFORE_MS = 3_000;
const AFTER_MS = 8_000;
/** A job born enqueued whose api died before it was published waits for the second look, two minutes at most. */
const DRAIN_MAX_MS = 180_000;

/** Two of each service on three nodes of each server, and two workers: about a minute. */
export async function setStage(test: Cleanup): Promise<Stage> {
  const nodes = await startThreeNodes(test);
  const cluster = await withProgress(showProgress, 'Starting two of each service', () =>
    startCluster(test, { apis: 2, dispatchers: 2, reapers: 2, servers: nodes.servers }),
  );
  const session = await openSession(cluster.keyspace, { telemetry: silentTelemetry, clock: systemClock });
  test.after(() => session.close());
  const stores = createStores(session, { clock: systemClock });
  const workers = ['one', 'two'].map((name) => startWorker(test, cluster, { queue: QUEUE, name, concurrency: 50 }));
  await untilStatus(cluster.apiUrl, await createJob(cluster.apiUrl, { queue: QUEUE }), 'succeeded', 30_000);
  return { nodes, cluster, workers, stores, cleanup: test };
}

/** Strikes once under load, and asserts that nothing which was accepted is lost, done twice or damaged. */
export async function runFault(stage: Stage, fault: Fault, jobsPerS: number): Promise<FaultRow> {
  const { cluster, workers } = stage;
  const load = postSteadily(cluster, { queue: QUEUE, jobsPerS });
  await sleep(BEFORE_MS);
  const from = Date.now();
  await withProgress(showProgress, fault.name, () => fault.strike(stage));
  const to = Date.now();
  await sleep(AFTER_MS);
  await load.stop();
  const stoppedAt = Date.now();
  const accepted = new Set(load.accepted);
  assert.ok(accepted.size > (BEFORE_MS / 1_000) * jobsPerS * 0.5, `only ${accepted.size} jobs were accepted`);
  const rows = await withProgress(showProgress, `Waiting for ${accepted.size} jobs to end`, () =>
    untilAllEnded(stage.stores, load.accepted),
  );
  const drainedMs = Date.now() - stoppedAt;
  for (const row of rows) assertDoneOnce(row);
  await withProgress(showProgress, 'fsck', () => assertFsckClean(cluster));
  const starts = workers
    .flatMap(({ events }) => events)
    .filter(({ event, attempt, job_id: jobId }) => event === 'start' && attempt === 1 && accepted.has(jobId))
    .map(({ started_at: startedAt = 0, scheduled_for: text = '' }) => ({ at: Date.parse(text), startedAt }));
  return {
    name: fault.name,
    lastedMs: to - from,
    accepted: accepted.size,
    refused: [...load.refused.values()].reduce((sum, count) => sum + count, 0),
    drainedMs,
    during: lagsOf(starts.filter(({ at }) => at >= from && at < to)),
    after: lagsOf(starts.filter(({ at }) => at >= to)),
  };
}

/** Of the stored rows themselves, so that no service's word is taken for it. */
async function untilAllEnded(stores: Stores, ids: readonly string[]): Promise<readonly JobRow[]> {
  const ended: JobRow[] = [];
  let open = [...ids];
  const limit = Date.now() + DRAIN_MAX_MS;
  for (;;) {
    const rows = await readInParts(stores, open).catch(() => new Map<string, JobRow>());
    ended.push(...[...rows.values()].filter(({ status }) => isTerminal(status)));
    open = open.filter((id) => !isTerminal(rows.get(id)?.status ?? JobStatus.scheduled));
    if (open.length === 0) return ended;
    if (Date.now() > limit) {
      const examples = open.slice(0, 3).map((id) => `${id} ${rows.get(id)?.status ?? 'is not there'}`);
      assert.fail(`${open.length} of ${ids.length} accepted jobs did not end: ${examples.join(', ')}`);
    }
    await sleep(1_000);
  }
}

const READ_AT_ONCE = 500;

async function readInParts(stores: Stores, ids: readonly string[]): Promise<ReadonlyMap<string, JobRow>> {
  const found = new Map<string, JobRow>();
  for (let start = 0; start < ids.length; start += READ_AT_ONCE) {
    for (const [id, row] of await stores.jobs.read(ids.slice(start, start + READ_AT_ONCE))) found.set(id, row);
  }
  return found;
}

function assertDoneOnce({ jobId, status, ends }: JobRow): void {
  const accepted = [...ends.values()].filter(({ outcome }) => outcome === Outcome.succeeded);
  assert.deepEqual([status, accepted.length], ['succeeded', 1], jobId);
}

async function assertFsckClean({ environment }: Cluster): Promise<void> {
  const words = ['--json', '--rate', '100000', '--page', '1000', '--grace-s', '5'];
  const child = spawn(process.execPath, [join(ROOT, 'services/fsck/main.ts'), ...words], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, ...environment },
  });
  let [output, errors] = ['', ''];
  child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (errors += chunk.toString()));
  const [code] = (await once(child, 'close')) as [number | null];
  assert.equal(code, 0, `fsck: ${output}${errors}`);
}

function lagsOf(starts: readonly { readonly at: number; readonly startedAt: number }[]): Lags {
  const lags = starts.map(({ at, startedAt }) => startedAt - at).sort((one, other) => one - other);
  const at = (fraction: number): number => lags[Math.min(lags.length - 1, Math.floor(lags.length * fraction))] ?? 0;
  return { jobs: lags.length, p50: at(0.5), p99: at(0.99), max: lags.at(-1) ?? 0 };
}

/** As a table of Markdown. */
export function tableOf(rows: readonly FaultRow[]): string {
  const seconds = (ms: number): string => (ms / 1_000).toFixed(1);
  const lags = ({ p50, p99, max }: Lags): string[] => [String(p50), String(p99), String(max)];
  const cells = rows.map(({ name, lastedMs, accepted, refused, drainedMs, during, after }) => [
    ...[name, seconds(lastedMs), String(accepted), String(refused)],
    ...[...lags(during), ...lags(after), seconds(drainedMs)],
  ]);
  const head = [
    ...['fault', 'lasted s', 'accepted', 'refused'],
    ...['during: p50 ms', 'p99', 'max', 'after: p50 ms', 'p99', 'max', 'drained s'],
  ];
  return [head, head.map((_, index) => (index === 0 ? '---' : '--:')), ...cells]
    .map((line) => `| ${line.join(' | ')} |`)
    .join('\n');
}

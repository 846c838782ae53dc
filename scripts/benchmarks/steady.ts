// A steady stream of jobs due 5 s after their creation: lag, its growth, and what a job costs. Also with very many jobs
// that wait for a later day.

import { setTimeout as sleep } from 'node:timers/promises';
import { type Costs, costsBetween } from './costs.ts';
import { type Lags, lagsOf, type Start, startFaults } from './lags.ts';
import { type Stage, type StageOptions, untilStarted, withStage } from './stage.ts';

export interface SteadyResult {
  readonly run: {
    readonly jobs: number;
    readonly posted_per_s: number;
    readonly never_started: number;
    readonly started_twice: number;
  };
  /** In the whole time, in its first and in its last third. */
  readonly lag: Readonly<Record<'all' | 'first_third' | 'last_third', Lags>>;
  readonly costs: Costs;
  readonly rss_mb_at_begin: Readonly<Record<string, number>>;
  readonly rss_mb_at_end: Readonly<Record<string, number>>;
}

export interface GrowthResult {
  readonly waiting_jobs: number;
  readonly empty: SteadyResult;
  readonly with_waiting: SteadyResult;
  /** With them waiting, divided by empty. */
  readonly ratio: { readonly p99: number; readonly cpu: number };
}

export interface SteadyOptions extends StageOptions {
  readonly jobsPerS: number;
  readonly seconds: number;
}

const QUEUE = 'bench';
const DUE_AFTER_MS = 5_000;
/** At the same rate, before anything is measured: a JVM compiles for two minutes, on the cores that all share. */
const WARM_UP_MAX_S = 120;
const POLL_MS = 100;
const PATIENCE_MS = 30_000;
const DAY_MS = 86_400_000;
const WAITING_FROM_MS = 3_600_000;
const WAITING_UNTIL_MS = 7 * DAY_MS;
const BATCH_JOBS = 500;
const BATCHES_AT_ONCE = 4;
/** Memtables are flushed and compacted after a flood of writes. */
const SETTLE_MS = 10_000;

export function benchSteady(options: SteadyOptions): Promise<SteadyResult> {
  return withStage({ ...options, queues: [QUEUE] }, async (stage) => {
    await warmUp(stage, options);
    return runSteadily(stage, options);
  });
}

export function benchGrowth(options: SteadyOptions & { readonly waiting: number }): Promise<GrowthResult> {
  const { waiting, progress } = options;
  return withStage({ ...options, queues: [QUEUE] }, async (stage) => {
    await warmUp(stage, options);
    const empty = await runSteadily(stage, options);
    progress(`• creating ${waiting} jobs that are due in an hour to a week`);
    const now = Date.now();
    await stage.load.ask('batches', {
      apiUrl: stage.apiUrl,
      queues: [QUEUE],
      jobs: waiting,
      batchJobs: BATCH_JOBS,
      concurrency: BATCHES_AT_ONCE,
      due: { from: now + WAITING_FROM_MS, to: now + WAITING_UNTIL_MS },
    });
    await sleep(SETTLE_MS);
    const full = await runSteadily(stage, options);
    const cpu = ({ costs }: SteadyResult): number => costs.cpu_s_per_1000_jobs['total'] ?? NaN;
    return {
      waiting_jobs: waiting,
      empty,
      with_waiting: full,
      ratio: { p99: full.lag.all.p99_ms / empty.lag.all.p99_ms, cpu: cpu(full) / cpu(empty) },
    };
  });
}

async function warmUp(stage: Stage, { jobsPerS, seconds, progress }: SteadyOptions): Promise<void> {
  const warmUpS = Math.min(WARM_UP_MAX_S, 2 * seconds);
  progress(`• warming up for ${Math.round(warmUpS)} s`);
  await startAll(stage, jobsPerS, warmUpS);
}

async function runSteadily(stage: Stage, { jobsPerS, seconds, progress }: SteadyOptions): Promise<SteadyResult> {
  progress(`• ${jobsPerS} jobs a second for ${seconds} s`);
  const rssAtBegin = stage.rssMb();
  const before = await stage.read();
  const { jobIds, starts, postedPerS } = await startAll(stage, jobsPerS, seconds);
  const after = await stage.read();
  const { never, twice } = startFaults(jobIds, starts);
  return {
    run: { jobs: jobIds.length, posted_per_s: Math.round(postedPerS), never_started: never, started_twice: twice },
    lag: { all: lagsOf(starts), first_third: lagsOf(third(starts, 0)), last_third: lagsOf(third(starts, 2)) },
    costs: costsBetween(before, after, jobIds.length),
    rss_mb_at_begin: rssAtBegin,
    rss_mb_at_end: stage.rssMb(),
  };
}

/** Posts at the rate for so long, and waits until all are started. */
async function startAll(stage: Stage, jobsPerS: number, seconds: number) {
  const { load, apiUrl, startCount, takeStarts } = stage;
  await takeStarts();
  const before = await startCount();
  const due = { delayMs: DUE_AFTER_MS };
  const { jobIds, seconds: took } = await load.ask('steady', { apiUrl, queues: [QUEUE], jobsPerS, seconds, due });
  await untilStarted(stage, before + jobIds.length, { mostMs: DUE_AFTER_MS + PATIENCE_MS, pollMs: POLL_MS });
  return { jobIds, starts: await takeStarts(), postedPerS: jobIds.length / took };
}

function third(starts: readonly Start[], index: number): readonly Start[] {
  const inOrder = starts.toSorted((one, other) => one.scheduledFor - other.scheduledFor);
  const size = Math.floor(inOrder.length / 3);
  return inOrder.slice(index * size, (index + 1) * size);
}

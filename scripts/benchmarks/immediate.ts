// From the POST of a job that is due now to its handler's start, one job at a time on an idle machine.

import { setTimeout as sleep } from 'node:timers/promises';
import { coreShares } from './costs.ts';
import { type Lags, type Start, startFaults, summarise } from './lags.ts';
import { type Stage, type StageOptions, untilStarted, withStage } from './stage.ts';
import { untilWarm } from './warm-up.ts';

export interface ImmediateResult {
  readonly post_to_start: Lags;
  readonly never_started: number;
  readonly peak_rss_mb: Readonly<Record<string, number>>;
}

export interface IdleResult {
  readonly seconds: number;
  /** Share of one core. */
  readonly share_of_a_core: Readonly<Record<string, number>>;
  readonly services_and_worker: number;
  readonly reads_per_s: number;
  readonly rss_mb: Readonly<Record<string, number>>;
}

const QUEUE = 'bench';
const WARM_WINDOWS_MAX = 15;
const PAUSE_MS = 20;
const PATIENCE_MS = 15_000;
const IDLE_SETTLE_MS = 15_000;
const SERVERS = ['cassandra', 'nats'];

export function benchImmediate(options: StageOptions & { readonly jobs: number }): Promise<ImmediateResult> {
  const { jobs, progress } = options;
  return withStage({ ...options, queues: [QUEUE] }, async (stage) => {
    progress(`• warming up with ${jobs} jobs, until it hardly gets faster`);
    await untilWarm(WARM_WINDOWS_MAX, async () => {
      const startedAt = performance.now();
      await postOneByOne(stage, jobs, 0);
      return jobs / (performance.now() - startedAt);
    });
    progress(`• ${jobs} jobs, one after the other`);
    const { jobIds, sentAt, starts } = await postOneByOne(stage, jobs, PAUSE_MS);
    const startedAt = new Map(starts.map((start) => [start.jobId, start.startedAt]));
    return {
      post_to_start: summarise(
        jobIds.flatMap((jobId, index) => {
          const at = startedAt.get(jobId);
          return at === undefined ? [] : [at - (sentAt[index] ?? NaN)];
        }),
      ),
      never_started: startFaults(jobIds, starts).never,
      peak_rss_mb: stage.peakRssMb(),
    };
  });
}

/** What everything takes while nothing is to be done. */
export function benchIdle(options: StageOptions & { readonly seconds: number }): Promise<IdleResult> {
  const { seconds, progress } = options;
  return withStage({ ...options, queues: [QUEUE] }, async (stage) => {
    await postOneByOne(stage, 20, 0);
    progress(`• idle for ${seconds} s`);
    await sleep(IDLE_SETTLE_MS);
    const before = await stage.read();
    await sleep(seconds * 1_000);
    const after = await stage.read();
    const shares = coreShares(before, after);
    const reads = (reading: typeof before): number =>
      Object.values(reading.reads).reduce((sum, count) => sum + count, 0);
    return {
      seconds,
      share_of_a_core: shares,
      services_and_worker: Object.entries(shares)
        .filter(([name]) => !SERVERS.includes(name))
        .reduce((sum, [, share]) => sum + share, 0),
      reads_per_s: (reads(after) - reads(before)) / seconds,
      rss_mb: stage.rssMb(),
    };
  });
}

async function postOneByOne(
  stage: Stage,
  jobs: number,
  pauseMs: number,
): Promise<{ jobIds: readonly string[]; sentAt: readonly number[]; starts: readonly Start[] }> {
  const { load, apiUrl, startCount, takeStarts } = stage;
  await takeStarts();
  const before = await startCount();
  const posted = await load.ask('sequence', { apiUrl, queue: QUEUE, jobs, pauseMs });
  await untilStarted(stage, before + jobs, { mostMs: PATIENCE_MS, pollMs: PAUSE_MS });
  return { ...posted, starts: await takeStarts() };
}

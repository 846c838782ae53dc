// How fast jobs are accepted: one by one, and in batches.

import { type Costs, costsBetween } from './costs.ts';
import type { RawRates } from './raw-rates.ts';
import { type Stage, type StageOptions, withStage } from './stage.ts';
import { untilWarm } from './warm-up.ts';

interface CreateRate {
  readonly jobs_per_s: number;
  readonly ratio_to_raw_lwt: number;
}

export interface CreateResult {
  /** POST /jobs at concurrency 64, connections kept alive. */
  readonly single: CreateRate;
  readonly single_costs: Costs;
  /** POST /jobs/batch of 500, four at once. */
  readonly batch: CreateRate;
  readonly batch_costs: Costs;
  readonly peak_rss_mb: Readonly<Record<string, number>>;
}

const QUEUES = ['north', 'east', 'south', 'west'];
const SINGLES_AT_ONCE = 64;
const BATCH_JOBS = 500;
const WARM_WINDOWS_MAX = 12;
const BATCHES_AT_ONCE = 4;
const DUE = { delayMs: 3_600_000 };

export function benchCreate(
  options: StageOptions & { readonly seconds: number; readonly raw: RawRates },
): Promise<CreateResult> {
  const { progress, raw, seconds } = options;
  return withStage({ ...options, workers: 0 }, async (stage) => {
    const { apiUrl, load } = stage;
    const postSingles = (during: number) =>
      load.ask('singles', { apiUrl, queues: QUEUES, concurrency: SINGLES_AT_ONCE, seconds: during, due: DUE });
    const postBatches = (during: number) =>
      load.ask('batches', {
        ...{ apiUrl, queues: QUEUES, jobs: Number.MAX_SAFE_INTEGER, seconds: during },
        ...{ batchJobs: BATCH_JOBS, concurrency: BATCHES_AT_ONCE, due: DUE },
      });
    progress('• warming up');
    for (const post of [postSingles, postBatches]) {
      await untilWarm(WARM_WINDOWS_MAX, async () => {
        const { jobIds, seconds: took } = await post(seconds / 2);
        return jobIds.length / took;
      });
    }
    progress(`• single POSTs, then batches of ${BATCH_JOBS}, for ${seconds} s each`);
    const single = await measured(stage, () => postSingles(seconds));
    const batch = await measured(stage, () => postBatches(seconds));
    return {
      single: rateOf(single.jobsPerS, raw),
      single_costs: single.costs,
      batch: rateOf(batch.jobsPerS, raw),
      batch_costs: batch.costs,
      peak_rss_mb: stage.peakRssMb(),
    };
  });
}

async function measured(
  stage: Stage,
  post: () => Promise<{ readonly jobIds: readonly string[]; readonly seconds: number }>,
): Promise<{ readonly jobsPerS: number; readonly costs: Costs }> {
  const before = await stage.read();
  const { jobIds, seconds } = await post();
  return {
    jobsPerS: jobIds.length / seconds,
    costs: costsBetween(before, await stage.read(), jobIds.length),
  };
}

function rateOf(jobsPerS: number, raw: RawRates): CreateRate {
  return { jobs_per_s: Math.round(jobsPerS), ratio_to_raw_lwt: jobsPerS / raw.lwt_updates_per_s };
}

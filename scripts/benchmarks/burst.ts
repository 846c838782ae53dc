// Very many jobs due in the same second: how soon are all started, and all completed?

import { setTimeout as sleep } from 'node:timers/promises';
import { type Costs, costsBetween } from './costs.ts';
import { type Lags, lagsOf, type Start, startFaults } from './lags.ts';
import type { RawRates } from './raw-rates.ts';
import { type Stage, type StageOptions, withStage } from './stage.ts';
import { untilWarm } from './warm-up.ts';

export interface BurstResult {
  readonly create: { readonly jobs_per_s: number; readonly ratio_to_raw_lwt: number };
  readonly create_costs: Costs;
  /** Times count from the second in which all are due. */
  readonly run: {
    readonly all_started_s: number;
    readonly all_completed_s: number;
    readonly completed_jobs_per_s: number;
    readonly ratio_to_raw_lwt: number;
    readonly never_started: number;
    readonly started_twice: number;
    readonly slowest_queue_p50_to_fastest: number;
  };
  readonly run_costs: Costs;
  readonly lag: Readonly<Record<string, Lags>>;
  readonly peak_rss_mb: Readonly<Record<string, number>>;
}

export interface BurstOptions extends Omit<StageOptions, 'queues'> {
  readonly jobs: number;
  readonly raw: RawRates;
}

const QUEUES = ['north', 'east', 'south', 'west'] as const;
const WARM_UP_QUEUES = ['warm_up_1', 'warm_up_2', 'warm_up_3', 'warm_up_4'] as const;
const BATCH_JOBS = 500;
const BATCHES_AT_ONCE = 4;
const WARM_UP_JOBS_MAX = 5_000;
const WARM_UP_LEAD_MS = 4_000;
const WARM_UP_ROUNDS_MAX = 10;
/** Between the last job's creation and the second in which all are due. */
const LEAD_MS = 5_000;
/** Creating may become so much slower than it was while warming up. */
const CREATE_SLOWNESS = 3;
const POLL_MS = 50;
/** Without any progress. */
const PATIENCE_MS = 60_000;

export function benchBurst(options: BurstOptions): Promise<BurstResult> {
  const { jobs, raw, progress } = options;
  return withStage({ ...options, queues: [...QUEUES, ...WARM_UP_QUEUES] }, async (stage) => {
    const warmUpJobs = Math.min(jobs, WARM_UP_JOBS_MAX);
    let warmedUp = 0;
    progress(`• warming up with ${warmUpJobs} jobs, until it hardly gets faster`);
    let createS = 0;
    // A small burst measures nothing, and is only tried out.
    const roundsMax = jobs < WARM_UP_JOBS_MAX ? 1 : WARM_UP_ROUNDS_MAX;
    const rounds = await untilWarm(roundsMax, async () => {
      const startAt = Date.now() + WARM_UP_LEAD_MS;
      createS = (await create(stage, WARM_UP_QUEUES, warmUpJobs, startAt)).seconds;
      warmedUp += warmUpJobs;
      return warmUpJobs / ((await allEnded(stage, warmedUp)) - startAt);
    });
    progress(`  warm after ${rounds} times`);
    await stage.takeStarts();

    const leadMs = LEAD_MS + (createS / warmUpJobs) * jobs * CREATE_SLOWNESS * 1_000;
    const dueAt = Math.ceil((Date.now() + leadMs) / 1_000) * 1_000;
    progress(`• creating ${jobs} jobs, due in ${Math.round(leadMs / 1_000)} s`);
    const beforeCreate = await stage.read();
    const created = await create(stage, QUEUES, jobs, dueAt);
    const afterCreate = await stage.read();
    if (Date.now() > dueAt - LEAD_MS / 2) throw new Error(`creating ${jobs} jobs took until they were due`);
    await sleep(dueAt - LEAD_MS / 5 - Date.now());

    const beforeRun = await stage.read();
    const endedAt = await allEnded(stage, warmedUp + jobs);
    const afterRun = await stage.read();
    const starts = await stage.takeStarts();
    const faults = startFaults(created.jobIds, starts);
    if (faults.unasked > 0) throw new Error(`${faults.unasked} jobs were started that nobody created`);
    return {
      create: rates(jobs / created.seconds, raw, 'jobs_per_s'),
      create_costs: costsBetween(beforeCreate, afterCreate, jobs),
      run: {
        all_started_s: (starts.reduce((last, start) => Math.max(last, start.startedAt), 0) - dueAt) / 1_000,
        all_completed_s: (endedAt - dueAt) / 1_000,
        ...rates(jobs / ((endedAt - dueAt) / 1_000), raw, 'completed_jobs_per_s'),
        never_started: faults.never,
        started_twice: faults.twice,
        slowest_queue_p50_to_fastest: spread(starts),
      },
      run_costs: costsBetween(beforeRun, afterRun, jobs),
      lag: { all: lagsOf(starts), ...byQueue(starts) },
      peak_rss_mb: stage.peakRssMb(),
    };
  });
}

function create({ load, apiUrl }: Stage, queues: readonly string[], jobs: number, at: number) {
  const batchJobs = Math.min(BATCH_JOBS, Math.ceil(jobs / queues.length));
  return load.ask('batches', { apiUrl, queues, jobs, batchJobs, concurrency: BATCHES_AT_ONCE, due: { at } });
}

/** When the last of so many attempts had ended. Throws when there is no progress. */
async function allEnded({ startCount, endedCount, progress }: Stage, jobs: number): Promise<number> {
  let seen = 0;
  let giveUpAt = Date.now() + PATIENCE_MS;
  for (let told = Date.now(); ;) {
    await sleep(POLL_MS);
    const started = await startCount();
    // Asking the services costs them something: not before it can be so.
    if (started >= jobs && (await endedCount()) >= jobs) return Date.now();
    if (started > seen) {
      seen = started;
      giveUpAt = Date.now() + PATIENCE_MS;
    }
    if (Date.now() > giveUpAt) throw new Error(`only ${started} of ${jobs} jobs started`);
    if (Date.now() - told < 2_000) continue;
    told = Date.now();
    if (seen > 0) progress(`  ${seen} of ${jobs} started`);
  }
}

function rates<Name extends string>(perS: number, raw: RawRates, name: Name) {
  const named = { [name]: Math.round(perS) } as Record<Name, number>;
  return { ...named, ratio_to_raw_lwt: perS / raw.lwt_updates_per_s };
}

function byQueue(starts: readonly Start[]): Record<string, Lags> {
  return Object.fromEntries(QUEUES.map((queue) => [queue, lagsOf(starts.filter((start) => start.queue === queue))]));
}

function spread(starts: readonly Start[]): number {
  const medians = Object.values(byQueue(starts)).map(({ p50_ms }) => p50_ms);
  return Math.max(...medians) / Math.min(...medians);
}

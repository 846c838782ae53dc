// Start lag on an idle machine: how long after its time a job's handler starts, by the worker's clock.

import { setTimeout as sleep } from 'node:timers/promises';
import { PunctualClient } from '../../services/client/index.ts';
import { type Lags, lagsOf, type Start } from './lags.ts';
import { type Stage, type StageOptions, withStage } from './stage.ts';

export interface LagResult {
  readonly lag: {
    /** Posted ahead and due at random moments. */
    readonly due_ahead: Lags;
    /** With delay_s 1, posted one by one. */
    readonly delay_s_1: Lags;
  };
  readonly peak_rss_mb: Readonly<Record<string, number>>;
}

const QUEUE = 'bench';
const AHEAD_JOBS = 300;
const AHEAD_SPREAD_MS = 60_000;
/** Between the last POST ahead and the first due time. */
const AHEAD_LEAD_MS = 5_000;
const DELAYED_JOBS = 100;
const DELAYED_EVERY_MS = 100;
/** Fewer leave the JITs of five processes half cold: p99 was 86 to 133 ms after 200. */
const WARM_UP_JOBS = 1_500;
const WARM_UP_POSTS_AT_ONCE = 4;
const SETTLE_MS = 3_000;
const PATIENCE_MS = 30_000;

export function benchLag(options: StageOptions): Promise<LagResult> {
  return withStage({ ...options, queues: [QUEUE] }, async (stage) => {
    const client = new PunctualClient({ apiUrl: stage.apiUrl });
    await warmUp(stage, client);
    const ahead = await measure(stage, `${AHEAD_JOBS} jobs due at random moments over 60 s`, () => postAhead(client));
    const delayed = await measure(stage, `${DELAYED_JOBS} jobs with delay_s 1`, () => postDelayed(client));
    return { lag: { due_ahead: ahead, delay_s_1: delayed }, peak_rss_mb: stage.peakRssMb() };
  });
}

/** Both JITs have seen the path before it is measured. */
async function warmUp(stage: Stage, client: PunctualClient): Promise<void> {
  await measure(stage, 'warming up', async () => {
    const ids: string[] = [];
    let posted = 0;
    const posters = Array.from({ length: WARM_UP_POSTS_AT_ONCE }, async () => {
      while (posted < WARM_UP_JOBS) {
        posted += 1;
        ids.push((await client.createJob({ queue: QUEUE, delay_s: posted % 2 })).job_id);
      }
    });
    await Promise.all(posters);
    return ids;
  });
  await sleep(SETTLE_MS);
}

async function postAhead(client: PunctualClient): Promise<string[]> {
  const firstAt = Date.now() + AHEAD_LEAD_MS;
  const ids: string[] = [];
  for (let index = 0; index < AHEAD_JOBS; index++) {
    const runAt = new Date(firstAt + Math.random() * AHEAD_SPREAD_MS).toISOString();
    ids.push((await client.createJob({ queue: QUEUE, run_at: runAt })).job_id);
  }
  return ids;
}

async function postDelayed(client: PunctualClient): Promise<string[]> {
  const ids: string[] = [];
  for (let index = 0; index < DELAYED_JOBS; index++) {
    ids.push((await client.createJob({ queue: QUEUE, delay_s: 1 })).job_id);
    await sleep(DELAYED_EVERY_MS);
  }
  return ids;
}

/** Posts, waits until all have started, and takes their lags. Throws when some do not start. */
async function measure(stage: Stage, what: string, post: () => Promise<string[]>): Promise<Lags> {
  const { takeStarts, progress } = stage;
  progress(`• ${what}: posting`);
  const ids = new Set(await post());
  const starts: Start[] = [];
  const giveUpAt = Date.now() + AHEAD_SPREAD_MS + AHEAD_LEAD_MS + PATIENCE_MS;
  for (let told = 0; ;) {
    await sleep(100);
    starts.push(...(await takeStarts()).filter((start) => ids.has(start.jobId)));
    if (starts.length >= ids.size) return lagsOf(starts);
    if (starts.length - told >= AHEAD_JOBS / 10) progress(`  ${what}: ${starts.length} of ${ids.size} started`);
    told = starts.length;
    if (Date.now() > giveUpAt) throw new Error(`only ${starts.length} of ${ids.size} jobs started (${what})`);
  }
}

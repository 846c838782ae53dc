// Start lag on an idle machine: how long after its time a job's handler starts, by the worker's clock.

import { setTimeout as sleep } from 'node:timers/promises';
import { QUEUE, type Stage } from './stage.ts';

export interface Lags {
  readonly p50_ms: number;
  readonly p99_ms: number;
  readonly max_ms: number;
  readonly jobs: number;
}

export interface LagResult extends Lags {
  readonly scenario: 'lag';
  /** The same for jobs with delay_s 1, posted one by one. */
  readonly delay_s_1: Lags;
  readonly peak_rss_mb: Readonly<Record<string, number>>;
}

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

export async function benchLag(stage: Stage): Promise<LagResult> {
  await warmUp(stage);
  const ahead = await measure(stage, `${AHEAD_JOBS} jobs due at random moments over 60 s`, () => postAhead(stage));
  const delayed = await measure(stage, `${DELAYED_JOBS} jobs with delay_s 1`, () => postDelayed(stage));
  return { scenario: 'lag', ...ahead, delay_s_1: delayed, peak_rss_mb: stage.peakRssMb() };
}

/** Both JITs have seen the path before it is measured. */
async function warmUp(stage: Stage): Promise<void> {
  await measure(stage, 'warming up', async () => {
    const ids: string[] = [];
    let posted = 0;
    const posters = Array.from({ length: WARM_UP_POSTS_AT_ONCE }, async () => {
      while (posted < WARM_UP_JOBS) {
        posted += 1;
        ids.push((await stage.client.createJob({ queue: QUEUE, delay_s: posted % 2 })).job_id);
      }
    });
    await Promise.all(posters);
    return ids;
  });
  await sleep(SETTLE_MS);
}

async function postAhead({ client }: Stage): Promise<string[]> {
  const firstAt = Date.now() + AHEAD_LEAD_MS;
  const ids: string[] = [];
  for (let index = 0; index < AHEAD_JOBS; index++) {
    const runAt = new Date(firstAt + Math.random() * AHEAD_SPREAD_MS).toISOString();
    ids.push((await client.createJob({ queue: QUEUE, run_at: runAt })).job_id);
  }
  return ids;
}

async function postDelayed({ client }: Stage): Promise<string[]> {
  const ids: string[] = [];
  for (let index = 0; index < DELAYED_JOBS; index++) {
    ids.push((await client.createJob({ queue: QUEUE, delay_s: 1 })).job_id);
    await sleep(DELAYED_EVERY_MS);
  }
  return ids;
}

/** Posts, waits until all have started, and takes their lags. Throws when some do not start. */
async function measure(stage: Stage, what: string, post: () => Promise<string[]>): Promise<Lags> {
  const { starts, progress } = stage;
  progress(`• ${what}: posting`);
  const ids = new Set(await post());
  let limit = Date.now() + AHEAD_SPREAD_MS + AHEAD_LEAD_MS + PATIENCE_MS;
  let seen = 0;
  for (;;) {
    const lags = starts
      .filter((start) => ids.has(start.jobId))
      .map(({ startedAt, scheduledFor }) => startedAt - scheduledFor);
    if (lags.length >= ids.size) return summarise(lags);
    if (lags.length - seen >= AHEAD_JOBS / 10) {
      progress(`  ${what}: ${lags.length} of ${ids.size} started`);
      seen = lags.length;
      limit = Math.max(limit, Date.now() + PATIENCE_MS);
    }
    if (Date.now() > limit) throw new Error(`only ${lags.length} of ${ids.size} jobs started (${what})`);
    await sleep(100);
  }
}

function summarise(lags: readonly number[]): Lags {
  const sorted = lags.toSorted((a, b) => a - b);
  const at = (share: number): number => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? NaN;
  return { p50_ms: at(0.5), p99_ms: at(0.99), max_ms: at(1), jobs: sorted.length };
}

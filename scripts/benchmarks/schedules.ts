// Very many schedules of the same minute: how soon are all their jobs started, and each once?

import { setTimeout as sleep } from 'node:timers/promises';
import { DateTime } from 'luxon';
import { type NewSchedule, PunctualClient } from '../../services/client/index.ts';
import { type Costs, costsBetween } from './costs.ts';
import { type Lags, lagsOf, startFaults } from './lags.ts';
import { type Stage, type StageOptions, withStage } from './stage.ts';

export interface SchedulesResult {
  readonly schedules: number;
  readonly timetables: number;
  readonly create: { readonly schedules_per_s: number };
  /** Counted from the minute of all. Fired: decided and published, and the schedule's next slot written. */
  readonly run: {
    readonly all_fired_s: number;
    readonly all_started_s: number;
    readonly missed: number;
    readonly doubled: number;
  };
  readonly run_costs: Costs;
  readonly lag: { readonly all: Lags };
  readonly peak_rss_mb: Readonly<Record<string, number>>;
}

export interface SchedulesOptions extends Omit<StageOptions, 'queues'> {
  readonly count: number;
  /** So many different expressions and zones name the minute. */
  readonly timetables: number;
}

const QUEUE = 'bench';
const WARM_UP_QUEUE = 'warm_up';
const WARM_UP_SCHEDULES_MAX = 1_000;
/** So often each schedule fires to warm up, where many are to be measured. */
const WARM_UP_FIRES = 6;
const WARM_UP_EVERY_S = 4;
const BATCH_SCHEDULES = 100;
const BATCHES_AT_ONCE = 4;
const MINUTE_MS = 60_000;
const LEAD_MS = 5_000;
/** Creating may become so much slower than it was while warming up. */
const CREATE_SLOWNESS = 2;
const POLL_MS = 100;
/** Asking is not free. */
const FIRED_POLL_MS = 1_000;
const PATIENCE_MS = 60_000;
/** A second start would come soon after the first. */
const SETTLE_MS = 3_000;

export function benchSchedules(options: SchedulesOptions): Promise<SchedulesResult> {
  const { count, timetables, progress } = options;
  return withStage({ ...options, queues: [QUEUE, WARM_UP_QUEUE] }, async (stage) => {
    const client = new PunctualClient({ apiUrl: stage.apiUrl });
    const warmUps = Math.min(count, WARM_UP_SCHEDULES_MAX);
    const warmUpFires = count < WARM_UP_SCHEDULES_MAX ? 1 : WARM_UP_FIRES;
    const warmedUp = warmUps * warmUpFires;
    progress(`• warming up with ${warmUps} schedules, ${warmUpFires} times`);
    const warmUpAt = Math.ceil((Date.now() + LEAD_MS) / 1_000) * 1_000;
    const warmUp = await create(
      client,
      Array.from({ length: warmUps }, () => everyFewSeconds(warmUpAt, warmUpFires)),
    );
    await allStarted(stage, warmedUp);
    await stage.takeStarts();

    const leadMs = LEAD_MS + (warmUp.seconds / warmUps) * count * CREATE_SLOWNESS * 1_000;
    const dueAt = Math.ceil((Date.now() + leadMs) / MINUTE_MS) * MINUTE_MS;
    progress(`• creating ${count} schedules of the minute in ${Math.round((dueAt - Date.now()) / 1_000)} s`);
    const created = await create(client, sameMinute(dueAt, count, timetables));
    if (Date.now() > dueAt - LEAD_MS / 2) throw new Error(`creating ${count} schedules took until their minute`);
    await sleep(dueAt - LEAD_MS / 5 - Date.now());

    const before = await stage.read();
    const [firedAt] = await Promise.all([allFired(stage, warmedUp + count), allStarted(stage, warmedUp + count)]);
    const after = await stage.read();
    await sleep(SETTLE_MS);
    const starts = await stage.takeStarts();
    const slot = new Date(dueAt).toISOString().replace('.000Z', 'Z');
    const faults = startFaults(
      created.ids.map((id) => `${id}@${slot}`),
      starts,
    );
    if (faults.unasked > 0) throw new Error(`${faults.unasked} jobs were started that are of no schedule`);
    return {
      schedules: count,
      timetables: Math.min(timetables, count),
      create: { schedules_per_s: Math.round(count / created.seconds) },
      run: {
        all_fired_s: (firedAt - dueAt) / 1_000,
        all_started_s: (starts.reduce((last, { startedAt }) => Math.max(last, startedAt), 0) - dueAt) / 1_000,
        missed: faults.never,
        doubled: faults.twice,
      },
      run_costs: costsBetween(before, after, count),
      lag: { all: lagsOf(starts) },
      peak_rss_mb: stage.peakRssMb(),
    };
  });
}

function everyFewSeconds(from: number, times: number): NewSchedule {
  const start_at = new Date(from).toISOString();
  return { queue: WARM_UP_QUEUE, every_s: WARM_UP_EVERY_S, start_at, max_runs: times };
}

/** Daily at the minute, as clocks in different zones show it. */
function sameMinute(at: number, count: number, timetables: number): readonly NewSchedule[] {
  const zones = ['UTC', ...Intl.supportedValuesOf('timeZone')];
  return Array.from({ length: count }, (_, index) => {
    const zone = zones[Math.floor((index * timetables) / count) % zones.length] ?? 'UTC';
    const { hour, minute } = DateTime.fromMillis(at, { zone });
    return { queue: QUEUE, cron: `${minute} ${hour} * * *`, time_zone: zone, payload: { order: index } };
  });
}

/** Throws when any is refused. */
async function create(
  client: PunctualClient,
  schedules: readonly NewSchedule[],
): Promise<{ readonly ids: readonly string[]; readonly seconds: number }> {
  const batches = Array.from({ length: Math.ceil(schedules.length / BATCH_SCHEDULES) }, (_, index) =>
    schedules.slice(index * BATCH_SCHEDULES, (index + 1) * BATCH_SCHEDULES),
  );
  const ids: string[] = [];
  const startedAt = performance.now();
  await Promise.all(
    Array.from({ length: BATCHES_AT_ONCE }, async () => {
      for (let batch = batches.shift(); batch !== undefined; batch = batches.shift()) {
        for (const made of await client.createSchedules(batch)) {
          if (!made.ok) throw made.error;
          ids.push(made.value.schedule_id);
        }
      }
    }),
  );
  return { ids, seconds: (performance.now() - startedAt) / 1_000 };
}

/** When so many slots had been fired. */
function allFired({ firedCount }: Stage, slots: number): Promise<number> {
  return untilCount(firedCount, slots, { what: 'slots fired', pollMs: FIRED_POLL_MS, progress: () => undefined });
}

async function allStarted({ startCount, progress }: Stage, jobs: number): Promise<void> {
  await untilCount(startCount, jobs, { what: 'started', pollMs: POLL_MS, progress });
}

/** Returns when the count was reached. Throws when there is no progress. */
async function untilCount(
  count: () => Promise<number>,
  wanted: number,
  { what, pollMs, progress }: { readonly what: string; readonly pollMs: number; readonly progress: Stage['progress'] },
): Promise<number> {
  let seen = 0;
  let giveUpAt = Date.now() + PATIENCE_MS + LEAD_MS;
  for (let told = Date.now(); ;) {
    await sleep(pollMs);
    const reached = await count();
    if (reached >= wanted) return Date.now();
    if (reached > seen) giveUpAt = Date.now() + PATIENCE_MS;
    seen = reached;
    if (Date.now() > giveUpAt) throw new Error(`only ${reached} of ${wanted} ${what}`);
    if (Date.now() - told < 2_000) continue;
    told = Date.now();
    progress(`  ${seen} of ${wanted} ${what}`);
  }
}

// Very many jobs of one queue at once, while others have a few: do the others notice, and does the flood obey its queue?

import { setTimeout as sleep } from 'node:timers/promises';
import { PunctualClient, type NewQueueSettings, type Priority } from '../../services/client/index.ts';
import { lagsOf, type Start, startFaults } from './lags.ts';
import type { Due } from './load-program.ts';
import { type Stage, type StageOptions, untilStarted, withStage } from './stage.ts';
import { untilWarm } from './warm-up.ts';

export interface FloodFigures {
  /** Of the trickle in the other queues (or of the other priority) while the flood went on; without those due in a takeover. */
  readonly others_lag_p99_ms: number;
  /** Jobs of the flood started per second, outside of a takeover. */
  readonly flooded_per_s: number;
  /** Of the dispatcher, the most. */
  readonly rss_max_mb: number;
  readonly lost: number;
  readonly doubled: number;
}

export interface FloodResult extends FloodFigures {
  readonly by_part: Readonly<Partial<Record<FloodPart, PartFigures>>>;
}

export interface PartFigures extends FloodFigures {
  readonly jobs: number;
  readonly created_per_s: number;
  readonly others_lag_max_ms: number;
  readonly others_jobs: number;
  /** The longest lag of those that were due while a killed dispatcher's shards were taken over; 0 where none was killed. */
  readonly takeover_lag_max_ms: number;
}

export interface FloodOptions extends Omit<StageOptions, 'queues'> {
  readonly jobs: number;
  /** Of the flooded queue in the part `limited`. */
  readonly ratePerS: number;
  /** Of the trickle, over all its queues. */
  readonly tricklePerS: number;
  /** How long the limited flood is watched before its rate is taken away. */
  readonly seconds: number;
  readonly parts: readonly FloodPart[];
}

interface Plan {
  readonly queue: string;
  /** Due at one second; or due at once, in a queue that is paused until all are held. */
  readonly isPaused: boolean;
  readonly settings: NewQueueSettings;
  readonly jobs: number;
  readonly priority: Priority;
  readonly trickle: { readonly queues: readonly string[]; readonly priority: Priority };
  /** The dispatcher is killed in the middle, and the rate taken away at the end. */
  readonly isWatched: boolean;
}

export const FLOOD_PARTS = ['limited', 'unlimited', 'paused', 'priorities'] as const;
export type FloodPart = (typeof FLOOD_PARTS)[number];

const OTHERS = ['others_1', 'others_2', 'others_3', 'others_4', 'others_5'] as const;
const WARM_UP_QUEUE = 'warm_up';
const WARM_UP_JOBS = 2_000;
const WARM_UP_TIMES_MAX = 15;
const BATCH_JOBS = 500;
const BATCHES_AT_ONCE = 4;
/** Creating the flood may become so much slower than it was while warming up. */
const CREATE_SLOWNESS = 2;
const LEAD_MS = 5_000;
/** Fewer were overdue in a queue that was paused, and they go on so much faster than the limited ones. */
const PAUSED_SHARE = 1 / 3;
const PAUSED_RATE_FACTOR = 10;
/** After its creation, before the queue is resumed. */
const PAUSE_MS = 5_000;
const TRICKLE_DELAY_MS = 1_000;
const TRICKLE_CHUNK_S = 2;
/** A killed dispatcher's leases have run out, and its shards are read. */
const TAKEOVER_MS = 10_000;
/** What the bucket holds at first is no rate. */
const STEADY_AFTER_MS = 2_000;
const POLL_MS = 250;
const PATIENCE_MS = 60_000;

export function benchFlood(options: FloodOptions): Promise<FloodResult> {
  const queues = [...FLOOD_PARTS.map(queueOf), ...OTHERS, WARM_UP_QUEUE];
  return withStage({ ...options, queues }, async (stage) => {
    const msPerJob = await warmUp(stage, options.jobs);
    const figures: [FloodPart, PartFigures][] = [];
    for (const part of options.parts) {
      options.progress(`• ${part}`);
      const found = await new Flood(stage, options, planOf(part, options)).run(msPerJob);
      // Each takes long, and may be the last one that there is time for.
      options.progress(`  ${JSON.stringify(found)}`);
      figures.push([part, found]);
    }
    const all = figures.map(([, each]) => each);
    return {
      others_lag_p99_ms: Math.max(...all.map((each) => each.others_lag_p99_ms)),
      flooded_per_s: all[0]?.flooded_per_s ?? NaN,
      rss_max_mb: Math.max(...all.map((each) => each.rss_max_mb)),
      lost: all.reduce((sum, each) => sum + each.lost, 0),
      doubled: all.reduce((sum, each) => sum + each.doubled, 0),
      by_part: Object.fromEntries(figures),
    };
  });
}

function queueOf(part: FloodPart): string {
  return `flood_${part}`;
}

function planOf(part: FloodPart, { jobs, ratePerS }: FloodOptions): Plan {
  const others = { queues: OTHERS, priority: 'normal' } as const;
  const plan: Plan = {
    queue: queueOf(part),
    isPaused: false,
    settings: {},
    jobs,
    priority: 'normal',
    trickle: others,
    isWatched: false,
  };
  switch (part) {
    case 'limited':
      return { ...plan, settings: { rate_per_s: ratePerS }, isWatched: true };
    case 'unlimited':
      return plan;
    case 'paused': {
      const settings = { rate_per_s: ratePerS * PAUSED_RATE_FACTOR };
      return { ...plan, settings, isPaused: true, jobs: Math.ceil(jobs * PAUSED_SHARE) };
    }
    case 'priorities':
      return { ...plan, priority: 'low', trickle: { queues: [plan.queue], priority: 'high' } };
  }
}

/** How long the creation of one job takes, in batches, when the processes are warm. */
async function warmUp(stage: Stage, jobs: number): Promise<number> {
  const count = Math.min(WARM_UP_JOBS, jobs);
  stage.progress(`• warming up with ${count} jobs, until it hardly gets faster`);
  let msPerJob = Infinity;
  let created = 0;
  await untilWarm(jobs < WARM_UP_JOBS ? 1 : WARM_UP_TIMES_MAX, async () => {
    const { seconds } = await stage.load.ask('batches', {
      apiUrl: stage.apiUrl,
      queues: [WARM_UP_QUEUE],
      jobs: count,
      batchJobs: BATCH_JOBS,
      concurrency: BATCHES_AT_ONCE,
      due: 'now',
    });
    created += count;
    await untilStarted(stage, created, { mostMs: PATIENCE_MS, pollMs: POLL_MS });
    msPerJob = Math.min(msPerJob, (seconds * 1_000) / count);
    return count / seconds;
  });
  return msPerJob;
}

interface Span {
  readonly from: number;
  readonly to: number;
}

/** One flood from its creation until all of it has started. */
class Flood {
  readonly #stage: Stage;
  readonly #options: FloodOptions;
  readonly #plan: Plan;
  readonly #client: PunctualClient;
  readonly #flood = new Set<string>();
  readonly #starts: Start[] = [];
  readonly #trickled: string[] = [];
  #flooded = 0;
  #isTrickling = true;

  constructor(stage: Stage, options: FloodOptions, plan: Plan) {
    this.#stage = stage;
    this.#options = options;
    this.#plan = plan;
    this.#client = new PunctualClient({ apiUrl: stage.apiUrl });
  }

  async run(msPerJob: number): Promise<PartFigures> {
    const { queue, settings, isPaused, isWatched, jobs } = this.#plan;
    await this.#client.setQueue(queue, settings);
    if (isPaused) await this.#client.pauseQueue(queue, { reason: 'bench' });
    const createdPerS = isPaused ? await this.#createHeld() : await this.#createAhead(msPerJob);
    const beganAt = Date.now();
    if (isPaused) await this.#client.resumeQueue(queue);
    const trickle = this.#trickle();
    const takeover = isWatched ? await this.#watch(beganAt) : null;
    const watchedUntil = Date.now();
    if (isWatched) {
      this.#isTrickling = false;
      await this.#client.changeQueue(queue, { rate_per_s: null });
    }
    await this.#until(() => this.#flooded >= jobs);
    this.#isTrickling = false;
    await trickle;
    await this.#until(() => this.#starts.length >= jobs + this.#trickled.length);
    return this.#figures(createdPerS, { from: beganAt, to: isWatched ? watchedUntil : Date.now() }, takeover);
  }

  /** All are due in one second, which begins when this ends. */
  async #createAhead(msPerJob: number): Promise<number> {
    const { jobs } = this.#plan;
    const dueAt = Math.ceil((Date.now() + LEAD_MS + msPerJob * jobs * CREATE_SLOWNESS) / 1_000) * 1_000;
    const createdPerS = await this.#create({ at: dueAt });
    if (Date.now() > dueAt) throw new Error(`creating ${jobs} jobs took until they were due`);
    await sleep(dueAt - Date.now());
    return createdPerS;
  }

  /** All are due at once, and held. */
  async #createHeld(): Promise<number> {
    // The pause is known everywhere by then.
    await sleep(LEAD_MS);
    const createdPerS = await this.#create('now');
    await sleep(PAUSE_MS);
    await this.#collect();
    if (this.#flooded > 0) throw new Error(`${this.#flooded} jobs of a paused queue were started`);
    return createdPerS;
  }

  /** Returns how many were created a second. */
  async #create(due: Due): Promise<number> {
    const { queue, jobs, priority } = this.#plan;
    const { load, apiUrl, progress } = this.#stage;
    progress(`  creating ${jobs} jobs`);
    const batches = { batchJobs: Math.min(BATCH_JOBS, jobs), concurrency: BATCHES_AT_ONCE };
    const { jobIds, seconds } = await load.ask('batches', { apiUrl, queues: [queue], jobs, ...batches, due, priority });
    for (const jobId of jobIds) this.#flood.add(jobId);
    return jobIds.length / seconds;
  }

  /** Kills the dispatcher in the middle; returns the time in which its shards are taken over. */
  async #watch(beganAt: number): Promise<Span> {
    const { seconds, progress } = this.#options;
    const end = beganAt + seconds * 1_000;
    await sleep((end - Date.now()) / 2);
    progress('  killing the dispatcher');
    const killedAt = Date.now();
    await this.#stage.killDispatcher();
    while (Date.now() < end) {
      await sleep(POLL_MS);
      await this.#collect();
    }
    return { from: killedAt, to: killedAt + TAKEOVER_MS };
  }

  async #trickle(): Promise<void> {
    const { queues, priority } = this.#plan.trickle;
    const { load, apiUrl } = this.#stage;
    while (this.#isTrickling) {
      const { jobIds } = await load.ask('steady', {
        apiUrl,
        queues,
        priority,
        jobsPerS: this.#options.tricklePerS,
        seconds: TRICKLE_CHUNK_S,
        due: { delayMs: TRICKLE_DELAY_MS },
      });
      this.#trickled.push(...jobIds);
    }
  }

  async #collect(): Promise<void> {
    const starts = (await this.#stage.takeStarts()).filter(({ queue }) => queue !== WARM_UP_QUEUE);
    this.#starts.push(...starts);
    this.#flooded += starts.filter(({ jobId }) => this.#flood.has(jobId)).length;
  }

  /** Ends also when nothing starts any more: the figures tell what is missing. */
  async #until(isEnough: () => boolean): Promise<void> {
    let seen = this.#flooded;
    for (let giveUpAt = Date.now() + PATIENCE_MS; !isEnough() && Date.now() < giveUpAt;) {
      await sleep(POLL_MS);
      await this.#collect();
      if (this.#flooded > seen) giveUpAt = Date.now() + PATIENCE_MS;
      seen = this.#flooded;
    }
  }

  #figures(createdPerS: number, watched: Span, takeover: Span | null): PartFigures {
    const isInTakeover = (at: number): boolean => takeover !== null && isWithin(at, takeover);
    const flood = this.#starts.filter(({ jobId }) => this.#flood.has(jobId));
    const others = this.#starts.filter((start) => !this.#flood.has(start.jobId) && start.scheduledFor <= watched.to);
    const lags = lagsOf(others.filter(({ scheduledFor }) => !isInTakeover(scheduledFor)));
    const late = lagsOf(others.filter(({ scheduledFor }) => isInTakeover(scheduledFor)));
    const { never, twice } = startFaults([...this.#flood, ...this.#trickled], this.#starts);
    return {
      others_lag_p99_ms: lags.p99_ms,
      flooded_per_s: ratePerS(flood, watched, takeover),
      rss_max_mb: this.#stage.peakRssMb()['dispatcher'] ?? NaN,
      lost: never,
      doubled: twice,
      jobs: this.#flood.size,
      created_per_s: createdPerS,
      others_lag_max_ms: lags.max_ms,
      others_jobs: others.length,
      takeover_lag_max_ms: takeover === null ? 0 : late.max_ms,
    };
  }
}

function isWithin(at: number, { from, to }: Span): boolean {
  return at >= from && at < to;
}

/** From a moment after the begin to the end, or to the last start where that is before, without the takeover. */
function ratePerS(flood: readonly Start[], watched: Span, takeover: Span | null): number {
  const last = flood.reduce((latest, { startedAt }) => Math.max(latest, startedAt), 0);
  const span = { from: watched.from + STEADY_AFTER_MS, to: Math.min(watched.to, last) };
  const isCounted = (at: number): boolean => isWithin(at, span) && (takeover === null || !isWithin(at, takeover));
  const takeoverMs =
    takeover === null ? 0 : Math.max(0, Math.min(span.to, takeover.to) - Math.max(span.from, takeover.from));
  const countedMs = span.to - span.from - takeoverMs;
  return (flood.filter(({ startedAt }) => isCounted(startedAt)).length / countedMs) * 1_000;
}

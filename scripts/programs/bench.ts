// scripts/bench: what the product reaches on this machine.

import { cpus } from 'node:os';
import { parseArgs } from 'node:util';
import { benchBurst, type BurstOptions } from '../benchmarks/burst.ts';
import { benchCreate } from '../benchmarks/create.ts';
import { benchFlood, FLOOD_PARTS } from '../benchmarks/flood.ts';
import { benchIdle, benchImmediate } from '../benchmarks/immediate.ts';
import { benchLag } from '../benchmarks/lag.ts';
import { measureRawRates, type RawRates } from '../benchmarks/raw-rates.ts';
import { medianReport, tableOf } from '../benchmarks/report.ts';
import { type StageOptions, withTheatre } from '../benchmarks/stage.ts';
import { benchSchedules } from '../benchmarks/schedules.ts';
import { benchGrowth, benchSteady } from '../benchmarks/steady.ts';
import { showProgress } from '../embedded/progress.ts';
import { withTemporaryServers } from '../embedded/temporary-servers.ts';
import { runProgram } from '../lib/run-program.ts';

const HELP = `usage: scripts/bench <scenario> [options] [--runs <n>] [--json]

Measures first what the servers reach by themselves (single-row conditional updates, plain inserts, JetStream publishes),
then runs the scenario on api, dispatcher, reaper and workers of its own, through REST and JetStream, and prints what it
reached: rates, ratios to the raw conditional updates, lag by the worker's clock, rounds, reads and writes per job, CPU
seconds per 1,000 jobs and peak memory by process.

  burst      jobs of four queues, created ahead, all due in the same second
               --jobs <n> (50000)  --compare: the same burst again at cohort size 1, at the end
  create     POST /jobs at concurrency 64, then batches of 500            --seconds <n> (10)
  steady     jobs due 5 s after their creation                            --rate <per s> (500)  --seconds <n> (60)
  growth     steady, then again with very many jobs waiting               --waiting <n> (1000000), and those of steady
  immediate  from POST to handler start, one job after the other          --jobs <n> (500)
  schedules  schedules of the same minute, created ahead
               --count <n> (10000)  --timetables <n> different expressions and zones that name the minute (100)
  lag        start lag on an idle machine: 300 jobs posted ahead and due at random moments over 60 s, then 100 jobs with
             delay_s 1 (about 2 minutes)
  flood      very many jobs of one queue due in the same second, and a trickle in five others: with a rate (its dispatcher
             is killed in the middle), without, overdue in a queue that was paused (a third of them, at ten times the
             rate), and as low jobs under a trickle of high ones: others_lag_p99_ms, flooded_per_s (of the first part),
             rss_max_mb (the dispatcher's), lost, doubled
               --jobs <n> (300000)  --rate <per s> (50)  --trickle <per s> (20)  --seconds <n> (60): of the limited part
               --part limited|unlimited|paused|priorities: only this one
  idle       what everything takes while nothing is to be done            --seconds <n> (30)

  --runs <n>               so many times, and the median of each figure (1)
  --workers <n>            worker processes, each of which works all queues (1)
  --worker-concurrency <n> jobs that a worker process has in hand, per queue (100)
  --cohort-size <n>        jobs stored together (PUNCTUAL_COHORT_SIZE; default: the product's own)
  --raw-seconds <n>        of each raw measurement (3)
  --json                   the result as one line of JSON on standard output; progress goes to standard error

It starts an empty Cassandra (with a heap of 4 GB) and NATS for the run, unless PUNCTUAL_CASSANDRA_CONTACT_POINTS and
PUNCTUAL_NATS_SERVERS name servers to be used: then in keyspaces of its own, dropped at the end.
`;

/** With a heap of 1 GB Cassandra marks it for a second at a time, with one of two cores: p99 at 1,000 jobs/s was 358 ms then, 136 with 4 GB. */
const SERVERS = { purpose: 'bench', heapMb: 4_096, commitlogSync: 'periodic', progress: showProgress } as const;

const OPTIONS = {
  jobs: { type: 'string' },
  seconds: { type: 'string' },
  rate: { type: 'string' },
  waiting: { type: 'string' },
  count: { type: 'string' },
  timetables: { type: 'string' },
  trickle: { type: 'string' },
  part: { type: 'string' },
  compare: { type: 'boolean' },
  runs: { type: 'string' },
  workers: { type: 'string' },
  'worker-concurrency': { type: 'string' },
  'cohort-size': { type: 'string' },
  'raw-seconds': { type: 'string' },
  json: { type: 'boolean' },
  help: { type: 'boolean' },
} as const;

type Values = ReturnType<typeof parse>['values'];

function parse() {
  return parseArgs({ allowPositionals: true, options: OPTIONS });
}

type Numbered = Exclude<keyof typeof OPTIONS, 'part' | 'compare' | 'json' | 'help'>;

/** Throws when the option is no whole number from 1. */
function numberOf<Fallback extends number | undefined>(values: Values, name: Numbered, fallback: Fallback) {
  const given = values[name];
  if (given === undefined) return fallback;
  const number = Number(given);
  if (!Number.isInteger(number) || number < 1) throw new Error(`--${name} must be a whole number from 1, not ${given}`);
  return number;
}

type Play = (stage: StageOptions, raw: RawRates) => Promise<object>;

/** Each reads its options at once, before anything is started. */
const SCENARIOS: Readonly<Record<string, (values: Values) => Play>> = {
  burst: (values) => {
    const jobs = numberOf(values, 'jobs', 50_000);
    return (stage, raw) => burst({ ...stage, jobs, raw }, values.compare === true);
  },
  create: (values) => {
    const seconds = numberOf(values, 'seconds', 10);
    return (stage, raw) => benchCreate({ ...stage, seconds, raw });
  },
  steady: (values) => {
    const steady = steadyOptions(values);
    return (stage) => benchSteady({ ...stage, ...steady });
  },
  growth: (values) => {
    const growth = { ...steadyOptions(values), waiting: numberOf(values, 'waiting', 1_000_000) };
    return (stage) => benchGrowth({ ...stage, ...growth });
  },
  immediate: (values) => {
    const jobs = numberOf(values, 'jobs', 500);
    return (stage) => benchImmediate({ ...stage, jobs });
  },
  schedules: (values) => {
    const count = numberOf(values, 'count', 10_000);
    const timetables = numberOf(values, 'timetables', 100);
    return (stage) => benchSchedules({ ...stage, count, timetables });
  },
  lag: () => benchLag,
  flood: (values) => {
    const flood = {
      jobs: numberOf(values, 'jobs', 300_000),
      ratePerS: numberOf(values, 'rate', 50),
      tricklePerS: numberOf(values, 'trickle', 20),
      seconds: numberOf(values, 'seconds', 60),
      parts: FLOOD_PARTS.filter((part) => values.part === undefined || part === values.part),
    };
    if (flood.parts.length === 0) throw new Error(`--part must be one of ${FLOOD_PARTS.join(', ')}`);
    return (stage) => benchFlood({ ...stage, ...flood });
  },
  idle: (values) => {
    const seconds = numberOf(values, 'seconds', 30);
    return (stage) => benchIdle({ ...stage, seconds });
  },
};

function steadyOptions(values: Values) {
  return { jobsPerS: numberOf(values, 'rate', 500), seconds: numberOf(values, 'seconds', 60) };
}

async function burst(options: BurstOptions, compare: boolean): Promise<object> {
  const result = await benchBurst(options);
  if (!compare) return result;
  showProgress('• the same at cohort size 1');
  const single = await benchBurst({ ...options, cohortSize: 1 });
  const times = result.run.completed_jobs_per_s / single.run.completed_jobs_per_s;
  return { ...result, at_cohort_size_1: single, times_cohort_size_1: times };
}

/** Reads all options, then returns what one run does. */
function readRun(name: string, play: Play, values: Values): () => Promise<object> {
  const seconds = numberOf(values, 'raw-seconds', 3);
  const stage: StageOptions = {
    progress: showProgress,
    workers: numberOf(values, 'workers', 1),
    workerConcurrency: numberOf(values, 'worker-concurrency', 100),
    cohortSize: numberOf(values, 'cohort-size', undefined),
  };
  return () =>
    withTheatre(async ({ client, natsServers }) => {
      const raw = await measureRawRates(client, natsServers, { seconds, progress: showProgress });
      return { scenario: name, cores: cpus().length, raw, ...(await play(stage, raw)) };
    });
}

await runProgram('bench', async () => {
  const { values, positionals } = parse();
  if (values.help === true) {
    console.log(HELP);
    return;
  }
  const [name = '', ...others] = positionals;
  const readPlay = Object.hasOwn(SCENARIOS, name) ? SCENARIOS[name] : undefined;
  if (readPlay === undefined || others.length > 0) {
    console.error(HELP);
    process.exitCode = 2;
    return;
  }
  const count = numberOf(values, 'runs', 1);
  const runOnce = readRun(name, readPlay(values), values);
  await withTemporaryServers(SERVERS, async () => {
    const runs: object[] = [];
    for (let run = 1; run <= count; run += 1) {
      if (count > 1) showProgress(`• run ${run} of ${count}`);
      runs.push(await runOnce());
    }
    const report = medianReport(runs);
    const text =
      values.json === true ? JSON.stringify(count > 1 ? { ...report, runs } : report) : tableOf(report).join('\n');
    process.stdout.write(`${text}\n`);
    return true;
  });
});

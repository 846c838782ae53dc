// scripts/simulate: the whole product in one process, by seeds.

import { parseArgs } from 'node:util';
import { FAULTS, type FaultName } from '../../tests/simulation/chaos.ts';
import { PLANTED_FAULTS } from '../../tests/simulation/planted-faults.ts';
import { type Caught, promisingFirst, searchPlanted } from '../../tests/simulation/planted-search.ts';
import { runSeeds } from '../../tests/simulation/seed-pool.ts';
import { type RunResult, simulate } from '../../tests/simulation/simulation.ts';
import { runProgram } from '../lib/run-program.ts';

const SEEDS_DEFAULT = 100;
/** Every planted fault is caught within so many. */
const PLANTED_SEEDS_MAX = 500;
const EXIT_USAGE = 2;
const EXIT_INTERRUPTED = 130;
const PROGRESS_EVERY_MS = 5_000;

const HELP = `usage: scripts/simulate [--seeds <count>] [--from <seed>] [--json]
       scripts/simulate --seed <seed> [--trace] [--json]
       scripts/simulate --planted [--seeds <count>] [--from <seed>] [--json]

Runs api, dispatcher, reaper and workers in one process, over stores and a bus in memory, while everything goes wrong that
the seed draws: crashes and pauses at any await, lost and late answers, skewed clocks, partitions, lost streams. After every
step checkers hold what happened against the promise; then all heals, and everything accepted must end. The same seed is
the same run.

  --seeds <count>   how many seeds, on all cores; default ${SEEDS_DEFAULT}
  --from <seed>     the first of them; default 1
  --seed <seed>     only this one, and of a failure the lines that tell of it
  --planted         shows that the checkers bite: plants one fault after the other into the product and looks for the first
                    of the seeds, ${PLANTED_SEEDS_MAX} by default, that catches it
  --trace           with --seed: every line, on standard error
  --json            the result as one line of JSON on standard output

Exit code 0: nothing found. 1: a promise was broken, or a planted fault was not caught. 2: wrong usage. 130: interrupted, after printing what was done.
`;

interface Summary {
  readonly seeds: number;
  readonly steps: number;
  readonly jobs: number;
  readonly attempts: number;
  readonly simulated_h: number;
  readonly took_s: number;
  readonly faults: Readonly<Partial<Record<FaultName, number>>>;
  readonly failures: readonly {
    readonly seed: number;
    readonly step: number;
    readonly rule: string;
    readonly detail: string;
  }[];
}

function summarize(results: readonly RunResult[], tookMs: number): Summary {
  const sum = (of: (result: RunResult) => number): number => results.reduce((total, result) => total + of(result), 0);
  const failed = results.filter(({ violation }) => violation !== null).sort((one, other) => one.seed - other.seed);
  return {
    seeds: results.length,
    steps: sum(({ steps }) => steps),
    jobs: sum(({ jobs }) => jobs),
    attempts: sum(({ attempts }) => attempts),
    simulated_h: Number((sum(({ simulatedMs }) => simulatedMs) / 3_600_000).toFixed(2)),
    took_s: Number((tookMs / 1_000).toFixed(1)),
    faults: Object.fromEntries(FAULTS.map((name) => [name, sum(({ faults }) => faults[name] ?? 0)])),
    failures: failed.map(({ seed, steps, violation }) => ({
      seed,
      step: steps,
      rule: violation?.rule ?? '',
      detail: violation?.detail ?? '',
    })),
  };
}

function print(summary: Summary, asJson: boolean): void {
  if (asJson) {
    process.stdout.write(`${JSON.stringify(summary)}\n`);
    return;
  }
  const { seeds, steps, jobs, attempts, simulated_h: hours, took_s: tookS, faults, failures } = summary;
  const lines = [
    `${seeds} seeds, ${steps} steps, ${jobs} jobs, ${attempts} attempts, ${hours} h simulated in ${tookS} s`,
    ...Object.entries(faults).map(([name, count]) => `  ${name.padEnd(22)} ${String(count).padStart(8)}`),
    ...failures.flatMap(({ seed, step, rule, detail }) => [
      '',
      `✖ seed ${seed}, step ${step}: ${rule}`,
      `  ${detail}`,
      `  ./scripts/simulate --seed ${seed}`,
    ]),
    failures.length === 0 ? 'no promise was broken' : `\n${failures.length} of ${seeds} seeds broke a promise`,
  ];
  process.stdout.write(`${lines.join('\n')}\n`);
}

async function runPlanted(from: number, count: number, asJson: boolean): Promise<void> {
  const stop = stopper();
  const seeds = Array.from({ length: count }, (_, index) => from + index);
  const lineOf = (name: string, { seed, tries, violation }: Caught): string =>
    `✔ ${name}\n    seed ${seed}, the ${tries}. tried: ${violation.rule}\n`;
  const caught = await searchPlanted(
    (fault) => promisingFirst(fault, seeds),
    stop,
    (name, found) => {
      if (!asJson) process.stdout.write(lineOf(name, found));
    },
  );
  const uncaught = PLANTED_FAULTS.map(({ name }) => name).filter((name) => !caught.has(name));
  if (asJson) process.stdout.write(`${JSON.stringify({ caught: Object.fromEntries(caught), uncaught })}\n`);
  else for (const name of uncaught) process.stdout.write(`✖ ${name}\n`);
  process.exitCode = stop.aborted ? EXIT_INTERRUPTED : uncaught.length > 0 ? 1 : 0;
}

/** Aborted when the user interrupts. */
function stopper(): AbortSignal {
  const stop = new AbortController();
  process.on('SIGINT', () => stop.abort());
  process.on('SIGTERM', () => stop.abort());
  return stop.signal;
}

async function runMany(from: number, count: number): Promise<{ results: readonly RunResult[]; interrupted: boolean }> {
  const results: RunResult[] = [];
  const stop = stopper();
  const showProgress = setInterval(() => {
    const failures = results.filter(({ violation }) => violation !== null).length;
    process.stderr.write(`• ${results.length} of ${count} seeds, ${failures} broke a promise\n`);
  }, PROGRESS_EVERY_MS);
  const orders = Array.from({ length: count }, (_, index) => ({ seed: from + index, plant: null }));
  await runSeeds(orders, (result) => results.push(result), stop);
  clearInterval(showProgress);
  return { results, interrupted: stop.aborted };
}

async function runOne(seed: number, withTrace: boolean): Promise<RunResult> {
  const result = await simulate({
    seed,
    stackLines: 10,
    onLine: withTrace ? (line) => void process.stderr.write(`${line}\n`) : undefined,
  });
  if (!withTrace && result.excerpt.length > 0) process.stderr.write(`${result.excerpt.join('\n')}\n`);
  return result;
}

/** Throws UsageError. */
function wholeNumber(option: string, text: string, least: number): number {
  const number = Number(text);
  if (/^\d+$/.test(text) && Number.isSafeInteger(number) && number >= least) return number;
  throw new UsageError(`--${option} ${text}: must be a whole number from ${least}`);
}

class UsageError extends Error {}

type Order =
  | { readonly kind: 'help' }
  | { readonly kind: 'one'; readonly seed: number; readonly trace: boolean; readonly json: boolean }
  | { readonly kind: 'planted'; readonly from: number; readonly count: number; readonly json: boolean }
  | { readonly kind: 'many'; readonly from: number; readonly count: number; readonly json: boolean };

/** Throws UsageError. */
function readOrder(): Order {
  const { seed, seeds, from, trace, planted, json, help } = readArguments();
  if (help) return { kind: 'help' };
  if (seed === undefined) {
    if (trace) throw new UsageError('--trace shows one run: name it with --seed');
    const count = wholeNumber('seeds', seeds ?? String(planted ? PLANTED_SEEDS_MAX : SEEDS_DEFAULT), 1);
    return { kind: planted ? 'planted' : 'many', from: wholeNumber('from', from ?? '1', 0), count, json };
  }
  if (planted) throw new UsageError('--planted looks through many seeds: leave out --seed');
  if ((seeds ?? from) !== undefined) throw new UsageError('--seed runs one seed: leave out --seeds and --from');
  return { kind: 'one', seed: wholeNumber('seed', seed, 0), trace, json };
}

function readArguments() {
  try {
    const { values } = parseArgs({
      options: {
        seed: { type: 'string' },
        seeds: { type: 'string' },
        from: { type: 'string' },
        trace: { type: 'boolean', default: false },
        planted: { type: 'boolean', default: false },
        json: { type: 'boolean', default: false },
        help: { type: 'boolean', short: 'h', default: false },
      },
    });
    return values;
  } catch (error) {
    throw new UsageError(`${error instanceof Error ? error.message : String(error)}; see --help`);
  }
}

async function carryOut(order: Order): Promise<void> {
  if (order.kind === 'help') {
    process.stdout.write(HELP);
    return;
  }
  if (order.kind === 'planted') {
    await runPlanted(order.from, order.count, order.json);
    return;
  }
  const startedAt = performance.now();
  const { results, interrupted } =
    order.kind === 'one'
      ? { results: [await runOne(order.seed, order.trace)], interrupted: false }
      : await runMany(order.from, order.count);
  const summary = summarize(results, performance.now() - startedAt);
  print(summary, order.json);
  process.exitCode = summary.failures.length > 0 ? 1 : interrupted ? EXIT_INTERRUPTED : 0;
}

await runProgram('simulate', async () => {
  try {
    await carryOut(readOrder());
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    process.stderr.write(`scripts/simulate: ${error.message}\n`);
    process.exitCode = EXIT_USAGE;
  }
});

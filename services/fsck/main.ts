// punctual fsck: is everything that is stored whole? See options.ts.

import { FSCK_RING_PARTS, SECOND_MS } from '../core/domain/limits.ts';
import { elapsedMs } from '../core/domain/time.ts';
import type { FsckProgress } from '../core/fsck/fsck.ts';
import { armRepairs, repairsOf } from '../core/fsck/repair.ts';
import { ConfigError, loadConfig, type Config } from '../core/runtime/config.ts';
import { UsageError } from '../core/runtime/command-line.ts';
import { errorText } from '../core/runtime/error-fields.ts';
import { systemClock } from '../core/runtime/system-clock.ts';
import type { Log } from '../core/ports/telemetry.ts';
import { composeFsck } from './compose.ts';
import { HELP, readOptions, type Options } from './options.ts';
import { asJson, asText } from './report.ts';

const EXIT_CLEAN = 0;
const EXIT_DAMAGED = 1;
const EXIT_FAILED = 2;
const PROGRESS_EVERY_MS = 5 * SECOND_MS;

process.exitCode = await main();

async function main(): Promise<number> {
  try {
    const options = readOptions(process.argv.slice(2));
    if (options !== null) return await check(options, loadConfig('api').config);
    process.stdout.write(HELP);
    return EXIT_CLEAN;
  } catch (error) {
    if (error instanceof ConfigError) say([error.message, ...error.faults].join('\n  '));
    else if (error instanceof UsageError) say(`${error.message}\nSee punctual fsck --help.`);
    else say(errorText(error));
    return EXIT_FAILED;
  }
}

async function check(options: Options, config: Config): Promise<number> {
  const clock = systemClock;
  const startedAt = clock.moment();
  const warn = (message: string, fields?: object): void =>
    say(fields === undefined ? message : `${message} ${JSON.stringify(fields)}`);
  const log: Log = { debug: () => undefined, info: () => undefined, warn, error: warn };
  const { fsck, timers, ...tools } = await composeFsck(config, options, { clock, log, onProgress: progressLines() });
  try {
    const report = await fsck.run();
    const repairs = options.repair === 'no' ? [] : repairsOf(report.findings);
    if (options.repair === 'write') await armRepairs(repairs, timers);
    const seconds = Math.round(elapsedMs(startedAt, clock.moment()) / 100) / 10;
    const outcome = { keyspace: config.cassandra.keyspace, report, repairs, mode: options.repair, seconds };
    process.stdout.write(`${options.json ? asJson(outcome) : asText(outcome)}\n`);
    return report.findings.length === 0 ? EXIT_CLEAN : EXIT_DAMAGED;
  } finally {
    await tools.close();
  }
}

/** One line for each table, and now and then one in between. */
function progressLines(): (progress: FsckProgress) => void {
  let saidAt = systemClock.moment();
  return ({ table, part, rows, suspects }) => {
    const now = systemClock.moment();
    if (part < FSCK_RING_PARTS && elapsedMs(saidAt, now) < PROGRESS_EVERY_MS) return;
    saidAt = now;
    const open = suspects === 0 ? '' : `, ${suspects} to be looked at again`;
    process.stderr.write(`• ${table}: ${Math.round((100 * part) / FSCK_RING_PARTS)} %, ${rows} rows${open}\n`);
  };
}

function say(message: string): void {
  process.stderr.write(`punctual fsck: ${message}\n`);
}

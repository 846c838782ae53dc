import { closest } from '../core/domain/closest.ts';
import { parseInstant } from '../core/contract/instant.ts';
import {
  type ClockChange,
  ClockChangeEffect,
  type CronOptions,
  type CronSchedule,
  DstGap,
  DstRepeat,
  parseCron,
} from '../core/domain/cron-schedule.ts';
import { CLOCK_CHANGES_AHEAD_MS, CLOCK_CHANGES_TOLD_MAX } from '../core/domain/limits.ts';
import type { EpochMs } from '../core/domain/time.ts';
import { wallText } from '../core/domain/wall-calendar.ts';
import { zoneReading } from '../core/domain/zone-reading.ts';
import { systemClock } from '../core/runtime/system-clock.ts';
import { readCommandLine, UsageError } from '../core/runtime/command-line.ts';
import { type Command, ExitCode, type Output } from './command.ts';
import { table } from './table.ts';

const COUNT_DEFAULT = 5;
const COUNT_MAX = 100_000;

const OPTIONS = {
  'time-zone': { type: 'string' },
  after: { type: 'string' },
  count: { type: 'string' },
  'on-dst-gap': { type: 'string' },
  'on-dst-repeat': { type: 'string' },
  'schedule-id': { type: 'string' },
  json: { type: 'boolean' },
} as const;

/** Names the field as the API does. */
interface Fault {
  readonly field: string;
  readonly message: string;
}

class CronFaults extends Error {
  readonly faults: readonly Fault[];
  constructor(faults: readonly Fault[]) {
    super(faults.map(({ field, message }) => `${field}: ${message}`).join('\n  '));
    this.faults = faults;
  }
}

interface Question {
  readonly expression: string;
  readonly timeZone: string;
  readonly schedule: CronSchedule;
  readonly after: EpochMs;
  readonly count: number;
  /** Where an H shows some schedule's minute, not one that exists. */
  readonly note: string | null;
}

type Answer = (question: Question) => { readonly json: object; readonly text: string };

const VERBS: Readonly<Record<string, Answer>> = {
  next: (question) => {
    const slots = slotsOf(question);
    return {
      json: { next: slots.map(utc), ...(question.note !== null && { note: question.note }) },
      text: slots.length === 0 ? 'no slot follows\n' : slots.map((slot) => `${utc(slot)}\n`).join(''),
    };
  },
  explain: (question) => {
    const { expression, timeZone, schedule, after } = question;
    const changes = schedule.changes(after, after + CLOCK_CHANGES_AHEAD_MS, CLOCK_CHANGES_TOLD_MAX);
    const slots = slotsOf(question);
    return {
      json: {
        cron: expression,
        time_zone: timeZone,
        meaning: schedule.describe(),
        next: slots.map(utc),
        clock_changes: changes.map(changeFields),
        ...(question.note !== null && { note: question.note }),
      },
      text: [
        `${expression} in ${timeZone}: ${schedule.describe()}`,
        '',
        table(
          ['NEXT', 'ON THE WALL'],
          slots.map((slot) => [utc(slot), zoneReading(timeZone, slot)]),
        ).trimEnd(),
        '',
        ...(changes.length === 0
          ? ['No change of the clocks touches it in the next 10 years.']
          : ['Changes of the clocks that touch it:', ...changes.map((change) => `  ${changeWords(change)}`)]),
        '',
      ].join('\n'),
    };
  },
};

export const cronCommand: Command = {
  name: 'cron',
  usage: [
    'cron next "<expression>" [options]    the next slots, as UTC; asks no server',
    'cron explain "<expression>" [options] what it means, and what the next changes of the clocks do to it',
    '  --time-zone <name>               an IANA name such as Europe/Berlin (required)',
    `  --after <time>                   RFC 3339 (default: now), --count <n> (default ${COUNT_DEFAULT}, at most ${COUNT_MAX})`,
    '  --on-dst-gap run_after | skip    and --on-dst-repeat first | both: instead of what the hour field implies',
    '  --schedule-id <id>               what H hashes',
    '  --json                           answers and faults as JSON',
  ],
  run([name = '', ...args], output) {
    const asJson = args.includes('--json');
    try {
      answer(name, args, output);
      return ExitCode.ok;
    } catch (error) {
      if (!asJson || !(error instanceof UsageError || error instanceof CronFaults)) {
        throw error instanceof CronFaults ? new UsageError(error.message) : error;
      }
      const errors = error instanceof CronFaults ? error.faults : [];
      output.write(`${JSON.stringify({ error: error.message, errors })}\n`);
      return ExitCode.usage;
    }
  },
};

function answer(name: string, args: readonly string[], output: Output): void {
  const verb = Object.hasOwn(VERBS, name) ? VERBS[name] : undefined;
  if (verb === undefined) {
    const meant = closest(name, Object.keys(VERBS));
    throw new UsageError(`no command cron ${name}${meant === undefined ? '' : `; did you mean ${meant}?`}`);
  }
  const { positionals, values } = readCommandLine(args, OPTIONS);
  const [expression, ...others] = positionals;
  if (expression === undefined || others.length > 0) {
    throw new UsageError(`it is: punctual cron ${name} "<expression>" --time-zone <name>, the expression in quotes`);
  }
  const question = questionOf(expression, values);
  const { json, text } = verb(question);
  output.write(values.json === true ? `${JSON.stringify(json)}\n` : text);
  if (values.json !== true && question.note !== null) output.write(`(${question.note})\n`);
}

type Values = ReturnType<typeof readCommandLine<typeof OPTIONS>>['values'];

function questionOf(expression: string, values: Values): Question {
  const faults: Fault[] = [];
  const timeZone = values['time-zone'] ?? '';
  const scheduleId = values['schedule-id'];
  const onDstGap = oneOf('on_dst_gap', values['on-dst-gap'], Object.values(DstGap), faults);
  const onDstRepeat = oneOf('on_dst_repeat', values['on-dst-repeat'], Object.values(DstRepeat), faults);
  const options: CronOptions = {
    timeZone,
    ...(scheduleId !== undefined && { hashSeed: scheduleId }),
    ...(onDstGap !== undefined && { onDstGap }),
    ...(onDstRepeat !== undefined && { onDstRepeat }),
  };
  const cron = parseCron(expression, options);
  if (!cron.ok) faults.push(...cron.errors);
  const after = values.after === undefined ? systemClock.now() : instantOf(values.after, faults);
  const count = countOf(values.count, faults);
  if (!cron.ok || faults.length > 0) throw new CronFaults(faults);
  const { schedule } = cron;
  const note = schedule.hashed && scheduleId === undefined ? 'H depends on the schedule: give --schedule-id' : null;
  return { expression, timeZone, schedule, after, count, note };
}

function oneOf<T extends string>(
  field: string,
  word: string | undefined,
  words: readonly T[],
  faults: Fault[],
): T | undefined {
  const found = words.find((each) => each === word);
  if (word !== undefined && found === undefined) faults.push({ field, message: `must be ${words.join(' or ')}` });
  return found;
}

function instantOf(text: string, faults: Fault[]): EpochMs {
  const instant = parseInstant(text);
  if (instant.ok) return instant.epochMs;
  faults.push({ field: 'after', message: instant.fault });
  return 0;
}

function countOf(text: string | undefined, faults: Fault[]): number {
  const count = text === undefined ? COUNT_DEFAULT : /^\d{1,6}$/.test(text) ? Number(text) : 0;
  if (count < 1 || count > COUNT_MAX) faults.push({ field: 'count', message: `must be 1-${COUNT_MAX}` });
  return count;
}

function slotsOf({ schedule, after, count }: Question): readonly EpochMs[] {
  const slots: EpochMs[] = [];
  for (let slot = schedule.next(after); slot !== null && slots.length < count; slot = schedule.next(slot))
    slots.push(slot);
  return slots;
}

function changeFields(change: ClockChange): object {
  return {
    at: utc(change.at),
    clocks_from: wallText(change.fromWall),
    clocks_to: wallText(change.toWall),
    times: change.readings.map(wallText),
    ...(change.moreReadings > 0 && { more_times: change.moreReadings }),
    effect: change.effect,
  };
}

const EFFECT_WORDS: Readonly<Record<ClockChangeEffect, readonly [what: string, then: string]>> = {
  [ClockChangeEffect.movedAfterGap]: ['skipped', 'runs once, when the gap ends'],
  [ClockChangeEffect.skipped]: ['skipped', 'not made up for'],
  [ClockChangeEffect.runsOnce]: ['shown twice', 'runs the first time'],
  [ClockChangeEffect.runsTwice]: ['shown twice', 'runs both times'],
};

function changeWords({ at, fromWall, toWall, readings, moreReadings, effect }: ClockChange): string {
  const [what, then] = EFFECT_WORDS[effect];
  const times = readings.map((reading) => wallText(reading).slice(11)).join(', ');
  const more = moreReadings === 0 ? '' : ` and ${moreReadings} more`;
  return `${utc(at)}  clocks go from ${wallText(fromWall)} to ${wallText(toWall)}; ${what}: ${times}${more}; ${then}`;
}

/** Slots are at whole seconds. */
function utc(at: EpochMs): string {
  return new Date(at).toISOString().replace('.000Z', 'Z');
}

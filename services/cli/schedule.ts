import type { PunctualClient } from '../client/client.ts';
import type {
  ListedSchedule,
  NewSchedule,
  Schedule,
  SchedulePreview,
  ScheduleRun,
  SchedulesPause,
} from '../client/types.ts';
import { UsageError } from '../core/runtime/command-line.ts';
import type { Command, Output } from './command.ts';
import { exactJson } from './exact-json.ts';
import { type Cell, facts, table } from './table.ts';
import {
  API_OPTIONS,
  API_USAGE,
  JOB_OPTIONS,
  jobFields,
  labelsText,
  numberFields,
  parse,
  runVerb,
  show,
  type Values,
  type Verbs,
  wholeNumber,
  withoutUndefined,
  moreText,
} from './verbs.ts';

const TEXT = { type: 'string' } as const;
const FLAG = { type: 'boolean' } as const;
const DEFINITION = {
  ...API_OPTIONS,
  ...JOB_OPTIONS,
  cron: TEXT,
  every: TEXT,
  'time-zone': TEXT,
  'on-overlap': TEXT,
  'on-missed': TEXT,
  'missed-limit': TEXT,
  'missed-window': TEXT,
  'on-dst-gap': TEXT,
  'on-dst-repeat': TEXT,
  jitter: TEXT,
  'start-at': TEXT,
  'end-at': TEXT,
  'max-runs': TEXT,
  key: TEXT,
} as const;
const LIST = { ...API_OPTIONS, queue: TEXT, label: TEXT, paused: FLAG, active: FLAG, limit: TEXT } as const;
const PAUSE = { ...API_OPTIONS, reason: TEXT, until: TEXT, label: TEXT, queue: TEXT, 'dry-run': FLAG } as const;
const RESUME = { ...API_OPTIONS, label: TEXT, queue: TEXT, 'dry-run': FLAG } as const;
const DELETE = { ...API_OPTIONS, 'cancel-pending': FLAG } as const;
const RUN = { ...API_OPTIONS, key: TEXT } as const;
const BACKFILL = { ...API_OPTIONS, from: TEXT, to: TEXT, 'dry-run': FLAG, key: TEXT } as const;
const PREVIEW = { ...API_OPTIONS, count: TEXT, after: TEXT } as const;
const RUNS = { ...API_OPTIONS, from: TEXT, to: TEXT, limit: TEXT } as const;
const LIMIT_DEFAULT = 50;
const PAGE_MAX_ROWS = 500;

const VERBS: Verbs = {
  create: async (args, output) => {
    const { words, values, client } = parse(args, ['queue'], DEFINITION);
    const options = values.key === undefined ? {} : { idempotencyKey: values.key };
    const schedule = await client.createSchedule(definitionOf(words[0] ?? '', values), options);
    const note = schedule.replayed ? 'the key had been used for this schedule before' : 'created';
    show(output, values, withExactPayload(schedule), () => `${note}\n${scheduleText(schedule)}`);
  },
  put: async (args, output) => {
    const { words, values, client } = parse(args, ['name', 'queue'], DEFINITION);
    const schedule = await client.putSchedule(words[0] ?? '', definitionOf(words[1] ?? '', values));
    const note = schedule.created ? 'created' : 'as it is now';
    show(output, values, withExactPayload(schedule), () => `${note}\n${scheduleText(schedule)}`);
  },
  get: async (args, output) => {
    const { words, values, client } = parse(args, ['schedule'], API_OPTIONS);
    const schedule = await client.getSchedule(words[0] ?? '');
    show(output, values, withExactPayload(schedule), () => scheduleText(schedule));
  },
  list: async (args, output) => {
    const { values, client } = parse(args, [], LIST);
    const limit = values.limit === undefined ? LIMIT_DEFAULT : wholeNumber('--limit', values.limit);
    const schedules = await listed(client, values, limit);
    show(output, values, schedules, () => listText(schedules, limit));
  },
  pause: async (args, output) => {
    if (isBulk(args)) {
      await changeAll(args, output, PAUSE, (client, request) => client.pauseSchedules(request));
      return;
    }
    const { words, values, client } = parse(args, ['schedule'], PAUSE);
    const { reason, until } = values;
    const schedule = await client.pauseSchedule(words[0] ?? '', withoutUndefined({ reason, until }));
    show(output, values, withExactPayload(schedule), () => `paused\n${scheduleText(schedule)}`);
  },
  resume: async (args, output) => {
    if (isBulk(args)) {
      await changeAll(args, output, RESUME, (client, request) => client.resumeSchedules(request));
      return;
    }
    const { words, values, client } = parse(args, ['schedule'], RESUME);
    const schedule = await client.resumeSchedule(words[0] ?? '');
    show(output, values, withExactPayload(schedule), () => `resumed\n${scheduleText(schedule)}`);
  },
  'skip-next': async (args, output) => {
    const { words, values, client } = parse(args, ['schedule'], API_OPTIONS);
    const schedule = await client.skipNextSlot(words[0] ?? '');
    show(output, values, withExactPayload(schedule), () => scheduleText(schedule));
  },
  run: async (args, output) => {
    const { words, values, client } = parse(args, ['schedule'], RUN);
    const options = values.key === undefined ? {} : { idempotencyKey: values.key };
    const job = await client.runSchedule(words[0] ?? '', options);
    show(output, values, job, () => facts({ job_id: job.job_id, status: job.status, run_at: job.run_at }));
  },
  backfill: async (args, output) => {
    const { words, values, client } = parse(args, ['schedule'], BACKFILL);
    const { from, to, key } = values;
    if (from === undefined || to === undefined) throw new UsageError('it takes --from <time> and --to <time>');
    const range = { from, to, ...(values['dry-run'] === true && { dry_run: true }) };
    const slots = await client.backfillSchedule(
      words[0] ?? '',
      range,
      key === undefined ? {} : { idempotencyKey: key },
    );
    const rows = slots.map(({ slot, job_id: jobId = null, error }): Cell[] => [slot, jobId, error?.detail ?? null]);
    show(output, values, slots, () => `${table(['SLOT', 'JOB', 'ERROR'], rows)}${slots.length} slots\n`);
  },
  delete: async (args, output) => {
    const { words, values, client } = parse(args, ['schedule'], DELETE);
    const deleted = await client.deleteSchedule(words[0] ?? '', { cancelPending: values['cancel-pending'] === true });
    show(output, values, deleted, () =>
      facts({ deleted: deleted.schedule_id, cancelled: deleted.cancelled.join(', ') }),
    );
  },
  preview: async (args, output) => {
    const { words, values, client } = parse(args, ['schedule'], PREVIEW);
    const count = values.count === undefined ? undefined : wholeNumber('--count', values.count);
    const preview = await client.previewSchedule(words[0] ?? '', withoutUndefined({ count, after: values.after }));
    show(output, values, preview, () => previewText(preview));
  },
  runs: async (args, output) => {
    const { words, values, client } = parse(args, ['schedule'], RUNS);
    const { from, to } = values;
    const limit = values.limit === undefined ? LIMIT_DEFAULT : wholeNumber('--limit', values.limit);
    const runs = await allRuns(client, words[0] ?? '', withoutUndefined({ from, to }), limit);
    show(output, values, runs, () => runsText(runs));
  },
};

export const scheduleCommand: Command = {
  name: 'schedule',
  usage: [
    'schedule create <queue> [options]  --cron <expression> --time-zone <name> | --every <s>, --payload <json> --priority --label',
    '                                   <name=value> --max-attempts <n> --timeout <s> --lease <s> --on-overlap --on-missed --missed-limit',
    '                                   <n> --missed-window <s> --on-dst-gap --on-dst-repeat --jitter <s> --start-at --end-at <time>',
    '                                   --max-runs <n> --key <text>',
    'schedule put <name> <queue> [...]  as create, under a name of your own; the same again changes nothing',
    'schedule get <schedule>            by its id or its name, as in all that follow',
    'schedule list [options]            --queue --label <name=value> --paused | --active, --limit <n> (default 50)',
    'schedule pause <schedule>          --reason <text> --until <time>',
    'schedule pause --label <name=value> | --queue <queue>   all of them; --dry-run only counts',
    'schedule resume <schedule> | --label <name=value> | --queue <queue>, --dry-run',
    'schedule skip-next <schedule>      leaves the next slot out',
    'schedule run <schedule>            its work now, beside its slots: --key <text>',
    'schedule backfill <schedule>       a job for each slot: --from <time> --to <time>, --dry-run, --key <text>',
    'schedule preview <schedule>        its next slots: --count <n> --after <time>',
    'schedule runs <schedule>           what became of its slots, the latest first: --from --to <time> --limit <n>',
    'schedule delete <schedule>         --cancel-pending',
    ...API_USAGE,
  ],
  run: (words, output) => runVerb('schedule', VERBS, words, output),
};

const NUMBERS = {
  every: 'every_s',
  'missed-limit': 'missed_limit',
  'missed-window': 'missed_window_s',
  jitter: 'jitter_s',
  'max-runs': 'max_runs',
} as const;

function definitionOf(queue: string, values: Values<typeof DEFINITION>): NewSchedule {
  return withoutUndefined({
    queue,
    cron: values.cron,
    time_zone: values['time-zone'],
    ...jobFields(values),
    ...numberFields(NUMBERS, values),
    on_overlap: values['on-overlap'],
    on_missed: values['on-missed'],
    on_dst_gap: values['on-dst-gap'],
    on_dst_repeat: values['on-dst-repeat'],
    start_at: values['start-at'],
    end_at: values['end-at'],
  }) as unknown as NewSchedule;
}

function isBulk(args: readonly string[]): boolean {
  return args.some((arg) => /^--(label|queue)(=|$)/.test(arg));
}

/** Call after call: one goes over some thousands of schedules. */
async function changeAll(
  args: readonly string[],
  output: Output,
  options: typeof PAUSE | typeof RESUME,
  call: (client: PunctualClient, request: SchedulesPause) => ReturnType<PunctualClient['pauseSchedules']>,
): Promise<void> {
  const { values, client } = parse(args, [], options);
  const given = values as Values<typeof PAUSE>;
  const request: SchedulesPause = withoutUndefined({
    label: given.label,
    queue: given.queue,
    reason: given.reason,
    until: given.until,
    dry_run: given['dry-run'],
  });
  let [matched, changed] = [0, 0];
  let token: string | null = null;
  do {
    const answer = await call(client, { ...request, ...(token !== null && { page_token: token }) });
    matched += answer.matched;
    changed += answer.changed;
    token = answer.next_page_token;
  } while (token !== null);
  const done = given['dry-run'] === true ? 'would_change' : 'changed';
  show(output, given, { matched, [done]: changed }, () => facts({ matched, [done]: changed }));
}

/** Page after page; a page may be empty and still have a next one. */
async function listed(
  client: PunctualClient,
  values: Values<typeof LIST>,
  limit: number,
): Promise<readonly ListedSchedule[]> {
  const { queue, label } = values;
  const paused = values.paused === true ? true : values.active === true ? false : undefined;
  const filter = withoutUndefined({ queue, label, paused });
  const schedules: ListedSchedule[] = [];
  let token: string | null = null;
  do {
    const more: { page_token?: string } = token === null ? {} : { page_token: token };
    const size = Math.min(PAGE_MAX_ROWS, limit - schedules.length);
    const page = await client.listSchedules({ ...filter, page_size: size, ...more });
    schedules.push(...page.schedules);
    token = page.next_page_token;
  } while (token !== null && schedules.length < limit);
  return schedules;
}

async function allRuns(
  client: PunctualClient,
  schedule: string,
  window: object,
  limit: number,
): Promise<readonly ScheduleRun[]> {
  const runs: ScheduleRun[] = [];
  let token: string | null = null;
  do {
    const more: { page_token?: string } = token === null ? {} : { page_token: token };
    const size = Math.min(PAGE_MAX_ROWS, limit - runs.length);
    const page = await client.listScheduleRuns(schedule, { ...window, page_size: size, ...more });
    runs.push(...page.runs);
    token = page.next_page_token;
  } while (token !== null && runs.length < limit);
  return runs;
}

function withExactPayload(schedule: Schedule): object {
  return schedule.payloadText === null ? schedule : { ...schedule, payload: exactJson(schedule.payloadText) };
}

function scheduleText(schedule: Schedule): string {
  return facts({
    schedule_id: schedule.schedule_id,
    name: schedule.key,
    queue: `${schedule.queue} (${schedule.priority})`,
    timetable: timetableOf(schedule),
    status: schedule.status,
    next_run_at: schedule.next_run_at,
    paused: [schedule.paused_reason, schedule.paused_until && `until ${schedule.paused_until}`]
      .filter(Boolean)
      .join(', '),
    skip_slot: schedule.skip_slot,
    last_slot: schedule.last_slot,
    last_job_id: schedule.last_job_id,
    runs: schedule.max_runs === null ? schedule.runs : `${schedule.runs} of ${schedule.max_runs}`,
    waiting: schedule.waiting.length === 0 ? null : schedule.waiting.length,
    on_overlap: schedule.on_overlap,
    on_missed: schedule.on_missed,
    start_at: schedule.start_at,
    end_at: schedule.end_at,
    labels: labelsText(schedule.labels),
    revision: schedule.revision,
    payload: schedule.payloadText,
  });
}

function timetableOf({ cron, every_s: everyS, time_zone: timeZone }: ListedSchedule): string {
  return cron === null ? `every ${everyS ?? 0} s` : `${cron} in ${timeZone ?? ''}`;
}

function listText(schedules: readonly ListedSchedule[], limit: number): string {
  if (schedules.length === 0) return 'no schedules\n';
  const rows = schedules.map((each): Cell[] => [
    each.key ?? each.schedule_id,
    each.queue,
    timetableOf(each),
    each.status,
    each.next_run_at,
    labelsText(each.labels),
  ]);
  return `${table(['SCHEDULE', 'QUEUE', 'TIMETABLE', 'STATUS', 'NEXT RUN', 'LABELS'], rows)}${moreText(schedules, limit)}`;
}

function previewText({ meaning, note, slots, clock_changes: changes }: SchedulePreview): string {
  const rows = slots.map(({ slot, local, starts_at: start, reason }): Cell[] => [slot, local, start, reason]);
  const clocks = changes.map(({ at, clocks_from: from, clocks_to: to, times, effect }): Cell[] => [
    at,
    `${from} -> ${to}`,
    times.join(', '),
    effect,
  ]);
  return [
    `${meaning}\n`,
    note === null ? '' : `(${note})\n`,
    `\n${table(['SLOT', 'ON THE WALL', 'STARTS', 'LEFT OUT'], rows)}`,
    clocks.length === 0 ? '' : `\n${table(['CLOCK CHANGE', 'CLOCKS', 'TIMES', 'EFFECT'], clocks)}`,
  ].join('');
}

function runsText(runs: readonly ScheduleRun[]): string {
  if (runs.length === 0) return 'no slots in this window\n';
  const rows = runs.map((run): Cell[] => [
    run.slot,
    run.slot_until,
    run.outcome,
    run.reason,
    run.job_status,
    run.lag_ms,
    run.job_id,
  ]);
  return table(['SLOT', 'UNTIL', 'OUTCOME', 'REASON', 'JOB STATUS', 'LAG MS', 'JOB'], rows);
}

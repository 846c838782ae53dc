import type { PunctualClient } from '../client/client.ts';
import type { CountedQueue, NewQueueSettings, Queue, QueueCounts, QueueSettings } from '../client/types.ts';
import { UsageError } from '../core/runtime/command-line.ts';
import type { Command } from './command.ts';
import { type Cell, facts, table } from './table.ts';
import {
  API_OPTIONS,
  API_USAGE,
  JOB_NUMBERS,
  numberOf,
  parse,
  runVerb,
  show,
  type Values,
  type Verbs,
  withoutUndefined,
} from './verbs.ts';

/** Option -> setting. `default` in place of a number takes the setting away. */
const SETTINGS = {
  rate: 'rate_per_s',
  burst: 'burst',
  ramp: 'ramp_s',
  'max-running': 'max_running',
  'ready-max': 'ready_max',
  'max-waiting': 'max_waiting',
  ...JOB_NUMBERS,
  'retention-days': 'retention_days',
  'dead-retention-days': 'dead_retention_days',
} as const;
type Option = keyof typeof SETTINGS;

const SET = {
  ...API_OPTIONS,
  ...(Object.fromEntries(Object.keys(SETTINGS).map((option) => [option, { type: 'string' }])) as Record<
    Option,
    { readonly type: 'string' }
  >),
} as const;
const PAUSE = { ...API_OPTIONS, reason: { type: 'string' }, until: { type: 'string' } } as const;
const DEFAULT = 'default';
const PAGE_MAX_ROWS = 500;

const VERBS: Verbs = {
  get: async (args, output) => {
    const { words, values, client } = parse(args, ['queue'], API_OPTIONS);
    const queue = await client.getQueue(words[0] ?? '');
    show(output, values, queue, () => `${settingsText(queue)}\n${countsText(queue.counts)}\n${consumersText(queue)}`);
  },
  list: async (args, output) => {
    const { values, client } = parse(args, [], API_OPTIONS);
    const queues = await allQueues(client);
    show(output, values, queues, () => listText(queues));
  },
  set: async (args, output) => {
    const { words, values, client } = parse(args, ['queue'], SET);
    const settings = await client.changeQueue(words[0] ?? '', patchOf(values));
    show(output, values, settings, () => settingsText(settings));
  },
  pause: async (args, output) => {
    const { words, values, client } = parse(args, ['queue'], PAUSE);
    const { reason, until } = values;
    const settings = await client.pauseQueue(words[0] ?? '', withoutUndefined({ reason, until }));
    show(output, values, settings, () => `paused\n${settingsText(settings)}`);
  },
  resume: async (args, output) => {
    const { words, values, client } = parse(args, ['queue'], API_OPTIONS);
    const settings = await client.resumeQueue(words[0] ?? '');
    show(output, values, settings, () => `resumed\n${settingsText(settings)}`);
  },
};

export const queueCommand: Command = {
  name: 'queue',
  usage: [
    "queue get <queue>                  a queue's settings, what is in it, and its consumers",
    'queue list                         the queues that are configured or have jobs (waiting for later ones apart), and what is in them',
    'queue set <queue> [options]        --rate <per s> --burst <n> --ramp <s> --max-running <n> --ready-max <n> --max-waiting <n>,',
    '                                   for jobs that name none: --max-attempts <n> --timeout <s> --lease <s>,',
    '                                   days that jobs are kept: --retention-days <n> --dead-retention-days <n>;',
    `                                   ${DEFAULT} in place of a number takes the setting away`,
    'queue pause <queue>                starts nothing more of it: --reason <text> --until <time>',
    'queue resume <queue>',
    ...API_USAGE,
  ],
  run: (words, output) => runVerb('queue', VERBS, words, output),
};

function patchOf(values: Values<typeof SET>): NewQueueSettings {
  const given = (Object.keys(SETTINGS) as Option[]).flatMap((option): [string, number | null][] => {
    const text = values[option];
    if (text === undefined) return [];
    return [[SETTINGS[option], text === DEFAULT ? null : numberOf(`--${option}`, text)]];
  });
  if (given.length === 0) throw new UsageError(`nothing to set: give one of --${Object.keys(SETTINGS).join(', --')}`);
  return Object.fromEntries(given);
}

async function allQueues(client: PunctualClient): Promise<readonly CountedQueue[]> {
  const queues: CountedQueue[] = [];
  let token: string | null = null;
  do {
    const more: { page_token?: string } = token === null ? {} : { page_token: token };
    const page = await client.listQueues({ page_size: PAGE_MAX_ROWS, ...more });
    queues.push(...page.queues);
    token = page.next_page_token;
  } while (token !== null);
  return queues;
}

function settingsText(queue: QueueSettings): string {
  const { retry, pause } = queue;
  return facts({
    queue: queue.queue,
    paused: pause === null ? null : pausedText(pause),
    rate_per_s: queue.rate_per_s ?? 'unlimited',
    burst: queue.burst,
    ramp_s: queue.ramp_s,
    max_running: queue.max_running ?? 'unlimited',
    ready_max: queue.ready_max,
    max_waiting: queue.max_waiting,
    max_attempts: queue.max_attempts,
    timeout_s: queue.timeout_s,
    lease_s: queue.lease_s,
    retry: retry === null ? null : JSON.stringify(retry),
    retention_days: queue.retention_days,
    dead_retention_days: queue.dead_retention_days,
    revision: queue.revision,
    updated_at: queue.updated_at,
  });
}

function countsText({
  waiting,
  held,
  ready,
  running,
  dead,
  oldest_ready_age_s: ageS,
  start_lag: lag,
  ...rest
}: QueueCounts): string {
  return facts({
    waiting,
    held,
    ready: ready === null ? 'NATS is away' : readyText(ready),
    running,
    dead: dead ?? 'not counted yet',
    oldest_ready: ageS === null ? null : `${ageS} s ago`,
    start_lag:
      lag === null ? null : `p50 ${lag.p50_s} s, p95 ${lag.p95_s} s, p99 ${lag.p99_s} s of ${lag.starts} starts`,
    counted_at: rest.counted_at ?? 'not all of it lately: there may be more',
  });
}

function readyText(ready: NonNullable<QueueCounts['ready']>): string {
  const total = sumOf(ready);
  const parts = Object.entries(ready).filter(([, jobs]) => jobs > 0);
  return parts.length < 2 ? String(total) : `${total} (${parts.map(([name, jobs]) => `${jobs} ${name}`).join(', ')})`;
}

function sumOf(ready: NonNullable<QueueCounts['ready']>): number {
  return Object.values(ready).reduce((sum, jobs) => sum + jobs, 0);
}

function pausedText({ at, reason, until }: NonNullable<QueueSettings['pause']>): string {
  return [`since ${at}`, until === null ? null : `until ${until}`, reason].filter((part) => part !== null).join(', ');
}

function consumersText({ ready }: Queue): string {
  return table(
    ['PRIORITY', 'STREAM', 'CONSUMER'],
    ready.map(({ priority, stream, consumer }) => [priority, stream, consumer]),
  );
}

function listText(queues: readonly CountedQueue[]): string {
  if (queues.length === 0) return 'no queue is configured or has jobs\n';
  const rows = queues.map((queue): Cell[] => [
    queue.queue,
    queue.counts.waiting,
    queue.counts.held,
    queue.counts.ready === null ? null : sumOf(queue.counts.ready),
    queue.counts.running,
    queue.counts.dead,
    queue.rate_per_s,
    queue.max_running,
    queue.ready_max,
    queue.max_waiting,
    queue.pause === null ? null : pausedText(queue.pause),
  ]);
  return table(
    [
      'QUEUE',
      'WAITING',
      'HELD',
      'READY',
      'RUNNING',
      'DEAD',
      'RATE/S',
      'MAX RUNNING',
      'READY MAX',
      'MAX WAITING',
      'PAUSED',
    ],
    rows,
  );
}

import type { PunctualClient } from '../client/client.ts';
import type { DryRun, ListedOperation, NewOperation, Operation } from '../client/types.ts';
import { BulkVerb } from '../core/domain/bulk.ts';
import { closest } from '../core/domain/closest.ts';
import { SECOND_MS } from '../core/domain/limits.ts';
import { systemClock } from '../core/runtime/system-clock.ts';
import { systemRandom } from '../core/runtime/system-random.ts';
import { UsageError } from '../core/runtime/command-line.ts';
import type { Command, Output } from './command.ts';
import { facts, table } from './table.ts';
import {
  API_OPTIONS,
  API_USAGE,
  numberOf,
  parse,
  payloadOf,
  runVerb,
  show,
  signedNumberOf,
  type Values,
  type Verbs,
  wholeNumber,
  withoutUndefined,
} from './verbs.ts';
import { givenWindow } from './window.ts';

const WAIT_EVERY_MS = SECOND_MS;
const LIST_DEFAULT_ROWS = 20;
const PAGE_MAX_ROWS = 500;

/** What all commands that start an operation take. */
export const FILTER = {
  ...API_OPTIONS,
  from: { type: 'string' },
  to: { type: 'string' },
  label: { type: 'string' },
  error: { type: 'string' },
} as const;
export const START = {
  ...FILTER,
  rate: { type: 'string' },
  'dry-run': { type: 'boolean' },
  wait: { type: 'boolean' },
} as const;
/** What a replay may change on its jobs. */
export const REPLAY = { payload: { type: 'string' }, queue: { type: 'string' } } as const;
const START_ANY = {
  ...START,
  status: { type: 'string' },
  'run-at': { type: 'string' },
  shift: { type: 'string' },
  ...REPLAY,
} as const;
const WAIT = { ...API_OPTIONS, wait: { type: 'boolean' } } as const;
const LIST = { ...API_OPTIONS, limit: { type: 'string' } } as const;

const VERBS: Verbs = {
  start: async (args, output) => {
    const { words, values, client } = parse(args, ['verb', 'queue'], START_ANY);
    const [verb = '', queue = ''] = words;
    const { status, label, error, shift, rate } = values;
    const operation = withoutUndefined({
      verb: verbOf(verb),
      filter: withoutUndefined({ queue, ...givenWindow(values), status, label, error }),
      run_at: values['run-at'],
      shift_s: shift === undefined ? undefined : signedNumberOf('--shift', shift),
      ...replayFields(values),
      rate_per_s: rate === undefined ? undefined : numberOf('--rate', rate),
    });
    await start(client, output, operation as NewOperation, values);
  },
  get: async (args, output) => {
    const { words, values, client } = parse(args, ['operation_id'], WAIT);
    const operation = await client.getOperation(words[0] ?? '');
    await showOperation(client, output, operation, values);
  },
  list: async (args, output) => {
    const { values, client } = parse(args, [], LIST);
    const limit = values.limit === undefined ? LIST_DEFAULT_ROWS : wholeNumber('--limit', values.limit);
    const operations = await listed(client, limit);
    show(output, values, operations, () => listText(operations));
  },
  stop: async (args, output) => {
    const { words, values, client } = parse(args, ['operation_id'], WAIT);
    const operation = await client.stopOperation(words[0] ?? '');
    await showOperation(client, output, operation, values);
  },
};

export const operationCommand: Command = {
  name: 'operation',
  usage: [
    'operation start <verb> <queue>     cancel | reschedule | run | replay | discard all jobs of a window: --from <time> --to <time>',
    '                                   (required), by run_at (replay, discard: by the time of death), --status,',
    '                                   --label <name=value>, --error <part of it>, --rate <per s> (default 100),',
    '                                   --dry-run (counts and shows), --wait; reschedule: --run-at <time> | --shift <s>;',
    '                                   replay: --payload <json>, --queue <where to>',
    'operation get <operation_id>       how far it is: --wait',
    'operation list                     the newest first: --limit <n> (default 20)',
    'operation stop <operation_id>      what it has changed stays: --wait',
    ...API_USAGE,
  ],
  run: (words, output) => runVerb('operation', VERBS, words, output),
};

/** Throws UsageError for none that there is. */
function verbOf(text: string): BulkVerb {
  const verbs = Object.values(BulkVerb);
  const verb = verbs.find((each) => each === text);
  if (verb !== undefined) return verb;
  const meant = closest(text, verbs);
  throw new UsageError(
    `no verb ${text}${meant === undefined ? `: give one of ${verbs.join(', ')}` : `; did you mean ${meant}?`}`,
  );
}

/** Those that are not given are undefined. */
export function replayFields({ payload, queue }: Values<typeof REPLAY>): Readonly<Record<string, unknown>> {
  return { payload: payload === undefined ? undefined : payloadOf(payload), queue };
}

/** Counts, or starts under a key of its own, so that a lost answer starts nothing twice. */
export async function start(
  client: PunctualClient,
  output: Output,
  operation: NewOperation,
  values: { readonly json?: boolean; readonly 'dry-run'?: boolean; readonly wait?: boolean },
): Promise<void> {
  if (values['dry-run'] === true) {
    const counted = await client.dryRun(operation);
    show(output, values, counted, () => dryRunText(counted));
    return;
  }
  await showOperation(
    client,
    output,
    await client.startOperation(operation, { idempotencyKey: systemRandom.token() }),
    values,
  );
}

async function showOperation(
  client: PunctualClient,
  output: Output,
  first: Operation,
  values: { readonly json?: boolean; readonly wait?: boolean },
): Promise<void> {
  let operation = first;
  while (values.wait === true && operation.finished_at === null) {
    await systemClock.sleep(WAIT_EVERY_MS);
    operation = await client.getOperation(operation.operation_id);
  }
  show(output, values, operation, () => operationText(operation));
}

async function listed(client: PunctualClient, limit: number): Promise<readonly ListedOperation[]> {
  const operations: ListedOperation[] = [];
  let token: string | null = null;
  do {
    const more: { page_token?: string } = token === null ? {} : { page_token: token };
    const page = await client.listOperations({
      page_size: Math.min(PAGE_MAX_ROWS, limit - operations.length),
      ...more,
    });
    operations.push(...page.operations);
    token = page.next_page_token;
  } while (token !== null && operations.length < limit);
  return operations;
}

function operationText(operation: Operation): string {
  const { filter } = operation;
  return facts({
    operation_id: operation.operation_id,
    verb: operation.verb,
    status: operation.status,
    queue: filter.queue,
    window: `${filter.from} to ${filter.to}`,
    only: [filter.status, filter.label, filter.error].filter((part) => part !== null).join(', '),
    run_at: operation.run_at,
    shift_s: operation.shift_s,
    to_queue: operation.queue,
    payload: operation.payload_bytes === 0 ? 'none' : operation.payloadText,
    rate_per_s: operation.rate_per_s,
    changed: operation.changed,
    failed: operation.failed,
    last_error: operation.last_error,
    progress: `${Math.floor(operation.progress * 100)} % of the window`,
    reached: operation.reached,
    created_at: operation.created_at,
    updated_at: operation.updated_at,
    finished_at: operation.finished_at,
  });
}

function dryRunText({ matched, refused, complete, reached, samples }: DryRun): string {
  const count = complete
    ? `${matched} match`
    : `at least ${matched} match (not all is counted: up to ${reached ?? ''}, narrow the window for the rest)`;
  const rest = refused === 0 ? '' : `; ${refused} more cannot be changed so`;
  if (samples.length === 0) return `${count}${rest}\n`;
  const rows = samples.map((job) => [job.job_id, job.status, job.run_at, job.attempt, job.last_error]);
  return `${count}${rest}; the first of them:\n${table(['JOB', 'STATUS', 'RUN AT', 'ATTEMPT', 'LAST ERROR'], rows)}`;
}

function listText(operations: readonly ListedOperation[]): string {
  if (operations.length === 0) return 'no operation in the last 30 days\n';
  const rows = operations.map(({ operation_id: id, verb, filter, status, changed, failed, created_at: at }) => [
    id,
    verb,
    filter.queue,
    status,
    changed,
    failed,
    at,
  ]);
  return table(['OPERATION', 'VERB', 'QUEUE', 'STATUS', 'CHANGED', 'FAILED', 'CREATED'], rows);
}

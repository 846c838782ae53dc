import type { PunctualClient } from '../client/client.ts';
import type { DeadLetter, DeadLetterFilter, NewOperation } from '../client/types.ts';
import type { Command } from './command.ts';
import { FILTER, REPLAY, replayFields, start, START } from './operation.ts';
import { table } from './table.ts';
import {
  API_USAGE,
  moreText,
  numberOf,
  parse,
  runVerb,
  show,
  type Values,
  type Verbs,
  wholeNumber,
  withoutUndefined,
} from './verbs.ts';
import { dayWindow, givenWindow, type Window, windowText } from './window.ts';

const LIST_DEFAULT_ROWS = 50;
const PAGE_MAX_ROWS = 500;

const LIST = { ...FILTER, limit: { type: 'string' } } as const;

const VERBS: Verbs = {
  list: async (args, output) => {
    const { words, values, client } = parse(args, ['queue'], LIST);
    const { label, error } = values;
    const limit = values.limit === undefined ? LIST_DEFAULT_ROWS : wholeNumber('--limit', values.limit);
    const window = dayWindow(values, 'past');
    const filter = withoutUndefined({ queue: words[0] ?? '', ...window, label, error });
    const letters = await listed(client, filter as DeadLetterFilter, limit);
    show(output, values, letters, () => listText(letters, { window, limit }));
  },
  replay: async (args, output) => {
    const { words, values, client } = parse(args, ['queue'], { ...START, ...REPLAY });
    const operation = { ...operationOf('replay', words[0], values), ...replayFields(values) };
    await start(client, output, withoutUndefined(operation) as NewOperation, values);
  },
  discard: async (args, output) => {
    const { words, values, client } = parse(args, ['queue'], START);
    await start(client, output, operationOf('discard', words[0], values) as NewOperation, values);
  },
};

export const deadLettersCommand: Command = {
  name: 'dead-letters',
  usage: [
    'dead-letters list <queue>          by the time of death: --from <time> --to <time> (default: the last 24 hours),',
    '                                   --label <name=value>, --error <part of it>, --limit <n> (default 50); all attempts with --json',
    'dead-letters replay <queue>        due again, with as many tries again: --from <time> --to <time> (required), --label, --error,',
    '                                   --rate <per s>, --dry-run, --wait, --payload <json>, --queue <where to>',
    'dead-letters discard <queue>       given up for good: likewise, without --payload and --queue',
    ...API_USAGE,
  ],
  run: (words, output) => runVerb('dead-letters', VERBS, words, output),
};

function operationOf(verb: 'replay' | 'discard', queue = '', values: Values<typeof START>): object {
  const { label, error, rate } = values;
  return withoutUndefined({
    verb,
    filter: withoutUndefined({ queue, ...givenWindow(values), label, error }),
    rate_per_s: rate === undefined ? undefined : numberOf('--rate', rate),
  });
}

async function listed(client: PunctualClient, filter: DeadLetterFilter, limit: number): Promise<readonly DeadLetter[]> {
  const letters: DeadLetter[] = [];
  let token: string | null = null;
  do {
    const more: { page_token?: string } = token === null ? {} : { page_token: token };
    const size = Math.min(PAGE_MAX_ROWS, limit - letters.length);
    const page = await client.listDeadLetters({ ...filter, page_size: size, ...more });
    letters.push(...page.dead_letters);
    token = page.next_page_token;
  } while (token !== null && letters.length < limit);
  return letters;
}

function listText(
  letters: readonly DeadLetter[],
  { window, limit }: { readonly window: Window; readonly limit: number },
): string {
  if (letters.length === 0) return `no dead letters ${windowText(window)}\n`;
  const rows = letters.map(({ job_id: id, dead_at: at, attempt, reason, error }) => [id, at, attempt, reason, error]);
  return `${table(['JOB', 'DIED', 'ATTEMPT', 'REASON', 'ERROR'], rows)}${moreText(letters, limit)}died ${windowText(window)}\n`;
}

import type { parseArgs, ParseArgsConfig } from 'node:util';
import { PunctualClient } from '../client/client.ts';
import { closest } from '../core/domain/closest.ts';
import { configuredApiUrl } from '../core/runtime/config.ts';
import { readCommandLine, UsageError } from '../core/runtime/command-line.ts';
import { ExitCode, type Output } from './command.ts';
import { exactJson } from './exact-json.ts';

// What the commands that call the API have in common.

/** A person waits: no more than a few seconds for an API that is away. */
const RETRIES = 2;

export const API_OPTIONS = { api: { type: 'string' }, json: { type: 'boolean' } } as const;

export const API_USAGE: readonly string[] = [
  '  --api <url>                      if not PUNCTUAL_API_URL (http://127.0.0.1:7400)',
  '  --json                           answers as JSON',
];

/** Options of everything that defines a job, and the fields of the numbers among them. */
export const JOB_NUMBERS = { 'max-attempts': 'max_attempts', timeout: 'timeout_s', lease: 'lease_s' } as const;
export const JOB_OPTIONS = {
  payload: { type: 'string' },
  priority: { type: 'string' },
  'max-attempts': { type: 'string' },
  timeout: { type: 'string' },
  lease: { type: 'string' },
  label: { type: 'string', multiple: true },
} as const;

export type Verbs = Readonly<Record<string, (args: readonly string[], output: Output) => Promise<void>>>;

/** Throws UsageError for a verb that is not there. */
export async function runVerb(
  command: string,
  verbs: Verbs,
  [name = '', ...args]: readonly string[],
  output: Output,
): Promise<ExitCode> {
  const verb = Object.hasOwn(verbs, name) ? verbs[name] : undefined;
  if (verb === undefined) {
    const meant = closest(name, Object.keys(verbs));
    throw new UsageError(`no command ${command} ${name}${meant === undefined ? '' : `; did you mean ${meant}?`}`);
  }
  await verb(args, output);
  return ExitCode.ok;
}

export type Values<T extends ParseArgsConfig['options']> = ReturnType<typeof parseArgs<{ options: T }>>['values'];

type Options = NonNullable<ParseArgsConfig['options']> & typeof API_OPTIONS;

export function parse<T extends Options>(args: readonly string[], expected: readonly string[], options: T) {
  const { positionals: words, values } = readCommandLine(args, options);
  const missing = expected[words.length];
  if (missing !== undefined) throw new UsageError(`<${missing}> is missing`);
  const extra = words[expected.length];
  if (extra !== undefined) throw new UsageError(`there is no place for the word ${extra}`);
  const { api } = values as { readonly api?: string };
  return { words, values, client: clientOf(api ?? configuredApiUrl()) };
}

function clientOf(urls: string): PunctualClient {
  const apiUrl = urls.split(',');
  const wrong = apiUrl.find((url) => !/^https?:\/\//.test(url) || !URL.canParse(url));
  if (wrong !== undefined) throw new UsageError(`no address such as http://127.0.0.1:7400: ${wrong}`);
  return new PunctualClient({ apiUrl, retries: RETRIES });
}

export function show(output: Output, { json }: { readonly json?: boolean }, value: unknown, text: () => string): void {
  output.write(json === true ? `${JSON.stringify(value, null, 2)}\n` : text());
}

/** Below a list: whether there may be more. */
export function moreText(rows: readonly unknown[], limit: number): string {
  return rows.length < limit ? '' : `the first ${limit}; --limit shows more\n`;
}

export function numberOf(option: string, text: string): number {
  if (!/^\d+(\.\d+)?$/.test(text)) throw new UsageError(`${option} takes a number from 0: ${text}`);
  return Number(text);
}

export function signedNumberOf(option: string, text: string): number {
  if (!/^-?\d+(\.\d+)?$/.test(text)) throw new UsageError(`${option} takes a number: ${text}`);
  return Number(text);
}

export function wholeNumber(option: string, text: string): number {
  if (!/^[1-9]\d{0,8}$/.test(text)) throw new UsageError(`${option} takes a whole number from 1: ${text}`);
  return Number(text);
}

/** The fields that JOB_OPTIONS give; those that are not given are undefined. */
export function jobFields(values: Values<typeof JOB_OPTIONS>): Readonly<Record<string, unknown>> {
  const { payload, priority, label } = values;
  return {
    payload: payload === undefined ? undefined : payloadOf(payload),
    priority,
    ...numberFields(JOB_NUMBERS, values),
    labels: label === undefined ? undefined : Object.fromEntries(label.map(labelOf)),
  };
}

/** @param fields the field of each option. */
export function numberFields<Fields extends Readonly<Record<string, string>>>(
  fields: Fields,
  values: Readonly<Partial<Record<keyof Fields, string | undefined>>>,
): Readonly<Record<string, number | undefined>> {
  return Object.fromEntries(
    Object.entries(fields).map(([option, field]) => {
      const text = values[option as keyof Fields];
      return [field, text === undefined ? undefined : numberOf(`--${option}`, text)];
    }),
  );
}

export function payloadOf(text: string): unknown {
  try {
    return exactJson(text);
  } catch (error) {
    throw new UsageError(`--payload is no JSON: ${error instanceof Error ? error.message : String(error)}`);
  }
}

function labelOf(text: string): readonly [string, string] {
  const equals = text.indexOf('=');
  if (equals < 1) throw new UsageError(`--label takes <name=value>: ${text}`);
  return [text.slice(0, equals), text.slice(equals + 1)];
}

export function labelsText(labels: Readonly<Record<string, string>>): string {
  return Object.entries(labels)
    .map(([name, value]) => `${name}=${value}`)
    .join(', ');
}

export function withoutUndefined(fields: Readonly<Record<string, unknown>>): object {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}

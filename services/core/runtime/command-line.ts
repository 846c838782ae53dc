import { parseArgs, type ParseArgsConfig } from 'node:util';
import { closest } from '../domain/closest.ts';

type Options = NonNullable<ParseArgsConfig['options']>;

/** The message says what is wrong with the command line. */
export class UsageError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'UsageError';
  }
}

/**
 * The words and the options of a command line. A number below zero is a value, wherever one is taken: whether it makes sense is its
 * option's to say. Throws UsageError, which names the option that a mistyped one may mean.
 */
export function readCommandLine<T extends Options>(args: readonly string[], options: T) {
  const line = parsed(args, options);
  const given = line.tokens.flatMap((token) => (token.kind === 'option' ? token.name : []));
  const twice = given.find((name, index) => options[name]?.multiple !== true && given.indexOf(name) < index);
  // The last one would win: a filter with a second label would hit jobs that the first one was to spare.
  if (twice !== undefined) throw new UsageError(`--${twice} is given twice; it takes one value`);
  return line;
}

function parsed<T extends Options>(args: readonly string[], options: T) {
  try {
    return parseArgs({ args: withNegativeNumbers(args, options), allowPositionals: true, tokens: true, options });
  } catch (error) {
    throw new UsageError(faultOf(error, options));
  }
}

/** parseArgs takes `--shift -90` for two options; `--shift=-90` it reads. */
function withNegativeNumbers(args: readonly string[], options: Options): string[] {
  const read: string[] = [];
  for (const arg of args) {
    const before = read.at(-1);
    const isValue = /^-\.?\d/.test(arg) && before?.startsWith('--') === true;
    if (isValue && options[before.slice('--'.length)]?.type === 'string') read.splice(-1, 1, `${before}=${arg}`);
    else read.push(arg);
  }
  return read;
}

function faultOf(error: unknown, options: Options): string {
  const message = error instanceof Error ? error.message : String(error);
  const unknown = /^Unknown option '(--?[^']+)'/.exec(message)?.[1];
  if (unknown !== undefined) {
    const meant = closest(unknown.replace(/^--?/, ''), Object.keys(options));
    return `no option ${unknown}${meant === undefined ? '' : `; did you mean --${meant}?`}`;
  }
  const option = /^Option '(?:-\w, )?--([^' ]+)/.exec(message)?.[1];
  if (option === undefined) return message;
  if (options[option]?.type === 'boolean') return `--${option} takes no value`;
  return `--${option} takes a value; one that begins with a dash is given as --${option}=<value>`;
}

import { parseArgs, type ParseArgsConfig } from 'node:util';
import { closest } from '../core/domain/closest.ts';
import { UsageError } from './command.ts';

/** The words and the options of a command line. Throws UsageError, which names the option that a mistyped one may mean. */
export function readCommandLine<T extends NonNullable<ParseArgsConfig['options']>>(
  args: readonly string[],
  options: T,
) {
  try {
    return parseArgs({ args: [...args], allowPositionals: true, options });
  } catch (error) {
    throw new UsageError(faultOf(error, Object.keys(options)));
  }
}

function faultOf(error: unknown, options: readonly string[]): string {
  const message = error instanceof Error ? error.message : String(error);
  const unknown = /^Unknown option '--([^']+)'/.exec(message)?.[1];
  if (unknown === undefined) return message;
  const meant = closest(unknown, options);
  return `no option --${unknown}${meant === undefined ? '' : `; did you mean --${meant}?`}`;
}

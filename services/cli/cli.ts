import { RefusedError, UnansweredError } from '../client/errors.ts';
import { closest } from '../core/domain/closest.ts';
import { UsageError } from '../core/runtime/command-line.ts';
import { type Command, ExitCode, type Output } from './command.ts';
import { cqlCommand } from './cql.ts';
import { cronCommand } from './cron.ts';
import { deadLettersCommand } from './dead-letters.ts';
import { fsckCommand } from './fsck.ts';
import { jobCommand } from './job.ts';
import { operationCommand } from './operation.ts';
import { queueCommand } from './queue.ts';
import { scheduleCommand } from './schedule.ts';

/** The operator's tool: each command is one file and one line here. */
const COMMANDS: readonly Command[] = [
  jobCommand,
  scheduleCommand,
  queueCommand,
  deadLettersCommand,
  operationCommand,
  cronCommand,
  cqlCommand,
  fsckCommand,
];

export interface Streams {
  readonly output: Output;
  readonly errors: Output;
}

/** Answers go to the output, and with --json faults, too; everything else to the errors. Rejects only for our own faults. */
export async function runCli([name = '--help', ...words]: readonly string[], streams: Streams): Promise<ExitCode> {
  const { output, errors } = streams;
  const complain = (message: string): ExitCode => {
    errors.write(`punctual: ${message}\nSee punctual --help.\n`);
    return ExitCode.usage;
  };
  if (name === '--help' || name === '-h' || name === 'help') {
    output.write(help(COMMANDS));
    return ExitCode.ok;
  }
  const command = COMMANDS.find((each) => each.name === name);
  if (command === undefined) {
    const meant = closest(
      name,
      COMMANDS.map((each) => each.name),
    );
    return complain(`no command ${name}${meant === undefined ? '' : `; did you mean ${meant}?`}`);
  }
  const isBare = words.length === 0 && command.isWhole !== true;
  if (words.includes('--help') || words.includes('-h') || isBare) {
    output.write(help([command]));
    return isBare ? ExitCode.usage : ExitCode.ok;
  }
  try {
    return await command.run(words, output);
  } catch (error) {
    const code = exitCodeOf(error);
    if (code === null || !(error instanceof Error)) throw error;
    const { message } = error;
    if (words.includes('--json')) {
      const problem = error instanceof RefusedError ? { problem: error.problem } : {};
      output.write(`${JSON.stringify({ error: message, ...problem })}\n`);
      return code;
    }
    if (code === ExitCode.usage) return complain(message);
    const hint = code === ExitCode.unreachable ? '\n  another address is given by --api or PUNCTUAL_API_URL' : '';
    errors.write(`punctual: ${message}${hint}\n`);
    return code;
  }
}

/** Null: a fault of our own. */
function exitCodeOf(error: unknown): ExitCode | null {
  if (error instanceof UsageError) return ExitCode.usage;
  if (error instanceof RefusedError) return ExitCode.refused;
  return error instanceof UnansweredError ? ExitCode.unreachable : null;
}

function help(commands: readonly Command[]): string {
  return [
    'usage: punctual <command> ...',
    '',
    ...commands.flatMap(({ usage }) => usage.map((line) => `  ${line}`)),
    '',
    'exit codes: 0 done, 1 refused, 2 the command line is wrong, 3 the server cannot be reached',
    '',
  ].join('\n');
}

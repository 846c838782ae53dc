import { closest } from '../core/contract/closest.ts';
import { type Command, ExitCode, UsageError } from './command.ts';
import { cqlCommand } from './cql.ts';

/** The operator's tool: each command is one file and one line here. */
const COMMANDS: readonly Command[] = [cqlCommand];

process.exitCode = await main(process.argv.slice(2));

async function main([name = '--help', ...words]: readonly string[]): Promise<ExitCode> {
  if (name === '--help' || name === '-h' || name === 'help') {
    process.stdout.write(help(COMMANDS));
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
  if (words.includes('--help') || words.includes('-h') || words.length === 0) {
    process.stdout.write(help([command]));
    return words.length === 0 ? ExitCode.usage : ExitCode.ok;
  }
  try {
    return await command.run(words, process.stdout);
  } catch (error) {
    if (error instanceof UsageError) return complain(error.message);
    throw error;
  }
}

function complain(message: string): ExitCode {
  process.stderr.write(`punctual: ${message}\nSee punctual --help.\n`);
  return ExitCode.usage;
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

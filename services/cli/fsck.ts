import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { resolve } from 'node:path';
import { type Command, ExitCode } from './command.ts';

/** It stands on the stores and not on the API, so it is a program of its own. */
const PROGRAM = resolve(import.meta.dirname, '../fsck/main.ts');
const EXIT_CODES: readonly ExitCode[] = Object.values(ExitCode);

export const fsckCommand: Command = {
  name: 'fsck',
  usage: [
    'fsck [--repair [--yes]] [--json] [--rate <rows/s>]   is everything that is stored whole? asks Cassandra alone',
    '  --repair                         what would put the findings right; with --yes does it',
    '                                   exit codes: 0 nothing is damaged, 1 something is, 2 it could not be found out',
  ],
  isWhole: true,
  async run(words) {
    const child = spawn(process.execPath, [PROGRAM, ...words], { stdio: 'inherit' });
    const [code] = (await once(child, 'exit')) as [number | null];
    return EXIT_CODES.find((each) => each === code) ?? ExitCode.usage;
  },
};

// What every command line of ours says about options that it cannot read.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { readCommandLine, UsageError } from '../../services/core/runtime/command-line.ts';
import { readOptions } from '../../services/fsck/options.ts';

const OPTIONS = {
  rate: { type: 'string' },
  shift: { type: 'string' },
  json: { type: 'boolean' },
  help: { type: 'boolean', short: 'h' },
} as const;

function faultOf(read: () => unknown): string {
  try {
    read();
  } catch (error) {
    if (error instanceof UsageError) return error.message;
    throw error;
  }
  return 'none';
}

describe('a command line', () => {
  const fault = (...args: readonly string[]): string => faultOf(() => readCommandLine(args, OPTIONS));

  it('gives its words and options, numbers below zero among the values', () => {
    const { positionals, values } = readCommandLine(['mail', '--shift', '-90', '--rate=-.5', '--json', '-h'], OPTIONS);
    assert.deepEqual(positionals, ['mail']);
    assert.deepEqual({ ...values }, { shift: '-90', rate: '-.5', json: true, help: true });
  });

  it('names the option that a mistyped one may mean', () => {
    assert.equal(fault('--rat', '5'), 'no option --rat; did you mean --rate?');
    assert.equal(fault('--frequency', '5'), 'no option --frequency');
    assert.equal(fault('-x'), 'no option -x');
    assert.equal(fault('--json', '-5'), 'no option -5');
  });

  it('takes an option once, unless it may be repeated', () => {
    assert.equal(fault('--rate', '5', 'mail', '--rate=6'), '--rate is given twice; it takes one value');
    const options = { label: { type: 'string', multiple: true } } as const;
    assert.deepEqual(readCommandLine(['--label', 'a=1', '--label', 'b=2'], options).values.label, ['a=1', 'b=2']);
  });

  it('names the option whose value is missing, or looks like an option', () => {
    const takesOne = '--rate takes a value; one that begins with a dash is given as --rate=<value>';
    assert.equal(fault('--rate'), takesOne);
    assert.equal(fault('--rate', '--json'), takesOne);
    assert.equal(fault('--json=yes'), '--json takes no value');
    assert.equal(fault('--help=yes'), '--help takes no value');
  });
});

describe('the command line of fsck', () => {
  const fault = (...args: readonly string[]): string => faultOf(() => readOptions(args));

  it('is read as those of the other commands', () => {
    assert.partialDeepStrictEqual(readOptions(['--repair', '--yes', '--rate', '50']), {
      repair: 'write',
      rowsPerS: 50,
    });
    assert.equal(readOptions(['-h']), null);
    assert.equal(fault('--repiar'), 'no option --repiar; did you mean --repair?');
    assert.match(fault('--rate', '-5'), /^--rate -5: must be a whole number from 1 to \d+$/);
    assert.equal(fault('--yes'), '--yes belongs to --repair');
    assert.equal(fault('everything'), 'takes no argument everything');
  });
});

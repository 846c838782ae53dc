import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { describe, it } from 'node:test';
import { auditCql } from '../../services/cli/cql.ts';
import { UsageError } from '../../services/core/runtime/command-line.ts';

const JOB = 'j_0123456789abc_07';
const OCCURRENCE = 's_0123456789abc_07@2026-11-15T06:00:00Z';

/** Each audit with words for it, and what its query must hold. */
const AUDITS: readonly (readonly [string, readonly string[], readonly string[]])[] = [
  ['job', [JOB], [`FROM k.jobs`, `cohort = 'j_0123456789abc' AND job_id = '${JOB}'`]],
  ['job', [OCCURRENCE], [`cohort = 's_0123456789abc@2026-11-15T06:00:00Z' AND job_id = '${OCCURRENCE}'`]],
  ['cohort', [JOB], [`cohort = 'j_0123456789abc'`]],
  ['minute', ['17', '2026-11-15T06:07:59.999Z'], [`shard = 17 AND bucket = '2026-11-15T06:07:00.000+0000'`]],
  [
    'deadlines',
    ['0', '2026-11-15 06:07'],
    [`FROM k.deadlines`, `shard = 0 AND bucket = '2026-11-15T06:07:00.000+0000'`],
  ],
  ['dead-letters', ['mail', '2026-11-15'], [`queue = 'mail' AND day = '2026-11-15'`]],
  ['history', ["o'b", '2026-11-15T06:59'], [`queue = 'o''b' AND hour = '2026-11-15T06:00:00.000+0000'`]],
  ['cursors', ['3'], ['shard = 3']],
];

/** Placeholders stand in statements only: comments explain the words of the command line. */
function withoutComments(cql: string): string {
  return cql.replace(/^--.*$/gm, '');
}

describe('audits', () => {
  for (const [name, words, parts] of AUDITS) {
    it(`fill in ${name} ${words.join(' ')}`, () => {
      const cql = auditCql(name, words, 'k');
      for (const part of parts) assert.ok(cql.includes(part), cql);
      assert.doesNotMatch(withoutComments(cql), /:[a-z]/);
      assert.match(cql, /^CONSISTENCY LOCAL_(SERIAL|QUORUM);$/m);
      assert.match(cql, /^PAGING (OFF|\d+);$/m);
    });
  }

  it('are all in reach of the command', () => {
    const dir = resolve(import.meta.dirname, '../../scripts/audit');
    const reached = new Set(AUDITS.map(([name, words]) => auditCql(name, words, 'k').split('\n')[0]));
    for (const file of readdirSync(dir))
      assert.ok(reached.has(readFileSync(join(dir, file), 'utf8').split('\n')[0]), file);
  });

  it('refuse words that make no sense', () => {
    const wrong: readonly (readonly [string, readonly string[]])[] = [
      ['jobs', [JOB]],
      ['constructor', []],
      ['job', []],
      ['job', ['j_1']],
      ['job', ["j_0123456789abc_07' OR 1"]],
      ['minute', ['x', '2026-11-15T06:00']],
      ['dead-letters', ['mail', '2026-11-31']],
      ['minute', ['1', '06:00']],
      ['minute', ['1', '2026-11-15T06:00+01:00']],
      ['minute', ['1', '2026-13-15T06:00']],
    ];
    for (const [name, words] of wrong) assert.throws(() => auditCql(name, words, 'k'), UsageError, words.join(' '));
    assert.throws(() => auditCql('job', [JOB], 'k; DROP'), UsageError);
  });
});

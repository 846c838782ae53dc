import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it, type TestContext } from 'node:test';
import { loadTemplate, loadVersions, splitStatements } from '../../scripts/migrator/versions.ts';
import { SCHEMA_VERSION } from '../../services/core/storage/schema-version.ts';

function folder(test: TestContext, files: Readonly<Record<string, string>>): string {
  const dir = mkdtempSync(join(tmpdir(), 'punctual-schema-'));
  test.after(() => {
    rmSync(dir, { recursive: true });
  });
  for (const [name, text] of Object.entries(files)) writeFileSync(join(dir, name), text);
  return dir;
}

describe('schema versions', () => {
  it('are those that the services need', () => {
    assert.equal(loadVersions().length, SCHEMA_VERSION);
  });

  it('split into statements, without comments', () => {
    const cql = `-- One; two\nCREATE TABLE a (\n  b text, -- c; d\n  PRIMARY KEY (b)\n) WITH x = {'y': '-- ; z'};\n\n/* e; */\nDROP  TABLE "f;g" ;`;
    assert.deepEqual(splitStatements(cql), [
      `CREATE TABLE a ( b text, PRIMARY KEY (b) ) WITH x = {'y': '-- ; z'}`,
      'DROP TABLE "f;g"',
    ]);
  });

  it('keep their checksum under another comment, not under another column', (test) => {
    const checksumOf = (text: string): string => loadVersions(folder(test, { '001-a.cql': text }))[0]!.checksum;
    const first = checksumOf('CREATE TABLE a (b text PRIMARY KEY);');
    assert.equal(checksumOf('-- better\nCREATE TABLE a\n  (b text   PRIMARY KEY);\n'), first);
    assert.notEqual(checksumOf('CREATE TABLE a (c text PRIMARY KEY);'), first);
  });

  it('have numbers without a gap', (test) => {
    assert.throws(() => loadVersions(folder(test, { '001-a.cql': '', '003-c.cql': '' })), /003-c.cql.*002-name/);
    assert.throws(() => loadVersions(folder(test, { '1-a.cql': '' })), /001-name/);
    assert.equal(loadVersions(folder(test, { '001-a.cql': '', '002-b.cql': '', 'other.cql': '' })).length, 2);
  });

  it('fill in a template, and miss nothing', (test) => {
    const dir = folder(test, { 'keyspace.cql': 'CREATE KEYSPACE {{name}};' });
    assert.deepEqual(loadTemplate('keyspace.cql', { name: 'k' }, dir), ['CREATE KEYSPACE k']);
    assert.throws(() => loadTemplate('keyspace.cql', {}, dir), /nothing stands for \{\{name\}\}/);
  });
});

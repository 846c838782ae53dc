// The numbered versions of schema/cassandra and what they consist of.

import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

export const SCHEMA_DIR = resolve(import.meta.dirname, '../../schema/cassandra');

export interface SchemaVersion {
  readonly number: number;
  /** The file's name without its ending, such as 001-initial. */
  readonly name: string;
  readonly statements: readonly string[];
  /** Of the statements alone: a better comment is no other version. */
  readonly checksum: string;
}

/** In order, counted from 1 without a gap. Throws when a file is misnamed or a number is missing. */
export function loadVersions(dir = SCHEMA_DIR): readonly SchemaVersion[] {
  const files = readdirSync(dir)
    .filter((file) => /^\d/.test(file))
    .sort();
  return files.map((file, index) => {
    const number = Number(/^(\d{3})-[a-z0-9-]+\.cql$/.exec(file)?.[1]);
    if (number !== index + 1)
      throw new Error(`${file}: expected a version ${String(index + 1).padStart(3, '0')}-name.cql`);
    const statements = splitStatements(readFileSync(join(dir, file), 'utf8'));
    const checksum = createHash('sha256').update(statements.join(';\n')).digest('hex');
    return { number, name: file.replace(/\.cql$/, ''), statements, checksum };
  });
}

/** A template such as keyspace.cql with {{name}} filled in. */
export function loadTemplate(
  file: string,
  values: Readonly<Record<string, string>>,
  dir = SCHEMA_DIR,
): readonly string[] {
  const text = readFileSync(join(dir, file), 'utf8').replace(/\{\{(\w+)\}\}/g, (braces, name: string) => {
    const value = values[name];
    if (value === undefined) throw new Error(`${file}: nothing stands for ${braces}`);
    return value;
  });
  return splitStatements(text);
}

/** Single statements without comments, each on one line. */
export function splitStatements(cql: string): readonly string[] {
  // Quoted text is taken as a whole, so that -- and ; inside of it are left alone.
  const parts = cql.match(/'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|\/\*[\s\S]*?\*\/|;|[^'"\-/;]+|[-/]/g) ?? [];
  const statements: string[] = [];
  let statement = '';
  for (const part of [...parts, ';']) {
    if (part.startsWith('--') || part.startsWith('/*')) continue;
    if (part === ';') {
      statements.push(statement);
      statement = '';
    } else statement += /^['"]/.test(part) ? part : part.replace(/\s+/g, ' ');
  }
  return statements.map((statement) => statement.replace(/ {2,}/g, ' ').trim()).filter((statement) => statement !== '');
}

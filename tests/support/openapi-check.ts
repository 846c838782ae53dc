// Holds every answer that tests get against schema/http/openapi.yaml: its status, type and members must stand there.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { parse } from 'yaml';
import { parseInstant } from '../../services/core/contract/instant.ts';

type Schema = Readonly<Record<string, unknown>>;
interface Media {
  readonly schema: Schema;
  readonly examples?: Readonly<Record<string, { readonly value: unknown }>>;
}
interface Response {
  readonly $ref?: string;
  readonly content?: Readonly<Record<string, Media>>;
}
export interface DocumentedOperation {
  readonly operationId: string;
  readonly requestBody?: { readonly required?: boolean; readonly content: Readonly<Record<string, Media>> };
  readonly responses: Readonly<Record<string, Response>>;
}
interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, DocumentedOperation>>>>;
  readonly components: {
    readonly schemas: Readonly<Record<string, Schema>>;
    readonly responses: Readonly<Record<string, Response>>;
    readonly parameters: Readonly<Record<string, { readonly schema: Schema }>>;
  };
}

export const DOCUMENT = parse(
  readFileSync(resolve(import.meta.dirname, '../../schema/http/openapi.yaml'), 'utf8'),
) as Document;

type Direction = 'request' | 'answer';
const AJV: Readonly<Record<Direction, Ajv2020>> = { request: compiler('request'), answer: compiler('answer') };

function compiler(direction: Direction): Ajv2020 {
  const ajv = new Ajv2020({ strict: true, strictTypes: false, allErrors: true });
  ajv.addVocabulary(['x-rule']);
  const isWritten = (text: string): boolean => direction === 'request' || /\.\d{3}Z$/.test(text);
  ajv.addFormat('date-time', (text) => parseInstant(text).ok && isWritten(text));
  for (const format of ['double', 'single-line', 'label-key']) ajv.addFormat(format, true);
  ajv.addSchema({ $id: 'schemas', $defs: closed(DOCUMENT.components.schemas) as Record<string, object> });
  return ajv;
}

export interface ReceivedAnswer {
  readonly status: number;
  readonly contentType: string;
  readonly value: unknown;
}

/** Throws when the answer is not as the document says. Paths and methods it does not have are answered with problems. */
export function assertDocumented(method: string, path: string, answer: ReceivedAnswer): void {
  const { status, contentType, value } = answer;
  const operation = findOperation(method, path);
  const media = operation === undefined ? PROBLEM : responseOf(operation, status)[contentType];
  assert.ok(media !== undefined, `${method} ${path}: ${status} ${contentType} is not in the document`);
  const faults = faultsOf(media.schema, value, 'answer');
  assert.deepEqual(faults, [], `${method} ${path} answered ${status} otherwise than documented: ${faults.join()}`);
  if (contentType === 'application/problem+json') assert.equal((value as { status: number }).status, status);
}

/**
 * What is wrong with a value by a schema of the document; its objects have no members but those that stand there, and times
 * in answers are in UTC with milliseconds.
 */
export function faultsOf(schema: Schema, value: unknown, direction: Direction): string[] {
  const validate = AJV[direction].compile(closed(schema) as object);
  return validate(value) ? [] : (validate.errors ?? []).map((error) => `${error.instancePath} ${error.message ?? ''}`);
}

const PROBLEM: Media = { schema: { $ref: '#/components/schemas/Problem' } };

function findOperation(method: string, path: string): DocumentedOperation | undefined {
  const plain = path.split('?')[0] ?? '';
  const matches = Object.entries(DOCUMENT.paths).filter(([pattern, item]) => {
    const expression = new RegExp(`^${pattern.replaceAll(/\{\w+\}/g, '[^/]+')}$`);
    return expression.test(plain) && item[method.toLowerCase()] !== undefined;
  });
  return matches[0]?.[1][method.toLowerCase()];
}

function responseOf({ responses }: DocumentedOperation, status: number): Readonly<Record<string, Media>> {
  const response = responses[String(status)];
  const name = response?.$ref?.split('/').at(-1);
  return (name === undefined ? response : DOCUMENT.components.responses[name])?.content ?? {};
}

function closed(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(closed);
  if (typeof value !== 'object' || value === null) return value;
  const members = Object.entries(value).map(([key, member]): [string, unknown] => [
    key,
    key === '$ref' ? String(member).replace('#/components/schemas/', 'schemas#/$defs/') : closed(member),
  ]);
  const isClosable = 'type' in value && value.type === 'object' && !('additionalProperties' in value);
  return Object.fromEntries(isClosable ? [...members, ['additionalProperties', false]] : members);
}

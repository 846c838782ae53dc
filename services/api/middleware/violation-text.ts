import type { Schema } from './api-document.ts';
import type { DefinedError, ErrorObject } from 'ajv/dist/2020.js';
import { closest } from '../../core/domain/closest.ts';
import { parseInstant } from '../../core/contract/instant.ts';

export interface Violation {
  /** Where in the value: keys and array indices. */
  readonly path: readonly (string | number)[];
  /** What is wrong and what is right. */
  readonly message: string;
}

interface Bounds {
  readonly minimum?: number;
  readonly maximum?: number;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly minItems?: number;
  readonly maxItems?: number;
}

/** Asked of a job in good faith. */
const FIELDS_OF_A_SCHEDULE = ['cron', 'every_s', 'time_zone'];

/** A violation of a request schema in plain words: the field, what is wrong, what is right. Null: others say it all. */
export function violationOf(error: ErrorObject): Violation | null {
  const message = messageOf(error as DefinedError);
  return message === null ? null : { path: [...pathOf(error.instancePath), ...memberOf(error)], message };
}

function messageOf(error: DefinedError): string | null {
  const schema: Bounds & Schema = error.parentSchema ?? {};
  // ajv checks keys as values of their own, and then says once more that a key was wrong.
  const subject = error.propertyName === undefined ? 'must be' : 'is a key, and keys must be';
  switch (error.keyword) {
    case 'required':
      return 'is required';
    case 'additionalProperties':
      return unknownFieldText(error.params.additionalProperty, schema);
    case 'type':
      return `must be ${expectedText(schema)}, not ${kindOf(error.data)}`;
    case 'enum':
      return `must be one of ${error.params.allowedValues.map(String).join(', ')}`;
    case 'uniqueItems':
      return 'must not name anything twice';
    case 'minimum':
    case 'maximum':
      return `must be ${rangeText(schema.minimum, schema.maximum)}`;
    case 'minLength':
    case 'maxLength':
      return `${subject} ${ruleOf(schema) ?? `${rangeText(schema.minLength ?? 0, schema.maxLength)} characters long`}`;
    case 'minItems':
    case 'maxItems':
      return `must have ${rangeText(schema.minItems ?? 0, schema.maxItems)} items`;
    case 'maxProperties':
      return `must have at most ${error.params.limit} entries`;
    case 'pattern':
      return `${subject} ${ruleOf(schema) ?? `text that matches ${error.params.pattern}`}`;
    case 'format':
      return formatText(error.params.format, String(error.data), subject);
    case 'propertyNames':
      return null;
    default:
      return error.message ?? 'is not valid';
  }
}

function unknownFieldText(name: string, schema: Schema): string {
  const fields = Object.keys(schema['properties'] ?? {});
  if (fields.includes('run_at') && FIELDS_OF_A_SCHEDULE.includes(name)) {
    return 'is not a field of a job: for one that repeats use POST /schedules';
  }
  if (fields.length === 0) return 'is not known here';
  const meant = closest(name, fields);
  return `is not a field here${meant === undefined ? ` (the fields are ${fields.join(', ')})` : `: did you mean ${meant}?`}`;
}

const TYPE_TEXTS: Readonly<Record<string, string>> = {
  'date-time': 'text in RFC 3339, such as "2027-01-31T06:00:00Z"',
  string: 'text',
  integer: 'a whole number',
  number: 'a number',
  double: 'a number',
  boolean: 'true or false',
  object: 'an object',
  array: 'an array',
};

/** A request's members are of one type, or null removes them. */
function expectedText(schema: Schema): string {
  const types = [schema['type']].flat().map(String);
  const type = types.find((each) => each !== 'null') ?? 'null';
  const expected = typeText((schema['format'] as string | undefined) ?? type);
  return types.includes('null') ? `${expected} or null` : expected;
}

function typeText(type: string): string {
  return TYPE_TEXTS[type] ?? TYPE_TEXTS['string'] ?? type;
}

function kindOf(value: unknown): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'an array';
  if (typeof value === 'number') return kindOfNumber(value);
  return TYPE_TEXTS[typeof value] ?? typeof value;
}

function kindOfNumber(value: number): string {
  if (!Number.isFinite(value)) return 'one beyond all that can be told';
  return Number.isInteger(value) ? 'a whole number' : 'a fraction';
}

function rangeText(min: number | undefined, max: number | undefined): string {
  if (max === undefined) return `at least ${min ?? 0}`;
  return min === undefined ? `at most ${max}` : `from ${min} to ${max}`;
}

function formatText(format: string, text: string, subject: string): string {
  if (format !== 'date-time') {
    return `${subject} text without control characters${format === 'label-key' ? ', and not __proto__' : ''}`;
  }
  const parsed = parseInstant(text);
  return parsed.ok ? 'is not valid' : parsed.fault;
}

function ruleOf(schema: Schema): string | undefined {
  return schema['x-rule'] as string | undefined;
}

/** The member that is missing, unknown or misnamed, which ajv does not count into the path. */
function memberOf(error: ErrorObject): string[] {
  const { missingProperty, additionalProperty } = error.params as Readonly<Record<string, string | undefined>>;
  const member = missingProperty ?? additionalProperty ?? error.propertyName;
  return member === undefined ? [] : [member];
}

/** A JSON pointer, `/items/3/retry`, in parts; array indices as numbers. */
function pathOf(pointer: string): (string | number)[] {
  return pointer
    .split('/')
    .slice(1)
    .map((part) => (/^\d+$/.test(part) ? Number(part) : part.replaceAll('~1', '/').replaceAll('~0', '~')));
}

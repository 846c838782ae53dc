import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import { parseInstant } from '../../core/contract/instant.ts';
import type { ApiDocument, Operation, Parameter, Schema } from './api-document.ts';
import { type Violation, violationOf } from './violation-text.ts';

/** Everything that is wrong with a value; empty when nothing is. */
export type Validate = (value: unknown) => readonly Violation[];

export interface OperationValidators {
  readonly path: Validate;
  readonly query: Validate;
  readonly header: Validate;
  /** The headers that the operation knows, as the document spells them. */
  readonly headerNames: readonly string[];
  /** undefined: the operation takes no body. */
  readonly body: Validate | undefined;
}

/** What the document's own schemas are known under. */
const SCHEMAS = 'schemas';

/** Compiles the document's request schemas once. */
export class Validation {
  readonly #ajv: Ajv2020;

  constructor({ schemas }: ApiDocument) {
    this.#ajv = new Ajv2020({ strict: true, strictTypes: false, allErrors: true, verbose: true, ownProperties: true });
    // Plain words for patterns and formats; said instead of the pattern.
    this.#ajv.addKeyword({ keyword: 'x-rule', schemaType: 'string' });
    // For generators of clients, which would read a number as one of single precision.
    this.#ajv.addFormat('double', true);
    this.#ajv.addFormat('date-time', (text) => parseInstant(text).ok);
    this.#ajv.addFormat('single-line', isSingleLine);
    this.#ajv.addFormat('label-key', (text) => isSingleLine(text) && text !== '__proto__');
    this.#ajv.addSchema({ $id: SCHEMAS, $defs: referenced(schemas) as Schema });
  }

  of({ parameters, requestSchema }: Operation): OperationValidators {
    return {
      path: this.#parameters(parameters, 'path'),
      query: this.#parameters(parameters, 'query'),
      header: this.#parameters(parameters, 'header'),
      headerNames: parameters.flatMap((parameter) => (parameter.in === 'header' ? [parameter.name] : [])),
      body: requestSchema === undefined ? undefined : this.#compile(requestSchema),
    };
  }

  /** Query parameters are closed like bodies: an unknown one is a mistake. Headers belong to others too. */
  #parameters(parameters: readonly Parameter[], place: Parameter['in']): Validate {
    const ours = parameters.filter((parameter) => parameter.in === place);
    const validate = this.#compile({
      type: 'object',
      additionalProperties: place === 'header',
      required: ours.filter(({ required = false }) => required).map(({ name }) => name),
      properties: Object.fromEntries(ours.map(({ name, schema }) => [name, schema])),
    });
    const integers = ours.filter(({ schema }) => schema['type'] === 'integer').map(({ name }) => name);
    return integers.length === 0 ? validate : (value) => validate(withIntegers(value as Texts, integers));
  }

  #compile(schema: Schema): Validate {
    const validate = this.#ajv.compile(referenced(schema) as Schema);
    return (value) => (validate(value) ? NONE : violationsOf(validate));
  }
}

type Texts = Readonly<Record<string, unknown>>;

/** Parameters are text: that of a whole number is taken for it. */
function withIntegers(texts: Texts, names: readonly string[]): Texts {
  const numbers = names.flatMap((name): [string, unknown][] => {
    const text = texts[name];
    return typeof text === 'string' && /^-?\d{1,15}$/.test(text) ? [[name, Number(text)]] : [];
  });
  return { ...texts, ...Object.fromEntries(numbers) };
}

const NONE: readonly Violation[] = [];

/** One for each place: of a value of another type, ajv goes on to say that it is none of the values allowed either. */
function violationsOf({ errors }: ValidateFunction): readonly Violation[] {
  const byPlace = new Map<string, Violation>();
  for (const error of errors ?? []) {
    const violation = violationOf(error);
    const place = JSON.stringify(violation?.path);
    if (violation !== null && !byPlace.has(place)) byPlace.set(place, violation);
  }
  return [...byPlace.values()];
}

/** The document refers to its schemas by their place in it, which ajv does not know. */
function referenced(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(referenced);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, member]) => [
      key,
      key === '$ref' ? String(member).replace('#/components/schemas/', `${SCHEMAS}#/$defs/`) : referenced(member),
    ]),
  );
}

/** No control characters, NUL among them, and no half of a surrogate pair, which no store can keep. */
function isSingleLine(text: string): boolean {
  return text.isWellFormed() && !/\p{Cc}/u.test(text);
}

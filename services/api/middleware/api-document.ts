import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { parse } from 'yaml';

const FILE = resolve(import.meta.dirname, '../../../schema/http/openapi.yaml');

export type Method = 'get' | 'post' | 'put' | 'patch' | 'delete';
const METHODS: readonly Method[] = ['get', 'post', 'put', 'patch', 'delete'];

/** A JSON schema as it stands in the document; only ajv looks into it. */
export type Schema = Readonly<Record<string, unknown>>;

export interface Parameter {
  readonly name: string;
  readonly in: 'path' | 'query' | 'header';
  readonly required?: boolean;
  readonly schema: Schema;
}

export interface Operation {
  readonly id: string;
  readonly method: Method;
  /** As in the document: /jobs/{job_id}. */
  readonly path: string;
  readonly parameters: readonly Parameter[];
  readonly requestSchema: Schema | undefined;
}

export interface ApiDocument {
  /** components/schemas, by name. */
  readonly schemas: Readonly<Record<string, Schema>>;
  /** In the document's order, in which fixed paths stand before those with parameters. */
  readonly operations: readonly Operation[];
}

/** The parts of OpenAPI that we read. */
interface Source {
  readonly paths: Readonly<Record<string, PathItem>>;
  readonly components: {
    readonly schemas: Readonly<Record<string, Schema>>;
    readonly parameters: Readonly<Record<string, Parameter>>;
  };
}
interface PathItem extends Readonly<Partial<Record<Method, OperationObject>>> {
  readonly parameters?: readonly (Parameter | Reference)[];
}
interface OperationObject {
  readonly operationId: string;
  readonly parameters?: readonly (Parameter | Reference)[];
  readonly requestBody?: { readonly content: Readonly<Record<string, { readonly schema: Schema }>> };
}
interface Reference {
  readonly $ref: string;
}

/** Reads schema/http/openapi.yaml, the source of all validation. Throws when it cannot be read: nothing can be served then. */
export function readApiDocument(): ApiDocument {
  const { paths, components } = parse(readFileSync(FILE, 'utf8')) as Source;
  const resolved = (parameter: Parameter | Reference): Parameter =>
    '$ref' in parameter ? parameterOf(components.parameters, parameter) : parameter;
  const operations = Object.entries(paths).flatMap(([path, item]) =>
    METHODS.flatMap((method): Operation[] => {
      const operation = item[method];
      if (operation === undefined) return [];
      return [
        {
          id: operation.operationId,
          method,
          path,
          parameters: [...(item.parameters ?? []), ...(operation.parameters ?? [])].map(resolved),
          requestSchema: operation.requestBody?.content['application/json']?.schema,
        },
      ];
    }),
  );
  return { schemas: components.schemas, operations };
}

/** `#/components/parameters/JobId` */
function parameterOf(parameters: Source['components']['parameters'], { $ref }: Reference): Parameter {
  const parameter = parameters[$ref.slice('#/components/parameters/'.length)];
  if (parameter === undefined) throw new Error(`openapi.yaml refers to ${$ref}, which is not there`);
  return parameter;
}

import { isUtf8 } from 'node:buffer';
import { MIMEType } from 'node:util';
import express, { type Request, type RequestHandler, type Response } from 'express';
import { ok, refused, type Result } from '../../core/contract/problems.ts';
import { invalidField } from './invalid-request.ts';
import { type RawMemberPlace, scanRawMembers } from './raw-json.ts';

/** A body that is one JSON object, as values and as the text that was sent. */
export interface JsonBody {
  readonly value: Readonly<Record<string, unknown>>;
  readonly text: string;
  /** The raw member's own text, by item of the list; under 0 where there is no list. */
  readonly raw: ReadonlyMap<number, string>;
  /** The own text of each item of the list that is an object. */
  readonly items: ReadonlyMap<number, string>;
}

export interface BodyRules {
  /** Of the body as it is after decompression. */
  readonly maxBytes: number;
  readonly raw: RawMemberPlace;
  /** Media types taken; JSON alone, unless it says so. */
  readonly types?: readonly string[];
  /** A request may come without. */
  readonly optional?: boolean;
}

const JSON_ALONE = ['application/json'];

export const NO_BODY: JsonBody = { value: {}, text: '', raw: new Map(), items: new Map() };

export type ReadBody = (request: Request, response: Response) => Promise<Result<JsonBody>>;

/** Reads bodies of one route. Never rejects for what a client sent. */
export function bodyReader({ maxBytes, raw, types = JSON_ALONE, optional = false }: BodyRules): ReadBody {
  // Also inflates gzip, deflate and br, and stops at maxBytes of what comes out.
  const receive: RequestHandler = express.raw({ type: () => true, limit: maxBytes });
  return async (request, response) => {
    if (optional && !hasBody(request)) return ok(NO_BODY);
    const mistyped = contentTypeFault(request.headers['content-type'], types);
    if (mistyped !== null) return refused({ code: 'unsupported_media_type', detail: mistyped });
    const failure = await new Promise<unknown>((resolve) => {
      receive(request, response, resolve);
    });
    if (failure !== undefined) return refusedBody(failure, maxBytes);
    return parseBody(request.body as Buffer | undefined, raw);
  };
}

function hasBody({ headers }: Request): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;
}

function contentTypeFault(header: string | undefined, types: readonly string[]): string | null {
  if (header === 'application/json') return null;
  const right = `it must be ${types.join(' or ')}`;
  if (header === undefined) return `The header Content-Type is missing; ${right}.`;
  let type: MIMEType;
  try {
    type = new MIMEType(header);
  } catch {
    return `The Content-Type "${header}" is malformed; ${right}.`;
  }
  const charset = type.params.get('charset') ?? 'utf-8';
  if (!types.includes(type.essence)) return `The Content-Type is ${type.essence}; ${right}.`;
  if (!/^utf-?8$/i.test(charset)) return `The charset is ${charset}; JSON must be sent in UTF-8.`;
  return null;
}

function refusedBody(failure: unknown, maxBytes: number): Result<JsonBody> {
  const { type, status } = failure as { readonly type?: string; readonly status?: number };
  if (type === 'entity.too.large') {
    return refused({ code: 'body_too_large', detail: `The body of this request may be at most ${maxBytes} bytes.` });
  }
  if (type === 'encoding.unsupported') {
    return refused({
      code: 'unsupported_media_type',
      detail: 'The Content-Encoding must be gzip, deflate, br or left out.',
    });
  }
  if (status === 400) {
    return refused({
      code: 'invalid_request',
      detail: 'The body ended too early, or is not what Content-Encoding says.',
    });
  }
  throw failure;
}

function parseBody(bytes: Buffer | undefined, place: RawMemberPlace): Result<JsonBody> {
  if (bytes === undefined || bytes.length === 0) return notJson('The body is empty; a JSON object is expected.');
  if (!isUtf8(bytes)) return notJson('The body is not valid UTF-8.');
  const text = bytes.toString('utf8');
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    return notJson(`The body is not valid JSON: ${error instanceof Error ? error.message : String(error)}`);
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    return refused({ code: 'invalid_request', detail: 'The body must be a JSON object.' });
  }
  const { raw, items, fault } = scanRawMembers(text, place);
  if (fault !== null) return refused(invalidField(fault.field, fault.message));
  return ok({ value: value as JsonBody['value'], text, raw, items });
}

function notJson(detail: string): Result<JsonBody> {
  return refused({ code: 'invalid_json', detail });
}

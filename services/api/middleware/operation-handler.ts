import type { Request, RequestHandler, Response } from 'express';
import { ok, type Problem, refused, type Result } from '../../core/contract/problems.ts';
import { type Answer, problemAnswer, send } from './answer.ts';
import { invalidRequest } from './invalid-request.ts';
import { bodyReader, type BodyRules, type JsonBody, NO_BODY } from './json-body.ts';
import type { OperationValidators } from './validation.ts';
import type { Violation } from './violation-text.ts';

/** A request that matches the document. */
export interface ApiRequest {
  readonly path: Readonly<Record<string, string>>;
  readonly query: Readonly<Record<string, string>>;
  readonly header: (name: string) => string | undefined;
  /** Empty for operations without one. */
  readonly body: JsonBody;
  /** Items of the body's list that do not match the document, by index: each item stands for itself. */
  readonly itemProblems: ReadonlyMap<number, Problem>;
  /** Aborts when nobody should wait for the answer any longer: the caller hung up, or this process stops. */
  readonly waitEnds: () => AbortSignal;
}

/** What the api does for one operation of the document: parse, call a use-case, render. */
export interface Route {
  readonly body?: BodyRules;
  readonly handle: (request: ApiRequest) => Promise<Result<Answer>> | Result<Answer>;
}

/** What all operations have in common. */
export interface HandlerContext {
  readonly traceIdOf: (request: Request) => string;
  /** Aborts when the process stops. */
  readonly stopping: AbortSignal;
}

/** The way of a request through an operation: body, validation, route, answer. Rejects only for our own faults. */
export function operationHandler(
  { body: rules, handle }: Route,
  validators: OperationValidators,
  { traceIdOf, stopping }: HandlerContext,
): RequestHandler {
  const readBody = rules === undefined ? undefined : bodyReader(rules);

  async function resultOf(request: Request, response: Response): Promise<Result<Answer>> {
    const body = readBody === undefined ? ok(NO_BODY) : await readBody(request, response);
    if (!body.ok) return body;
    const path = request.params as Record<string, string>;
    const query = request.query as Record<string, string>;
    const ofItems = new Map<number, Violation[]>();
    const violations = [
      ...validators.path(path),
      ...validators.query(query),
      ...headerViolations(validators, request),
      ...(validators.body?.(body.value.value).filter((violation) => !sortOut(violation, rules?.raw.list, ofItems)) ??
        []),
    ];
    if (violations.length > 0) return refused(invalidRequest(violations));
    return handle({
      path,
      query,
      header: (name) => headerOf(request, name),
      body: body.value,
      itemProblems: new Map([...ofItems].map(([index, faults]) => [index, invalidRequest(faults)])),
      waitEnds: () => waitEnds(response, stopping),
    });
  }

  return async (request, response) => {
    const result = await resultOf(request, response);
    const refusedRequest = { path: request.path, traceId: () => traceIdOf(request) };
    send(response, result.ok ? result.value : problemAnswer(result.problem, refusedRequest));
  };
}

function waitEnds(response: Response, stopping: AbortSignal): AbortSignal {
  const ended = new AbortController();
  const end = (): void => {
    stopping.removeEventListener('abort', end);
    ended.abort();
  };
  stopping.addEventListener('abort', end);
  response.once('close', end);
  if (stopping.aborted || response.closed) end();
  return ended.signal;
}

/** Puts a violation inside an item of the list to the others of that item; false when it is none of an item. */
function sortOut(violation: Violation, list: string | undefined, ofItems: Map<number, Violation[]>): boolean {
  const [first, index] = violation.path;
  if (list === undefined || first !== list || typeof index !== 'number') return false;
  const others = ofItems.get(index);
  if (others === undefined) ofItems.set(index, [violation]);
  else others.push(violation);
  return true;
}

function headerViolations({ header, headerNames }: OperationValidators, request: Request): readonly Violation[] {
  const present = headerNames.filter((name) => headerOf(request, name) !== undefined);
  if (present.length === 0) return [];
  const twice = present.filter((name) => (request.headersDistinct[name.toLowerCase()]?.length ?? 0) > 1);
  if (twice.length > 0) return twice.map((name) => ({ path: [name], message: 'is a header that may stand once' }));
  return header(Object.fromEntries(present.map((name) => [name, headerOf(request, name)])));
}

function headerOf(request: Request, name: string): string | undefined {
  return request.headers[name.toLowerCase()] as string | undefined;
}

import type { LogFields } from '../ports/telemetry.ts';

/** An error as log fields: what it says, what caused it, and where. */
export function errorFields(error: unknown): LogFields {
  return { error: errorText(error), ...(error instanceof Error ? { stack: error.stack } : {}) };
}

/** The error's message and those of its causes, in one line. */
export function errorText(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const own = error.message === '' ? error.name : error.message;
  return error.cause === undefined ? own : `${own}: ${errorText(error.cause)}`;
}

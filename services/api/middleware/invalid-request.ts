import type { FieldError, Problem } from '../../core/contract/problems.ts';
import { fieldPath } from './raw-json.ts';
import type { Violation } from './violation-text.ts';

/** A request with everything wrong about it is told this much of it. */
const ERRORS_TOLD_MAX = 20;
const SUMMED_UP_MAX = 3;

export function invalidRequest(violations: readonly Violation[]): Problem {
  const told = violations.slice(0, ERRORS_TOLD_MAX);
  return blaming(
    told.map(({ path, message }) => ({ field: fieldPath(path), message })),
    violations.length,
  );
}

/** The refusal of an item, with its fields named from the body on: `items[3].error`. */
export function ofItem(list: string, index: number, problem: Problem): Problem {
  const { errors } = problem;
  if (errors === undefined) return problem;
  return blaming(errors.map(({ field, message }) => ({ field: `${list}[${index}].${field}`, message })));
}

function blaming(errors: readonly FieldError[], count = errors.length): Problem {
  const detail = errors
    .slice(0, SUMMED_UP_MAX)
    .map(({ field, message }) => `${field}: ${message}`)
    .join('; ');
  const more = count - SUMMED_UP_MAX;
  return { code: 'invalid_request', detail: more > 0 ? `${detail}; and ${more} more` : detail, errors };
}

/** A refusal that one field is to blame for. */
export function invalidField(field: string, message: string): Problem {
  return { code: 'invalid_request', detail: `${field}: ${message}`, errors: [{ field, message }] };
}

import { createScanner, type JSONScanner } from 'jsonc-parser';

/** The library's token kinds, which it exports as a const enum: type stripping cannot import those. */
export const Token = {
  openBrace: 1,
  closeBrace: 2,
  openBracket: 3,
  closeBracket: 4,
  comma: 5,
  colon: 6,
  string: 10,
  end: 17,
} as const;

/** Entries of any one object or array of a request, payloads aside: what is beyond can only be an attack. */
const ENTRIES_MAX = 1_000;

export interface RawMemberPlace {
  /** The member whose text is kept as it was written. */
  readonly member: string;
  /** The array whose items have it; undefined: the body itself has it. */
  readonly list?: string | undefined;
}

export interface Scanned {
  /** The member's text by item of the list, or under 0 where there is no list. */
  readonly raw: ReadonlyMap<number, string>;
  /** The own text of each item of the list that is an object. */
  readonly items: ReadonlyMap<number, string>;
  /** A key that stands twice, or more entries than any request has; the raw members may hold what they like. */
  readonly fault: { readonly field: string; readonly message: string } | null;
}

interface Frame {
  /** Where its text begins. */
  readonly start: number;
  readonly keys: Set<string> | null;
  /** In an object the key at hand, in an array the index. */
  at: string | number;
  expectsKey: boolean;
  entries: number;
}

/**
 * Finds the raw members of a JSON text that JSON.parse accepted, and what JSON.parse hides: keys that stand twice. One pass
 * with an explicit stack, since a payload may be nested deeper than calls can be.
 */
export function scanRawMembers(text: string, place: RawMemberPlace): Scanned {
  const scanner = createScanner(text, true);
  const raw = new Map<number, string>();
  const items = new Map<number, string>();
  const stack: Frame[] = [];
  const faultAt = (key: string | number | null, message: string): Scanned => {
    const outer = stack.map((frame) => frame.at).slice(0, -1);
    return { raw, items, fault: { field: fieldPath(key === null ? outer : [...outer, key]) || 'body', message } };
  };

  for (;;) {
    const token: number = scanner.scan();
    const frame = stack.at(-1);
    if (token === Token.end) return { raw, items, fault: null };
    if (token === Token.openBrace || token === Token.openBracket) {
      const isObject = token === Token.openBrace;
      const keys = isObject ? new Set<string>() : null;
      stack.push({ start: scanner.getTokenOffset(), keys, at: isObject ? '' : 0, expectsKey: isObject, entries: 0 });
    } else if (token === Token.closeBrace || token === Token.closeBracket) {
      const closed = stack.pop();
      const index = stack[1]?.at;
      if (stack.length === 2 && stack[0]?.at === place.list && typeof index === 'number') {
        items.set(index, text.slice(closed?.start, scanner.getTokenOffset() + 1));
      }
    } else if (frame === undefined) {
      continue;
    } else if (token === Token.comma) {
      frame.entries += 1;
      if (frame.entries >= ENTRIES_MAX) return faultAt(null, `has more than ${ENTRIES_MAX} entries`);
      if (frame.keys === null) frame.at = frame.entries;
      else frame.expectsKey = true;
    } else if (frame.keys !== null && frame.expectsKey) {
      const key = scanner.getTokenValue();
      if (frame.keys.has(key)) return faultAt(key, 'stands twice; each key may stand once');
      frame.keys.add(key);
      frame.at = key;
      frame.expectsKey = false;
      const item = key === place.member ? itemOf(stack, place.list) : undefined;
      if (item !== undefined) raw.set(item, skipValue(scanner, text));
    }
  }
}

/** Which item the innermost frame is: 0 for the body itself where there is no list, undefined when it is none. */
function itemOf(stack: readonly Frame[], list: string | undefined): number | undefined {
  if (list === undefined) return stack.length === 1 ? 0 : undefined;
  const index = stack[1]?.at;
  return stack.length === 3 && stack[0]?.at === list && typeof index === 'number' ? index : undefined;
}

/** Passes over the colon and the value after it, and returns the value's own text. */
function skipValue(scanner: JSONScanner, text: string): string {
  scanner.scan();
  let token: number = scanner.scan();
  const start = scanner.getTokenOffset();
  let depth = 0;
  for (;;) {
    if (token === Token.openBrace || token === Token.openBracket) depth += 1;
    if (token === Token.closeBrace || token === Token.closeBracket) depth -= 1;
    if (depth === 0) return text.slice(start, scanner.getTokenOffset() + scanner.getTokenLength());
    token = scanner.scan();
  }
}

/** `items[3].retry.base_s` */
export function fieldPath(parts: readonly (string | number)[]): string {
  return parts
    .map((part, index) => (typeof part === 'number' ? `[${part}]` : index === 0 ? part : `.${part}`))
    .join('');
}

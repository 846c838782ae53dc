/**
 * Raw slices of JSON text that JSON.parse has accepted already, for callers who want a payload's characters as they were
 * sent: numbers beyond 2^53, key order and escapes survive. Nothing is validated here.
 */

interface Span {
  readonly start: number;
  readonly end: number;
}

/** The text of the named member of an object; undefined when it has none. */
export function rawMember(text: string, name: string): string | undefined {
  const span = memberSpan(text, skipSpace(text, 0), name);
  return span === undefined ? undefined : text.slice(span.start, span.end);
}

/** For each element of the array in member `list` of an object (null: the text itself is the array): the text of its member `name`. */
export function rawMembersOf(text: string, list: string | null, name: string): readonly (string | undefined)[] {
  const start = skipSpace(text, 0);
  const array = list === null ? start : memberSpan(text, start, list)?.start;
  if (array === undefined) return [];
  return [...elements(text, array)].map(({ start }) => {
    const span = memberSpan(text, start, name);
    return span === undefined ? undefined : text.slice(span.start, span.end);
  });
}

function memberSpan(text: string, object: number, name: string): Span | undefined {
  if (text[object] !== '{') return undefined;
  for (let at = skipSpace(text, object + 1); text[at] === '"';) {
    const keyEnd = skipString(text, at);
    const key: unknown = JSON.parse(text.slice(at, keyEnd));
    const start = skipSpace(text, skipSpace(text, keyEnd) + 1);
    const end = skipValue(text, start);
    if (key === name) return { start, end };
    at = skipSpace(text, skipSpace(text, end) + 1);
  }
  return undefined;
}

function* elements(text: string, array: number): Generator<Span> {
  let start = skipSpace(text, array + 1);
  while (start < text.length && text[start] !== ']') {
    const end = skipValue(text, start);
    yield { start, end };
    const next = skipSpace(text, end);
    if (text[next] !== ',') return;
    start = skipSpace(text, next + 1);
  }
}

/** The index after the value that begins at `start`. */
function skipValue(text: string, start: number): number {
  const first = text[start];
  if (first === '"') return skipString(text, start);
  if (first !== '{' && first !== '[') return endOf(text, /[\s,\]}]/g, start);
  let depth = 0;
  let at = start;
  do {
    const character = text[at];
    if (character === '"') {
      at = skipString(text, at);
      continue;
    }
    if (character === '{' || character === '[') depth++;
    if (character === '}' || character === ']') depth--;
    at++;
  } while (depth > 0 && at < text.length);
  return at;
}

function skipString(text: string, start: number): number {
  let at = start + 1;
  while (at < text.length && text[at] !== '"') at += text[at] === '\\' ? 2 : 1;
  return at + 1;
}

function skipSpace(text: string, start: number): number {
  return endOf(text, /\S/g, start);
}

/** Where the pattern is next found, or the end of the text. */
function endOf(text: string, pattern: RegExp, start: number): number {
  pattern.lastIndex = start;
  return pattern.exec(text)?.index ?? text.length;
}

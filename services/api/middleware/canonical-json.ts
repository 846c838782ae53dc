import { createScanner } from 'jsonc-parser';
import { Token } from './raw-json.ts';

/** An object or array that is still open. */
interface Open {
  readonly isObject: boolean;
  /** The key whose value comes next. */
  key: string | null;
  readonly entries: { readonly key: string; readonly text: string }[];
}

/**
 * The content of a JSON text that JSON.parse accepted, whatever its layout: keys sorted, strings in one spelling, numbers in
 * their own text, for 1.10 and 1.1, or two integers beyond 2^53, are not the same content. Works without recursion, since a
 * payload may be nested deeper than calls can be.
 * @param omitted a key of the outermost object that is left out; null: none.
 */
export function canonicalJson(text: string, omitted: string | null): string {
  const scanner = createScanner(text, true);
  const outermost: Open = { isObject: false, key: null, entries: [] };
  const stack = [outermost];
  for (;;) {
    const token: number = scanner.scan();
    const open = stack.at(-1) ?? outermost;
    switch (token) {
      case Token.end:
        return joined(outermost);
      case Token.openBrace:
      case Token.openBracket:
        stack.push({ isObject: token === Token.openBrace, key: null, entries: [] });
        break;
      case Token.closeBrace:
      case Token.closeBracket:
        stack.pop();
        addValue(stack.at(-1) ?? outermost, closed(open, stack.length === 1 ? omitted : null));
        break;
      case Token.comma:
      case Token.colon:
        break;
      case Token.string: {
        const string = JSON.stringify(scanner.getTokenValue());
        if (open.isObject && open.key === null) open.key = string;
        else addValue(open, string);
        break;
      }
      default:
        addValue(open, scanner.getTokenValue());
    }
  }
}

function addValue(open: Open, text: string): void {
  open.entries.push({ key: open.key ?? '', text: open.key === null ? text : `${open.key}:${text}` });
  open.key = null;
}

function closed(open: Open, omitted: string | null): string {
  if (!open.isObject) return `[${joined(open)}]`;
  const omittedKey = JSON.stringify(omitted);
  const entries = open.entries.filter(({ key }) => key !== omittedKey);
  // By UTF-16 code units; keys that stand twice (in a payload they may) keep their order.
  entries.sort((one, other) => (one.key < other.key ? -1 : one.key > other.key ? 1 : 0));
  return `{${joined({ ...open, entries })}}`;
}

/** Concatenated rather than joined: a rope costs nothing at each of 50,000 levels, where a join copies all of them. */
function joined({ entries }: Open): string {
  return entries.reduce((text, entry, index) => (index === 0 ? entry.text : `${text},${entry.text}`), '');
}

/** Not in TypeScript's library yet: JSON.rawJSON, and the text of a number that a reviver is told. */
interface ExactJson {
  rawJSON(text: string): unknown;
  parse(
    text: string,
    reviver: (key: string, value: unknown, context: { readonly source?: string }) => unknown,
  ): unknown;
}

const EXACT = JSON as unknown as ExactJson;

/** Parses JSON so that JSON.stringify writes each number in its own characters, whatever its size. Throws SyntaxError. */
export function exactJson(text: string): unknown {
  return EXACT.parse(text, (_, value, { source }) =>
    typeof value === 'number' && source !== undefined ? EXACT.rawJSON(source) : value,
  );
}

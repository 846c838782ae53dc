const RFC3339 = /^(\d{4})-(\d{2})-(\d{2})T(\d{2}):(\d{2}):(\d{2})(?:\.(\d{1,9}))?(?:Z|([+-])(\d{2}):(\d{2}))$/i;
const EXAMPLE = '2027-01-31T06:00:00Z';

export type ParsedInstant =
  { readonly ok: true; readonly epochMs: number } | { readonly ok: false; readonly fault: string };

/**
 * RFC 3339 and nothing else: no time without an offset, no day that the month lacks. Leap seconds are refused, since no
 * clock here has them. Fractions beyond milliseconds are cut.
 */
export function parseInstant(text: string): ParsedInstant {
  const parts = RFC3339.exec(text);
  if (parts === null) {
    // In a query a + stands for a space.
    const hint = / \d\d:\d\d$/.test(text) ? '; in a query, + is written %2B' : '';
    return fault(`must be RFC 3339 with an offset, such as ${EXAMPLE}${hint}`);
  }
  const [year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0] = parts.slice(1, 7).map(Number);
  if (second === 60) return fault('is a leap second, which no clock here has; use the second before or after it');
  const [fraction = '', sign = '+', offsetHours = '0', offsetMinutes = '0'] = parts.slice(7);
  const local = Date.UTC(year, month - 1, day, hour, minute, second);
  const exists = new Date(local).toISOString().slice(0, 19) === text.slice(0, 19).toUpperCase();
  if (!exists || Number(offsetHours) > 23 || Number(offsetMinutes) > 59) {
    return fault(`is not a time that exists; it must be RFC 3339, such as ${EXAMPLE}`);
  }
  const offsetMs = (Number(offsetHours) * 60 + Number(offsetMinutes)) * 60_000 * (sign === '-' ? -1 : 1);
  return { ok: true, epochMs: local + Number(fraction.slice(0, 3).padEnd(3, '0')) - offsetMs };
}

/** How every answer writes a time: RFC 3339 in UTC with milliseconds. */
export function formatInstant(epochMs: number): string {
  return new Date(epochMs).toISOString();
}

function fault(text: string): ParsedInstant {
  return { ok: false, fault: text };
}

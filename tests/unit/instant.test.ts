import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { formatInstant, parseInstant } from '../../services/core/contract/instant.ts';

function utc(text: string): string {
  const parsed = parseInstant(text);
  return parsed.ok ? formatInstant(parsed.epochMs) : `refused: ${parsed.fault}`;
}

describe('an instant on the wire', () => {
  it('is RFC 3339 with any offset, and comes back in UTC with milliseconds', () => {
    assert.equal(utc('2026-01-01T00:00:00Z'), '2026-01-01T00:00:00.000Z');
    assert.equal(utc('2026-01-01t05:30:00.5+05:30'), '2026-01-01T00:00:00.500Z');
    assert.equal(utc('2025-12-31T16:00:00-08:00'), '2026-01-01T00:00:00.000Z');
    assert.equal(utc('2026-01-01T00:00:00-00:00'), '2026-01-01T00:00:00.000Z');
    assert.equal(utc('2024-02-29T23:59:59Z'), '2024-02-29T23:59:59.000Z');
  });

  it('is cut to the millisecond, never rounded up into the next second', () => {
    assert.equal(utc('2026-01-01T00:00:00.9999999Z'), '2026-01-01T00:00:00.999Z');
    assert.equal(utc('2026-01-01T00:00:00.000123+00:00'), '2026-01-01T00:00:00.000Z');
  });

  it('tells of the + that a query makes a space of', () => {
    assert.match(utc('2026-01-01T00:00:00 01:00'), /^refused: .*; in a query, \+ is written %2B$/);
  });

  for (const text of [
    '2026-01-01',
    '2026-01-01T00:00:00',
    '2026-01-01 00:00:00Z',
    '2026-1-1T0:0:0Z',
    '2026-01-01T00:00Z',
    '2026-01-01T00:00:00.Z',
    '2026-01-01T00:00:00+0100',
    '2026-01-01T00:00:00 CET',
    '20260101T000000Z',
    '+002026-01-01T00:00:00Z',
    '1767225600',
    'now',
    '',
    ' 2026-01-01T00:00:00Z',
    '2026-01-01T00:00:00Z\n',
    '２０２６-01-01T00:00:00Z',
  ]) {
    it(`is not ${JSON.stringify(text)}`, () => {
      assert.match(utc(text), /^refused: must be RFC 3339 with an offset/);
    });
  }

  for (const text of [
    '2026-02-29T00:00:00Z',
    '2026-04-31T00:00:00Z',
    '2026-13-01T00:00:00Z',
    '2026-00-01T00:00:00Z',
    '2026-01-00T00:00:00Z',
    '2026-01-01T24:00:00Z',
    '2026-01-01T23:60:00Z',
    '2026-01-01T23:59:61Z',
    '2026-01-01T00:00:00+24:00',
    '2026-01-01T00:00:00+01:60',
    '0099-01-01T00:00:00Z',
  ]) {
    it(`does not exist at ${text}`, () => {
      assert.match(utc(text), /^refused: is not a time that exists/);
    });
  }

  it('R089 is no leap second, in whatever offset it is written', () => {
    for (const text of ['2016-12-31T23:59:60Z', '2026-06-30T23:59:60Z', '2017-01-01T00:59:60+01:00']) {
      assert.match(utc(text), /^refused: is a leap second/);
    }
  });
});

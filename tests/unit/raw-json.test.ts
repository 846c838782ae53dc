import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { canonicalJson } from '../../services/api/middleware/canonical-json.ts';
import { scanRawMembers } from '../../services/api/middleware/raw-json.ts';

const payloadOf = (text: string): string | undefined => scanRawMembers(text, { member: 'payload' }).raw.get(0);

/** Deeper than a call stack. */
const DEPTH = 45_000;

describe('the raw members of a body', () => {
  it('R083 keep the characters of numbers that JSON.parse changes', () => {
    const payload = '{"id":9007199254740993,"x":12345678901234567890,"y":1e400,"z":-0, "f" : 1.10}';
    assert.equal(payloadOf(`{"queue":"q","payload":${payload}}`), payload);
    for (const text of ['9007199254740993', '-0', '1.10', 'null', 'true', '"a"', '[]', '{}', '""']) {
      assert.equal(payloadOf(`{ "payload" :\t${text}\n, "queue":"q"}`), text);
    }
  });

  it('R091 keep escapes, order and space as they were written', () => {
    const payload = String.raw`{"s":"a\u0000b", "ü":"\u00e9\/\"}]", "b":[1 , {"payload":2}],"a":{}}`;
    assert.equal(payloadOf(`{"payload":${payload},"queue":"q"}`), payload);
  });

  it('are found by the key that is meant, however it is spelt, and only at the top', () => {
    assert.equal(payloadOf(String.raw`{"pay\u006coad":1}`), '1');
    assert.equal(payloadOf('{"labels":{"payload":"no"},"queue":"payload"}'), undefined);
    assert.equal(payloadOf('{}'), undefined);
  });

  it('are found in each item of a list', () => {
    const text =
      '{"result":0,"items":[{"result":1.10},{"a":[{"result":2}]},3,{"result":{"result":[4]}}],"x":[{"result":5}]}';
    const { raw } = scanRawMembers(text, { member: 'result', list: 'items' });
    assert.deepEqual(
      [...raw],
      [
        [0, '1.10'],
        [3, '{"result":[4]}'],
      ],
    );
  });

  it('R099 may hold __proto__ and keys that stand twice, as data', () => {
    const payload = '{"__proto__":{"priority":99},"a":1,"a":2,"constructor":{"prototype":{"x":1}}}';
    const { raw, fault } = scanRawMembers(`{"payload":${payload}}`, { member: 'payload' });
    assert.equal(raw.get(0), payload);
    assert.equal(fault, null);
  });

  it('may be nested deeper than calls can be', () => {
    const payload = '['.repeat(DEPTH) + ']'.repeat(DEPTH);
    assert.equal(payloadOf(`{"payload":${payload}}`)?.length, 2 * DEPTH);
  });

  it('are any JSON there is', () => {
    fc.assert(
      fc.property(fc.json(), fc.constantFrom('', ' ', '\n\t'), (payload, space) => {
        assert.equal(
          payloadOf(`{"a":[1],${space}"payload"${space}:${space}${payload}${space},"b":{}}`),
          payload.trim(),
        );
      }),
    );
  });
});

describe('a key that stands twice', () => {
  for (const [text, field] of [
    ['{"queue":"a","queue":"b"}', 'queue'],
    ['{"payload":1,"payload":2}', 'payload'],
    [String.raw`{"queue":"a","queu\u0065":"b"}`, 'queue'],
    ['{"labels":{"a":"1","b":"2","a":"3"}}', 'labels.a'],
    ['{"retry":{"factor":1,"factor":2}}', 'retry.factor'],
  ] as const) {
    it(`is refused: ${text}`, () => {
      const { fault } = scanRawMembers(text, { member: 'payload' });
      assert.deepEqual(fault, { field, message: 'stands twice; each key may stand once' });
    });
  }

  it('is named with its item', () => {
    const { fault } = scanRawMembers('{"items":[{},{"attempt":1,"attempt":2}]}', { member: 'result', list: 'items' });
    assert.equal(fault?.field, 'items[1].attempt');
  });
});

describe('a body with more entries than any request has', () => {
  it('is refused before anything looks at each of them', () => {
    const keys = Array.from({ length: 2_000 }, (_, index) => `"k${index}":0`).join();
    const message = 'has more than 1000 entries';
    assert.deepEqual(scanRawMembers(`{${keys}}`, { member: 'payload' }).fault, { field: 'body', message });
    const items = Array.from({ length: 2_000 }, () => '0').join();
    assert.deepEqual(scanRawMembers(`{"items":[${items}]}`, { member: 'result', list: 'items' }).fault, {
      field: 'items',
      message,
    });
    assert.equal(scanRawMembers(`{"payload":[${items}]}`, { member: 'payload' }).fault, null);
  });
});

describe('the canonical form of a request', () => {
  const canonical = (text: string): string => canonicalJson(text, 'idempotency_key');

  it('does not depend on layout, order of keys, or the spelling of strings', () => {
    assert.equal(
      canonical(String.raw`{ "b" : [ 1, {"z":null,"y":true} ], "a": "\u0041\/" }`),
      '{"a":"A/","b":[1,{"y":true,"z":null}]}',
    );
  });

  it('keeps the own text of numbers and the order of arrays', () => {
    assert.equal(canonical('{"x":1.10,"id":9007199254740993,"a":[2,1]}'), '{"a":[2,1],"id":9007199254740993,"x":1.10}');
    assert.notEqual(canonical('{"x":1.1}'), canonical('{"x":1.10}'));
    assert.notEqual(canonical('{"x":9007199254740993}'), canonical('{"x":9007199254740992}'));
  });

  it('leaves out the key itself, at the top alone', () => {
    assert.equal(
      canonical('{"idempotency_key":"a","payload":{"idempotency_key":"b"}}'),
      '{"payload":{"idempotency_key":"b"}}',
    );
  });

  it('does not take a missing member for null, or an empty object for none', () => {
    assert.equal(new Set(['{}', '{"payload":null}', '{"payload":{}}', '{"payload":[]}'].map(canonical)).size, 4);
  });

  it('is made of what is nested deeper than calls can be', () => {
    const text = `{"payload":${'{"a":['.repeat(DEPTH / 3)}${']}'.repeat(DEPTH / 3)}}`;
    assert.equal(canonical(text), text);
  });

  it('is the same for all texts of one value, and another for another value', () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.jsonValue(), (one, other) => {
        const wrapped = (value: unknown, space?: number): string => JSON.stringify({ b: value, a: 1 }, null, space);
        assert.equal(canonical(wrapped(one)), canonical(wrapped(one, 2)));
        assert.deepEqual(JSON.parse(canonical(wrapped(one))), JSON.parse(wrapped(one)));
        const same = JSON.stringify(sorted(one)) === JSON.stringify(sorted(other));
        assert.equal(canonical(wrapped(one)) === canonical(wrapped(other)), same);
      }),
    );
  });
});

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).sort(([one], [other]) => (one < other ? -1 : 1));
  // Still an object: {} is not [].
  return { members: entries.map(([key, member]) => [key, sorted(member)]) };
}

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { rawMember, rawMembersOf } from '../../services/client/raw-json.ts';

/** JSON text of any value, with spaces wherever JSON allows them. */
const texts = fc
  .tuple(fc.json(), fc.constantFrom('', ' ', '\n\t'))
  .map(([json, space]) =>
    space === '' ? json : JSON.stringify(JSON.parse(json), null, 1).replaceAll('\n', `\n${space}`),
  );

describe('raw slices of JSON', () => {
  it('cuts out the member that is named, character for character', () => {
    fc.assert(
      fc.property(texts, texts, fc.constantFrom('payload', 'päy"load'), (before, wanted, name) => {
        const text = `{ "a": ${before} ,${JSON.stringify(name)} : ${wanted}, "b": {"payload": 0} }`;
        assert.equal(rawMember(text, name), wanted);
        assert.equal(rawMember(text, 'absent'), undefined);
      }),
    );
  });

  it('cuts it out of each element of a list', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(texts, texts), { maxLength: 5 }), (pairs) => {
        const items = pairs.map(([other, wanted], index) =>
          index % 3 === 2 ? '{"status":409}' : `{"x": ${other} , "payload":${wanted} }`,
        );
        const text = ` {"n":1, "results" : [ ${items.join(' , ')} ] }`;
        assert.doesNotThrow(() => JSON.parse(text) as unknown);
        assert.deepEqual(
          rawMembersOf(text, 'results', 'payload'),
          pairs.map(([, wanted], index) => (index % 3 === 2 ? undefined : wanted)),
        );
      }),
    );
  });

  it('finds nothing where there is nothing', () => {
    assert.equal(rawMember('[]', 'payload'), undefined);
    assert.equal(rawMember('{}', 'payload'), undefined);
    assert.deepEqual(rawMembersOf('{"results":[]}', 'results', 'payload'), []);
    assert.deepEqual(rawMembersOf('{"other":1}', 'results', 'payload'), []);
  });
});

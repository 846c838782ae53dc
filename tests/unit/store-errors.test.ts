import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { errors, types } from 'cassandra-driver';
import { StoreError, type StoreErrorKind } from '../../services/core/ports/store-error.ts';
import { isUnreached, toStoreError } from '../../services/core/storage/errors.ts';

const { responseErrorCodes: codes } = types;

function response(code: number): Error {
  return new errors.ResponseError(code, 'as the server says');
}

function noHost(...causes: readonly unknown[]): Error {
  return new errors.NoHostAvailableError(Object.fromEntries(causes.map((cause, index) => [`10.0.0.${index}`, cause])));
}

function socketClosed(marks: { readonly requestNotWritten?: true }): Error {
  return Object.assign(new Error('Socket was closed'), { isSocketError: true, ...marks });
}

const CASES: readonly (readonly [string, unknown, StoreErrorKind])[] = [
  ['a write timeout, which may be an undecided LWT', response(codes.writeTimeout), 'unknown'],
  ['a write failure', response(codes.writeFailure), 'unknown'],
  ['a read timeout, which an LWT can have before it proposes', response(codes.readTimeout), 'unknown'],
  ['a server error', response(codes.serverError), 'unknown'],
  ['a code of a later protocol', response(0x1700), 'unknown'],
  ['too few replicas', response(codes.unavailableException), 'unavailable'],
  ['a node that is just starting', response(codes.isBootstrapping), 'unavailable'],
  ['an overloaded server', response(codes.overloaded), 'overloaded'],
  ['a refused statement', response(codes.invalid), 'invalid'],
  ['a statement that may not be', response(codes.unauthorized), 'invalid'],
  ['no answer in time', new errors.OperationTimedOutError('no answer', '10.0.0.1'), 'unknown'],
  ['a connection lost after sending', socketClosed({}), 'unknown'],
  ['a connection lost before sending', socketClosed({ requestNotWritten: true }), 'unavailable'],
  ['busy connections', new errors.BusyConnectionError('10.0.0.1', 2_048, 1), 'overloaded'],
  ['a value that cannot be encoded', new TypeError('not enough bytes'), 'invalid'],
  ['hosts that are down', noHost('Host considered as DOWN', null), 'unavailable'],
  ['hosts that refuse connections', noHost(Object.assign(new Error(), { code: 'ECONNREFUSED' })), 'unavailable'],
  ['a host that there is no connection to yet', noHost(new Error('No connection available')), 'unavailable'],
  ['hosts of which one may have done it', noHost(null, response(codes.overloaded), socketClosed({})), 'unknown'],
  ['hosts of which one is busy', noHost(null, new errors.BusyConnectionError('10.0.0.1', 1, 1)), 'overloaded'],
  ['no hosts at all', new errors.NoHostAvailableError({}), 'unavailable'],
  ['something else', new Error('what?'), 'unknown'],
  ['something that is no error', 'what?', 'unknown'],
];

describe('driver errors', () => {
  for (const [what, cause, kind] of CASES) {
    it(`are ${kind} for ${what}`, () => {
      const error = toStoreError(cause, 'write');
      assert.equal(error.kind, kind);
      assert.equal(error.cause, cause);
    });
  }

  it('say whether some node took the request', () => {
    for (const cause of [
      noHost('Host considered as DOWN', null),
      noHost(new Error('No connection available'), socketClosed({})),
      socketClosed({}),
    ]) {
      assert.equal(isUnreached(cause), true, String(cause));
    }
    const late = new errors.OperationTimedOutError('no answer', '10.0.0.1');
    for (const cause of [
      response(codes.overloaded),
      noHost(null, response(codes.unavailableException)),
      noHost(late),
      late,
    ]) {
      assert.equal(isUnreached(cause), false, String(cause));
    }
  });

  it('are never unknown for a read, which writes nothing', () => {
    assert.equal(toStoreError(response(codes.readTimeout), 'read').kind, 'unavailable');
    assert.equal(toStoreError(new Error('what?'), 'read').kind, 'unavailable');
    assert.equal(toStoreError(response(codes.invalid), 'read').kind, 'invalid');
  });

  it('are left alone once translated', () => {
    const error = new StoreError('overloaded', 'full');
    assert.equal(toStoreError(error, 'write'), error);
  });
});

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { RequestGate } from '../../services/core/storage/request-gate.ts';

describe('a request gate', () => {
  it('lets so many pass at once, then the others in order, and refuses what is beyond both', async () => {
    const inFlight: number[] = [];
    const gate = new RequestGate({ inFlightMax: 2, waitingMax: 2, onChange: (count) => inFlight.push(count) });
    const started: number[] = [];
    const ends: (() => void)[] = [];
    const run = (name: number): Promise<void> =>
      gate.run(() => {
        started.push(name);
        return new Promise((resolve) => ends.push(resolve));
      });
    const runs = [run(1), run(2), run(3), run(4)];
    assert.deepEqual(started, [1, 2]);
    await assert.rejects(run(5), { kind: 'overloaded' });
    ends[1]!();
    await runs[1];
    await runs[1];
    assert.deepEqual(started, [1, 2, 3]);
    ends[0]!();
    ends[2]!();
    await Promise.all([runs[0], runs[2]]);
    ends[3]!();
    await runs[3];
    assert.deepEqual(started, [1, 2, 3, 4]);
    assert.deepEqual(inFlight, [1, 2, 1, 0]);
  });

  it('gives its place back after a failure', async () => {
    const gate = new RequestGate({ inFlightMax: 1, waitingMax: 1, onChange: () => {} });
    await assert.rejects(
      gate.run(() => Promise.reject(new Error('no'))),
      /no/,
    );
    assert.equal(await gate.run(() => Promise.resolve('yes')), 'yes');
  });
});

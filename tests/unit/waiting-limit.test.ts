// max_waiting: creates are refused while too many jobs are due and not started.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { SECOND_MS } from '../../services/core/domain/limits.ts';
import { coreBench, setQueue } from '../support/core-bench.ts';
import { FAKE_START } from '../support/fake-clock.ts';

describe('the limit of waiting jobs', () => {
  it('counts what is held and what nobody claimed', async () => {
    const bench = coreBench();
    const { parts, clock } = bench;
    const refusal = () => clock.until(parts.waitingLimit.refusal('mail'));
    await setQueue(bench, 'mail', { maxWaiting: 5 });
    assert.equal(await refusal(), null);
    const message = { attempt: 1, runAt: FAKE_START, queue: 'mail', priority: 'low' } as const;
    await parts.queue.publish(['a', 'b'].map((jobId) => ({ jobId, ...message })));
    parts.heldBoard.note({
      member: 'one',
      shards: 1,
      held: [{ queue: 'mail', priority: 'high', count: 3, oldestAt: FAKE_START }],
    });
    await clock.advance(SECOND_MS);
    assert.partialDeepStrictEqual(await refusal(), { code: 'too_many_requests' });
    assert.equal(await clock.until(parts.waitingLimit.refusal('other')), null);
    await setQueue(bench, 'mail', { maxWaiting: 6 });
    assert.equal(await refusal(), null);
  });

  it('accepts while the ready stream is away and cannot tell', async () => {
    const bench = coreBench();
    await setQueue(bench, 'mail', { maxWaiting: 1 });
    bench.connection.disconnect();
    assert.equal(await bench.clock.until(bench.parts.waitingLimit.refusal('mail')), null);
  });
});

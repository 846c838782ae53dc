// A queue without limits whose jobs are all published already, then given a rate, on real processes: from then on its workers
// start no more than that and what may stay published, and in the end every job, once.

import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, it, type TestContext } from 'node:test';
import { PunctualClient } from '../../services/client/client.ts';
import { defaultSettings, readyKeptOf } from '../../services/core/domain/queue-settings.ts';
import { startCluster } from '../support/cluster.ts';
import { until } from '../support/rest.ts';
import { startWorker } from '../support/worker-process.ts';

const QUEUE = 'flood';
const JOBS = 2_000;
const BATCH = 1_000;
const RATE_PER_S = 20;
const WINDOW_S = 10;
/** A change of settings is known everywhere within this. */
const KNOWN_WITHIN_MS = 5_000;
/** What two dispatchers' buckets may hold, and a window's edge. */
const SLACK = 2 * RATE_PER_S;

describe('a queue that is given a rate when its jobs are published already', () => {
  it('starts no more than the rate from then on, and every job once in the end', async (test: TestContext) => {
    const cluster = await startCluster(test, { dispatchers: 2 });
    const client = new PunctualClient({ apiUrl: cluster.apiUrl });
    for (let created = 0; created < JOBS; created += BATCH) {
      const results = await client.createJobs(Array.from({ length: BATCH }, () => ({ queue: QUEUE })));
      assert.ok(results.every(({ ok }) => ok));
    }
    await until('all of them are published', 20_000, async () =>
      (await client.getQueue(QUEUE)).counts.ready?.normal === JOBS ? true : undefined,
    );
    await client.setQueue(QUEUE, { rate_per_s: RATE_PER_S });
    await sleep(KNOWN_WITHIN_MS);

    const askedAt = Date.now();
    const worker = startWorker(test, cluster, { queue: QUEUE, concurrency: 200 });
    const starts = () => worker.events.filter(({ event }) => event === 'start');
    await until('the first start', 30_000, async () => (starts().length > 0 ? true : undefined));
    const firstAt = starts()[0]?.started_at ?? 0;
    await sleep(2 * WINDOW_S * 1_000);
    const within = (fromS: number, toS: number): number =>
      starts().filter(({ started_at: at = 0 }) => at >= firstAt + fromS * 1_000 && at < firstAt + toS * 1_000).length;
    const [first, second] = [within(0, WINDOW_S), within(WINDOW_S, 2 * WINDOW_S)];
    const kept = readyKeptOf({ ...defaultSettings(QUEUE), ratePerS: RATE_PER_S }) ?? 0;
    test.diagnostic(`the first start ${firstAt - askedAt} ms after the worker's own`);
    test.diagnostic(`${first} starts in the first ${WINDOW_S} s, ${second} in the next; ${kept} may stay published`);
    assert.ok(first <= WINDOW_S * RATE_PER_S + kept + SLACK, `${first} in the first ${WINDOW_S} s`);
    assert.ok(Math.abs(second - WINDOW_S * RATE_PER_S) <= SLACK, `${second} in the next ${WINDOW_S} s`);

    await client.setQueue(QUEUE, { rate_per_s: null });
    await until('all are started', 60_000, async () => (starts().length >= JOBS ? true : undefined));
    await sleep(2_000);
    assert.equal(starts().length, JOBS);
    assert.equal(new Set(starts().map(({ job_id: id }) => id)).size, JOBS);
  });
});

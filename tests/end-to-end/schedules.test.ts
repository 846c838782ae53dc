// Schedules on real services: each slot once, on time, over the death of its dispatcher.

import assert from 'node:assert/strict';
import { describe, it, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { PunctualClient } from '../../services/client/index.ts';
import { startCluster } from '../support/cluster.ts';
import { call, until } from '../support/rest.ts';
import { startWorker } from '../support/worker-process.ts';

const SECOND_MS = 1_000;

describe('a schedule', () => {
  it('R040 fires each slot once over two dispatchers, one of them killed, and shows what became of each', async (test: TestContext) => {
    const cluster = await startCluster(test, { dispatchers: 2 });
    const client = new PunctualClient({ apiUrl: cluster.apiUrl });
    const worker = startWorker(test, cluster, { queue: 'ticks' });
    // Overlap is allowed: whoever takes over fires the slots of the gap at once, where `skip` would rightly leave some out.
    const definition = { queue: 'ticks', every_s: 2, on_overlap: 'allow' } as const;
    const schedule = await client.createSchedule(definition);
    const fired = async () => (await client.listScheduleRuns(schedule.schedule_id)).runs;
    await until('three runs', 20 * SECOND_MS, async () => ((await fired()).length >= 3 ? true : undefined));
    await cluster.dispatchers[0]?.kill();
    await until('nine runs', 40 * SECOND_MS, async () => ((await fired()).length >= 9 ? true : undefined));
    await client.pauseSchedule(schedule.schedule_id, { reason: 'enough' });
    await sleep(2 * SECOND_MS);

    const runs = (await fired()).toReversed();
    const slots = runs.map(({ slot }) => Date.parse(slot));
    assert.ok(slots.length >= 9, `${slots.length} slots`);
    // Every slot since the first has a run, whatever dispatcher died.
    assert.deepEqual(
      slots,
      slots.map((_, index) => (slots[0] ?? 0) + index * 2 * SECOND_MS),
    );
    const jobIds = runs.map(({ job_id }) => job_id);
    await until('all have run', 10 * SECOND_MS, async () => {
      const jobs = await Promise.all(jobIds.map((id) => client.getJob(id)));
      return jobs.every(({ status }) => status === 'succeeded') ? true : undefined;
    });
    const starts = worker.events.filter(({ event }) => event === 'start').map(({ job_id }) => job_id);
    assert.deepEqual(starts.toSorted(), jobIds.toSorted(), 'each once');

    const [first = ''] = jobIds;
    for (const path of [first, encodeURIComponent(first)]) {
      const { status, body } = await call('GET', `${cluster.apiUrl}/jobs/${path}`);
      assert.deepEqual([status, body.job_id, body.status], [200, first, 'succeeded']);
    }
  });

  it('fires 500 schedules of one minute, each once', async (test: TestContext) => {
    const cluster = await startCluster(test);
    const client = new PunctualClient({ apiUrl: cluster.apiUrl });
    const worker = startWorker(test, cluster, { queue: 'crowd' });
    const at = Math.ceil(Date.now() / SECOND_MS + 8) * SECOND_MS;
    const one = { queue: 'crowd', every_s: 3_600, start_at: new Date(at).toISOString(), max_runs: 1 };
    const made = await client.createSchedules(Array.from({ length: 500 }, () => one));
    assert.ok(made.every(({ ok }) => ok));
    const started = () => worker.events.filter(({ event }) => event === 'start');
    await until('500 starts', at - Date.now() + 10 * SECOND_MS, async () =>
      started().length >= 500 ? true : undefined,
    );
    await sleep(2 * SECOND_MS);
    assert.equal(new Set(started().map(({ job_id }) => job_id)).size, 500);
    assert.equal(started().length, 500);
  });
});

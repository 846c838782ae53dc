// A process whose wall clock is set 6 s ahead stops acting, says why, and is back when the clock is right.

import assert from 'node:assert/strict';
import { describe, it, type TestContext } from 'node:test';
import { pathToFileURL } from 'node:url';
import { join } from 'node:path';
import { ROOT } from '../../scripts/embedded/settings.ts';
import { type ServiceProcess, startCluster } from '../support/cluster.ts';
import { createJob, until, untilStatus } from '../support/rest.ts';

const MOVABLE = pathToFileURL(join(ROOT, 'tests/support/movable-clock.ts'));

async function clockProblem(service: ServiceProcess): Promise<string | null> {
  const answer = await fetch(new URL('/readyz', service.metricsUrl));
  const { checks } = (await answer.json()) as { checks: readonly { name: string; ok: boolean; detail: string }[] };
  const clock = checks.find(({ name }) => name === 'clock');
  assert.equal(answer.status, clock?.ok === true ? 200 : 503);
  return clock?.ok === true ? null : (clock?.detail ?? 'no check');
}

/** The value of the first line that begins so. */
async function metric(service: ServiceProcess, start: string): Promise<number | undefined> {
  const text = await (await fetch(new URL('/metrics', service.metricsUrl))).text();
  const line = text.split('\n').find((each) => each.startsWith(start));
  return line === undefined ? undefined : Number(line.split(' ').at(-1));
}

describe('a wall clock 6 s ahead', () => {
  it('takes a dispatcher out until it is right again; another does its work', async (test: TestContext) => {
    const environment = { NODE_OPTIONS: `--import ${MOVABLE.href}` };
    const cluster = await startCluster(test, { dispatchers: 2, environment });
    const [moved, right] = cluster.dispatchers as [ServiceProcess, ServiceProcess];
    await until('both own shards', 15_000, async () => {
      const owned = await Promise.all([moved, right].map((each) => metric(each, 'punctual_shards_owned{')));
      return owned.every((count) => count === 32) || undefined;
    });
    // The first comparison is made before the stream is there; the next one 10 s later.
    const skewS = await until('nats has told its time', 15_000, () =>
      metric(moved, 'punctual_clock_skew_seconds{source="nats"'),
    );
    assert.ok(Math.abs(skewS) < 0.5, `measured ${skewS} s`);

    moved.signal('SIGUSR2');
    // Unready at once, because the clock moved; by how much is known when it has been compared with the servers.
    await until('it is unready', 1_000, async () => ((await clockProblem(moved)) === null ? undefined : true));
    const wrong = /wrong: [56]\.\d s ahead of cassandra .*, [56]\.\d s ahead of nats/;
    await until('it says by how much', 10_000, async () =>
      wrong.test((await clockProblem(moved)) ?? '') ? true : undefined,
    );
    await until('the other owns everything', 10_000, async () => {
      return (await metric(right, 'punctual_shards_owned{')) === 64 || undefined;
    });
    assert.equal(await metric(moved, 'punctual_shards_owned{'), 0);
    const measured = await metric(moved, 'punctual_clock_skew_seconds{source="cassandra');
    assert.ok(Math.abs((measured ?? 0) - 6) < 0.5, `measured ${measured} s`);
    const job = await createJob(cluster.apiUrl, { queue: 'any', delay_s: 1 });
    await untilStatus(cluster.apiUrl, job, 'enqueued', 5_000);

    moved.signal('SIGUSR2');
    await until('it has its share again', 25_000, async () => {
      return (await metric(moved, 'punctual_shards_owned{')) === 32 || undefined;
    });
    assert.equal(await clockProblem(moved), null);
  });
});

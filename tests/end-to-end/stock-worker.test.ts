// A worker of stock parts: nats-py and REST, no client of ours.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { describe, it, type TestContext } from 'node:test';
import { jetstream } from '@nats-io/jetstream';
import { connect } from '@nats-io/transport-node';
import { installNatsPy } from '../../scripts/embedded/install.ts';
import { showProgress } from '../../scripts/embedded/progress.ts';
import { ROOT } from '../../scripts/embedded/settings.ts';
import { startCluster } from '../support/cluster.ts';
import { call, createJob, getJob, until, untilStatus } from '../support/rest.ts';

describe('a stock nats-py worker', () => {
  it('does the job, once, also when its ready id is published twice by hand', async (test: TestContext) => {
    const python = await installNatsPy(showProgress);
    const cluster = await startCluster(test);
    const natsServer = cluster.environment['PUNCTUAL_NATS_SERVERS'] ?? '';
    const first = await createJob(cluster.apiUrl, { queue: 'stock', payload: { n: 1 } });

    const queue = await call('GET', `${cluster.apiUrl}/queues/stock`);
    const { ready } = queue.body as unknown as { ready: { priority: string; subject: string }[] };
    const subject = ready.find((each) => each.priority === 'normal')?.subject ?? '';
    const bus = await connect({ servers: natsServer });
    const twice = JSON.stringify({
      v: 1,
      job_id: first,
      attempt: 1,
      run_at: new Date().toISOString(),
      queue: 'stock',
      priority: 'normal',
    });
    await jetstream(bus).publish(subject, twice);
    await bus.close();

    const script = join(ROOT, 'tests/support/stock_worker.py');
    const worker = spawn(python, [script, cluster.apiUrl, `nats://${natsServer}`, 'stock'], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const ran: string[] = [];
    createInterface({ input: worker.stdout }).on('line', (line) => ran.push(line));
    try {
      await untilStatus(cluster.apiUrl, first, 'succeeded', 15_000);
      const second = await createJob(cluster.apiUrl, { queue: 'stock', delay_s: 1, payload: { n: 2 } });
      await untilStatus(cluster.apiUrl, second, 'succeeded', 10_000);
      await until('both lines', 2_000, () => Promise.resolve(ran.length >= 2 || undefined));
      assert.deepEqual(
        ran.map((line) => (JSON.parse(line) as { payload: unknown }).payload),
        [{ n: 1 }, { n: 2 }],
      );
      assert.equal((await getJob(cluster.apiUrl, first)).attempts.length, 1);
    } finally {
      worker.kill('SIGKILL');
      await once(worker, 'exit');
    }
  });
});

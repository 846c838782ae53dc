// The first of the two commands, as a newcomer runs it, on the servers of this run.

import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { describe, it, type TestContext } from 'node:test';
import { findFreePorts } from '../../scripts/embedded/server-process.ts';
import { ROOT } from '../../scripts/embedded/settings.ts';
import { dropKeyspace } from '../../scripts/migrator/migrator.ts';
import { sharedServers } from '../support/servers.ts';

async function quickstart(test: TestContext, args: readonly string[]): Promise<ChildProcess> {
  const { cassandraContactPoints, cassandraDataCenter } = sharedServers();
  const keyspace = `quickstart_${process.pid}`;
  const stateDir = mkdtempSync(join(tmpdir(), 'punctual-quickstart-'));
  const [api = 0, apiMetrics = 0, dispatcherMetrics = 0, reaperMetrics = 0] = await findFreePorts('127.0.0.1', 4);
  test.after(async () => {
    await dropKeyspace({ contactPoints: cassandraContactPoints, localDatacenter: cassandraDataCenter, keyspace });
    rmSync(stateDir, { recursive: true, force: true });
  });
  return spawn(join(ROOT, 'scripts/quickstart'), args, {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: {
      ...process.env,
      PUNCTUAL_STATE_DIR: stateDir,
      PUNCTUAL_CASSANDRA_KEYSPACE: keyspace,
      PUNCTUAL_NATS_PREFIX: `${keyspace}_`,
      PUNCTUAL_API_PORT: String(api),
      PUNCTUAL_API_METRICS_PORT: String(apiMetrics),
      PUNCTUAL_DISPATCHER_METRICS_PORT: String(dispatcherMetrics),
      PUNCTUAL_REAPER_METRICS_PORT: String(reaperMetrics),
    },
  });
}

describe('scripts/quickstart', () => {
  it('--once runs the whole tour: every job ends as it should, and one is audited', async (test: TestContext) => {
    const child = await quickstart(test, ['--once']);
    const [output, [code]] = await Promise.all([text(child.stdout as never), once(child, 'exit') as Promise<[number]>]);
    assert.equal(code, 0, output);
    assert.match(output, /^fails twice +j_\w+ .* 3 +succeeded$/m);
    assert.match(output, /^fails always +j_\w+ .* 2 +dead$/m);
    assert.match(output, /^cancelled +j_\w+ .* 0 +cancelled$/m);
    assert.match(output, /^burst of 200 .* 200 succeeded$/m);
    assert.match(output, /^ status +\| succeeded/m);
  });
});

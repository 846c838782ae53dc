// The first of the two commands, as a newcomer runs it, on the servers of this run.

import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { describe, it, type TestContext } from 'node:test';
import { findFreePorts } from '../../scripts/embedded/server-process.ts';
import { claimStateDir } from '../../scripts/embedded/servers.ts';
import { ROOT } from '../../scripts/embedded/settings.ts';
import { dropKeyspace } from '../../scripts/migrator/migrator.ts';
import { sharedServers } from '../support/servers.ts';

function newStateDir(test: TestContext): string {
  const stateDir = mkdtempSync(join(tmpdir(), 'punctual-quickstart-'));
  test.after(() => rmSync(stateDir, { recursive: true, force: true }));
  return stateDir;
}

async function quickstart(test: TestContext, stateDir: string, args: readonly string[]): Promise<ChildProcess> {
  const { cassandraContactPoints, cassandraDataCenter } = sharedServers();
  const keyspace = `quickstart_${process.pid}`;
  const [api = 0, apiMetrics = 0, dispatcherMetrics = 0, reaperMetrics = 0] = await findFreePorts('127.0.0.1', 4);
  test.after(async () => {
    await dropKeyspace({ contactPoints: cassandraContactPoints, localDatacenter: cassandraDataCenter, keyspace });
  });
  return spawn(join(ROOT, 'scripts/quickstart'), args, {
    stdio: ['ignore', 'pipe', 'pipe'],
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
    const child = await quickstart(test, newStateDir(test), ['--once']);
    const [output, [code]] = await Promise.all([text(child.stdout as never), once(child, 'exit') as Promise<[number]>]);
    assert.equal(code, 0, output);
    assert.match(output, /^fails twice +j_\w+ .* 3 +succeeded$/m);
    assert.match(output, /^fails always +j_\w+ .* 2 +dead$/m);
    assert.match(output, /^cancelled +j_\w+ .* 0 +cancelled$/m);
    assert.match(output, /^burst of 200 .* 200 succeeded$/m);
    assert.match(output, /^ status +\| succeeded/m);
  });

  it('is refused while another one runs on the same state folder, and --fresh too: nothing is touched', async (test: TestContext) => {
    const stateDir = newStateDir(test);
    const kept = join(stateDir, 'cassandra', 'data', 'kept');
    mkdirSync(dirname(kept), { recursive: true });
    writeFileSync(kept, 'the other one’s');
    const release = await claimStateDir(stateDir);
    for (const args of [['--once'], ['--once', '--fresh'], ['--fresh']]) {
      const child = await quickstart(test, stateDir, args);
      const [said, [code]] = await Promise.all([text(child.stderr as never), once(child, 'exit') as Promise<[number]>]);
      assert.equal(code, 1, said);
      assert.ok(said.includes(stateDir), said);
      assert.equal(readFileSync(kept, 'utf8'), 'the other one’s');
    }
    await release();
    await (
      await claimStateDir(stateDir)
    )();
  });
});

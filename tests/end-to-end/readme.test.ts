// What the README shows is run: its commands against running services, its answers against theirs.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { before, describe, it } from 'node:test';
import { installCqlsh } from '../../scripts/embedded/install.ts';
import { silent } from '../../scripts/embedded/progress.ts';
import { ROOT } from '../../scripts/embedded/settings.ts';
import { type Cluster, startCluster } from '../support/cluster.ts';
import { createJob, untilStatus } from '../support/rest.ts';
import { suiteCleanup } from '../support/suite-cleanup.ts';
import { startWorker } from '../support/worker-process.ts';

interface Block {
  readonly language: string;
  readonly text: string;
}

const README = readFileSync(join(ROOT, 'README.md'), 'utf8');
const BLOCKS: readonly Block[] = [...README.matchAll(/^```(\w+)\n(.*?)^```/gms)].map(
  ([, language = '', body = '']) => ({
    language,
    text: body,
  }),
);
const ADDRESS = 'http://127.0.0.1:7400';

describe('the README', () => {
  const cleanup = suiteCleanup();
  let cluster: Cluster;

  before(async () => {
    cluster = await startCluster(cleanup);
  });

  async function run(command: string, environment: Readonly<Record<string, string>> = {}): Promise<string> {
    const env = { ...process.env, ...cluster.environment, ...environment };
    const child = spawn('bash', ['-o', 'pipefail', '-ec', command.replaceAll(ADDRESS, cluster.apiUrl)], {
      cwd: ROOT,
      env,
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    return text(child.stdout);
  }

  const answered = BLOCKS.flatMap((block, index) => {
    const next = BLOCKS[index + 1];
    return block.language === 'bash' && block.text.startsWith('curl') && next?.language === 'json'
      ? [{ command: block.text, shown: next.text }]
      : [];
  });

  for (const { command, shown } of answered) {
    it(`shows the fields that are answered: ${command.split('\n')[0]}`, async () => {
      const answer = await run(command);
      const names = [...shown.matchAll(/"(\w+)":/g)].map(([, name]) => name);
      assert.ok(names.length >= 5);
      for (const name of names) assert.ok(answer.includes(`"${name}":`), `${name} is not in ${answer}`);
    });
  }

  it('shows what the sample worker prints', async () => {
    const worker = startWorker(cleanup, cluster, { queue: 'emails' });
    await untilStatus(cluster.apiUrl, await createJob(cluster.apiUrl, { queue: 'emails' }), 'succeeded', 10_000);
    const shown = BLOCKS.find(({ text: body }) => body.includes('"event":"start"'))?.text ?? '';
    for (const [index, line] of shown.trim().split('\n').entries()) {
      const event = worker.events.find((each) => each.event === (index === 0 ? 'start' : 'finish'));
      for (const [, name = ''] of line.matchAll(/"(\w+)":/g)) assert.ok(event !== undefined && name in event, name);
    }
  });

  it('replays a key, and audits and cancels as it says', async () => {
    const keyed = BLOCKS.find(({ text: body }) => body.includes('order-4711'))?.text ?? '';
    assert.match(await run(keyed), /^HTTP\/1.1 201/);
    assert.match(await run(keyed), /^HTTP\/1.1 200[^{]*idempotency-replayed: true/s);
    const JOB_ID = await createJob(cluster.apiUrl, { queue: 'emails', delay_s: 60 });
    const cancel = BLOCKS.find(({ text: body }) => body.includes('-X DELETE'))?.text ?? '';
    assert.match(await run(cancel, { JOB_ID }), /"status":"cancelled"/);
    const audit = BLOCKS.find(({ text: body }) => body.includes('| $CQLSH'))?.text ?? '';
    const [host = '', port = ''] = (cluster.environment['PUNCTUAL_CASSANDRA_CONTACT_POINTS'] ?? '').split(':');
    const cqlsh = `${await installCqlsh(silent)} ${host} ${port}`;
    const history = await run(audit.replace('$CQLSH', cqlsh), { JOB_ID });
    assert.match(history, new RegExp(`job_id +\\| ${JOB_ID}`));
    assert.match(history, /status +\| cancelled/);
  });

  it('names commands and files that are there', () => {
    const commands = BLOCKS.flatMap(({ text: body }) => [
      ...body.matchAll(/(?:\.\/)?((?:scripts|services)\/[\w./-]+)/g),
    ]);
    const links = [...README.matchAll(/\]\(((?!http)[\w./-]+)\)/g)];
    for (const [, path = ''] of [...commands, ...links]) assert.ok(existsSync(join(ROOT, path)), path);
  });
});

// scripts/bench with tiny numbers: that its figures are there and hang together, not how good they are.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { describe, it } from 'node:test';
import type { BurstResult } from '../../scripts/benchmarks/burst.ts';
import type { RawRates } from '../../scripts/benchmarks/raw-rates.ts';
import { ROOT } from '../../scripts/embedded/settings.ts';

type BurstReport = BurstResult & { readonly scenario: string; readonly raw: RawRates };

async function bench(args: readonly string[]): Promise<{ readonly code: number; readonly output: string }> {
  const child = spawn(join(ROOT, 'scripts/bench'), args, { stdio: ['ignore', 'pipe', 'inherit'] });
  const [output, [code]] = await Promise.all([text(child.stdout), once(child, 'exit') as Promise<[number]>]);
  return { code, output };
}

describe('scripts/bench', () => {
  it('burst --json: every job started once, counted, timed and paid for', async () => {
    const { code, output } = await bench(['burst', '--jobs', '300', '--raw-seconds', '1', '--json']);
    assert.equal(code, 0, output);
    const report = JSON.parse(output) as BurstReport;
    assert.equal(report.scenario, 'burst');
    assert.ok(report.raw.lwt_updates_per_s > 0 && report.raw.jetstream_publishes_per_s > 0, output);
    assert.equal(report.run.never_started, 0);
    assert.equal(report.run.started_twice, 0);
    assert.equal(report.lag['all']!.jobs, 300);
    for (const queue of ['north', 'east', 'south', 'west']) assert.equal(report.lag[queue]!.jobs, 75);
    assert.ok(report.run.all_completed_s >= report.run.all_started_s, output);
    const { enqueue, claim, succeed } = report.run_costs.rounds_per_job;
    for (const rounds of [enqueue, claim, succeed]) assert.ok(rounds! > 0 && rounds! <= 1, output);
    for (const name of ['api', 'dispatcher', 'worker', 'cassandra', 'nats']) {
      assert.ok(report.run_costs.cpu_s_per_1000_jobs[name]! >= 0, `${name} in ${output}`);
      assert.ok(report.peak_rss_mb[name]! > 0, `${name} in ${output}`);
    }
  });

  it('prints what it can do, and refuses what it cannot', async () => {
    assert.match((await bench(['--help'])).output, /^usage: scripts\/bench <scenario>/);
    assert.equal((await bench(['bursts'])).code, 2);
    assert.equal((await bench(['burst', '--jobs', 'many'])).code, 1);
  });
});

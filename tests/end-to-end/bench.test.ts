// scripts/bench with tiny numbers: that its figures are there and hang together, not how good they are.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { describe, it } from 'node:test';
import type { BurstResult } from '../../scripts/benchmarks/burst.ts';
import type { FloodResult } from '../../scripts/benchmarks/flood.ts';
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

  it('flood --json: what a queue holds makes no other late, obeys its rate, and comes whole through a kill', async () => {
    const { code, output } = await bench('flood --jobs 900 --rate 50 --seconds 14 --raw-seconds 1 --json'.split(' '));
    assert.equal(code, 0, output);
    const report = JSON.parse(output) as FloodResult;
    assert.deepEqual([report.lost, report.doubled], [0, 0], output);
    const { limited, unlimited, paused, priorities } = report.by_part;
    assert.ok(limited !== undefined && unlimited !== undefined && paused !== undefined && priorities !== undefined);
    assert.deepEqual([limited.jobs, unlimited.jobs, paused.jobs, priorities.jobs], [900, 900, 300, 900]);
    // Within the promise, on a machine that does much besides.
    assert.ok(report.others_lag_p99_ms <= 10_000 && limited.takeover_lag_max_ms <= 20_000, output);
    assert.ok(limited.flooded_per_s <= 1.3 * 50 && limited.flooded_per_s >= 0.7 * 50, output);
    assert.ok(report.rss_max_mb > 0, output);
  });

  it('prints what it can do, and refuses what it cannot', async () => {
    assert.match((await bench(['--help'])).output, /^usage: scripts\/bench <scenario>/);
    assert.equal((await bench(['bursts'])).code, 2);
    assert.equal((await bench(['burst', '--jobs', 'many'])).code, 1);
    assert.equal((await bench(['flood', '--part', 'half'])).code, 1);
  });
});

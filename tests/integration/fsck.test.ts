// punctual fsck as operators run it, on rows of a real Cassandra that somebody deleted.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { before, describe, it } from 'node:test';
import type { Client } from 'cassandra-driver';
import { ROOT } from '../../scripts/embedded/settings.ts';
import type { SchemaTarget } from '../../scripts/migrator/migrator.ts';
import { bucketOf } from '../../services/core/domain/bucket.ts';
import { shardOf } from '../../services/core/domain/ids.ts';
import type { JobRow } from '../../services/core/domain/job.ts';
import { HOUR_MS, MINUTE_MS, SECOND_MS } from '../../services/core/domain/limits.ts';
import { wakeUpRow } from '../../services/core/domain/schedule-plan.ts';
import { dueEntryOf } from '../../services/core/moves/end-attempt.ts';
import { systemClock } from '../../services/core/runtime/system-clock.ts';
import { createStores, type Stores } from '../../services/core/storage/stores.ts';
import { testDriver, testSession } from '../support/cassandra.ts';
import { jobRow, newCohort } from '../support/job-row.ts';
import { newScheduleCohort, scheduleRow } from '../support/schedule-row.ts';
import { suiteCleanup } from '../support/suite-cleanup.ts';

const SHARDS = 64;
const QUICK = ['--rate', '100000', '--grace-s', '1'];

interface Answer {
  readonly code: number | null;
  readonly output: string;
  readonly errors: string;
}

interface Report {
  readonly clean: boolean;
  readonly rows: Readonly<Record<string, number>>;
  readonly findings: readonly { readonly damage: string; readonly subject: string }[];
  readonly repair: { readonly written: boolean; readonly timers: number } | null;
}

describe('punctual fsck', () => {
  const cleanup = suiteCleanup();
  let target: SchemaTarget;
  let driver: Client;
  let stores: Stores;

  before(async () => {
    const opened = await testSession(cleanup);
    target = opened.target;
    driver = await testDriver(cleanup, target);
    stores = createStores(opened.session, { clock: systemClock });
    await stores.settings.readOrSeed('write_shards', String(SHARDS));
    await stores.settings.readOrSeed('started_at', new Date(systemClock.now() - MINUTE_MS).toISOString());
  });

  const fsck = (...words: readonly string[]): Promise<Answer> => run(target, ['fsck', ...QUICK, ...words]);

  const create = async (overrides: Partial<JobRow> = {}): Promise<JobRow> => {
    const cohort = newCohort();
    const job = jobRow(cohort, 0, {
      runAt: systemClock.now() + HOUR_MS,
      shard: shardOf(cohort, SHARDS),
      ...overrides,
    });
    await stores.timers.writeDue([dueEntryOf(job, job.runAt)]);
    await stores.cohorts.apply(cohort, [{ edge: 'create', jobId: job.jobId, job }]);
    return job;
  };

  it('is 0 while all is whole, 1 with findings, prints a repair, and writes it with --yes', async () => {
    const [kept, lost] = [await create(), await create()];
    const enqueued = await create({ runAt: systemClock.now(), status: 'enqueued', enqueuedAt: systemClock.now() });
    const cohort = newScheduleCohort();
    const nextRunAt = bucketOf(systemClock.now()) + 5 * MINUTE_MS;
    const schedule = scheduleRow(cohort, 0, { nextRunAt, shard: shardOf(cohort, SHARDS) });
    await stores.timers.writeDue([wakeUpRow(schedule, nextRunAt)]);
    const { scheduleId } = schedule;
    await stores.scheduleCohorts.apply(cohort, [{ edge: 'schedule_create', scheduleId, schedule }]);

    const clean = await fsck();
    assert.deepEqual([clean.code, /nothing is damaged/.test(clean.output)], [0, true], clean.output + clean.errors);
    assert.match(clean.errors, /jobs: 100 %, 3 rows/);

    await deleteDue(lost.shard, lost.runAt, lost.jobId);
    await deleteDue(enqueued.shard, enqueued.runAt, enqueued.jobId);
    await deleteDue(schedule.shard, nextRunAt, scheduleId);
    await stores.timers.writeDue([dueEntryOf(jobRow(newCohort(), 0), systemClock.now())]);
    const expected = [
      { damage: 'job_without_timer', subject: lost.jobId },
      { damage: 'job_without_timer', subject: enqueued.jobId },
      { damage: 'schedule_without_wake_up', subject: scheduleId },
    ];
    const planned = await fsck('--json', '--repair');
    assert.equal(planned.code, 1, planned.errors);
    assert.deepEqual(foundIn(planned), sorted(expected));
    assert.deepEqual(reportOf(planned).repair, { written: false, timers: 3 });
    assert.equal((await fsck('--json')).code, 1, 'a plan changes nothing');

    const repaired = await fsck('--repair', '--yes');
    assert.equal(repaired.code, 1);
    assert.match(repaired.output, /wrote 3 timers/);
    const after = await fsck('--json');
    assert.deepEqual([after.code, foundIn(after)], [0, []], after.output);
    assert.ok(reportOf(after).rows['jobs'] === 3 && kept.status === 'scheduled');
  });

  it('finds timers that all readers have passed, and ends that no audit finds', async () => {
    const shard = SHARDS - 1;
    const passed = await create({ shard, runAt: systemClock.now() - 10 * SECOND_MS });
    const finishedAt = systemClock.now() - 5 * SECOND_MS;
    const cancelled = await create({ shard, runAt: finishedAt, status: 'cancelled', finishedAt, reason: 'r' });
    await stores.cursors.save('second_look', shard, systemClock.now());
    await stores.cursors.save('deadlines', shard, systemClock.now());
    const found = await fsck('--json');
    assert.equal(found.code, 1, found.errors);
    assert.deepEqual(
      foundIn(found),
      sorted([
        { damage: 'job_without_timer', subject: passed.jobId },
        { damage: 'end_not_recorded', subject: cancelled.jobId },
      ]),
    );
  });

  it('is 2 when it cannot be found out', async () => {
    for (const words of [['--rate', '0'], ['--yes'], ['--repiar'], ['now']]) {
      const { code, errors } = await fsck(...words);
      assert.deepEqual([code, /See punctual fsck --help/.test(errors)], [2, true], words.join(' '));
    }
    const nowhere = await run({ ...target, keyspace: 'there_is_none' }, ['fsck']);
    assert.equal(nowhere.code, 2);
    assert.match(nowhere.errors, /does not exist/);
  });

  async function deleteDue(shard: number, runAt: number, jobId: string): Promise<void> {
    const cql = 'DELETE FROM due WHERE shard = ? AND bucket = ? AND run_at = ? AND job_id = ?';
    await driver.execute(cql, [shard, new Date(bucketOf(runAt)), new Date(runAt), jobId], { prepare: true });
  }
});

async function run(target: SchemaTarget, words: readonly string[]): Promise<Answer> {
  const child = spawn(process.execPath, [join(ROOT, 'services/cli/main.ts'), ...words], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: {
      ...process.env,
      PUNCTUAL_CASSANDRA_CONTACT_POINTS: target.contactPoints.join(','),
      PUNCTUAL_CASSANDRA_LOCAL_DATACENTER: target.localDatacenter,
      PUNCTUAL_CASSANDRA_KEYSPACE: target.keyspace,
    },
  });
  let [output, errors] = ['', ''];
  child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (errors += chunk.toString()));
  const [code] = (await once(child, 'close')) as [number | null];
  return { code, output, errors };
}

function reportOf({ output }: Answer): Report {
  return JSON.parse(output) as Report;
}

type Found = Report['findings'][number];

function foundIn(answer: Answer): readonly Found[] {
  return sorted(reportOf(answer).findings.map(({ damage, subject }) => ({ damage, subject })));
}

function sorted(found: readonly Found[]): readonly Found[] {
  return found.toSorted((one, other) => (one.subject < other.subject ? -1 : 1));
}

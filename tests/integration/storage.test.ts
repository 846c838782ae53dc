// What a session makes of a Cassandra that stalls, dies and comes back. How the stores behave otherwise: tests/conformance.

import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import { applySchema, type SchemaTarget } from '../../scripts/migrator/migrator.ts';
import { DATA_CENTER } from '../../scripts/embedded/cassandra.ts';
import { memberId } from '../../services/core/domain/ids.ts';
import type { JobRow } from '../../services/core/domain/job.ts';
import { RETENTION_DEFAULT } from '../../services/core/domain/queue-settings.ts';
import type { ApplyResult } from '../../services/core/ports/job-store.ts';
import { systemClock } from '../../services/core/runtime/system-clock.ts';
import { openSession, type Session } from '../../services/core/storage/session.ts';
import { createStores, type Stores } from '../../services/core/storage/stores.ts';
import { testDriver } from '../support/cassandra.ts';
import { eventually, RecordingTelemetry } from '../support/bus.ts';
import { jobRow, newCohort } from '../support/job-row.ts';
import { type PrivateServer, startPrivateCassandra } from '../support/servers.ts';
import { suiteCleanup } from '../support/suite-cleanup.ts';

describe('a session', () => {
  const cleanup = suiteCleanup();
  let server: PrivateServer;
  let target: SchemaTarget;
  let session: Session;
  let stores: Stores;
  const telemetry = new RecordingTelemetry();

  before(async () => {
    server = await startPrivateCassandra(cleanup);
    target = {
      contactPoints: [server.contactPoint],
      localDatacenter: DATA_CENTER,
      keyspace: 'punctual',
      replicationFactor: 1,
    };
    await applySchema(target);
    session = await openSession(target, { telemetry, clock: systemClock });
    cleanup.after(() => session.close());
    stores = createStores(session, { clock: systemClock });
  });

  const create = (job: JobRow): Promise<ApplyResult> =>
    stores.cohorts.apply(job.cohort, [{ edge: 'create', jobId: job.jobId, job }]);

  it('calls invalid what cannot be sent, and goes on', async () => {
    const job = jobRow(newCohort(), 0);
    await assert.rejects(create({ ...job, attempt: 2 ** 40 }), { kind: 'invalid' });
    await assert.rejects(create({ ...job, payload: 'x'.repeat(17 * 1024 * 1024) }), { kind: 'invalid' });
    assert.equal(telemetry.counts.get('punctual_store_errors_total invalid'), 2);
    assert.deepEqual(await create(job), { applied: true });
  });

  it('keeps history and dead letters for as long as their queue says', async (test) => {
    const client = await testDriver(test, target);
    const { history } = createStores(session, {
      clock: systemClock,
      retentionOf: (queue) => (queue === 'short' ? { finishedDays: 1, deadDays: 2 } : RETENTION_DEFAULT),
    });
    const at = systemClock.now();
    const jobId = memberId(newCohort(), 0);
    for (const queue of ['short', 'other']) {
      const end = { jobId, queue, attempt: 1, error: null };
      await history.writeDeadLetters([{ ...end, deadAt: at, reason: 'attempts' }]);
      const ended = { priority: 'normal', status: 'dead', outcome: 'failed', lagMs: 0 } as const;
      await history.writeFinished([{ ...end, ...ended, finishedAt: at, scheduledFor: at }]);
    }
    const daysOf = async (column: string, table: string): Promise<unknown> => {
      const { rows } = await client.execute(`SELECT queue, TTL(${column}) AS ttl_s FROM ${table}`);
      return Object.fromEntries(rows.map((row) => [row.get('queue'), Math.ceil(Number(row.get('ttl_s')) / 86_400)]));
    };
    assert.deepEqual(await daysOf('status', 'job_history'), { short: 1, other: 7 });
    assert.deepEqual(await daysOf('reason', 'dead_letters'), { short: 2, other: 30 });
  });

  it('calls a write unknown and a read unavailable when the node stalls, within 5 s', async () => {
    const job = jobRow(newCohort(), 0);
    await server.process.kill('SIGSTOP');
    const start = performance.now();
    try {
      await Promise.all([
        assert.rejects(create(job), { kind: 'unknown' }),
        assert.rejects(stores.jobs.read([job.jobId]), { kind: 'unavailable' }),
      ]);
      assert.ok(performance.now() - start < 5_000);
    } finally {
      await server.process.kill('SIGCONT');
    }
    // The request may lie in the stalled node's socket and apply now, after we were told unknown, or be dropped there. Sent
    // again it applies, or finds its own mark.
    const answered = (): Promise<boolean> =>
      create(job).then(
        () => true,
        () => false,
      );
    await eventually(answered, 'an answer', 30_000);
    const found = await stores.jobs.read([job.jobId], { serial: true });
    assert.equal(found.get(job.jobId)?.createToken, job.createToken);
  });

  it('outlives the node, says so meanwhile, and finds what was acknowledged', async () => {
    const jobs = Array.from({ length: 20 }, (_, member) => jobRow(newCohort(), member));
    await Promise.all(jobs.map(create));
    await server.process.kill('SIGKILL');
    await eventually(() => session.problem() !== null, 'noticed', 10_000);
    await assert.rejects(create(jobRow(newCohort(), 0)), { kind: 'unavailable' });
    const opening = openSession(target, { telemetry, clock: systemClock, onConnectFailure: () => failures++ });
    let failures = 0;
    await server.restart();
    await (await opening).close();
    assert.ok(failures > 0);
    // Connected is not yet usable: for a moment the driver has no node in its plans.
    const jobIds = jobs.map(({ jobId }) => jobId);
    const found = async () => (await stores.jobs.read(jobIds, { serial: true }).catch(() => new Map())).size;
    await eventually(async () => (await found()) === jobs.length, 'what was acknowledged', 30_000);
    assert.equal(session.problem(), null);
    assert.deepEqual(await create(jobRow(newCohort(), 0)), { applied: true });
  });
});

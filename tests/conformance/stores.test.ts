// The store ports, on the fake that other tests use and on a real Cassandra.

import { before, describe } from 'node:test';
import { types, type Client } from 'cassandra-driver';
import { dayOf, HISTORY_STRIPES, hourOf } from '../../services/core/domain/bucket.ts';
import type { AuditEntry } from '../../services/core/ports/audit-log.ts';
import type { DeadLetter, FinishedJob } from '../../services/core/ports/history-store.ts';
import { systemClock } from '../../services/core/runtime/system-clock.ts';
import { createRingStore } from '../../services/core/storage/ring-store.ts';
import { createStores, type Stores } from '../../services/core/storage/stores.ts';
import { testDriver, testSession } from '../support/cassandra.ts';
import { memoryRing } from '../support/memory-ring-store.ts';
import { MemoryStores } from '../support/memory-store.ts';
import { suiteCleanup } from '../support/suite-cleanup.ts';
import { cohortStoreSuite } from './cohort-store.suite.ts';
import { auditLogSuite, operationStoreSuite, type OperationStoreHarness } from './operation-store.suite.ts';
import { historyStoreSuite, keyStoreSuite, settingsStoreSuite, type OtherStoresHarness } from './other-stores.suite.ts';
import { heldStoreSuite } from './held-store.suite.ts';
import { queueCountStoreSuite } from './queue-count-store.suite.ts';
import { queueStoreSuite } from './queue-store.suite.ts';
import { ringStoreSuite, type RingHarness } from './ring-store.suite.ts';
import { slotStoreSuite } from './slot-store.suite.ts';
import { scheduleDirectorySuite } from './schedule-directory.suite.ts';
import { scheduleStoreSuite } from './schedule-store.suite.ts';
import { timerStoreSuite } from './timer-store.suite.ts';

type Harness = Stores & OtherStoresHarness & OperationStoreHarness & RingHarness;

function suites(harness: () => Harness): void {
  describe('cohorts', () => cohortStoreSuite(harness));
  describe('schedules', () => scheduleStoreSuite(harness));
  describe('names and lists of schedules', () => scheduleDirectorySuite(harness));
  describe('timers and cursors', () => timerStoreSuite(harness));
  describe('keys', () => keyStoreSuite(harness));
  describe('settings', () => settingsStoreSuite(harness));
  describe('queues', () => queueStoreSuite(harness));
  describe('counts of queues', () => queueCountStoreSuite(harness));
  describe('slots', () => slotStoreSuite(harness));
  describe('held rows', () => heldStoreSuite(harness));
  describe('history', () => historyStoreSuite(harness));
  describe('operations', () => operationStoreSuite(harness));
  describe('audit log', () => auditLogSuite(harness));
  describe('the ring', () => ringStoreSuite(harness));
}

describe('stores in memory', () => {
  const stores = new MemoryStores({ clock: systemClock });
  const sameHour = (one: number, other: number): boolean => hourOf(one) === hourOf(other);
  suites(() =>
    Object.assign(stores, {
      ring: memoryRing(stores),
      finishedOf: async (queue: string, at: number) =>
        [...stores.finished.values()].filter((row) => row.queue === queue && sameHour(row.finishedAt, at)),
      deadLettersOf: async (queue: string, at: number) =>
        [...stores.letters.values()].filter((row) => row.queue === queue && dayOf(row.deadAt) === dayOf(at)),
      auditOf: async (at: number) => [...stores.auditEntries.values()].filter((entry) => dayOf(entry.at) === dayOf(at)),
    }),
  );
});

describe('stores on Cassandra', () => {
  let harness: Harness;
  const cleanup = suiteCleanup();
  before(async () => {
    const { session, target } = await testSession(cleanup);
    const client = await testDriver(cleanup, target);
    harness = {
      ...createStores(session, { clock: systemClock }),
      ring: createRingStore(session),
      finishedOf: (queue, at) => finishedOf(client, queue, at),
      deadLettersOf: (queue, at) => deadLettersOf(client, queue, at),
      auditOf: (at) => auditOf(client, at),
    };
  });
  suites(() => harness);
});

async function auditOf(client: Client, at: number): Promise<readonly AuditEntry[]> {
  const stripes = Array.from({ length: 8 }, (_, stripe) => stripe);
  const results = await Promise.all(
    stripes.map((stripe) =>
      client.execute(
        'SELECT * FROM audit_log WHERE day = ? AND stripe = ?',
        [types.LocalDate.fromString(dayOf(at)), stripe],
        { prepare: true },
      ),
    ),
  );
  return results
    .flatMap(({ rows }) => rows)
    .map((row) => ({
      at: (row.get('at') as Date).getTime(),
      entryId: row.get('entry_id') as string,
      owner: row.get('owner') as string,
      actor: row.get('actor') as string | null,
      verb: row.get('verb') as string,
      subject: row.get('subject') as string,
      detail: JSON.parse(row.get('detail') as string) as AuditEntry['detail'],
    }));
}

async function finishedOf(client: Client, queue: string, at: number): Promise<readonly FinishedJob[]> {
  const stripes = Array.from({ length: HISTORY_STRIPES }, (_, stripe) => stripe);
  const results = await Promise.all(
    stripes.map((stripe) =>
      client.execute(
        'SELECT * FROM job_history WHERE queue = ? AND hour = ? AND stripe = ?',
        [queue, new Date(hourOf(at)), stripe],
        { prepare: true },
      ),
    ),
  );
  return results
    .flatMap(({ rows }) => rows)
    .map((row) => ({
      jobId: row.get('job_id') as string,
      queue: row.get('queue') as string,
      priority: row.get('priority') as FinishedJob['priority'],
      finishedAt: (row.get('finished_at') as Date).getTime(),
      status: row.get('status') as FinishedJob['status'],
      outcome: row.get('outcome') as FinishedJob['outcome'],
      attempt: row.get('attempt') as number,
      scheduledFor: (row.get('scheduled_for') as Date).getTime(),
      lagMs: (row.get('lag_ms') as types.Long | null)?.toNumber() ?? null,
      error: row.get('error') as string | null,
    }))
    .sort((one, other) => one.finishedAt - other.finishedAt);
}

async function deadLettersOf(client: Client, queue: string, at: number): Promise<readonly DeadLetter[]> {
  const { rows } = await client.execute(
    'SELECT * FROM dead_letters WHERE queue = ? AND day = ?',
    [queue, types.LocalDate.fromString(dayOf(at))],
    { prepare: true },
  );
  return rows.map((row) => ({
    jobId: row.get('job_id') as string,
    queue: row.get('queue') as string,
    deadAt: (row.get('dead_at') as Date).getTime(),
    attempt: row.get('attempt') as number,
    reason: row.get('reason') as string,
    error: row.get('error') as string | null,
  }));
}

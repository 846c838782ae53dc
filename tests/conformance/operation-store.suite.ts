import assert from 'node:assert/strict';
import { it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { dayOf } from '../../services/core/domain/bucket.ts';
import type { BulkOperation } from '../../services/core/domain/bulk.ts';
import { DAY_MS } from '../../services/core/domain/limits.ts';
import type { AuditEntry, AuditLog } from '../../services/core/ports/audit-log.ts';
import type { ListedOperation, OperationStore } from '../../services/core/ports/operation-store.ts';
import { bulkOperation } from '../support/bulk-operation.ts';

export interface OperationStoreHarness {
  readonly operations: OperationStore;
  readonly audit: AuditLog;
  /** What an audit of the day finds. */
  readonly auditOf: (at: number) => Promise<readonly AuditEntry[]>;
}

const PROGRESS = {
  status: 'stopping',
  position: { at: Date.parse('2026-11-15T06:00:00.123Z'), jobId: 'j_0123456789abc_00' },
  changed: 17,
  failed: 2,
  lastError: 'j_0123456789abc_01: no "good"',
  runner: 'runner-1',
  updatedAt: Date.parse('2026-11-15T06:00:01.001Z'),
  finishedAt: null,
} as const;

function newOperation(overrides: Partial<BulkOperation> = {}): BulkOperation {
  return bulkOperation({ expiresAt: Math.floor(Date.now() / 1_000) * 1_000 + DAY_MS, ...overrides });
}

/** What every OperationStore promises; run on the fake and on a real server. */
export function operationStoreSuite(harness: () => OperationStoreHarness): void {
  it('creates an operation once, and reads back every column', async () => {
    const { operations } = harness();
    const full = newOperation({
      verb: 'reschedule',
      filter: {
        queue: 'mail',
        from: 1,
        to: 2,
        status: 'scheduled',
        label: { name: 'ü', value: '"=' },
        error: "it's",
      },
      newTime: { shiftMs: -5 },
      replayChanges: null,
      ratePerS: 2.5,
      ...PROGRESS,
      status: 'stopped',
      finishedAt: PROGRESS.updatedAt,
      revision: 3,
    });
    for (const operation of [newOperation(), full]) {
      assert.equal(await operations.find(operation.operationId), null);
      assert.deepEqual(await operations.create(operation), operation);
      assert.deepEqual(await operations.create({ ...operation, verb: 'cancel', changed: 99 }), operation);
      assert.deepEqual(await operations.find(operation.operationId), operation);
    }
  });

  it('reads back what a replay changes: a payload, none, a queue, or nothing', async () => {
    const { operations } = harness();
    for (const replayChanges of [
      { payload: '{"n": 1.0, "t": "ü"}', payloadBytes: 21, queue: 'mended' },
      { payload: null, payloadBytes: 0 },
      null,
    ]) {
      const operation = newOperation({ replayChanges });
      await operations.create(operation);
      assert.deepEqual(await operations.find(operation.operationId), operation);
    }
  });

  it('saves progress on what was read, and else tells what is there', async () => {
    const { operations } = harness();
    const operation = newOperation();
    await operations.create(operation);
    assert.equal(await operations.save(operation, PROGRESS, 'token-1'), null);
    const saved = { ...operation, ...PROGRESS, revision: 1 };
    assert.deepEqual(await operations.find(operation.operationId), saved);
    assert.deepEqual(await operations.save(operation, { ...PROGRESS, changed: 99 }, 'token-2'), { found: saved });
    assert.equal(await operations.bearsToken(operation.operationId, 'token-1'), true);
    assert.equal(await operations.bearsToken(operation.operationId, 'token-2'), false);
    const ended = {
      ...PROGRESS,
      status: 'stopped',
      runner: null,
      lastError: null,
      position: null,
      finishedAt: 5,
    } as const;
    assert.equal(await operations.save(saved, ended, 'token-3'), null);
    assert.deepEqual(await operations.find(operation.operationId), { ...saved, ...ended, revision: 2 });
  });

  it('lets one of those who save at once win', async () => {
    const { operations } = harness();
    const operation = newOperation();
    await operations.create(operation);
    const outcomes = await Promise.all(
      Array.from({ length: 8 }, (_, index) =>
        operations.save(operation, { ...PROGRESS, changed: index }, `token-${index}`),
      ),
    );
    assert.equal(outcomes.filter((outcome) => outcome === null).length, 1);
    assert.equal((await operations.find(operation.operationId))?.changed, outcomes.indexOf(null));
  });

  it('makes no operation by saving one that is not there', async () => {
    const { operations } = harness();
    const operation = newOperation();
    assert.deepEqual(await operations.save(operation, PROGRESS, 'token'), { found: null });
    assert.equal(await operations.find(operation.operationId), null);
  });

  it('forgets an operation whole at its end', async () => {
    const { operations } = harness();
    const operation = newOperation({ expiresAt: Date.now() + 1_500 });
    await operations.create(operation);
    await operations.save(operation, PROGRESS, 'token');
    await operations.list(operation);
    await sleep(4_000);
    assert.equal(await operations.find(operation.operationId), null);
    const listed = await listedOf(operations, operation.createdAt);
    assert.ok(listed.every(({ operationId }) => operationId !== operation.operationId));
  });

  it('lists a day, the newest first, from a time on', async () => {
    const { operations } = harness();
    const noon = Date.parse('2026-03-04T12:00:00.000Z');
    const made = [-5, 0, 0, 7].map((ms) => newOperation({ createdAt: noon + ms }));
    const others = [noon - DAY_MS, noon + DAY_MS].map((createdAt) => newOperation({ createdAt }));
    for (const operation of [...made, ...others]) await operations.list(operation);
    await operations.list(made[0]!);
    const entries = made
      .map(({ operationId, createdAt, expiresAt }) => ({ operationId, createdAt, expiresAt }))
      .sort((one, other) => other.createdAt - one.createdAt || (one.operationId < other.operationId ? 1 : -1));
    assert.deepEqual(await listedOf(operations, noon + 7), entries);
    assert.deepEqual(await listedOf(operations, noon), entries.slice(1));
    assert.deepEqual(await listedOf(operations, noon - 6), []);
  });
}

/** What every AuditLog promises. */
export function auditLogSuite(harness: () => OperationStoreHarness): void {
  it('writes who did what once, however often it is told', async () => {
    const { audit, auditOf } = harness();
    const at = Date.parse('2026-05-06T23:59:59.999Z');
    const entries = [0, 1].map((index): AuditEntry => ({
      at,
      entryId: `entry-${index}`,
      owner: 'default',
      actor: index === 0 ? null : 'ann',
      verb: 'operation.start',
      subject: 'o_0123456789abc',
      detail: { filter: { queue: 'mail' }, ratePerS: 2.5 },
    }));
    for (const entry of [...entries, ...entries]) await audit.write(entry);
    const found = await auditOf(at);
    assert.deepEqual(
      found.toSorted((one, other) => (one.entryId < other.entryId ? -1 : 1)),
      entries,
    );
    assert.ok(found.every((entry) => dayOf(entry.at) === '2026-05-06'));
  });
}

async function listedOf(store: OperationStore, upTo: number): Promise<readonly ListedOperation[]> {
  const listed: ListedOperation[] = [];
  for await (const page of store.readList(upTo)) listed.push(...page);
  return listed;
}

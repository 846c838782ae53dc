import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { memberId } from '../../services/core/domain/ids.ts';
import type { DeadLetter, FinishedJob, HistoryStore } from '../../services/core/ports/history-store.ts';
import type { JobKey, KeyStore } from '../../services/core/ports/key-store.ts';
import type { SettingsStore } from '../../services/core/ports/settings-store.ts';
import { newCohort } from '../support/job-row.ts';

export interface OtherStoresHarness {
  readonly keys: KeyStore;
  readonly settings: SettingsStore;
  readonly history: HistoryStore;
  /** What an audit of the queue finds, in the order of time. */
  readonly finishedOf: (queue: string, at: number) => Promise<readonly FinishedJob[]>;
  readonly deadLettersOf: (queue: string, at: number) => Promise<readonly DeadLetter[]>;
}

const AT = Date.parse('2026-11-15T06:59:59.999Z');

/** What every KeyStore promises. */
export function keyStoreSuite(harness: () => OtherStoresHarness): void {
  const newKey = (overrides: Partial<JobKey> = {}): JobKey => ({
    keyHash: randomBytes(32).toString('hex'),
    jobId: memberId(newCohort(), 0),
    requestHash: 'r'.repeat(64),
    createdAt: AT,
    expiresAt: Date.now() + 60_000,
    written: false,
    ...overrides,
  });

  it('gives a key to one of those who claim it at once', async () => {
    const { keys } = harness();
    const claims = Array.from({ length: 20 }, () => newKey({ keyHash: 'shared' + String(AT) }));
    const standing = await Promise.all(claims.map((key) => keys.claim(key)));
    assert.equal(new Set(standing.map(({ jobId }) => jobId)).size, 1);
    assert.ok(claims.some(({ jobId }) => jobId === standing[0]?.jobId));
    assert.deepEqual(await keys.find(claims[0]!.keyHash), standing[0]);
  });

  it('marks a key written', async () => {
    const { keys } = harness();
    const key = newKey();
    assert.equal(await keys.find(key.keyHash), null);
    assert.deepEqual(await keys.claim(key), key);
    await keys.markWritten(key);
    await keys.markWritten(key);
    assert.deepEqual(await keys.find(key.keyHash), { ...key, written: true });
    assert.deepEqual(await keys.claim(newKey({ keyHash: key.keyHash })), { ...key, written: true });
  });

  it('makes no key by marking one that is not there, or another job s', async () => {
    const { keys } = harness();
    const key = newKey();
    await keys.markWritten(key);
    assert.equal(await keys.find(key.keyHash), null);
    await keys.claim(key);
    await keys.markWritten({ ...key, jobId: memberId(newCohort(), 1) });
    assert.equal((await keys.find(key.keyHash))?.written, false);
  });

  it('forgets a key whole at its end, and gives it out again', async () => {
    const { keys } = harness();
    const key = newKey({ expiresAt: Date.now() + 1_500 });
    await keys.claim(key);
    await keys.markWritten(key);
    await sleep(4_000);
    assert.equal(await keys.find(key.keyHash), null);
    const next = newKey({ keyHash: key.keyHash });
    assert.deepEqual(await keys.claim(next), next);
  });
}

/** What every SettingsStore promises. */
export function settingsStoreSuite(harness: () => OtherStoresHarness): void {
  it('lets the first value stand, whoever comes at once', async () => {
    const { settings } = harness();
    assert.equal(await settings.read('write_shards'), null);
    const values = await Promise.all(['64', '128', '1', '7'].map((seed) => settings.readOrSeed('write_shards', seed)));
    assert.equal(new Set(values).size, 1);
    assert.equal(await settings.readOrSeed('write_shards', '999'), values[0]);
    assert.equal(await settings.read('write_shards'), values[0]);
    assert.equal(await settings.readOrSeed('another', '5'), '5');
  });
}

/** What every HistoryStore promises. */
export function historyStoreSuite(harness: () => OtherStoresHarness): void {
  const queue = `q-${randomBytes(4).toString('hex')}`;

  it('writes what finished once, however often it is told', async () => {
    const { history, finishedOf } = harness();
    const rows = Array.from({ length: 40 }, (_, index): FinishedJob => ({
      jobId: memberId(newCohort(), index),
      queue,
      priority: 'normal',
      finishedAt: AT - 39 + index,
      status: 'succeeded',
      outcome: 'succeeded',
      attempt: 1,
      scheduledFor: AT - 5_000,
      lagMs: index === 0 ? null : index,
      error: index === 0 ? 'boom' : null,
    }));
    await Promise.all([history.writeFinished(rows), ...rows.map((row) => history.writeFinished([row]))]);
    assert.deepEqual(await finishedOf(queue, AT), rows);
    assert.deepEqual(await finishedOf(queue, AT + 1), []);
  });

  it('tells in which queues jobs died on a day', async () => {
    const { history } = harness();
    const day = Date.parse('2026-10-03T00:00:00Z');
    const letter = (name: string, deadAt: number): DeadLetter => ({
      jobId: memberId(newCohort(), 1),
      queue: `${queue}-${name}`,
      deadAt,
      attempt: 1,
      reason: 'attempts',
      error: null,
    });
    const last = day + 86_400_000 - 1;
    await history.writeDeadLetters([letter('a', day), letter('b', last), letter('a', last), letter('c', last + 1)]);
    const named = (at: number) =>
      history.deadLetterQueues(at).then((names) => names.filter((name) => name.startsWith(queue)).toSorted());
    assert.deepEqual(await named(day + 1), [`${queue}-a`, `${queue}-b`]);
    assert.deepEqual(await named(last + 1), [`${queue}-c`]);
    assert.deepEqual(await named(day - 1), []);
  });

  it('writes dead letters by queue and day', async () => {
    const { history, deadLettersOf } = harness();
    const rows = [1, 2].map((index): DeadLetter => ({
      jobId: memberId(newCohort(), index),
      queue,
      deadAt: AT + index,
      attempt: index,
      reason: 'attempts',
      error: index === 1 ? null : 'boom',
    }));
    await history.writeDeadLetters(rows);
    await history.writeDeadLetters(rows.slice(1));
    assert.deepEqual(await deadLettersOf(queue, AT), rows);
    assert.deepEqual(await deadLettersOf(queue, AT + 24 * 3_600_000), []);
  });
}

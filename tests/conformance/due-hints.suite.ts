import assert from 'node:assert/strict';
import { it } from 'node:test';
import type { DueEntry } from '../../services/core/domain/operation.ts';
import type { DueHints } from '../../services/core/ports/due-hints.ts';

/** Two processes' view of the same bus. */
export interface DueHintsHarness {
  readonly ours: DueHints;
  readonly theirs: DueHints;
  /** Until what was sent has arrived. */
  readonly arrived: () => Promise<void>;
}

const AT = Date.parse('2026-11-29T10:00:00.123Z');

export function dueEntryOf(index: number, overrides: Partial<DueEntry> = {}): DueEntry {
  return {
    jobId: `j_${String(index).padStart(13, '0')}_00`,
    shard: 3,
    runAt: AT + index,
    queue: 'mail',
    priority: 'high',
    attempt: 2,
    direct: false,
    ...overrides,
  };
}

/** What every DueHints promises; run on the fake and on a real server. */
export function dueHintsSuite(start: () => Promise<DueHintsHarness>): void {
  it('brings each row to those who listen to its shard', async () => {
    const { ours, theirs, arrived } = await start();
    const heard: DueEntry[] = [];
    const stop = theirs.listen(3, (row) => heard.push(row));
    await arrived();
    const rows = [dueEntryOf(1), dueEntryOf(2, { shard: 4 }), dueEntryOf(3, { direct: true, attempt: 0 })];
    ours.send(rows);
    await arrived();
    assert.deepEqual(heard, [rows[0], rows[2]]);
    stop();
    ours.send([dueEntryOf(4)]);
    await arrived();
    assert.equal(heard.length, 2);
  });

  it('brings thousands at once', async () => {
    const { ours, theirs, arrived } = await start();
    const heard: DueEntry[] = [];
    theirs.listen(3, (row) => heard.push(row));
    await arrived();
    const rows = Array.from({ length: 2_500 }, (_, index) => dueEntryOf(index));
    ours.send(rows);
    await arrived();
    assert.deepEqual(heard, rows);
  });

  it('takes an empty list', async () => {
    const { ours, arrived } = await start();
    ours.send([]);
    await arrived();
  });
}

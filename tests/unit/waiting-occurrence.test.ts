// An occurrence that waits for the one before starts by any due row at or after its run_at (rule 4 of design section 6): it gets one when
// its turn has come, or when a caller's change of its time stands.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { JobChanger } from '../../services/api/use-cases/change-job.ts';
import type { ChangeJob } from '../../services/api/use-cases/types.ts';
import { ok } from '../../services/core/contract/problems.ts';
import type { JobRow } from '../../services/core/domain/job.ts';
import { JobStatus } from '../../services/core/domain/job-status.ts';
import { HOUR_MS } from '../../services/core/domain/limits.ts';
import { JobMover } from '../../services/core/moves/move-job.ts';
import { coreBench } from '../support/core-bench.ts';
import { FAKE_START } from '../support/fake-clock.ts';
import type { Fault } from '../support/memory-store.ts';
import { jobRow } from '../support/job-row.ts';
import { runningJob } from '../support/operations.ts';

const COHORT = 'j_0123456789abc';

function bench({ before = {}, round }: { before?: Partial<JobRow>; round?: Fault } = {}) {
  const { parts, stores, clock } = coreBench({
    strikes: ({ method }) => (method === 'cohorts.apply' ? round : undefined),
  });
  const predecessor = runningJob(COHORT, 0, before);
  const waiting = jobRow(COHORT, 1, { runAt: FAKE_START - 1, waitsFor: predecessor.jobId });
  for (const job of [predecessor, waiting]) stores.rows.set(job.jobId, job);
  const changer = new JobChanger({ ...parts, mover: new JobMover(parts) });
  return {
    runNow: () => clock.until(changer.runNow(waiting.jobId)),
    change: (changes: ChangeJob) => clock.until(changer.change(waiting.jobId, () => ok(changes))),
    due: () => stores.due.all().map(({ runAt, priority }) => [runAt, priority]),
    row: () => stores.rows.get(waiting.jobId)!,
  };
}

describe('an occurrence that waits', () => {
  it('runs at the time that a caller gives it', async () => {
    const { change, due, row } = bench();
    assert.ok((await change({ when: { at: FAKE_START + HOUR_MS } })).ok);
    assert.equal(row().runAt, FAKE_START + HOUR_MS);
    assert.deepEqual(due(), [[FAKE_START + HOUR_MS, 'normal']]);
  });

  it('is not started by a change that was never made', async () => {
    for (const kind of ['unavailable', 'request_lost'] as const) {
      const { runNow, due, row } = bench({ round: { kind } });
      assert.ok(!(await runNow()).ok);
      assert.equal(row().runAt, FAKE_START - 1);
      assert.deepEqual(due(), []);
    }
  });

  it('waits on when it is given another priority', async () => {
    const { change, due, row } = bench();
    assert.ok((await change({ priority: 'high' })).ok);
    assert.deepEqual([row().priority, row().runAt], ['high', FAKE_START - 1]);
    assert.deepEqual(due(), []);
  });

  it('goes on under another priority once its turn has come', async () => {
    const { change, due } = bench({ before: { status: JobStatus.succeeded } });
    assert.ok((await change({ priority: 'high' })).ok);
    assert.deepEqual(due(), [[FAKE_START, 'high']]);
  });
});

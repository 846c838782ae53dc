// An api process whose clock is wrong.

import assert from 'node:assert/strict';
import { it } from 'node:test';
import { ok } from '../../services/core/contract/problems.ts';
import { rightClockOnly } from '../../services/api/use-cases/right-clock-only.ts';
import type { UseCases } from '../../services/api/use-cases/types.ts';

const READS_AND_HEARTBEATS: readonly (keyof UseCases)[] = [
  'getJob',
  'findJobByKey',
  'listJobs',
  'listDeadLetters',
  'describeQueue',
  'heartbeatJobs',
  'listQueues',
  'jobDefaultsOf',
  'dryRun',
  'getOperation',
  'listOperations',
  'getSchedule',
  'listSchedules',
  'listScheduleRuns',
];
const BATCHES: readonly (keyof UseCases)[] = ['claimJobs', 'completeJobs', 'releaseJobs', 'heartbeatJobs'];
const ALL: readonly (keyof UseCases)[] = [
  ...READS_AND_HEARTBEATS,
  'createJob',
  'createJobs',
  'cancelJob',
  'requestCancel',
  'changeJob',
  'runJobNow',
  'replayJob',
  'claimJobs',
  'completeJobs',
  'releaseJobs',
  'leaseJobs',
  'changeQueue',
  'pauseQueue',
  'resumeQueue',
  'createSchedule',
  'createSchedules',
  'putSchedule',
  'changeSchedule',
  'pauseSchedule',
  'resumeSchedule',
  'skipNextSlot',
  'deleteSchedule',
  'runSchedule',
  'backfillSchedule',
  'changeSchedules',
  'startOperation',
  'stopOperation',
];

type AnyCall = (...args: unknown[]) => Promise<unknown>;

function guarded(isRight: boolean): Record<string, AnyCall> {
  const answering = (name: keyof UseCases): AnyCall => {
    const answer = ok('done');
    return async () => (BATCHES.includes(name) ? [answer, answer] : answer);
  };
  const useCases = Object.fromEntries(ALL.map((name) => [name, answering(name)])) as unknown as UseCases;
  return rightClockOnly(useCases, () => isRight) as unknown as Record<string, AnyCall>;
}

const codesOf = (answer: unknown): unknown[] =>
  [answer].flat().map((each) => {
    const { ok: isOk, problem } = each as { ok: boolean; problem?: { code: string } };
    return isOk ? 'ok' : problem?.code;
  });

it('refuses what would write or judge a time, item by item, and goes on with reads and heartbeats', async () => {
  for (const isRight of [true, false]) {
    const useCases = guarded(isRight);
    for (const name of ALL) {
      const items = BATCHES.includes(name) ? [{}, {}] : [];
      const expected = isRight || READS_AND_HEARTBEATS.includes(name) ? 'ok' : 'wrong_clock';
      const codes = codesOf(await useCases[name]?.(items));
      assert.deepEqual(codes, items.length === 0 ? [expected] : [expected, expected], name);
    }
  }
});

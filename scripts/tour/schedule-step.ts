// The tour's step about schedules: one of every few seconds, what it will do, and what it did.

import { setTimeout as sleep } from 'node:timers/promises';
import type { PunctualClient } from '../../services/client/index.ts';
import { QUEUE } from './jobs.ts';

const EVERY_S = 2;
const RUNS_SHOWN = 3;
const LIMIT_MS = 20_000;
const LOOK_EVERY_MS = 250;

/** Resolves with what went otherwise than it should. */
export async function showSchedule(client: PunctualClient, stopping: AbortSignal): Promise<readonly string[]> {
  const { schedule_id: id } = await client.createSchedule({ queue: QUEUE, every_s: EVERY_S, payload: { tick: true } });
  try {
    const { slots } = await client.previewSchedule(id, { count: RUNS_SHOWN });
    console.log(
      `\nA schedule of every ${EVERY_S} s, ${id}. Its next slots: ${slots.map(({ slot }) => slot).join(', ')}`,
    );
    const limit = Date.now() + LIMIT_MS;
    for (;;) {
      const runs = (await client.listScheduleRuns(id)).runs.filter(({ lag_ms }) => lag_ms !== null).toReversed();
      if (runs.length >= RUNS_SHOWN) {
        console.log('What became of them (./scripts/punctual schedule runs):');
        for (const { slot, outcome, job_id, lag_ms } of runs.slice(0, RUNS_SHOWN)) {
          console.log(`  ${slot}  ${outcome}  ${job_id}  started after ${lag_ms ?? '-'} ms`);
        }
        return [];
      }
      if (stopping.aborted) return ['the tour was interrupted'];
      if (Date.now() > limit) return [`the schedule ${id} ran ${runs.length} times only`];
      await sleep(LOOK_EVERY_MS);
    }
  } finally {
    await client.deleteSchedule(id);
  }
}

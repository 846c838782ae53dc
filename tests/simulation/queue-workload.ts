// What operators do to queues.

import { ok } from '../../services/core/contract/problems.ts';
import { MINUTE_MS, SECOND_MS } from '../../services/core/domain/limits.ts';
import type { QueueSettings } from '../../services/core/domain/queue-settings.ts';
import { StoreError } from '../../services/core/ports/store-error.ts';
import { callApi } from './rpc.ts';
import type { Action, Client } from './workload.ts';
import { LEASE_QUEUE, STREAM_QUEUE } from './workers.ts';
import type { World } from './world.ts';

export const QUEUE_ACTIONS: readonly Action[] = [
  { name: 'pause a queue', weight: 1, run: pauseQueue },
  { name: 'resume a queue', weight: 1.5, run: resumeQueue },
  { name: 'change a queue', weight: 1, run: changeQueue },
];

const QUEUES = [STREAM_QUEUE, LEASE_QUEUE];
const PAUSE_MAX_MS = 1.5 * MINUTE_MS;

async function pauseQueue({ world, chance }: Client): Promise<void> {
  const queue = chance.pick(QUEUES);
  const until = chance.happens(0.7) ? Math.floor(world.clock.now() + chance.between(SECOND_MS, PAUSE_MAX_MS)) : null;
  await callApi(world, {
    what: `pause ${queue}`,
    from: null,
    chance,
    ask: (useCases) => useCases.pauseQueue({ queue, reason: null, until }),
    promised: () => undefined,
  });
}

async function resumeQueue({ world, chance }: Client): Promise<void> {
  const queue = chance.pick(QUEUES);
  await callApi(world, {
    what: `resume ${queue}`,
    from: null,
    chance,
    ask: (useCases) => useCases.resumeQueue(queue),
    promised: () => undefined,
  });
}

async function changeQueue({ world, chance }: Client): Promise<void> {
  const queue = chance.pick(QUEUES);
  const ratePerS = chance.pick([null, 0.3, 2, 20]);
  await callApi(world, {
    what: `change the queue ${queue}`,
    from: null,
    chance,
    ask: (useCases) =>
      useCases.changeQueue({ queue, revision: null, changeOf: (settings) => ok({ ...settings, ratePerS }) }),
    promised: () => undefined,
  });
}

/** Every queue takes all that comes; to be repeated while a change asked for earlier, or a fault begun earlier, may still land. */
export async function openQueues({ stores, clock, seed, runningLimit }: World): Promise<void> {
  runningLimit.lift();
  for (const row of stores.queueRows.values()) {
    if (row.ratePerS === null && row.pause === null && row.maxRunning === null) continue;
    const revision = row.revision + 1;
    const updatedAt = Math.floor(clock.now());
    const next: QueueSettings = { ...row, ratePerS: null, pause: null, maxRunning: null, revision, updatedAt };
    try {
      await stores.queues.change({ next, token: `seed ${seed} opens ${row.queue} as ${revision}` });
    } catch (error) {
      if (!(error instanceof StoreError)) throw error;
    }
  }
}

// What operators do to many jobs at once.

import type { StartOperation } from '../../services/api/use-cases/types.ts';
import { BulkVerb, hasEnded } from '../../services/core/domain/bulk.ts';
import { MINUTE_MS, SECOND_MS } from '../../services/core/domain/limits.ts';
import { callApi } from './rpc.ts';
import type { Action, Client } from './workload.ts';
import { LEASE_QUEUE, STREAM_QUEUE } from './workers.ts';

export const BULK_ACTIONS: readonly Action[] = [
  { name: 'start an operation', weight: 0.6, run: startOperation },
  { name: 'stop an operation', weight: 0.2, run: stopOperation },
];

const OWNER = 'default';

function request({ world, chance }: Client): StartOperation {
  const from = Math.floor(world.clock.now() - chance.between(0, 2 * MINUTE_MS));
  const verb = chance.pick(Object.values(BulkVerb));
  return {
    owner: OWNER,
    verb,
    filter: {
      queue: chance.pick([STREAM_QUEUE, LEASE_QUEUE]),
      // Few of the jobs, or nothing would be left to go wrong.
      ...{ from, to: from + chance.whole(5 * SECOND_MS, 30 * SECOND_MS) },
      ...{ status: null, label: null, error: null },
    },
    newTime: verb === BulkVerb.reschedule ? { shiftMs: chance.whole(-20, 60) * SECOND_MS } : null,
    replayChanges: null,
    ratePerS: chance.pick([1, 20]),
    key: null,
  };
}

async function startOperation(client: Client): Promise<void> {
  const { world, chance } = client;
  const wanted = request(client);
  await callApi(world, {
    what: `${wanted.verb} many`,
    from: null,
    chance,
    ask: (useCases) => useCases.startOperation(wanted),
    promised: (result) => {
      if (result.ok) world.ledger.operationStarted(result.value.operation.operationId);
    },
  });
}

async function stopOperation({ world, chance }: Client): Promise<void> {
  const going = [...world.stores.operationRows.values()].flatMap(({ row }) => (hasEnded(row) ? [] : [row.operationId]));
  if (going.length === 0) return;
  const operationId = chance.pick(going);
  await callApi(world, {
    what: `stop ${operationId}`,
    from: null,
    chance,
    ask: (useCases) => useCases.stopOperation(operationId, OWNER),
    promised: () => undefined,
  });
}

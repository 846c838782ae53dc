// What clients ask of schedules.

import type { ScheduleReference } from '../../services/api/use-cases/schedule-types.ts';
import { ok } from '../../services/core/contract/problems.ts';
import { MINUTE_MS, SECOND_MS } from '../../services/core/domain/limits.ts';
import {
  OnMissed,
  OnOverlap,
  type ScheduleDefinition,
  type TimetableDefinition,
} from '../../services/core/domain/schedule.ts';
import { callApi } from './rpc.ts';
import { type Action, type Client, jobRequest } from './workload.ts';

const NAMES = 3;
/** So many go on at once, or the jobs of schedules drown all others. */
const SCHEDULES_MAX = 6;
const OWNER = 'default';

export const SCHEDULE_ACTIONS: readonly Action[] = [
  { name: 'create a schedule', weight: 1, run: createSchedule },
  { name: 'put a schedule', weight: 1, run: putSchedule },
  { name: 'change a schedule', weight: 0.7, run: changeSchedule },
  { name: 'pause a schedule', weight: 0.5, run: pauseSchedule },
  { name: 'resume a schedule', weight: 0.5, run: resumeSchedule },
  { name: 'skip a slot', weight: 0.5, run: skipSlot },
  { name: 'delete a schedule', weight: 0.3, run: deleteSchedule },
  { name: 'run a schedule', weight: 0.3, run: runSchedule },
  { name: 'backfill a schedule', weight: 0.1, run: backfillSchedule },
];

function anySchedule({ world, chance }: Client): ScheduleReference | null {
  const accepted = [...world.schedules.accepted];
  return accepted.length === 0 ? null : { owner: OWNER, schedule: chance.pick(accepted) };
}

function definition(client: Client): ScheduleDefinition {
  const { chance } = client;
  const { queue, priority, maxAttempts, timeoutS, leaseS, retry } = jobRequest(client, { delayMs: 0 });
  return {
    ...{ queue, priority, maxAttempts, timeoutS, leaseS, retry },
    ...{ payload: '{}', payloadBytes: 2, target: null, labels: {} },
    ...timetable(client),
    onOverlap: chance.pick(Object.values(OnOverlap)),
    onMissed: chance.pick(Object.values(OnMissed)),
    missedLimit: chance.pick([2, 100]),
    missedWindowS: chance.pick([null, null, 120]),
    jitterS: chance.pick([0, 0, 5]),
    maxRuns: chance.happens(0.2) ? 3 : null,
  };
}

function timetable({ world, chance }: Client): TimetableDefinition {
  const now = Math.floor(world.clock.now());
  const common = { onDstGap: null, onDstRepeat: null, startAt: null };
  const endAt = chance.happens(0.3) ? now + chance.whole(MINUTE_MS, 4 * MINUTE_MS) : null;
  if (chance.happens(0.5))
    return { ...common, cron: null, everyS: chance.pick([7, 15, 20, 60]), timeZone: null, endAt };
  const cron = chance.pick(['* * * * *', '*/15 * * * * *', '5,35 * * * * *', 'H/20 * * * * *', '@hourly']);
  return { ...common, cron, everyS: null, timeZone: chance.pick(['UTC', 'Europe/Berlin']), endAt };
}

async function createSchedule(client: Client): Promise<void> {
  const { world, chance } = client;
  if (world.schedules.accepted.size >= SCHEDULES_MAX) return;
  const request = {
    ...{ owner: OWNER, idempotencyKey: null, requestHash: null, traceparent: null },
    definition: definition(client),
  };
  await callApi(world, {
    what: 'create a schedule',
    from: null,
    chance,
    ask: (useCases) => useCases.createSchedule(request),
    promised: (result) => {
      if (result.ok) world.schedules.created(result.value.schedule);
    },
  });
}

async function putSchedule(client: Client): Promise<void> {
  const { world, chance } = client;
  const name = `name-${chance.whole(1, NAMES)}`;
  const request = { owner: OWNER, name, revision: null, definition: definition(client), traceparent: null };
  await callApi(world, {
    what: `put the schedule ${name}`,
    from: null,
    chance,
    ask: (useCases) => useCases.putSchedule(request),
    promised: (result) => {
      if (result.ok) world.schedules.created(result.value.schedule);
    },
  });
}

async function changeSchedule(client: Client): Promise<void> {
  const { world, chance } = client;
  const reference = anySchedule(client);
  if (reference === null) return;
  const wanted = definition(client);
  const isOtherTimetable = chance.happens(0.4);
  await callApi(world, {
    what: `change ${reference.schedule}`,
    from: null,
    chance,
    ask: (useCases) =>
      useCases.changeSchedule({ ...reference, revision: null }, (row) =>
        ok(isOtherTimetable ? wanted : { ...wanted, ...timesOf(row) }),
      ),
    promised: () => undefined,
  });
}

function timesOf({ cron, everyS, timeZone, onDstGap, onDstRepeat, startAt, endAt }: TimetableDefinition) {
  return { cron, everyS, timeZone, onDstGap, onDstRepeat, startAt, endAt };
}

async function pauseSchedule(client: Client): Promise<void> {
  const { world, chance } = client;
  const reference = anySchedule(client);
  if (reference === null) return;
  const until = chance.happens(0.7) ? Math.floor(world.clock.now() + chance.between(5 * SECOND_MS, MINUTE_MS)) : null;
  await callApi(world, {
    what: `pause ${reference.schedule}`,
    from: null,
    chance,
    ask: (useCases) => useCases.pauseSchedule({ ...reference, revision: null }, { reason: null, until }),
    promised: () => undefined,
  });
}

async function resumeSchedule(client: Client): Promise<void> {
  const { world, chance } = client;
  const reference = anySchedule(client);
  if (reference === null) return;
  await callApi(world, {
    what: `resume ${reference.schedule}`,
    from: null,
    chance,
    ask: (useCases) => useCases.resumeSchedule({ ...reference, revision: null }),
    promised: () => undefined,
  });
}

async function skipSlot(client: Client): Promise<void> {
  const { world, chance } = client;
  const reference = anySchedule(client);
  if (reference === null) return;
  await callApi(world, {
    what: `skip the next slot of ${reference.schedule}`,
    from: null,
    chance,
    ask: (useCases) => useCases.skipNextSlot({ ...reference, revision: null }),
    promised: () => undefined,
  });
}

async function deleteSchedule(client: Client): Promise<void> {
  const { world, chance } = client;
  const reference = anySchedule(client);
  if (reference === null) return;
  await callApi(world, {
    what: `delete ${reference.schedule}`,
    from: null,
    chance,
    ask: (useCases) => useCases.deleteSchedule({ ...reference, revision: null }, chance.happens(0.5)),
    promised: (result) => {
      if (result.ok) for (const jobId of result.value.cancelled) world.ledger.cancelled(jobId);
    },
  });
}

async function runSchedule(client: Client): Promise<void> {
  const { world, chance } = client;
  const reference = anySchedule(client);
  if (reference === null) return;
  await callApi(world, {
    what: `run ${reference.schedule}`,
    from: null,
    chance,
    ask: (useCases) => useCases.runSchedule(reference, null),
    promised: (result) => {
      if (result.ok) world.ledger.created(result.value.job, null);
    },
  });
}

async function backfillSchedule(client: Client): Promise<void> {
  const { world, chance } = client;
  const reference = anySchedule(client);
  if (reference === null) return;
  const to = Math.floor(world.clock.now());
  const request = { from: to - MINUTE_MS, to, dryRun: false, idempotencyKey: null, requestHash: null };
  await callApi(world, {
    what: `backfill ${reference.schedule}`,
    from: null,
    chance,
    ask: (useCases) => useCases.backfillSchedule(reference, request),
    promised: (result) => {
      if (!result.ok) return;
      for (const { job } of result.value) if (job?.ok === true) world.ledger.created(job.value.job, null);
    },
  });
}

// The api's use-cases for schedules over stores in memory.

import { AuditTrail } from '../../services/api/use-cases/audit-trail.ts';
import { JobCanceller } from '../../services/api/use-cases/cancel-job.ts';
import { ScheduleChanger } from '../../services/api/use-cases/change-schedule.ts';
import { SchedulesChanger } from '../../services/api/use-cases/change-schedules.ts';
import { ScheduleCreator } from '../../services/api/use-cases/create-schedule.ts';
import { ScheduleFinder } from '../../services/api/use-cases/find-schedules.ts';
import { KeyedCalls } from '../../services/api/use-cases/keyed-calls.ts';
import { ScheduleRunLister } from '../../services/api/use-cases/list-schedule-runs.ts';
import { ScheduleLister } from '../../services/api/use-cases/list-schedules.ts';
import { ScheduleRunner } from '../../services/api/use-cases/run-schedule.ts';
import { ScheduleCohorts } from '../../services/api/use-cases/schedule-cohorts.ts';
import type { ScheduleUseCases } from '../../services/api/use-cases/schedule-types.ts';
import { makeScheduleUseCases } from '../../services/api/use-cases/schedules.ts';
import { COHORT_SIZE, SHARDS_DEFAULT } from '../../services/core/domain/limits.ts';
import { ScheduleWriter } from '../../services/core/moves/write-schedule.ts';
import type { Random } from '../../services/core/ports/random.ts';
import { type CoreBench, jobCreator } from './core-bench.ts';

/** Those of one process: with open cohorts, and by default the chance, of its own. */
export function scheduleUseCases(core: CoreBench, random: Random = core.parts.random): ScheduleUseCases {
  const { parts, stores, clock } = core;
  const { scheduleNames: names, scheduleIndex: index, schedules: reader, keys } = stores;
  const shards = SHARDS_DEFAULT;
  const trail = new AuditTrail({ audit: stores.audit, clock, log: parts.log });
  const writer = new ScheduleWriter({ ...parts, schedules: reader, rounds: parts.scheduleRounds, random });
  const finder = new ScheduleFinder({ reader, names });
  const canceller = new JobCanceller(parts);
  const changer = new ScheduleChanger({ writer, finder, names, index, canceller, trail, clock });
  const lister = new ScheduleLister({ index, reader, clock });
  const keyed = new KeyedCalls(keys, clock);
  const cohorts = new ScheduleCohorts({ random, size: COHORT_SIZE });
  return makeScheduleUseCases({
    finder,
    creator: new ScheduleCreator({
      ...{ writer, changer, finder, names, index, cohorts, keyed, keys, trail, clock, random, shards },
    }),
    changer,
    bulkChanger: new SchedulesChanger({ lister, changer, trail, random, clock }),
    runner: new ScheduleRunner({ finder, creator: jobCreator(core, random), trail, random, clock }),
    lister,
    runLister: new ScheduleRunLister({ finder, runs: stores.scheduleRuns, reader: stores.jobs }),
  });
}

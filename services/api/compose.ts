import { OperationRegister } from '../core/bulk/operation-register.ts';
import { type Foundation, layFoundation, type LayFoundation } from '../core/foundation/foundation.ts';
import { JobMover } from '../core/moves/move-job.ts';
import { RunningSlots } from '../core/queues/running-slots.ts';
import { ReadyDepths } from '../core/queues/ready-depths.ts';
import { ReadySurplus } from '../core/queues/ready-surplus.ts';
import { ScheduleWriter } from '../core/moves/write-schedule.ts';
import type { ServiceContext } from '../core/runtime/run-service.ts';
import { JobIndex } from '../core/scan/job-index.ts';
import { AuditTrail } from './use-cases/audit-trail.ts';
import { JobCanceller } from './use-cases/cancel-job.ts';
import { JobChanger } from './use-cases/change-job.ts';
import { ScheduleChanger } from './use-cases/change-schedule.ts';
import { SchedulesChanger } from './use-cases/change-schedules.ts';
import { JobClaimer } from './use-cases/claim-jobs.ts';
import { ClaimedJobs } from './use-cases/claimed-jobs.ts';
import { JobCreator } from './use-cases/create-job.ts';
import { DryRunner } from './use-cases/dry-run.ts';
import { ScheduleCreator } from './use-cases/create-schedule.ts';
import { ScheduleFinder } from './use-cases/find-schedules.ts';
import { KeyedCalls } from './use-cases/keyed-calls.ts';
import { JobLeaser } from './use-cases/lease-jobs.ts';
import { JobLister } from './use-cases/list-jobs.ts';
import { ScheduleRunLister } from './use-cases/list-schedule-runs.ts';
import { ScheduleLister } from './use-cases/list-schedules.ts';
import { OpenCohorts } from './use-cases/open-cohorts.ts';
import { OperationKeeper } from './use-cases/operations.ts';
import { JobReporter } from './use-cases/report-jobs.ts';
import { QueueCounters } from './use-cases/queue-counters.ts';
import { StartLags } from './use-cases/start-lags.ts';
import { WaitingLimit } from './use-cases/waiting-limit.ts';
import { QueueManager } from './use-cases/manage-queues.ts';
import { ScheduleRunner } from './use-cases/run-schedule.ts';
import { ScheduleCohorts } from './use-cases/schedule-cohorts.ts';
import type { ScheduleUseCases } from './use-cases/schedule-types.ts';
import { makeScheduleUseCases } from './use-cases/schedules.ts';
import type { UseCases } from './use-cases/types.ts';
import { rightClockOnly } from './use-cases/right-clock-only.ts';
import { makeUseCases } from './use-cases/use-cases.ts';
import { JobWriter } from './use-cases/write-job.ts';

export interface ApiParts {
  readonly useCases: UseCases;
  readonly schemaVersion: string;
}

/** Puts the api's use-cases together on the stores and the bus. */
export async function composeUseCases(context: ServiceContext, lay: LayFoundation = layFoundation): Promise<ApiParts> {
  const { config, clock, random, telemetry, log } = context;
  const foundation = await lay(context, {
    busRequired: false,
    // Called with rounds in flight, long after the cohorts are there.
    onRoundStart: (cohort) => {
      cohorts.roundStarts(cohort);
    },
  });
  const { stores, rounds, timers, publisher, ender, overlaps, canceller, unqueuer, queue, gate, writeShards } =
    foundation;
  const book = foundation.queueBook;
  const cohorts = new OpenCohorts({ clock, random, shards: writeShards, size: config.cohortSize });
  const reader = stores.jobs;
  const { history, keys, operations, audit } = stores;
  const keyed = new KeyedCalls(keys, clock);
  const claimed = new ClaimedJobs();
  const shards = writeShards;
  const index = new JobIndex({ timerStore: stores.timers, history, shards });
  const depths = new ReadyDepths({ queue, clock, log });
  const waitingLimit = new WaitingLimit({ book, board: foundation.heldBoard, depths });
  const writer = new JobWriter({
    rounds,
    timers,
    cohorts,
    queue,
    gate,
    waitingLimit,
    publisher,
    clock,
    random,
    log,
    shards,
  });
  const startLags = new StartLags(clock);
  const claimer = new JobClaimer({
    rounds,
    reader,
    timers,
    canceller,
    unqueuer,
    gate,
    slots: new RunningSlots({ store: stores.slots, reader, clock, random, log }),
    surplus: new ReadySurplus({ book, depths, clock }),
    claimed,
    startLags,
    clock,
    random,
    telemetry,
  });
  const counters = new QueueCounters({
    counts: stores.queueCounts,
    queue,
    board: foundation.heldBoard,
    startLags,
    clock,
    shards,
  });
  const trail = new AuditTrail({ audit: stores.audit, clock, log });
  const creator = new JobCreator({ writer, keyed, keys, reader, clock, random, telemetry });
  const jobCanceller = new JobCanceller({ rounds, reader, canceller });
  const useCases = makeUseCases({
    creator,
    canceller: jobCanceller,
    claimer,
    reporter: new JobReporter({
      rounds,
      reader,
      ender,
      overlaps,
      history,
      gate,
      claimed,
      clock,
      random,
      telemetry,
      log,
    }),
    changer: new JobChanger({ reader, mover: new JobMover({ rounds, timers, overlaps }), clock }),
    leaser: new JobLeaser({ queue, reader, claimer, gate, clock }),
    lister: new JobLister({ index, reader }),
    operations: new OperationKeeper({
      store: operations,
      register: new OperationRegister({ store: operations, clock, random }),
      keyed,
      timers,
      audit,
      clock,
      random,
      shards,
    }),
    dryRunner: new DryRunner({ index, reader, clock }),
    reader,
    queues: new QueueManager({ store: stores.queues, book, queue, counters, trail, clock, random }),
    book,
    schedules: composeSchedules({ foundation, context, keyed, creator, canceller: jobCanceller, trail }),
  });
  const { clockGuard, schemaVersion } = foundation;
  return { useCases: rightClockOnly(useCases, () => clockGuard.trusts()), schemaVersion };
}

function composeSchedules(parts: {
  foundation: Foundation;
  context: ServiceContext;
  keyed: KeyedCalls;
  creator: JobCreator;
  canceller: JobCanceller;
  trail: AuditTrail;
}): ScheduleUseCases {
  const { foundation, context, keyed, canceller, trail } = parts;
  const { clock, random, config } = context;
  const { stores, scheduleRounds: rounds, timers, occurrences, timetables, writeShards: shards } = foundation;
  const { scheduleNames: names, scheduleIndex: index, schedules: reader, keys } = stores;
  const writer = new ScheduleWriter({ schedules: reader, rounds, timers, occurrences, timetables, clock, random });
  const finder = new ScheduleFinder({ reader, names });
  const cohorts = new ScheduleCohorts({ random, size: config.cohortSize });
  const changer = new ScheduleChanger({ writer, finder, names, index, canceller, trail, clock });
  const lister = new ScheduleLister({ index, reader, clock });
  return makeScheduleUseCases({
    finder,
    creator: new ScheduleCreator({
      writer,
      changer,
      finder,
      names,
      index,
      cohorts,
      keyed,
      keys,
      trail,
      clock,
      random,
      shards,
    }),
    changer,
    bulkChanger: new SchedulesChanger({ lister, changer, trail, random, clock }),
    runner: new ScheduleRunner({ finder, creator: parts.creator, trail, random, clock }),
    lister,
    runLister: new ScheduleRunLister({ finder, runs: stores.scheduleRuns, reader: stores.jobs }),
  });
}

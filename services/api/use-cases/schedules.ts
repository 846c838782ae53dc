import type { ScheduleChanger } from './change-schedule.ts';
import type { SchedulesChanger } from './change-schedules.ts';
import type { ScheduleCreator } from './create-schedule.ts';
import type { ScheduleFinder } from './find-schedules.ts';
import type { ScheduleRunLister } from './list-schedule-runs.ts';
import type { ScheduleLister } from './list-schedules.ts';
import type { ScheduleRunner } from './run-schedule.ts';
import type { ScheduleUseCases } from './schedule-types.ts';
import { withStore } from './store-problems.ts';

export function makeScheduleUseCases(parts: {
  finder: ScheduleFinder;
  creator: ScheduleCreator;
  changer: ScheduleChanger;
  bulkChanger: SchedulesChanger;
  runner: ScheduleRunner;
  lister: ScheduleLister;
  runLister: ScheduleRunLister;
}): ScheduleUseCases {
  const { finder, creator, changer, bulkChanger, runner, lister, runLister } = parts;
  return {
    createSchedule: (request) => creator.create(request),
    createSchedules: (batch) => creator.createBatch(batch),
    putSchedule: (request) => creator.put(request),
    getSchedule: (reference) => withStore(() => finder.find(reference)),
    changeSchedule: (target, definitionOf) => changer.change(target, definitionOf),
    pauseSchedule: (target, pause) => changer.pause(target, pause),
    resumeSchedule: (target) => changer.resume(target),
    skipNextSlot: (target) => changer.skipNext(target),
    deleteSchedule: (target, cancelPending) => changer.remove(target, cancelPending),
    runSchedule: (reference, key) => runner.runNow(reference, key),
    backfillSchedule: (reference, request) => runner.backfill(reference, request),
    listSchedules: (request) => lister.list(request),
    changeSchedules: (request) => bulkChanger.change(request),
    listScheduleRuns: (reference, request) => runLister.list(reference, request),
  };
}

import { refused, type Problem } from '../../core/contract/problems.ts';
import type { UseCases } from './types.ts';

const WRONG_CLOCK: Problem = {
  code: 'wrong_clock',
  detail: 'The clock of this API process is wrong, so it writes nothing. Ask another one, or come again.',
  retryAfterS: 1,
};

/**
 * Refuses, while this machine's clock is wrong, whatever would write a time or judge one: a job would start early or late,
 * expire unasked, or get a timer where nobody looks. A load balancer learns seconds later that we are unready. Reads go on,
 * and heartbeats too: leases are kept by Cassandra's clock. Every call is named here, so that a new one has to choose.
 */
export function rightClockOnly(useCases: UseCases, isRight: () => boolean): UseCases {
  const no = refused(WRONG_CLOCK);
  return {
    getJob: (jobId) => useCases.getJob(jobId),
    findJobByKey: (owner, key) => useCases.findJobByKey(owner, key),
    listJobs: (request) => useCases.listJobs(request),
    listDeadLetters: (request) => useCases.listDeadLetters(request),
    heartbeatJobs: (items) => useCases.heartbeatJobs(items),
    describeQueue: (queue) => useCases.describeQueue(queue),
    listQueues: (request) => useCases.listQueues(request),
    jobDefaultsOf: (queue) => useCases.jobDefaultsOf(queue),
    dryRun: (task) => useCases.dryRun(task),
    getOperation: (operationId) => useCases.getOperation(operationId),
    listOperations: (request) => useCases.listOperations(request),
    getSchedule: (reference) => useCases.getSchedule(reference),
    listSchedules: (request) => useCases.listSchedules(request),
    listScheduleRuns: (reference, request) => useCases.listScheduleRuns(reference, request),
    createJob: async (request) => (isRight() ? useCases.createJob(request) : no),
    createJobs: async (batch) => (isRight() ? useCases.createJobs(batch) : no),
    cancelJob: async (jobId) => (isRight() ? useCases.cancelJob(jobId) : no),
    requestCancel: async (jobId) => (isRight() ? useCases.requestCancel(jobId) : no),
    changeJob: async (jobId, change) => (isRight() ? useCases.changeJob(jobId, change) : no),
    runJobNow: async (jobId) => (isRight() ? useCases.runJobNow(jobId) : no),
    replayJob: async (jobId, changes) => (isRight() ? useCases.replayJob(jobId, changes) : no),
    leaseJobs: async (request) => (isRight() ? useCases.leaseJobs(request) : no),
    claimJobs: async (items, worker) => (isRight() ? useCases.claimJobs(items, worker) : items.map(() => no)),
    completeJobs: async (items) => (isRight() ? useCases.completeJobs(items) : items.map(() => no)),
    releaseJobs: async (items) => (isRight() ? useCases.releaseJobs(items) : items.map(() => no)),
    changeQueue: async (request) => (isRight() ? useCases.changeQueue(request) : no),
    pauseQueue: async (request) => (isRight() ? useCases.pauseQueue(request) : no),
    resumeQueue: async (queue) => (isRight() ? useCases.resumeQueue(queue) : no),
    createSchedule: async (request) => (isRight() ? useCases.createSchedule(request) : no),
    createSchedules: async (batch) => (isRight() ? useCases.createSchedules(batch) : no),
    putSchedule: async (request) => (isRight() ? useCases.putSchedule(request) : no),
    changeSchedule: async (target, definitionOf) => (isRight() ? useCases.changeSchedule(target, definitionOf) : no),
    pauseSchedule: async (target, pause) => (isRight() ? useCases.pauseSchedule(target, pause) : no),
    resumeSchedule: async (target) => (isRight() ? useCases.resumeSchedule(target) : no),
    skipNextSlot: async (target) => (isRight() ? useCases.skipNextSlot(target) : no),
    deleteSchedule: async (target, cancel) => (isRight() ? useCases.deleteSchedule(target, cancel) : no),
    runSchedule: async (reference, key) => (isRight() ? useCases.runSchedule(reference, key) : no),
    backfillSchedule: async (reference, range) => (isRight() ? useCases.backfillSchedule(reference, range) : no),
    changeSchedules: async (request) => (isRight() ? useCases.changeSchedules(request) : no),
    startOperation: async (request) => (isRight() ? useCases.startOperation(request) : no),
    stopOperation: async (operationId, owner) => (isRight() ? useCases.stopOperation(operationId, owner) : no),
  };
}

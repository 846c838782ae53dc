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
 * and heartbeats too: leases are kept by Cassandra's clock.
 */
export function rightClockOnly(useCases: UseCases, isRight: () => boolean): UseCases {
  const no = refused(WRONG_CLOCK);
  return {
    ...useCases,
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
  };
}

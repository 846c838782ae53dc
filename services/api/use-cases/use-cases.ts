import { ok, refused } from '../../core/contract/problems.ts';
import { jobDefaultsOf } from '../../core/domain/queue-settings.ts';
import type { JobReader } from '../../core/ports/job-store.ts';
import type { QueueBook } from '../../core/queues/queue-book.ts';
import type { JobCanceller } from './cancel-job.ts';
import type { JobChanger } from './change-job.ts';
import type { JobClaimer } from './claim-jobs.ts';
import type { JobCreator } from './create-job.ts';
import type { DryRunner } from './dry-run.ts';
import type { JobLeaser } from './lease-jobs.ts';
import type { JobLister } from './list-jobs.ts';
import type { QueueManager } from './manage-queues.ts';
import type { OperationKeeper } from './operations.ts';
import { RepeatableLeases } from './repeatable-leases.ts';
import type { JobReporter } from './report-jobs.ts';
import type { ScheduleUseCases } from './schedule-types.ts';
import { withStore } from './store-problems.ts';
import type { UseCases } from './types.ts';
import { jobNotFound } from './worker-refusals.ts';

export function makeUseCases(parts: {
  creator: JobCreator;
  canceller: JobCanceller;
  claimer: JobClaimer;
  reporter: JobReporter;
  changer: JobChanger;
  leaser: JobLeaser;
  lister: JobLister;
  operations: OperationKeeper;
  dryRunner: DryRunner;
  reader: JobReader;
  queues: QueueManager;
  book: QueueBook;
  schedules: ScheduleUseCases;
}): UseCases {
  const {
    creator,
    canceller,
    claimer,
    reporter,
    changer,
    leaser,
    lister,
    operations,
    dryRunner,
    reader,
    queues,
    book,
    schedules,
  } = parts;
  const leases = new RepeatableLeases({ leaser, claimer });
  return {
    ...schedules,
    createJob: (request) => creator.create(request),
    findJobByKey: (owner, key) => creator.findByKey(owner, key),
    createJobs: (batch) => creator.createBatch(batch),
    requestCancel: (jobId) => canceller.request(jobId),
    changeJob: (jobId, change) => changer.change(jobId, change),
    runJobNow: (jobId) => changer.runNow(jobId),
    replayJob: (jobId, changes) => changer.replay(jobId, changes),
    releaseJobs: (items) => reporter.release(items),
    leaseJobs: (request) => leases.lease(request),
    listJobs: (request) => lister.list(request),
    listDeadLetters: (request) => lister.listDeadLetters(request),
    startOperation: (request) => operations.start(request),
    dryRun: (task) => dryRunner.run(task),
    getOperation: (operationId) => operations.get(operationId),
    listOperations: (request) => operations.list(request),
    stopOperation: (operationId, owner) => operations.stop(operationId, owner),
    cancelJob: (jobId) => canceller.cancel(jobId),
    claimJobs: (items, worker) => claimer.claim(items, worker),
    heartbeatJobs: (items) => reporter.heartbeat(items),
    completeJobs: (items) => reporter.report(items),
    getJob: (jobId) =>
      withStore(async () => {
        const row = (await reader.read([jobId])).get(jobId);
        return row === undefined ? refused(jobNotFound(jobId)) : ok(row);
      }),
    describeQueue: (queue) => queues.describe(queue),
    listQueues: (request) => queues.list(request),
    changeQueue: (request) => queues.change(request),
    pauseQueue: (request) => queues.pause(request),
    resumeQueue: (queue) => queues.resume(queue),
    jobDefaultsOf: (queue) => jobDefaultsOf(book.settingsOf(queue)),
  };
}

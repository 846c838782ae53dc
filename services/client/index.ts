export {
  type ChangeOptions,
  type ClientOptions,
  type CreateOptions,
  type ItemResult,
  PunctualClient,
} from './client.ts';
export { type ProblemDetails, PunctualError, RefusedError, UnansweredError } from './errors.ts';
export { AttemptAborted, type AbortCause, JobFailure, Snooze } from './failures.ts';
export type * from './types.ts';
export { type JobContext, type JobHandler, Worker, type WorkerOptions } from './worker.ts';
export type { WorkerLog } from './worker-log.ts';

/** The six states of a job; each comment says who moves it on. */
export const JobStatus = {
  /** Waits for run_at. The dispatcher (due row) moves it, a caller may cancel it. */
  scheduled: 'scheduled',
  /** Its ready message is, or will be, on the ready stream. A worker's claim moves it. */
  enqueued: 'enqueued',
  /** Claimed. The worker's report moves it, or the reaper when the lease or the time limit is over. */
  running: 'running',
  succeeded: 'succeeded',
  cancelled: 'cancelled',
  /** Out of tries, or not retryable. Only a replay moves it. */
  dead: 'dead',
} as const;
export type JobStatus = (typeof JobStatus)[keyof typeof JobStatus];

export const JOB_STATUSES: readonly JobStatus[] = Object.values(JobStatus);

export function isTerminal(status: JobStatus): boolean {
  return status === JobStatus.succeeded || status === JobStatus.cancelled || status === JobStatus.dead;
}

export const Priority = { high: 'high', normal: 'normal', low: 'low' } as const;
export type Priority = (typeof Priority)[keyof typeof Priority];
/** In the order in which a worker takes them. */
export const PRIORITIES: readonly Priority[] = [Priority.high, Priority.normal, Priority.low];

/** What the ready messages of a queue and priority are kept by in maps: they have one subject. */
export function subjectKey({ queue, priority }: { readonly queue: string; readonly priority: Priority }): string {
  return `${queue} ${priority}`;
}

/** How an attempt ended, as written to the history on the job row. */
export const Outcome = {
  succeeded: 'succeeded',
  failed: 'failed',
  leaseExpired: 'lease_expired',
  timedOut: 'timed_out',
  snoozed: 'snoozed',
  released: 'released',
  cancelled: 'cancelled',
} as const;
export type Outcome = (typeof Outcome)[keyof typeof Outcome];

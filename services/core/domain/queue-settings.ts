import type { JobRow, RetryPolicy } from './job.ts';
import {
  DEAD_RETENTION_DEFAULT_DAYS,
  LEASE_DEFAULT_S,
  MAX_ATTEMPTS_DEFAULT,
  RETENTION_DEFAULT_DAYS,
  RETRY_BASE_DEFAULT_S,
  RETRY_CAP_DEFAULT_S,
  RETRY_FACTOR_DEFAULT,
  TIMEOUT_DEFAULT_S,
  QUEUE_RAMP_START_PERCENT,
  READY_AHEAD_MS,
  READY_KEPT_MORE,
  READY_KEPT_TIMES,
  READY_MAX_DEFAULT,
  SECOND_MS,
} from './limits.ts';
import type { EpochMs } from './time.ts';

/** What somebody set for a queue; null: the default. Every queue exists: one without a row has nothing but defaults. */
export interface QueueSettings {
  readonly queue: string;
  /** Starts per second; null: unlimited. */
  readonly ratePerS: number | null;
  /** Starts at once after a quiet time; null: one second of the rate. */
  readonly burst: number | null;
  /** After a resume the rate grows to its full height over so long. */
  readonly rampS: number | null;
  /** Running at once, over all workers; null: unlimited. */
  readonly maxRunning: number | null;
  /** Handed to the ready stream and not claimed yet. */
  readonly readyMax: number | null;
  /** Due and not started: beyond it creates are refused; null: unlimited. */
  readonly maxWaiting: number | null;
  /** What a create that names none gets. */
  readonly maxAttempts: number | null;
  readonly timeoutS: number | null;
  readonly leaseS: number | null;
  readonly retry: RetryPolicy | null;
  /** How long jobs that succeeded or were cancelled are kept, and the history of all. */
  readonly retentionDays: number | null;
  /** How long dead jobs and their letters are kept. */
  readonly deadRetentionDays: number | null;
  readonly pause: QueuePause | null;
  readonly resumedAt: EpochMs | null;
  /** +1 per change; 0: never configured. */
  readonly revision: number;
  /** Null: never configured. */
  readonly createdAt: EpochMs | null;
  readonly updatedAt: EpochMs | null;
}

export interface QueuePause {
  readonly at: EpochMs;
  readonly reason: string | null;
  /** It ends by itself then; null: when somebody resumes the queue. */
  readonly until: EpochMs | null;
}

export function defaultSettings(queue: string): QueueSettings {
  return {
    queue,
    ratePerS: null,
    burst: null,
    rampS: null,
    maxRunning: null,
    readyMax: null,
    maxWaiting: null,
    maxAttempts: null,
    timeoutS: null,
    leaseS: null,
    retry: null,
    retentionDays: null,
    deadRetentionDays: null,
    pause: null,
    resumedAt: null,
    revision: 0,
    createdAt: null,
    updatedAt: null,
  };
}

export type JobDefaults = Pick<JobRow, 'maxAttempts' | 'timeoutS' | 'leaseS' | 'retry'>;

export const JOB_DEFAULTS: JobDefaults = {
  maxAttempts: MAX_ATTEMPTS_DEFAULT,
  timeoutS: TIMEOUT_DEFAULT_S,
  leaseS: LEASE_DEFAULT_S,
  retry: {
    kind: 'exponential',
    baseS: RETRY_BASE_DEFAULT_S,
    factor: RETRY_FACTOR_DEFAULT,
    capS: RETRY_CAP_DEFAULT_S,
    jitter: 'equal',
  },
};

/** What a job gets in this queue where its request names nothing. */
export function jobDefaultsOf({ maxAttempts, timeoutS, leaseS, retry }: QueueSettings): JobDefaults {
  return {
    maxAttempts: maxAttempts ?? JOB_DEFAULTS.maxAttempts,
    timeoutS: timeoutS ?? JOB_DEFAULTS.timeoutS,
    leaseS: leaseS ?? JOB_DEFAULTS.leaseS,
    retry: retry ?? JOB_DEFAULTS.retry,
  };
}

export function isPaused({ pause }: QueueSettings, now: EpochMs): boolean {
  return pause !== null && (pause.until === null || pause.until > now);
}

/** Starts per second that the queue may have now; null: unlimited, 0: paused. */
export function rateAt(settings: QueueSettings, now: EpochMs): number | null {
  if (isPaused(settings, now)) return 0;
  const { ratePerS, rampS } = settings;
  const resumedAt = lastResume(settings);
  if (ratePerS === null || rampS === null || resumedAt === null) return ratePerS;
  const share = (now - resumedAt) / (rampS * SECOND_MS);
  return ratePerS * Math.min(1, Math.max(QUEUE_RAMP_START_PERCENT / 100, share));
}

/** At least one: a bucket that holds less than a job never gives one. */
export function burstOf({ burst, ratePerS }: QueueSettings): number {
  return Math.max(1, burst ?? ratePerS ?? 1);
}

/** How many jobs of a queue with a rate dispatchers let wait for a claim, so that workers find some; null: it has no rate. */
export function readyAheadOf(settings: QueueSettings): number | null {
  const { ratePerS } = settings;
  if (ratePerS === null) return null;
  return Math.ceil(Math.max(burstOf(settings), (ratePerS * READY_AHEAD_MS) / SECOND_MS));
}

/** How many of them may wait in the ready stream before claims take some back; null: it has no rate, so all of them. */
export function readyKeptOf(settings: QueueSettings): number | null {
  const ahead = readyAheadOf(settings);
  return ahead === null ? null : READY_KEPT_TIMES * ahead + READY_KEPT_MORE;
}

export function readyMaxOf({ readyMax }: QueueSettings): number {
  return readyMax ?? READY_MAX_DEFAULT;
}

/** How long what has ended is kept, counted from its end. */
export interface RetentionTerms {
  /** Jobs that succeeded or were cancelled, and the history of all. */
  readonly finishedDays: number;
  /** Dead jobs and their letters. */
  readonly deadDays: number;
}

export const RETENTION_DEFAULT: RetentionTerms = {
  finishedDays: RETENTION_DEFAULT_DAYS,
  deadDays: DEAD_RETENTION_DEFAULT_DAYS,
};

export function retentionOf({ retentionDays, deadRetentionDays }: QueueSettings): RetentionTerms {
  return {
    finishedDays: retentionDays ?? RETENTION_DEFAULT.finishedDays,
    deadDays: deadRetentionDays ?? RETENTION_DEFAULT.deadDays,
  };
}

/** A pause that ended by itself counts as a resume at its end. */
function lastResume({ pause, resumedAt }: QueueSettings): EpochMs | null {
  return pause?.until ?? resumedAt;
}

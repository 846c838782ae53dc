// What the tour sends, and how each of its jobs should end.

export type Ending = 'succeeded' | 'dead' | 'cancelled';

export interface TourJob {
  readonly what: string;
  readonly body: (now: number) => Readonly<Record<string, unknown>>;
  readonly ends: Ending;
  readonly attempts: number;
  /** Deleted as soon as it is accepted. */
  readonly deleted?: boolean;
}

export const QUEUE = 'tour';
export const BURST_JOBS = 200;
const BURST_IN_S = 6;
const quickRetry = { kind: 'fixed', base_s: 0.5, jitter: 'none' };

export const TOUR_JOBS: readonly TourJob[] = [
  { what: 'now', body: () => ({ payload: { work_ms: 50 } }), ends: 'succeeded', attempts: 1 },
  { what: 'after 2 s', body: () => ({ delay_s: 2 }), ends: 'succeeded', attempts: 1 },
  {
    what: 'at a time',
    body: (now) => ({ run_at: new Date(now + 4_000).toISOString() }),
    ends: 'succeeded',
    attempts: 1,
  },
  {
    what: 'fails twice',
    body: () => ({ delay_s: 1, payload: { fail_until_attempt: 3 }, retry: quickRetry }),
    ends: 'succeeded',
    attempts: 3,
  },
  {
    what: 'fails always',
    body: () => ({ delay_s: 1, payload: { fail: true }, max_attempts: 2, retry: quickRetry }),
    ends: 'dead',
    attempts: 2,
  },
  { what: 'cancelled', body: () => ({ delay_s: 60 }), ends: 'cancelled', attempts: 0, deleted: true },
];

/** Jobs of the burst are all due at the same moment. */
export function burstBody(now: number): Readonly<Record<string, unknown>> {
  return { run_at: new Date(now + BURST_IN_S * 1_000).toISOString() };
}

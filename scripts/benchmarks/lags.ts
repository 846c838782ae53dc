// How long after their time jobs were started.

import type { Starts } from './worker-program.ts';

export interface Start {
  readonly jobId: string;
  readonly queue: string;
  /** The worker's clock at handler start. */
  readonly startedAt: number;
  readonly scheduledFor: number;
}

export interface Lags {
  readonly p50_ms: number;
  readonly p99_ms: number;
  readonly max_ms: number;
  readonly jobs: number;
}

export function startsOf({ jobIds, startedAt, scheduledFor, queueOf, queues }: Starts): readonly Start[] {
  return jobIds.map((jobId, index) => ({
    jobId,
    queue: queues[queueOf[index] ?? 0] ?? '',
    startedAt: startedAt[index] ?? NaN,
    scheduledFor: scheduledFor[index] ?? NaN,
  }));
}

export function lagsOf(starts: readonly Start[]): Lags {
  return summarise(starts.map(({ startedAt, scheduledFor }) => startedAt - scheduledFor));
}

export function summarise(lags: readonly number[]): Lags {
  const sorted = lags.toSorted((a, b) => a - b);
  const at = (share: number): number => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? NaN;
  return { p50_ms: at(0.5), p99_ms: at(0.99), max_ms: at(1), jobs: sorted.length };
}

/** Who of the jobs was started how often. */
export function startFaults(
  jobIds: readonly string[],
  starts: readonly Start[],
): Record<'never' | 'twice' | 'unasked', number> {
  const started = new Map<string, number>();
  for (const { jobId } of starts) started.set(jobId, (started.get(jobId) ?? 0) + 1);
  const asked = new Set(jobIds);
  return {
    never: jobIds.filter((jobId) => !started.has(jobId)).length,
    twice: [...started.values()].filter((times) => times > 1).length,
    unasked: [...started.keys()].filter((jobId) => !asked.has(jobId)).length,
  };
}

import { occurrenceOf } from '../domain/ids.ts';
import type { JobRow } from '../domain/job.ts';
import { isTerminal, JobStatus } from '../domain/job-status.ts';
import { OnOverlap } from '../domain/schedule.ts';
import type { Clock } from '../ports/clock.ts';
import type { JobReader } from '../ports/job-store.ts';
import type { ScheduleReader } from '../ports/schedule-store.ts';
import type { Log } from '../ports/telemetry.ts';
import type { Timers } from '../timers/timers.ts';
import { dueEntryOf } from './end-attempt.ts';

/** What whoever ends jobs knows of occurrences that wait for one of them. */
export type Successors = Pick<OverlapQueue, 'hurryAfter'>;

/**
 * Occurrences that wait until the one before has ended. Their timers look after them in any case (settle); whoever ends an
 * occurrence hurries the next.
 */
export class OverlapQueue {
  readonly #reader: JobReader;
  readonly #schedules: ScheduleReader;
  readonly #timers: Timers;
  readonly #clock: Clock;
  readonly #log: Log;

  constructor(parts: { reader: JobReader; schedules: ScheduleReader; timers: Timers; clock: Clock; log: Log }) {
    this.#reader = parts.reader;
    this.#schedules = parts.schedules;
    this.#timers = parts.timers;
    this.#clock = parts.clock;
    this.#log = parts.log;
  }

  /** Whether the occurrence still has to wait. Throws StoreError. */
  async isBlocked({ waitsFor }: Pick<JobRow, 'waitsFor'>): Promise<boolean> {
    const before = waitsFor === null ? null : await this.#find(waitsFor);
    const awaited = before === null ? null : await this.lastToRun(before);
    return awaited !== null && !isTerminal(awaited.status);
  }

  /**
   * Whose end the occurrence after this one has to wait for. One that never ran ended without its own turn, so what it waited
   * for may still run. Null: that is gone by retention, hence ended long ago. Throws StoreError.
   */
  async lastToRun(occurrence: JobRow): Promise<JobRow | null> {
    const seen = new Set<string>();
    let row: JobRow | null = occurrence;
    while (row !== null && isTerminal(row.status) && row.attempt === 0 && row.waitsFor !== null) {
      if (seen.has(row.jobId)) break;
      seen.add(row.jobId);
      row = await this.#find(row.waitsFor);
    }
    return row;
  }

  /** Its turn has come: due now, by the dispatcher, as any other job of its queue. Throws StoreError. */
  async release(row: JobRow): Promise<void> {
    const { entries } = await this.#timers.armDue([dueEntryOf(row, Math.max(row.runAt, this.#clock.now()))]);
    this.#timers.hint(entries);
  }

  /** Of those in the order of their slots, the ones that wait, from the first on: the rest is not read. Throws StoreError. */
  async stillWaiting(jobIds: readonly string[]): Promise<readonly string[]> {
    for (let from = 0; from < jobIds.length; from += READ_MAX) {
      const rows = await this.#reader.read(jobIds.slice(from, from + READ_MAX));
      const first = jobIds.findIndex((jobId, index) => index >= from && waits(rows.get(jobId)));
      if (first !== -1) return jobIds.slice(first);
    }
    return [];
  }

  async #find(jobId: string): Promise<JobRow | null> {
    return (await this.#reader.read([jobId])).get(jobId) ?? null;
  }

  /**
   * A job has ended: starts the occurrence that waits for it, if there is one. Never rejects.
   * @param onOverlap the job's own; undefined: not known.
   */
  async hurryAfter({ jobId, onOverlap }: { jobId: string; onOverlap: OnOverlap | null | undefined }): Promise<void> {
    const of = occurrenceOf(jobId);
    if (of === null || onOverlap === OnOverlap.skip || onOverlap === OnOverlap.allow) return;
    try {
      const schedule = (await this.#schedules.read([of.scheduleId])).get(of.scheduleId);
      const waiting = schedule?.waiting ?? [];
      const next = waiting[waiting.indexOf(jobId) + 1];
      const row = next === undefined ? null : await this.#find(next);
      if (row !== null && waits(row) && !(await this.isBlocked(row))) await this.release(row);
    } catch (error) {
      this.#log.warn('the next occurrence could not be hurried; its timer will', {
        job_id: jobId,
        error: String(error),
      });
    }
  }
}

const READ_MAX = 10;

function waits(row: JobRow | undefined): boolean {
  return row?.status === JobStatus.scheduled && row.waitsFor !== null;
}

import type { BulkOperation } from '../domain/bulk.ts';
import {
  Damage,
  endedEarly,
  historyFaults,
  lookSoon,
  namedOccurrences,
  needOfJob,
  needOfOperation,
  needOfRecord,
  needOfSchedule,
  owesDeadLetter,
  owesRecord,
  repairOfJob,
  repairOfSchedule,
  type CheckedJob,
  type Finding,
} from '../domain/fsck.ts';
import type { RetentionTerms } from '../domain/queue-settings.ts';
import type { ScheduleRow } from '../domain/schedule.ts';
import { timetableOf } from '../domain/timetable.ts';
import type { Clock } from '../ports/clock.ts';
import type { EndPlace, RingStore } from '../ports/ring-store.ts';
import type { TimerSearch } from './timer-search.ts';

export interface ExaminerParts {
  readonly ring: Pick<RingStore, 'recordedEnds' | 'deadLetters' | 'existingJobs'>;
  readonly search: TimerSearch;
  readonly clock: Clock;
  readonly shards: number;
  readonly retentionOf: (queue: string) => RetentionTerms;
}

const NO_TIMER = 'no due, held or deadline row will still be read';

/** What is wrong with rows as they were read just now. All methods throw StoreError. */
export class Examiner {
  readonly #parts: ExaminerParts;

  constructor(parts: ExaminerParts) {
    this.#parts = parts;
  }

  async jobs(jobs: readonly CheckedJob[]): Promise<readonly Finding[]> {
    const unread = jobs.filter(({ shard }) => !this.#isRead(shard));
    const read = jobs.filter(({ shard }) => this.#isRead(shard));
    return [
      ...unread.map(({ jobId, shard }) => this.#shardUnread(jobId, shard)),
      ...jobs.flatMap(faultsOf),
      ...(await this.#withoutTimer(read)),
      ...(await this.#unrecorded(read)),
      ...(await this.#withoutDeadLetter(jobs)),
    ];
  }

  async schedules(rows: readonly ScheduleRow[]): Promise<readonly Finding[]> {
    const now = this.#parts.clock.now();
    const unread = rows.filter(({ shard }) => !this.#isRead(shard));
    const live = rows.filter(({ shard }) => this.#isRead(shard));
    const needs = live.map(needOfSchedule).filter((need) => need !== null);
    const unserved = new Set((await this.#parts.search.unserved(needs)).map(({ id }) => id));
    return [
      ...unread.map(({ scheduleId, shard }) => this.#shardUnread(scheduleId, shard)),
      ...live
        .filter(({ scheduleId }) => unserved.has(scheduleId))
        .map((row): Finding => ({
          damage: Damage.scheduleWithoutWakeUp,
          subject: row.scheduleId,
          shard: row.shard,
          detail: `next run ${timeText(row.nextRunAt)}: no wake-up row will still be read`,
          repair: repairOfSchedule(row, now),
        })),
      ...rows
        .filter((row) => endedEarly(row, timetableOf(row, row.scheduleId), now))
        .map(({ scheduleId, shard }): Finding => ({
          damage: Damage.scheduleEndedEarly,
          subject: scheduleId,
          shard,
          detail: 'it has no next_run_at, and its timetable names more slots',
          repair: null,
        })),
      ...(await this.#withoutOccurrence(rows)),
    ];
  }

  async operations(operations: readonly BulkOperation[]): Promise<readonly Finding[]> {
    const { search, clock, shards } = this.#parts;
    const needs = operations.map((operation) => needOfOperation(operation, shards)).filter((need) => need !== null);
    const now = clock.now();
    return (await search.unserved(needs)).map(({ id, shard }) => ({
      damage: Damage.operationWithoutTimer,
      subject: id,
      shard,
      detail: 'it has not ended, and no deadline row will still be read',
      repair: lookSoon(id, shard, now),
    }));
  }

  async #withoutTimer(jobs: readonly CheckedJob[]): Promise<readonly Finding[]> {
    const byId = new Map(jobs.map((job) => [job.jobId, job]));
    const unserved = await this.#parts.search.unserved(jobs.map(needOfJob).filter((need) => need !== null));
    const now = this.#parts.clock.now();
    return unserved.flatMap(({ id }): readonly Finding[] => {
      const job = byId.get(id);
      if (job === undefined) return [];
      const detail = `${job.status}, run_at ${timeText(job.runAt)}: ${NO_TIMER}`;
      const { jobId: subject, shard } = job;
      return [{ damage: Damage.jobWithoutTimer, subject, shard, detail, repair: repairOfJob(job, now) }];
    });
  }

  /**
   * Ends that no audit by time finds and that no timer will still record. What was recorded while the timers were searched is seen
   * by the second look at the history: a timer is passed only when its job's end is recorded.
   */
  async #unrecorded(jobs: readonly CheckedJob[]): Promise<readonly Finding[]> {
    const { ring, search, clock, retentionOf } = this.#parts;
    const owing = jobs.filter((job) => owesRecord(job, retentionOf(job.queue), clock.now()));
    const recorded = await ring.recordedEnds(owing.map(endOf));
    const missing = owing.filter(({ jobId }) => !recorded.has(jobId));
    if (missing.length === 0) return [];
    const unserved = new Set((await search.unserved(missing.map(needOfRecord))).map(({ id }) => id));
    const late = missing.filter(({ jobId }) => unserved.has(jobId));
    const recordedSince = await ring.recordedEnds(late.map(endOf));
    return late
      .filter(({ jobId }) => !recordedSince.has(jobId))
      .map(({ jobId, shard, status, finishedAt }) => ({
        damage: Damage.endNotRecorded,
        subject: jobId,
        shard,
        detail: `${status} at ${timeText(finishedAt)}: job_history has no row of it`,
        repair: lookSoon(jobId, shard, clock.now()),
      }));
  }

  async #withoutDeadLetter(jobs: readonly CheckedJob[]): Promise<readonly Finding[]> {
    const { ring, clock, retentionOf } = this.#parts;
    const dead = jobs.filter((job) => owesDeadLetter(job, retentionOf(job.queue), clock.now()));
    const listed = await ring.deadLetters(dead.map(endOf));
    return dead
      .filter(({ jobId }) => !listed.has(jobId))
      .map(({ jobId, shard, finishedAt }) => ({
        damage: Damage.deadLetterMissing,
        subject: jobId,
        shard,
        detail: `dead at ${timeText(finishedAt)}: dead_letters has no row of it`,
        repair: null,
      }));
  }

  async #withoutOccurrence(rows: readonly ScheduleRow[]): Promise<readonly Finding[]> {
    const { ring, clock, retentionOf } = this.#parts;
    const now = clock.now();
    const named = rows.map((row) => ({ row, jobIds: namedOccurrences(row, retentionOf(row.queue), now) }));
    const existing = await ring.existingJobs(named.flatMap(({ jobIds }) => jobIds));
    return named.flatMap(({ row: { scheduleId, shard }, jobIds }) =>
      jobIds
        .filter((jobId) => !existing.has(jobId))
        .map((jobId): Finding => ({
          damage: Damage.occurrenceMissing,
          subject: scheduleId,
          shard,
          detail: `${jobId}, which it ran last, is not there`,
          repair: null,
        })),
    );
  }

  #isRead(shard: number): boolean {
    return shard >= 0 && shard < this.#parts.shards;
  }

  #shardUnread(subject: string, shard: number): Finding {
    const detail = `there are ${this.#parts.shards} shards`;
    return { damage: Damage.shardUnread, subject, shard, detail, repair: null };
  }
}

function faultsOf(job: CheckedJob): readonly Finding[] {
  const { jobId: subject, shard } = job;
  return historyFaults(job).map((detail) => ({
    damage: Damage.historyAgainstStatus,
    subject,
    shard,
    detail,
    repair: null,
  }));
}

function endOf({ jobId, queue, finishedAt }: CheckedJob): EndPlace {
  return { queue, at: finishedAt ?? 0, jobId };
}

function timeText(at: number | null): string {
  return at === null ? 'never' : new Date(at).toISOString();
}

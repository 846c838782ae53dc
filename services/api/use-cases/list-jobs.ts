import { ok, type Result } from '../../core/contract/problems.ts';
import { bucketEnd, bucketOf } from '../../core/domain/bucket.ts';
import { isJobId } from '../../core/domain/ids.ts';
import type { JobRow } from '../../core/domain/job.ts';
import { JobStatus } from '../../core/domain/job-status.ts';
import { DAY_MS } from '../../core/domain/limits.ts';
import type { DueEntry } from '../../core/domain/operation.ts';
import type { EpochMs } from '../../core/domain/time.ts';
import type { DeadLetter, HistoryStore } from '../../core/ports/history-store.ts';
import type { JobReader } from '../../core/ports/job-store.ts';
import type { TimerStore } from '../../core/ports/timer-store.ts';
import { withStore } from './store-problems.ts';
import type { DeadLetterPage, JobPage, ListDeadLetters, ListJobs, ListPosition } from './types.ts';

export interface ListJobsParts {
  readonly timerStore: TimerStore;
  readonly history: HistoryStore;
  readonly reader: JobReader;
  readonly shards: number;
}

/** Minutes read for one page, 64 partitions each: then the page ends, however short it is. */
const MINUTES_PER_PAGE_MAX = 30;

/** Lists from the time index that the due rows are, and from the dead letters; the job's own row has the last word. */
export class JobLister {
  readonly #parts: ListJobsParts;

  constructor(parts: ListJobsParts) {
    this.#parts = parts;
  }

  list(request: ListJobs): Promise<Result<JobPage>> {
    return withStore(async () => {
      const { from, to, pageSize } = request;
      const jobs: JobRow[] = [];
      let position: ListPosition = request.after ?? { runAt: from, jobId: '' };
      for (let minutes = 0; minutes < MINUTES_PER_PAGE_MAX && position.runAt < to; minutes += 1) {
        const room = pageSize - jobs.length;
        const candidates = await this.#candidates(request, position, room);
        jobs.push(...(await this.#matching(request, candidates)));
        const last = candidates.at(-1);
        // As many as were asked for: the minute may have more.
        position =
          last !== undefined && candidates.length >= room
            ? { runAt: last.runAt, jobId: last.jobId }
            : { runAt: bucketEnd(bucketOf(position.runAt)), jobId: '' };
        if (jobs.length >= pageSize) break;
      }
      return ok({ jobs, next: position.runAt < to ? position : null });
    });
  }

  listDeadLetters(request: ListDeadLetters): Promise<Result<DeadLetterPage>> {
    return withStore(async () => {
      const { queue, from, to, pageSize, after } = request;
      const deadLetters: DeadLetter[] = [];
      let start = after === null ? from : after.deadAt;
      for (; start < to; start = Math.floor(start / DAY_MS) * DAY_MS + DAY_MS) {
        for await (const page of this.#parts.history.readDeadLetters({ queue, from: start, to })) {
          const rows = page.filter(
            (row) => after === null || isAfter(row.deadAt, row.jobId, after.deadAt, after.jobId),
          );
          const stillDead = await this.#stillDead(rows);
          for (const row of rows) {
            if (!stillDead.has(row.jobId)) continue;
            deadLetters.push(row);
            if (deadLetters.length >= pageSize) {
              return ok({ deadLetters, next: { deadAt: row.deadAt, jobId: row.jobId } });
            }
          }
        }
      }
      return ok({ deadLetters, next: null });
    });
  }

  /** The queue's next due rows of the position's minute, over all shards, in order; at most `most` of them. */
  async #candidates({ queue, to }: ListJobs, position: ListPosition, most: number): Promise<readonly DueEntry[]> {
    const bucket = bucketOf(position.runAt);
    const last = Math.min(to - 1, bucketEnd(bucket) - 1);
    const perShard = await Promise.all(
      Array.from({ length: this.#parts.shards }, async (_, shard) => {
        const found: DueEntry[] = [];
        for await (const page of this.#parts.timerStore.readDue({ shard, bucket, from: position.runAt, to: last })) {
          const rows = page.filter(
            (row) =>
              row.queue === queue &&
              isJobId(row.jobId) &&
              isAfter(row.runAt, row.jobId, position.runAt, position.jobId),
          );
          found.push(...rows);
          // No shard can give more than all of the page.
          if (found.length >= most) break;
        }
        return found.slice(0, most);
      }),
    );
    return perShard
      .flat()
      .sort((one, other) => one.runAt - other.runAt || (one.jobId < other.jobId ? -1 : 1))
      .slice(0, most);
  }

  /** A job stands where its run_at is now; older due rows of it are stale. */
  async #matching({ status, label }: ListJobs, candidates: readonly DueEntry[]): Promise<readonly JobRow[]> {
    const rows = await this.#parts.reader.read(candidates.map((row) => row.jobId));
    return candidates.flatMap((candidate) => {
      const row = rows.get(candidate.jobId);
      if (row === undefined || row.runAt !== candidate.runAt || row.queue !== candidate.queue) return [];
      if (status !== null && row.status !== status) return [];
      if (label !== null && row.labels[label.name] !== label.value) return [];
      return [row];
    });
  }

  /** A dead letter is written before its round, which may have lost; and a replayed job is dead no longer. */
  async #stillDead(letters: readonly DeadLetter[]): Promise<ReadonlySet<string>> {
    const rows = await this.#parts.reader.read(letters.map((letter) => letter.jobId));
    const dead = letters.filter((letter) => {
      const row = rows.get(letter.jobId);
      return row?.status === JobStatus.dead && row.finishedAt === letter.deadAt;
    });
    return new Set(dead.map((letter) => letter.jobId));
  }
}

function isAfter(at: EpochMs, jobId: string, positionAt: EpochMs, positionId: string): boolean {
  return at > positionAt || (at === positionAt && jobId > positionId);
}

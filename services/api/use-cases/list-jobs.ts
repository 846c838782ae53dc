import { ok, type Result } from '../../core/contract/problems.ts';
import type { JobRow } from '../../core/domain/job.ts';
import { JobStatus } from '../../core/domain/job-status.ts';
import { ANSWER_MAX_BYTES } from '../../core/domain/limits.ts';
import type { DueEntry } from '../../core/domain/operation.ts';
import type { DeadLetter } from '../../core/ports/history-store.ts';
import type { JobReader } from '../../core/ports/job-store.ts';
import type { IndexPosition, JobIndex } from '../../core/scan/job-index.ts';
import { withStore } from './store-problems.ts';
import type { DeadJob, DeadLetterPage, JobPage, ListDeadLetters, ListJobs } from './types.ts';

export interface ListJobsParts {
  readonly index: JobIndex;
  readonly reader: JobReader;
}

/** Minutes read for one page, 64 partitions each: then the page ends, however short it is. */
const MINUTES_PER_PAGE_MAX = 30;
/** Dead letters whose jobs are read together; and for one page, however many of them a filter leaves out. */
const DEAD_CHUNK_ROWS = 50;
const LETTERS_PER_PAGE_MAX = 5_000;

/** Lists from the index of jobs by time; the job's own row has the last word. */
export class JobLister {
  readonly #parts: ListJobsParts;

  constructor(parts: ListJobsParts) {
    this.#parts = parts;
  }

  list(request: ListJobs): Promise<Result<JobPage>> {
    return withStore(async () => {
      const { queue, from, to, pageSize } = request;
      const jobs: JobRow[] = [];
      let after: IndexPosition | null = request.after;
      for (let minutes = 0; minutes < MINUTES_PER_PAGE_MAX; minutes += 1) {
        const { rows, next } = await this.#parts.index.due({ queue, from, to, after }, pageSize - jobs.length);
        jobs.push(...(await this.#standing(request, rows)));
        after = next;
        if (next === null || jobs.length >= pageSize) break;
      }
      return ok({ jobs, next: after });
    });
  }

  listDeadLetters(request: ListDeadLetters): Promise<Result<DeadLetterPage>> {
    return withStore(async () => {
      const { queue, from, to, pageSize } = request;
      const deadJobs: DeadJob[] = [];
      let [bytes, letters] = [0, 0];
      let after: IndexPosition | null = request.after;
      do {
        const { rows, next } = await this.#parts.index.dead({ queue, from, to, after });
        letters += rows.length;
        for (let start = 0; start < rows.length; start += DEAD_CHUNK_ROWS) {
          const chunk = rows.slice(start, start + DEAD_CHUNK_ROWS);
          for (const dead of await this.#stillDead(request, chunk)) {
            const { deadAt, jobId } = dead.letter;
            deadJobs.push(dead);
            bytes += attemptBytes(dead.job);
            if (deadJobs.length >= pageSize || bytes >= ANSWER_MAX_BYTES) {
              return ok({ deadJobs, next: { at: deadAt, jobId } });
            }
          }
        }
        after = next;
      } while (after !== null && letters < LETTERS_PER_PAGE_MAX);
      return ok({ deadJobs, next: after });
    });
  }

  /** A job stands where its run_at is now; older due rows of it are stale. */
  async #standing({ status, label }: ListJobs, candidates: readonly DueEntry[]): Promise<readonly JobRow[]> {
    const rows = await this.#parts.reader.read(candidates.map((row) => row.jobId));
    return candidates.flatMap((candidate) => {
      const row = rows.get(candidate.jobId);
      if (row === undefined || row.runAt !== candidate.runAt || row.queue !== candidate.queue) return [];
      if (status !== null && row.status !== status) return [];
      return hasLabel(row, label) ? [row] : [];
    });
  }

  /** A dead letter is written before its round, which may have lost; and a replayed job is dead no longer. */
  async #stillDead({ label, error }: ListDeadLetters, letters: readonly DeadLetter[]): Promise<readonly DeadJob[]> {
    const rows = await this.#parts.reader.read(letters.map((letter) => letter.jobId));
    return letters.flatMap((letter) => {
      const job = rows.get(letter.jobId);
      if (job?.status !== JobStatus.dead || job.finishedAt !== letter.deadAt) return [];
      if (error !== null && job.lastError?.includes(error) !== true) return [];
      return hasLabel(job, label) ? [{ letter, job }] : [];
    });
  }
}

function hasLabel(row: JobRow, label: ListJobs['label']): boolean {
  return label === null || row.labels[label.name] === label.value;
}

/** What the attempts add to an answer, near enough. */
function attemptBytes({ ends, starts }: JobRow): number {
  return [...ends.values()].reduce((sum, end) => sum + (end.error?.length ?? 0), 200 * starts.size);
}

import { bulkPage } from '../../core/bulk/bulk-page.ts';
import { ok, type Result } from '../../core/contract/problems.ts';
import { type BulkPosition, type BulkTask, decideBulk } from '../../core/domain/bulk.ts';
import type { JobRow } from '../../core/domain/job.ts';
import { DRY_RUN_MAX_MS, DRY_RUN_SAMPLES, OPERATION_CHUNK_MAX_JOBS } from '../../core/domain/limits.ts';
import { elapsedMs } from '../../core/domain/time.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type { JobReader } from '../../core/ports/job-store.ts';
import type { IndexPage, JobIndex } from '../../core/scan/job-index.ts';
import { withStore } from './store-problems.ts';
import type { DryRun } from './types.ts';

export interface DryRunnerParts {
  readonly index: JobIndex;
  readonly reader: JobReader;
  readonly clock: Clock;
}

/** Chunks whose jobs are read at the same time. */
const CHUNKS_AT_ONCE = 4;

/** Counts what an operation would change, with the operation's own decisions. */
export class DryRunner {
  readonly #parts: DryRunnerParts;

  constructor(parts: DryRunnerParts) {
    this.#parts = parts;
  }

  run(task: BulkTask): Promise<Result<DryRun>> {
    return withStore(async () => {
      const { index, clock } = this.#parts;
      const startedAt = clock.moment();
      const samples: JobRow[] = [];
      let [matched, refused] = [0, 0];
      let after: BulkPosition | null = null;
      do {
        const { rows, next }: IndexPage<BulkPosition> = await bulkPage(index, task, after);
        for (let start = 0; start < rows.length; start += CHUNKS_AT_ONCE * OPERATION_CHUNK_MAX_JOBS) {
          const jobs = await this.#decided(task, rows.slice(start, start + CHUNKS_AT_ONCE * OPERATION_CHUNK_MAX_JOBS));
          matched += jobs.change.length;
          refused += jobs.refused;
          samples.push(...jobs.change.slice(0, DRY_RUN_SAMPLES - samples.length));
        }
        after = next;
      } while (after !== null && elapsedMs(startedAt, clock.moment()) < DRY_RUN_MAX_MS);
      return ok({ matched, refused, reached: after?.at ?? null, samples });
    });
  }

  async #decided(
    task: BulkTask,
    rows: readonly BulkPosition[],
  ): Promise<{ readonly change: readonly JobRow[]; readonly refused: number }> {
    const jobs = await this.#parts.reader.read(rows.map(({ jobId }) => jobId));
    const now = this.#parts.clock.now();
    const change: JobRow[] = [];
    let refused = 0;
    for (const { at, jobId } of rows) {
      const job = jobs.get(jobId);
      const decision = job === undefined ? undefined : decideBulk(task, { at, job }, now);
      if (decision?.kind === 'refuse') refused += 1;
      else if (job !== undefined && decision?.kind !== 'leave' && decision?.kind !== 'done') change.push(job);
    }
    return { change, refused };
  }
}

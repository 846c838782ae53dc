import { ok, type Result } from '../../core/contract/problems.ts';
import { monthOf } from '../../core/domain/bucket.ts';
import { RunOutcome } from '../../core/domain/schedule.ts';
import type { EpochMs } from '../../core/domain/time.ts';
import type { JobReader } from '../../core/ports/job-store.ts';
import type { ScheduleRun } from '../../core/domain/occurrence.ts';
import type { ScheduleRunStore } from '../../core/ports/schedule-store.ts';
import type { ScheduleFinder } from './find-schedules.ts';
import type { ListScheduleRuns, ScheduleReference, ScheduleRunPage } from './schedule-types.ts';
import { withStore } from './store-problems.ts';

export interface ListScheduleRunsParts {
  readonly finder: ScheduleFinder;
  readonly runs: ScheduleRunStore;
  readonly reader: JobReader;
}

/** What a schedule did, slot by slot, beside what became of the jobs. */
export class ScheduleRunLister {
  readonly #parts: ListScheduleRunsParts;

  constructor(parts: ListScheduleRunsParts) {
    this.#parts = parts;
  }

  list(reference: ScheduleReference, request: ListScheduleRuns): Promise<Result<ScheduleRunPage>> {
    const { finder, reader } = this.#parts;
    return withStore(async () => {
      const found = await finder.find(reference);
      if (!found.ok) return found;
      const { runs, next } = await this.#runsOf(found.value.scheduleId, request);
      const jobs = await reader.read(
        runs.flatMap(({ outcome, jobId }) => (outcome === RunOutcome.fired ? [jobId] : [])),
      );
      return ok({ runs: runs.map((run) => ({ run, job: jobs.get(run.jobId) ?? null })), next });
    });
  }

  /** Month by month, the latest first. */
  async #runsOf(
    scheduleId: string,
    { from, to, pageSize }: ListScheduleRuns,
  ): Promise<{ readonly runs: readonly ScheduleRun[]; readonly next: EpochMs | null }> {
    const runs: ScheduleRun[] = [];
    for (let end = to; end >= from; end = startOfMonth(end) - 1) {
      for await (const page of this.#parts.runs.read({ scheduleId, from, to: end })) {
        for (const run of page) {
          if (runs.length >= pageSize) return { runs, next: run.slot };
          runs.push(run);
        }
      }
    }
    return { runs, next: null };
  }
}

function startOfMonth(at: EpochMs): EpochMs {
  return Date.parse(`${monthOf(at)}-01T00:00:00Z`);
}

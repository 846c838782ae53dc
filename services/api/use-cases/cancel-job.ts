import { ok, refused, type Result } from '../../core/contract/problems.ts';
import type { JobRow } from '../../core/domain/job.ts';
import { JobStatus } from '../../core/domain/job-status.ts';
import { CancelReason, type WaitingCanceller } from '../../core/moves/cancel-waiting.ts';
import type { JobReader } from '../../core/ports/job-store.ts';
import type { Rounds } from '../../core/rounds/rounds.ts';
import { problemOfRound, withStore } from './store-problems.ts';
import { jobNotFound } from './worker-refusals.ts';

export interface CancelJobParts {
  readonly rounds: Rounds;
  readonly reader: JobReader;
  readonly canceller: WaitingCanceller;
}

/** requested: the job runs on until its worker heeds the request. */
export interface Cancelled {
  readonly job: JobRow;
  readonly requested: boolean;
}

/** A job can move a few times while it is being cancelled; after that its state is anybody's. */
const TRIES_MAX = 5;

/** DELETE /jobs/{id} and POST /jobs/{id}/cancel. */
export class JobCanceller {
  readonly #parts: CancelJobParts;

  constructor(parts: CancelJobParts) {
    this.#parts = parts;
  }

  /** Cancels a job that waits; a running or finished one is refused and nothing changes. */
  async cancel(jobId: string): Promise<Result<JobRow>> {
    const result = await this.#cancel(jobId, (row) => Promise.resolve(this.#refuse(row)));
    return result.ok ? ok(result.value.job) : result;
  }

  /** As cancel, but a running job's worker is asked to stop: its next report, lapse or snooze ends the job as cancelled. */
  async request(jobId: string): Promise<Result<Cancelled>> {
    return this.#cancel(jobId, async (row) => {
      if (row.status !== JobStatus.running) return this.#refuse(row);
      if (row.cancelRequested) return ok({ job: row, requested: true });
      const outcome = await this.#parts.rounds.submit({ edge: 'request_cancel', jobId, attempt: row.attempt });
      if (outcome.kind === 'applied') return ok({ job: { ...row, cancelRequested: true }, requested: true });
      return outcome.kind === 'lost' ? { moved: outcome.row } : refused(problemOfRound(outcome));
    });
  }

  /** @param otherwise what to do about a row that does not wait; `moved` when it changed meanwhile. */
  async #cancel(
    jobId: string,
    otherwise: (row: JobRow) => Promise<Result<Cancelled> | { readonly moved: JobRow | null }>,
  ): Promise<Result<Cancelled>> {
    return withStore(async () => {
      let row = (await this.#parts.reader.read([jobId])).get(jobId) ?? null;
      for (let tries = 0; tries < TRIES_MAX; tries += 1) {
        if (row === null) return refused(jobNotFound(jobId));
        if (row.status === JobStatus.cancelled) return ok({ job: row, requested: false });
        const outcome = await this.#parts.canceller.cancel(row, CancelReason.byRequest);
        if (outcome === null) {
          const result = await otherwise(row);
          if (!('moved' in result)) return result;
          row = result.moved;
          continue;
        }
        if (outcome.kind === 'cancelled') return ok({ job: outcome.row, requested: false });
        if (outcome.kind !== 'lost') return refused(problemOfRound(outcome));
        row = outcome.row;
      }
      return row === null ? refused(jobNotFound(jobId)) : this.#refuse(row);
    });
  }

  #refuse(row: JobRow): ReturnType<typeof refused> {
    const members = { job_status: row.status };
    if (row.status === JobStatus.running) {
      return refused({ code: 'job_running', detail: 'The job is running; deleting it changes nothing.', members });
    }
    return refused({ code: 'job_finished', detail: `The job is ${row.status} already.`, members });
  }
}

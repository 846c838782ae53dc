import { ok, refused, type Result } from '../../core/contract/problems.ts';
import type { JobRow } from '../../core/domain/job.ts';
import { JobStatus } from '../../core/domain/job-status.ts';
import { decideCancel } from '../../core/domain/life-cycle.ts';
import type { Clock } from '../../core/ports/clock.ts';
import { finishedJobOf, type HistoryStore } from '../../core/ports/history-store.ts';
import type { JobReader } from '../../core/ports/job-store.ts';
import type { Log } from '../../core/ports/telemetry.ts';
import type { Rounds } from '../../core/rounds/rounds.ts';
import { problemOfRound, withStore } from './store-problems.ts';
import { jobNotFound } from './worker-refusals.ts';

export interface CancelJobParts {
  readonly rounds: Rounds;
  readonly reader: JobReader;
  readonly history: HistoryStore;
  readonly clock: Clock;
  readonly log: Log;
}

/** A job can move a few times while it is being cancelled; after that its state is anybody's. */
const TRIES_MAX = 5;

/** DELETE /jobs/{id}: cancels a job that waits; a running or finished one is refused and nothing changes. */
export class JobCanceller {
  readonly #parts: CancelJobParts;

  constructor(parts: CancelJobParts) {
    this.#parts = parts;
  }

  async cancel(jobId: string): Promise<Result<JobRow>> {
    return withStore(async () => {
      let row = (await this.#parts.reader.read([jobId])).get(jobId) ?? null;
      for (let tries = 0; tries < TRIES_MAX; tries += 1) {
        if (row === null) return refused(jobNotFound(jobId));
        if (row.status === JobStatus.cancelled) return ok(row);
        const operation = decideCancel(row, this.#parts.clock.now(), 'cancelled_by_request');
        if (operation === null) return this.#refuse(row);
        const outcome = await this.#parts.rounds.submit(operation);
        if (outcome.kind === 'applied') {
          const { finishedAt, reason } = operation;
          const cancelled: JobRow = { ...row, status: JobStatus.cancelled, finishedAt, reason };
          await this.#record(cancelled);
          return ok(cancelled);
        }
        if (outcome.kind !== 'lost') return refused(problemOfRound(outcome));
        row = outcome.row;
      }
      return row === null ? refused(jobNotFound(jobId)) : this.#refuse(row);
    });
  }

  #refuse(row: JobRow): Result<JobRow> {
    const members = { status: row.status };
    if (row.status === JobStatus.running) {
      return refused({ code: 'job_running', detail: 'The job is running; deleting it changes nothing.', members });
    }
    return refused({ code: 'job_finished', detail: `The job is ${row.status} already.`, members });
  }

  async #record(row: JobRow): Promise<void> {
    const finished = finishedJobOf(row);
    if (finished === null) return;
    try {
      await this.#parts.history.writeFinished([finished]);
    } catch (error) {
      this.#parts.log.warn('a history row could not be written', { job_id: row.jobId, error: String(error) });
    }
  }
}

import { ok, refused, type Result } from '../../core/contract/problems.ts';
import type { JobRow } from '../../core/domain/job.ts';
import { isTerminal, JobStatus } from '../../core/domain/job-status.ts';
import { decideChange, decideReplay } from '../../core/domain/life-cycle.ts';
import type { Change, JobChanges, Replay } from '../../core/domain/operation.ts';
import type { JobMover } from '../../core/moves/move-job.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type { JobReader } from '../../core/ports/job-store.ts';
import { problemOfRound, withStore } from './store-problems.ts';
import type { ChangeJob, ReplayJob } from './types.ts';
import { jobNotFound } from './worker-refusals.ts';

export interface ChangeJobParts {
  readonly reader: JobReader;
  readonly mover: JobMover;
  readonly clock: Clock;
}

/** A job can move a few times while it is being changed; after that its state is anybody's. */
const TRIES_MAX = 5;

/** PATCH, run now and replay of one job. */
export class JobChanger {
  readonly #parts: ChangeJobParts;

  constructor(parts: ChangeJobParts) {
    this.#parts = parts;
  }

  /** Only while scheduled; anything else is refused and nothing changes. */
  change(jobId: string, changeOf: (row: JobRow) => Result<ChangeJob>): Promise<Result<JobRow>> {
    return this.#move(jobId, (row) => {
      if (row.status !== JobStatus.scheduled) return ok(null);
      const change = changeOf(row);
      return change.ok ? ok(decideChange(row, this.#changesOf(change.value))) : change;
    });
  }

  /** Due now. scheduledFor stays: it is the time asked for. */
  runNow(jobId: string): Promise<Result<JobRow>> {
    const runAt = this.#parts.clock.now();
    return this.#move(jobId, (row) => ok(decideChange(row, { runAt })));
  }

  /** A dead job is due now, with as many tries again, perhaps with another payload or in another queue. */
  replay(jobId: string, { payload, queue }: ReplayJob): Promise<Result<JobRow>> {
    const runAt = this.#parts.clock.now();
    const changes = { ...payloadChanges(payload), ...(queue !== undefined && { queue }) };
    return this.#move(jobId, (row) => ok(decideReplay(row, runAt, changes)));
  }

  /** @param operationFor null: the state of the job does not allow it. */
  async #move(jobId: string, operationFor: (row: JobRow) => Result<Change | Replay | null>): Promise<Result<JobRow>> {
    const { reader, mover } = this.#parts;
    return withStore(async () => {
      let row = (await reader.read([jobId])).get(jobId) ?? null;
      for (let tries = 0; tries < TRIES_MAX; tries += 1) {
        if (row === null) return refused(jobNotFound(jobId));
        const operation = operationFor(row);
        if (!operation.ok) return operation;
        if (operation.value === null) return refusedFor(row);
        const outcome = await mover.move(row, operation.value);
        if (outcome.kind === 'moved') return ok(outcome.row);
        if (outcome.kind !== 'lost') return refused(problemOfRound(outcome));
        row = outcome.row;
      }
      return row === null ? refused(jobNotFound(jobId)) : refusedFor(row);
    });
  }

  #changesOf(change: ChangeJob): JobChanges {
    const { when, payload, ...same } = change;
    const now = this.#parts.clock.now();
    const at = when === undefined ? undefined : 'at' in when ? when.at : now + when.delayMs;
    return {
      ...same,
      ...(at !== undefined && { runAt: at, scheduledFor: at }),
      ...payloadChanges(payload),
    };
  }
}

function payloadChanges(payload: ChangeJob['payload']): Pick<JobChanges, 'payload' | 'payloadBytes'> {
  return payload === undefined ? {} : { payload: payload?.text ?? null, payloadBytes: payload?.bytes ?? 0 };
}

function refusedFor(row: JobRow): ReturnType<typeof refused> {
  const members = { job_status: row.status };
  if (isTerminal(row.status)) {
    return refused({ code: 'job_finished', detail: `The job is ${row.status}; nothing was changed.`, members });
  }
  if (row.status === JobStatus.running) {
    return refused({ code: 'job_running', detail: 'The job is running; nothing was changed.', members });
  }
  const detail =
    row.status === JobStatus.enqueued
      ? 'The job is on its way to a worker already; nothing was changed.'
      : 'Only a dead job can be replayed; nothing was changed.';
  return refused({ code: 'job_not_changeable', detail, members });
}

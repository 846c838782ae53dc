import { ok, refused, type Result } from '../../core/contract/problems.ts';
import type { JobRow } from '../../core/domain/job.ts';
import { isTerminal, JobStatus } from '../../core/domain/job-status.ts';
import type { Change, JobChanges, Replay } from '../../core/domain/operation.ts';
import type { EpochMs } from '../../core/domain/time.ts';
import { dueEntryOf } from '../../core/moves/end-attempt.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type { JobReader } from '../../core/ports/job-store.ts';
import type { Rounds } from '../../core/rounds/rounds.ts';
import type { Timers } from '../../core/timers/timers.ts';
import { OUTCOME_UNKNOWN, problemOfRound, withStore } from './store-problems.ts';
import type { ChangeJob } from './types.ts';
import { jobNotFound } from './worker-refusals.ts';

export interface ChangeJobParts {
  readonly rounds: Rounds;
  readonly reader: JobReader;
  readonly timers: Timers;
  readonly clock: Clock;
}

/** A job can move a few times while it is being changed; after that its state is anybody's. */
const TRIES_MAX = 5;

/** PATCH, run now and replay: what moves a job's time from outside. The due row is written first, as everywhere. */
export class JobChanger {
  readonly #parts: ChangeJobParts;

  constructor(parts: ChangeJobParts) {
    this.#parts = parts;
  }

  /** Only while scheduled; anything else is refused and nothing changes. */
  change(jobId: string, changeOf: (row: JobRow) => Result<ChangeJob>): Promise<Result<JobRow>> {
    return this.#move(jobId, (row) => {
      if (row.status !== JobStatus.scheduled) return refusedFor(row);
      const change = changeOf(row);
      return change.ok ? ok(changeOperation(row, this.#changesOf(change.value))) : change;
    });
  }

  /** Due now. scheduledFor stays: it is the time asked for. */
  runNow(jobId: string): Promise<Result<JobRow>> {
    const runAt = this.#parts.clock.now();
    return this.#move(jobId, (row) =>
      row.status === JobStatus.scheduled ? ok(changeOperation(row, { runAt })) : refusedFor(row),
    );
  }

  /** A dead job is due now, with as many tries again. */
  replay(jobId: string): Promise<Result<JobRow>> {
    const runAt = this.#parts.clock.now();
    return this.#move(jobId, (row) =>
      row.status === JobStatus.dead ? ok(replayOperation(row, runAt)) : refusedFor(row),
    );
  }

  async #move(jobId: string, operationFor: (row: JobRow) => Result<Change | Replay>): Promise<Result<JobRow>> {
    return withStore(async () => {
      let row = (await this.#parts.reader.read([jobId])).get(jobId) ?? null;
      for (let tries = 0; tries < TRIES_MAX; tries += 1) {
        if (row === null) return refused(jobNotFound(jobId));
        const operation = operationFor(row);
        if (!operation.ok) return operation;
        const moved = await this.#submit(row, operation.value);
        if ('result' in moved) return moved.result;
        row = moved.found;
      }
      return row === null ? refused(jobNotFound(jobId)) : refusedFor(row);
    });
  }

  async #submit(
    row: JobRow,
    wanted: Change | Replay,
  ): Promise<{ readonly result: Result<JobRow> } | { readonly found: JobRow | null }> {
    const { rounds, timers } = this.#parts;
    const armed = await this.#arm(row, wanted);
    const operation = armed === null ? wanted : withRunAt(wanted, armed.runAt);
    const outcome = await rounds.submit(operation);
    if (outcome.kind === 'lost') return { found: outcome.row };
    if (outcome.kind === 'not_written') return { result: refused(problemOfRound(outcome)) };
    if (armed !== null) await timers.afterRound(armed.chosenAt, [row]);
    if (outcome.kind === 'unknown') return { result: refused(OUTCOME_UNKNOWN) };
    const after = rowAfter(row, operation);
    if (armed !== null) timers.hint([dueEntryOf(after, after.runAt)]);
    return { result: ok(after) };
  }

  async #arm(row: JobRow, wanted: Change | Replay): Promise<{ chosenAt: Armed['chosenAt']; runAt: EpochMs } | null> {
    const runAt = wanted.edge === 'replay' ? wanted.runAt : newDueTime(row, wanted);
    if (runAt === null) return null;
    const after = rowAfter(row, wanted);
    const armed = await this.#parts.timers.armDue([dueEntryOf(after, runAt)]);
    return { chosenAt: armed.chosenAt, runAt: armed.entries[0]?.runAt ?? runAt };
  }

  #changesOf(change: ChangeJob): JobChanges {
    const { when, payload, ...same } = change;
    const now = this.#parts.clock.now();
    const at = when === undefined ? undefined : 'at' in when ? when.at : now + when.delayMs;
    return {
      ...same,
      ...(at !== undefined && { runAt: at, scheduledFor: at }),
      ...(payload !== undefined && { payload: payload?.text ?? null, payloadBytes: payload?.bytes ?? 0 }),
    };
  }
}

type Armed = Awaited<ReturnType<Timers['armDue']>>;

function changeOperation(row: JobRow, changes: JobChanges): Change {
  return { edge: 'change', jobId: row.jobId, expect: { attempt: row.attempt, runAt: row.runAt }, changes };
}

function replayOperation(row: JobRow, runAt: EpochMs): Replay {
  const { jobId, attempt, finishedAt } = row;
  return { edge: 'replay', jobId, expect: { attempt, runAt: row.runAt, finishedAt: finishedAt ?? 0 }, runAt };
}

function withRunAt(operation: Change | Replay, runAt: EpochMs): Change | Replay {
  return operation.edge === 'replay'
    ? { ...operation, runAt }
    : { ...operation, changes: { ...operation.changes, runAt } };
}

/** The due row carries the priority too, so it is written again when either changes. */
function newDueTime(row: JobRow, { changes }: Change): EpochMs | null {
  return changes.runAt ?? (changes.priority === undefined ? null : row.runAt);
}

function rowAfter(row: JobRow, operation: Change | Replay): JobRow {
  if (operation.edge === 'change') return { ...row, ...operation.changes };
  return {
    ...row,
    status: JobStatus.scheduled,
    runAt: operation.runAt,
    tries: 0,
    lapses: 0,
    lostClaims: 0,
    finishedAt: null,
    reason: null,
  };
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

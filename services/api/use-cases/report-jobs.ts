import { ok, refused, type Result } from '../../core/contract/problems.ts';
import type { AttemptEnd, JobRow } from '../../core/domain/job.ts';
import { isTerminal, JobStatus, Outcome } from '../../core/domain/job-status.ts';
import {
  type AttemptDecision,
  decideConfirmCancel,
  decideFail,
  decideRelease,
  decideSnooze,
} from '../../core/domain/life-cycle.ts';
import { SECOND_MS } from '../../core/domain/limits.ts';
import type { EpochMs } from '../../core/domain/time.ts';
import type { AttemptEnder } from '../../core/moves/end-attempt.ts';
import type { Successors } from '../../core/moves/overlap-queue.ts';
import type { Clock } from '../../core/ports/clock.ts';
import { finishedJobOf, type FinishedJob, type HistoryStore } from '../../core/ports/history-store.ts';
import type { JobReader } from '../../core/ports/job-store.ts';
import type { Random } from '../../core/ports/random.ts';
import type { Log, Telemetry } from '../../core/ports/telemetry.ts';
import type { QueueGate } from '../../core/queues/queue-gate.ts';
import type { Rounds } from '../../core/rounds/rounds.ts';
import type { ClaimedAttempt, ClaimedJobs } from './claimed-jobs.ts';
import { readEachCohort } from './read-each-cohort.ts';
import { problemOfRound, withStore } from './store-problems.ts';
import type { HeartbeatAnswer, HeartbeatItem, ReleaseItem, Report, ReportAnswer } from './types.ts';
import { attemptRefused, jobNotFound } from './worker-refusals.ts';

export interface ReportJobsParts {
  readonly rounds: Rounds;
  readonly reader: JobReader;
  readonly ender: AttemptEnder;
  readonly overlaps: Successors;
  readonly history: HistoryStore;
  readonly gate: QueueGate;
  readonly claimed: ClaimedJobs;
  readonly clock: Clock;
  readonly random: Random;
  readonly telemetry: Telemetry;
  readonly log: Log;
}

/** Heartbeats and reports of workers. The attempt number is the fence: a stale one is refused and changes nothing. */
export class JobReporter {
  readonly #parts: ReportJobsParts;

  constructor(parts: ReportJobsParts) {
    this.#parts = parts;
  }

  heartbeat(items: readonly HeartbeatItem[]): Promise<readonly Result<HeartbeatAnswer>[]> {
    return Promise.all(items.map((item) => withStore(() => this.#heartbeatOne(item))));
  }

  report(reports: readonly Report[]): Promise<readonly Result<ReportAnswer>[]> {
    return this.#report(reports);
  }

  async #report(reports: readonly Ending[]): Promise<readonly Result<ReportAnswer>[]> {
    const toDecideOn = reports.flatMap((report) => (report.kind === 'succeeded' ? [] : [report.jobId]));
    const { rows, problems } = await readEachCohort(toDecideOn, (ids) => this.#parts.reader.read(ids));
    return Promise.all(
      reports.map((report) =>
        withStore(async () => {
          if (report.kind === 'succeeded') return this.#succeed(report);
          const unread = problems.get(report.jobId);
          return unread === undefined ? this.#end(report, rows.get(report.jobId) ?? null) : refused(unread);
        }),
      ),
    );
  }

  /** Gives running attempts back at once. */
  release(items: readonly ReleaseItem[]): Promise<readonly Result<ReportAnswer>[]> {
    return this.#report(items.map((item) => ({ ...item, kind: 'released' })));
  }

  async #heartbeatOne(item: HeartbeatItem): Promise<Result<HeartbeatAnswer>> {
    const { rounds, claimed, reader, clock, telemetry } = this.#parts;
    const { jobId, attempt } = item;
    let known = claimed.find(jobId, attempt);
    if (known === undefined) {
      const row = (await reader.read([jobId])).get(jobId);
      if (row === undefined) return refused(jobNotFound(jobId));
      known = claimed.remember(row, attempt, row.starts.get(attempt)?.startedAt ?? clock.now());
    }
    const leaseMs = known.job.leaseS * SECOND_MS;
    for (const cancelRequested of [false, true]) {
      const leaseUntil = clock.now() + leaseMs;
      const outcome = await rounds.submit(
        { edge: 'heartbeat', jobId, attempt, cancelRequested, leaseMs, progress: item.progress ?? undefined },
        { deadlineMs: leaseMs },
      );
      const answer = { leaseUntil, deadline: known.deadlineAt, cancelRequested };
      if (outcome.kind === 'applied') return ok(answer);
      if (outcome.kind !== 'lost') return refused(problemOfRound(outcome));
      const { row } = outcome;
      if (row === null) return refused(jobNotFound(jobId));
      const isOurs = row.status === JobStatus.running && row.attempt === attempt;
      // Lost on that for certain: what a clock may be the reason of is asked only where nothing else is.
      if (isOurs && row.cancelRequested !== cancelRequested) continue;
      if (isOurs && holdsLater(row, leaseMs, clock.now()))
        return ok({ ...answer, leaseUntil: row.leaseUntil ?? leaseUntil });
      telemetry.count('punctual_stale_reports_total', { queue: row.queue, call: 'heartbeat' });
      return refused(attemptRefused(row, attempt));
    }
    throw new Error(`cancel_requested of ${jobId} went back`);
  }

  async #succeed(report: Extract<Report, { kind: 'succeeded' }>): Promise<Result<ReportAnswer>> {
    const { rounds, clock, telemetry, claimed } = this.#parts;
    const { jobId, attempt } = report;
    const end: AttemptEnd = { endedAt: clock.now(), outcome: Outcome.succeeded, error: null };
    const outcome = await rounds.submit({ edge: 'succeed', jobId, attempt, end, result: report.result ?? undefined });
    if (outcome.kind === 'lost') return this.#answerLost(outcome.row, report, Outcome.succeeded);
    if (outcome.kind !== 'applied') return refused(problemOfRound(outcome));
    const known = claimed.find(jobId, attempt);
    claimed.forget(jobId, attempt);
    void this.#parts.overlaps.hurryAfter({ jobId, onOverlap: known?.job.onOverlap });
    const finished = known === undefined ? await this.#finishedByRead(jobId, end) : finishedOf(known, attempt, end);
    if (finished !== null) {
      telemetry.count('punctual_attempts_total', { queue: finished.queue, outcome: Outcome.succeeded });
      await this.#record(finished);
    }
    return ok({ outcome: Outcome.succeeded, status: JobStatus.succeeded, replayed: false });
  }

  /** Every end but success computes from the row as read. */
  async #end(report: Computed, read: JobRow | null): Promise<Result<ReportAnswer>> {
    const { ender, gate, clock, random, claimed } = this.#parts;
    let row = read;
    // A heartbeat or cancel request in between changes what the decision rests on: decide again on the row found.
    for (let tries = 0; tries < END_TRIES_MAX; tries += 1) {
      if (row === null) return refused(jobNotFound(report.jobId));
      if (row.status !== JobStatus.running || row.attempt !== report.attempt) break;
      const terms = { now: clock.now(), fraction: random.fraction(), queueIsOpen: gate.isOpen(row) };
      const decision = decide(row, report, terms);
      const outcome = await ender.end(row, decision);
      if (outcome.kind === 'applied') {
        claimed.forget(report.jobId, report.attempt);
        return ok({
          outcome: decision.operation.end.outcome,
          status: decision.operation.next.status,
          replayed: false,
        });
      }
      if (outcome.kind !== 'lost') return refused(problemOfRound(outcome));
      const sameState = outcome.row !== null && outcome.row.cancelRequested === row.cancelRequested;
      row = outcome.row;
      // Nothing that the decision rests on changed, so Cassandra's clock refused it: the time limit is over.
      if (sameState) break;
    }
    return this.#answerLost(row, report, OUTCOMES[report.kind]);
  }

  #answerLost(row: JobRow | null, report: Ending, outcome: Outcome): Result<ReportAnswer> {
    if (row === null) return refused(jobNotFound(report.jobId));
    const end = row.ends.get(report.attempt);
    if (end?.outcome === outcome && sameReport(report, end)) return ok({ outcome, status: row.status, replayed: true });
    this.#parts.telemetry.count('punctual_stale_reports_total', { queue: row.queue, call: 'complete' });
    return refused(attemptRefused(row, report.attempt));
  }

  async #finishedByRead(jobId: string, end: AttemptEnd): Promise<FinishedJob | null> {
    try {
      const row = (await this.#parts.reader.read([jobId])).get(jobId);
      return row !== undefined && isTerminal(row.status) ? finishedJobOf(row, end) : null;
    } catch {
      return null;
    }
  }

  /** The round has decided; a history row that fails is written again when the claim's deadline row comes up. */
  async #record(finished: FinishedJob): Promise<void> {
    try {
      await this.#parts.history.writeFinished([finished]);
    } catch (error) {
      const fields = { job_id: finished.jobId, error: String(error) };
      this.#parts.log.warn('a history row could not be written; the reaper will', fields);
    }
  }
}

type Ending = Report | (ReleaseItem & { readonly kind: 'released' });
type Computed = Exclude<Ending, { kind: 'succeeded' }>;

const END_TRIES_MAX = 3;

const OUTCOMES: Readonly<Record<Ending['kind'], Outcome>> = {
  succeeded: Outcome.succeeded,
  failed: Outcome.failed,
  snoozed: Outcome.snoozed,
  released: Outcome.released,
  cancelled: Outcome.cancelled,
};

function decide(
  row: JobRow,
  report: Computed,
  { now, fraction, queueIsOpen }: { readonly now: EpochMs; readonly fraction: number; readonly queueIsOpen: boolean },
): AttemptDecision {
  switch (report.kind) {
    case 'failed':
      return decideFail(row, report, now, fraction);
    case 'snoozed':
      return decideSnooze(row, report.delayMs, now);
    case 'released':
      return decideRelease(row, now, queueIsOpen);
    case 'cancelled':
      return decideConfirmCancel(row, now);
  }
}

/**
 * A heartbeat that lost although the attempt stands: its lease reaches at least as far already, by another heartbeat or, right after
 * the claim, by the clock of another node; or its time limit is over. Our clock may be off by seconds: it tells which of both is nearer.
 */
function holdsLater({ leaseUntil, deadlineAt }: JobRow, leaseMs: number, now: EpochMs): boolean {
  return leaseUntil !== null && deadlineAt !== null && now - (leaseUntil - leaseMs) < deadlineAt - now;
}

function sameReport(report: Ending, end: AttemptEnd): boolean {
  return report.kind !== 'failed' || end.error === report.error.toWellFormed();
}

function finishedOf(known: ClaimedAttempt, attempt: number, end: AttemptEnd): FinishedJob {
  const { jobId, queue, priority, runAt, scheduledFor } = known.job;
  return {
    jobId,
    queue,
    priority,
    finishedAt: end.endedAt,
    status: JobStatus.succeeded,
    outcome: end.outcome,
    attempt,
    scheduledFor,
    lagMs: Math.max(0, known.startedAt - runAt),
    error: null,
  };
}

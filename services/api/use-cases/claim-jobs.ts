import { ok, type Problem, refused, type Result } from '../../core/contract/problems.ts';
import type { JobRow } from '../../core/domain/job.ts';
import { JobStatus } from '../../core/domain/job-status.ts';
import { isExpired } from '../../core/domain/life-cycle.ts';
import { HEARTBEATS_PER_LEASE, SECOND_MS } from '../../core/domain/limits.ts';
import { elapsedMs, type EpochMs, type Moment } from '../../core/domain/time.ts';
import { CancelReason, type WaitingCanceller } from '../../core/moves/cancel-waiting.ts';
import type { JobUnqueuer } from '../../core/moves/unqueue-job.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type { JobReader, JobTerms, TermsReader } from '../../core/ports/job-store.ts';
import type { Random } from '../../core/ports/random.ts';
import type { Telemetry } from '../../core/ports/telemetry.ts';
import type { Rounds } from '../../core/rounds/rounds.ts';
import type { Armed, Timers } from '../../core/timers/timers.ts';
import type { DeadlineEntry } from '../../core/domain/operation.ts';
import { ClaimLimits, type ClaimLimitsParts } from './claim-limits.ts';
import type { ClaimedJobs } from './claimed-jobs.ts';
import { type JobsRead, readEachCohort } from './read-each-cohort.ts';
import type { StartLags } from './start-lags.ts';
import { problemOfRound, withStore } from './store-problems.ts';
import type { ClaimedJob, ClaimItem } from './types.ts';
import { attemptRefused, jobNotFound } from './worker-refusals.ts';

export interface ClaimJobsParts extends ClaimLimitsParts {
  readonly rounds: Rounds;
  readonly reader: JobReader & TermsReader;
  readonly timers: Timers;
  readonly canceller: WaitingCanceller;
  readonly unqueuer: JobUnqueuer;
  readonly claimed: ClaimedJobs;
  readonly startLags: Pick<StartLags, 'note'>;
  readonly clock: Clock;
  readonly random: Random;
  readonly telemetry: Telemetry;
}

/** Claims wait and are sent within this, so that a lease is never mostly spent when it is handed out. */
const CLAIM_DEADLINE_SHARE = 1 / 3;

/**
 * Turns ready messages into running attempts: one read (payload and terms), one write of deadline rows and one round per
 * cohort. A claim repeated with the same claim_id gets the same attempt while it runs.
 */
export class JobClaimer {
  readonly #parts: ClaimJobsParts;
  readonly #limits: ClaimLimits;

  constructor(parts: ClaimJobsParts) {
    this.#parts = parts;
    this.#limits = new ClaimLimits(parts);
  }

  /** @param read the jobs, where the caller has just read them. */
  async claim(
    items: readonly ClaimItem[],
    worker: string,
    read?: JobsRead<JobTerms>,
  ): Promise<readonly Result<ClaimedJob>[]> {
    const begunAt = this.#parts.clock.moment();
    const batch = await withStore(async () => ok(await this.#claimBatch(items, worker, read)));
    return batch.ok ? batch.value.map((result) => this.#stillLeased(result, begunAt)) : items.map(() => batch);
  }

  /** Where this process stood still meanwhile: the attempt may be over, and its job cancelled. */
  #stillLeased(result: Result<ClaimedJob>, begunAt: Moment): Result<ClaimedJob> {
    if (!result.ok) return result;
    const now = this.#parts.clock.moment();
    const isOver =
      result.value.leaseUntil <= now.wallMs || elapsedMs(begunAt, now) >= result.value.job.leaseS * SECOND_MS;
    return isOver ? refused({ code: 'lease_lost', detail: LOST }) : result;
  }

  async #claimBatch(
    items: readonly ClaimItem[],
    worker: string,
    read: JobsRead<JobTerms> | undefined,
  ): Promise<readonly Result<ClaimedJob>[]> {
    const { reader, timers, clock } = this.#parts;
    const jobIds = items.map((item) => item.jobId);
    const { rows: terms, problems } = read ?? (await readEachCohort(jobIds, (ids) => reader.readTerms(ids)));
    await timers.untilClockIsRight();
    const startedAt = clock.now();
    const isEligible = (job: JobTerms | undefined, item: ClaimItem): job is JobTerms =>
      job !== undefined && mayClaim(job, item) && !isExpired(job, startedAt);
    // What to say of the others stands in their whole rows.
    const others = items
      .filter((item) => !problems.has(item.jobId) && !isEligible(terms.get(item.jobId), item))
      .map((item) => item.jobId);
    const { rows, problems: furtherProblems } = await readEachCohort(others, (ids) => reader.read(ids));
    const eligible = items.map((item) => {
      const job = rows.get(item.jobId) ?? terms.get(item.jobId);
      return isEligible(job, item) ? job : null;
    });
    // Asked once: no job is claimed without the timer that was, or was not, written for it.
    const { heldBack, unread, slotted } = await this.#limits.verdicts(eligible.filter((job) => job !== null));
    const deadlines = eligible.flatMap((job) =>
      job === null || heldBack.has(job) || unread.has(job.queue) ? [] : [leaseDeadline(job, startedAt)],
    );
    const armed = await this.#armByShard(deadlines);
    return Promise.all(
      items.map(async (item, index) => {
        const job = eligible[index] ?? null;
        const unreadable = problems.get(item.jobId) ?? furtherProblems.get(item.jobId) ?? unread.get(job?.queue ?? '');
        if (unreadable !== undefined) return refused(unreadable);
        const refusal = job === null ? undefined : heldBack.get(job);
        if (job !== null && refusal !== undefined) return withStore(() => this.#takeBack(job, item, refusal));
        const timer = job === null ? undefined : armed.get(job.shard);
        if (job !== null && timer !== undefined) {
          if (!timer.ok) return timer;
          // A slot that was seen stays only while the job is enqueued as it was found.
          const enqueuedAt = slotted.has(job) ? job.enqueuedAt : null;
          return withStore(() => this.#claimOne(job, item, { worker, startedAt, enqueuedAt }, timer.value));
        }
        const row = rows.get(item.jobId);
        if (row === undefined) return refused(jobNotFound(item.jobId));
        return isExpired(row, startedAt) ? withStore(() => this.#expire(row, item)) : this.#answerLost(row, item);
      }),
    );
  }

  /** Each shard has rows of its own: one whose replicas are away keeps none of the others waiting. */
  async #armByShard(deadlines: readonly DeadlineEntry[]): Promise<ReadonlyMap<number, Result<Armed<DeadlineEntry>>>> {
    const { timers } = this.#parts;
    const shards = Map.groupBy(deadlines, ({ shard }) => shard);
    const armed = Array.from(shards, async ([shard, ofShard]) => {
      const result = await withStore(async () => ok(await timers.armDeadlines(ofShard, { givesUpAtOnce: true })));
      return [shard, result] as const;
    });
    return new Map(await Promise.all(armed));
  }

  async #claimOne(
    row: JobTerms,
    item: ClaimItem,
    start: { readonly worker: string; readonly startedAt: EpochMs; readonly enqueuedAt: EpochMs | null },
    armed: Armed<DeadlineEntry>,
  ): Promise<Result<ClaimedJob>> {
    const { rounds, timers, startLags, random, telemetry } = this.#parts;
    const { startedAt } = start;
    const claimId = item.claimId ?? random.token();
    const outcome = await rounds.submit(
      {
        edge: 'claim',
        jobId: row.jobId,
        attempt: row.attempt,
        claimId,
        ...start,
        leaseMs: row.leaseS * SECOND_MS,
        timeoutMs: row.timeoutS * SECOND_MS,
      },
      { deadlineMs: row.leaseS * SECOND_MS * CLAIM_DEADLINE_SHARE },
    );
    if (outcome.kind === 'not_written') return refused(problemOfRound(outcome));
    await timers.afterRound(armed.chosenAt, [row]);
    if (outcome.kind === 'unknown') return refused(problemOfRound(outcome));
    if (outcome.kind === 'lost') return this.#answerLost(outcome.row, item);
    // Found by its mark: an earlier try of the same claim may have written it, whose lease lapsed meanwhile.
    if (outcome.row !== undefined) return this.#answerLost(outcome.row, { ...item, claimId });
    const lagMs = Math.max(0, startedAt - row.runAt);
    const labels = { queue: row.queue, priority: row.priority };
    telemetry.observe('punctual_start_lag_seconds', lagMs / SECOND_MS, labels);
    startLags.note(row.queue, lagMs);
    return this.#answerClaimed(row, item.attempt, startedAt);
  }

  /** Its queue does not let it start now. */
  async #takeBack(job: JobTerms, item: ClaimItem, problem: Problem): Promise<Result<ClaimedJob>> {
    const outcome = await this.#parts.unqueuer.unqueue(job);
    if (outcome.kind === 'lost') return this.#answerLost(outcome.row, item);
    return refused(outcome.kind === 'applied' ? problem : problemOfRound(outcome));
  }

  /** Past its expires_at a job is not started: the claim that finds it so cancels it. */
  async #expire(row: JobRow, item: ClaimItem): Promise<Result<ClaimedJob>> {
    const outcome = await this.#parts.canceller.cancel(row, CancelReason.expired);
    if (outcome === null) return this.#answerLost(row, item);
    if (outcome.kind === 'cancelled' || outcome.kind === 'lost') return this.#answerLost(outcome.row, item);
    return refused(problemOfRound(outcome));
  }

  #answerLost(row: JobRow | null, item: ClaimItem): Result<ClaimedJob> {
    if (row === null) return refused(jobNotFound(item.jobId));
    const start = row.starts.get(item.attempt);
    const ours = start !== undefined && item.claimId !== null && start.claimId === item.claimId;
    if (ours && row.status === JobStatus.running && row.attempt === item.attempt) {
      return this.#answerClaimed(row, item.attempt, start.startedAt);
    }
    this.#parts.telemetry.count('punctual_stale_reports_total', { queue: row.queue, call: 'claim' });
    const problem = attemptRefused(row, item.attempt);
    // A claim never times out itself: the attempt it names is running in other hands, or over.
    return refused(problem.code === 'attempt_timed_out' ? { ...problem, code: 'lease_lost', detail: LOST } : problem);
  }

  #answerClaimed(row: JobTerms, attempt: number, startedAt: EpochMs): Result<ClaimedJob> {
    const leaseUntil = startedAt + row.leaseS * SECOND_MS;
    this.#parts.claimed.remember(row, attempt, startedAt);
    return ok({
      job: row,
      attempt,
      leaseUntil,
      heartbeatS: row.leaseS / HEARTBEATS_PER_LEASE,
    });
  }
}

const LOST = 'Somebody else claimed this attempt, or it is over. Leave the job to them.';

function mayClaim(row: JobTerms, item: ClaimItem): boolean {
  return row.status === JobStatus.enqueued && row.attempt === item.attempt - 1;
}

/** The claim's timer, at the earlier of lease and time limit. */
function leaseDeadline(row: JobTerms, startedAt: EpochMs): DeadlineEntry {
  const at = startedAt + Math.min(row.leaseS, row.timeoutS) * SECOND_MS;
  return { jobId: row.jobId, shard: row.shard, at, publishedAt: null };
}

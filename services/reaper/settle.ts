import { cohortOf, isScheduleId } from '../core/domain/ids.ts';
import type { JobRow } from '../core/domain/job.ts';
import { isTerminal, JobStatus, type Priority, subjectKey } from '../core/domain/job-status.ts';
import { decideLapse, decideSettle, type LapseKind } from '../core/domain/life-cycle.ts';
import {
  ENQUEUED_LOOK_MAX_MS,
  ENQUEUED_LOOK_MIN_MS,
  LAPSE_RETRY_MS,
  OVERLAP_LOOK_MS,
  PUBLISHED_SLACK_MS,
  SETTLED_ROWS_KEPT_MAX,
} from '../core/domain/limits.ts';
import type { EndAttempt } from '../core/domain/operation.ts';
import type { EpochMs } from '../core/domain/time.ts';
import { CancelReason, type WaitingCanceller } from '../core/moves/cancel-waiting.ts';
import { dueEntryOf, type AttemptEnder } from '../core/moves/end-attempt.ts';
import type { OverlapQueue } from '../core/moves/overlap-queue.ts';
import type { ReadyPublisher } from '../core/moves/ready-publisher.ts';
import type { JobUnqueuer } from '../core/moves/unqueue-job.ts';
import type { Clock } from '../core/ports/clock.ts';
import type { HeldStore } from '../core/ports/held-store.ts';
import { finishedJobOf, type FinishedJob, type HistoryStore } from '../core/ports/history-store.ts';
import type { EndsReader, JobEnd, JobReader } from '../core/ports/job-store.ts';
import type { Random } from '../core/ports/random.ts';
import { BusError, type ReadyQueue } from '../core/ports/ready-queue.ts';
import type { Log, Telemetry } from '../core/ports/telemetry.ts';
import type { QueueGate } from '../core/queues/queue-gate.ts';
import type { Rounds } from '../core/rounds/rounds.ts';
import type { Timers } from '../core/timers/timers.ts';
import { HeldLookup, type PassedOver } from './held-lookup.ts';
import { RecentKeys } from './recent-keys.ts';
import type { Retention } from './retention.ts';
import type { ScheduleWaker } from './schedule-waker.ts';

/** A timer row that the reaper found, whatever table it stood in. */
export interface Found {
  readonly jobId: string;
  readonly shard: number;
  readonly table: 'due' | 'deadlines';
  /** The time that it names. */
  readonly at: EpochMs;
  /** When the row says the job's message was last published. */
  readonly publishedAt: EpochMs | null;
}

/** settled: the job has another timer, or needs none. Else the row is to be looked at again at `again`. */
export type Settled = 'settled' | { readonly again: EpochMs };

/** Settles timer rows, in their order; never throws for the store's sake. */
export interface Settles {
  settle(found: readonly Found[]): Promise<readonly Settled[]>;
}

export interface SettlerParts {
  readonly reader: JobReader & EndsReader;
  readonly rounds: Rounds;
  readonly timers: Timers;
  readonly ender: AttemptEnder;
  readonly overlaps: OverlapQueue;
  readonly waker: ScheduleWaker;
  readonly canceller: WaitingCanceller;
  readonly unqueuer: JobUnqueuer;
  readonly heldStore: Pick<HeldStore, 'standing'>;
  readonly retention: Pick<Retention, 'prepare' | 'isOver' | 'remove'>;
  readonly history: HistoryStore;
  readonly publisher: ReadyPublisher;
  readonly queue: ReadyQueue;
  readonly gate: QueueGate;
  readonly clock: Clock;
  readonly random: Random;
  readonly telemetry: Telemetry;
  readonly log: Log;
}

/** A job that others keep moving while it is being settled is looked at again a second later. */
const LOOKS_MAX = 3;

/** The one rule of design section 8, for rows of both timer tables: settle(job, now). */
export class Settler implements Settles {
  readonly #parts: SettlerParts;
  /** Their deadline rows were settled with their history; nothing changes them any more. */
  readonly #succeeded = new RecentKeys(SETTLED_ROWS_KEPT_MAX);

  constructor(parts: SettlerParts) {
    this.#parts = parts;
  }

  /**
   * In the order of the rows found; never throws for the store's sake. What cannot be read or written now is to be looked at
   * again, by itself: a cohort or a history partition without quorum must not keep the others waiting.
   */
  async settle(found: readonly Found[]): Promise<readonly Settled[]> {
    const schedules = found.filter(({ jobId }) => isScheduleId(jobId));
    if (schedules.length === 0) return this.#settleJobs(found);
    const jobs = found.filter(({ jobId }) => !isScheduleId(jobId));
    const [settledJobs, woken] = await Promise.all([this.#settleJobs(jobs), this.#parts.waker.settle(schedules)]);
    const results = new Map<Found, Settled | undefined>();
    jobs.forEach((each, index) => results.set(each, settledJobs[index]));
    schedules.forEach((each, index) => results.set(each, woken[index]));
    return found.map((each) => results.get(each) ?? this.#again());
  }

  async #settleJobs(found: readonly Found[]): Promise<readonly Settled[]> {
    const { history, heldStore, retention, queue, log } = this.#parts;
    const needsLook = ({ table, jobId }: Found): boolean => table === 'deadlines' || !this.#succeeded.has(jobId);
    const jobIds = [...new Set(found.filter(needsLook).map((row) => row.jobId))];
    const over = await this.#readOver(jobIds);
    const rows = await this.#read(jobIds.filter((jobId) => !over.has(jobId)));
    const finished = new Map<Found, FinishedJob>();
    const ages = new OldestMessages(queue);
    const overdue = found.flatMap((each) => {
      const row = rows.get(each.jobId) ?? null;
      return row?.status === JobStatus.scheduled ? [passedOver(each, row)] : [];
    });
    const held = new HeldLookup(heldStore, overdue);
    let prepared: Promise<void> | undefined;
    const prepareRemoval = (): Promise<void> => (prepared ??= retention.prepare());
    const batch: Batch = { finished, ages, held, prepareRemoval };
    const results = await Promise.all(
      found.map(async (each) => {
        if (!needsLook(each)) return 'settled';
        const end = over.get(each.jobId);
        if (end !== undefined) return this.#settleOver(each, end, batch);
        const row = rows.get(each.jobId);
        if (row === undefined) return this.#again();
        try {
          return await this.#settleOne(each, row, batch);
        } catch (error) {
          log.warn('a job could not be settled; trying again', { job_id: each.jobId, error: String(error) });
          return this.#again();
        }
      }),
    );
    if (finished.size === 0) return results;
    try {
      await history.writeFinished([...finished.values()]);
      for (const { jobId, status } of finished.values()) {
        if (status === JobStatus.succeeded) this.#succeeded.add(jobId);
      }
      return results;
    } catch (error) {
      log.warn('history rows could not be written; trying again', { rows: finished.size, error: String(error) });
      return found.map((each, index) => (finished.has(each) ? this.#again() : (results[index] ?? this.#again())));
    }
  }

  /** By the deadline row that stands at the end of its retention it goes; before, its history is written, maybe once more. */
  async #settleOver(found: Found, end: JobEnd, { finished, prepareRemoval }: Batch): Promise<Settled> {
    const { retention, log } = this.#parts;
    if (found.table === 'deadlines' && retention.isOver(end)) {
      try {
        await prepareRemoval();
        if (retention.isOver(end)) await retention.remove(found.shard, end);
      } catch (error) {
        const fields = { job_id: end.jobId, error: String(error) };
        log.warn('a job past its retention could not be removed; trying again', fields);
        return this.#again();
      }
    } else if (owesHistory(found, end)) collectFinished(found, end, finished);
    return 'settled';
  }

  /** Those that are over, as nearly all are by the time of a second look: their whole rows are not needed. */
  async #readOver(jobIds: readonly string[]): Promise<ReadonlyMap<string, JobEnd>> {
    try {
      const rows = await this.#parts.reader.readEnds(jobIds);
      return new Map([...rows].filter(([, { status }]) => isTerminal(status)));
    } catch {
      // What cannot be read together is read cohort by cohort, whole.
      return new Map();
    }
  }

  /** The jobs by id, null for those that are surely absent; those that cannot be read now are missing. */
  async #read(jobIds: readonly string[]): Promise<ReadonlyMap<string, JobRow | null>> {
    try {
      return await this.#readTogether(jobIds);
    } catch (error) {
      const fields = { jobs: jobIds.length, error: String(error) };
      this.#parts.log.warn('jobs could not be read together; reading each cohort by itself', fields);
    }
    const cohorts = Map.groupBy(jobIds, cohortOf).values();
    const reads = await Promise.allSettled(Array.from(cohorts, (members) => this.#readTogether(members)));
    return new Map(reads.flatMap((read) => (read.status === 'fulfilled' ? [...read.value] : [])));
  }

  async #readTogether(jobIds: readonly string[]): Promise<ReadonlyMap<string, JobRow | null>> {
    const { reader } = this.#parts;
    const rows = new Map<string, JobRow | null>(await reader.read(jobIds));
    const absent = jobIds.filter((jobId) => !rows.has(jobId));
    if (absent.length === 0) return rows;
    // Only a serial read may say "absent": the job's round may still be in flight.
    const found = await reader.read(absent, { serial: true });
    for (const jobId of absent) rows.set(jobId, found.get(jobId) ?? null);
    return rows;
  }

  async #settleOne(found: Found, read: JobRow | null, batch: Batch): Promise<Settled> {
    const { ages, held } = batch;
    let row = read;
    for (let looks = 0; looks < LOOKS_MAX; looks += 1) {
      const now = this.#parts.clock.now();
      const decision = decideSettle(row, found.publishedAt, now);
      if (row === null || decision.kind === 'done') return 'settled';
      switch (decision.kind) {
        case 'finished':
          return await this.#settleOver(found, row, batch);
        case 'expire': {
          const moved = await this.#expire(row);
          if (moved.settled !== null) return moved.settled;
          row = moved.row;
          break;
        }
        case 'predecessor':
          return await this.#waitForTurn(row, now);
        case 'look_again':
          return await this.#lookAgain(row, decision.at, now);
        case 'waiting': {
          const moved = await this.#wait(row, decision.publishedAt, now, ages);
          if (moved.settled !== null) return moved.settled;
          row = moved.row;
          break;
        }
        case 'enqueue': {
          const moved = await this.#startOverdue(found, row, now, held);
          if (moved.settled !== null) return moved.settled;
          row = moved.row;
          break;
        }
        case 'lapse': {
          const moved = await this.#lapse(row, decision.lapse, now);
          if (moved.settled !== null) return moved.settled;
          row = moved.row;
        }
      }
    }
    return this.#again();
  }

  async #expire(row: JobRow): Promise<Moved> {
    const outcome = await this.#parts.canceller.cancel(row, CancelReason.expired);
    if (outcome === null) return { settled: 'settled' };
    // Of a job that is over now, the history may not be written yet: it is settled as any other that is found so.
    const isOver = outcome.kind === 'cancelled';
    return isOver || outcome.kind === 'lost' ? { settled: null, row: outcome.row } : { settled: this.#again() };
  }

  /** Lazy re-arm: heartbeats write no timers, so the row follows the lease here. */
  async #lookAgain(row: JobRow, at: EpochMs, now: EpochMs): Promise<Settled> {
    if (at - now <= LAPSE_RETRY_MS) return { again: at };
    await this.#parts.timers.armDeadlines([{ jobId: row.jobId, shard: row.shard, at, publishedAt: null }]);
    return 'settled';
  }

  /** An occurrence that waits for the one before: a next look first, or its turn. */
  async #waitForTurn(row: JobRow, now: EpochMs): Promise<Settled> {
    const { timers, overlaps } = this.#parts;
    const { jobId, shard } = row;
    if (!(await overlaps.isBlocked(row))) await overlaps.release(row);
    else await timers.armDeadlines([{ jobId, shard, at: now + OVERLAP_LOOK_MS, publishedAt: null }]);
    return 'settled';
  }

  /** Enqueued and unclaimed: a next look first, then, if its message is gone, another message, unless its queue is paused. */
  async #wait(row: JobRow, publishedAt: EpochMs, now: EpochMs, ages: OldestMessages): Promise<Moved> {
    const { timers, gate, telemetry } = this.#parts;
    const gone = await ages.messageGone(row, publishedAt, now);
    if (gone === true && gate.isPaused(row.queue)) return this.#takeBack(row);
    // While the stream is away nobody can tell: asked again as soon as allowed, not after twice the wait.
    const waited = gone === null ? 0 : now - (row.enqueuedAt ?? row.createdAt);
    const next = now + Math.min(ENQUEUED_LOOK_MAX_MS, Math.max(ENQUEUED_LOOK_MIN_MS, waited));
    const at = Math.min(next, row.expiresAt ?? Infinity);
    const { jobId, shard } = row;
    await timers.armDeadlines([{ jobId, shard, at, publishedAt: gone === true ? now : publishedAt }]);
    if (gone === true) {
      telemetry.count('punctual_reaper_repairs_total', { kind: 'stuck_enqueued' });
      void this.#publish(row);
    }
    return { settled: 'settled' };
  }

  async #takeBack(row: JobRow): Promise<Moved> {
    const outcome = await this.#parts.unqueuer.unqueue(row);
    if (outcome.kind === 'lost') return { settled: null, row: outcome.row };
    return { settled: outcome.kind === 'applied' ? 'settled' : this.#again() };
  }

  /** What its queue holds is the dispatcher's to start; of what it does not know of, it gets another due row. */
  async #startOverdue(found: Found, row: JobRow, now: EpochMs, held: HeldLookup): Promise<Moved> {
    const { timers, gate } = this.#parts;
    const { jobId, shard, expiresAt } = row;
    if (await held.isHeld(passedOver(found, row))) {
      if (expiresAt !== null) await timers.armDeadlines([{ jobId, shard, at: expiresAt, publishedAt: null }]);
      return { settled: 'settled' };
    }
    if (gate.isOpen(row)) return this.#enqueue(row, now);
    const armed = await timers.armDue([dueEntryOf(row, now)]);
    timers.hint(armed.entries);
    return { settled: 'settled' };
  }

  /** Overdue and nobody enqueued it: the next look's timer first, then the round, then the message. */
  async #enqueue(row: JobRow, now: EpochMs): Promise<Moved> {
    const { timers, rounds, telemetry } = this.#parts;
    const { jobId, queue, shard, attempt, runAt } = row;
    const at = now + ENQUEUED_LOOK_MIN_MS;
    const armed = await timers.armDeadlines([{ jobId, shard, at, publishedAt: now }]);
    const outcome = await rounds.submit({ edge: 'enqueue', jobId, queue, attempt, runAtMost: runAt, enqueuedAt: now });
    if (outcome.kind === 'lost') return { settled: null, row: outcome.row };
    if (outcome.kind !== 'applied') return { settled: this.#again() };
    await timers.afterRound(armed.chosenAt, [row]);
    telemetry.count('punctual_reaper_repairs_total', { kind: 'missed_due' });
    void this.#publish(row);
    return { settled: 'settled' };
  }

  async #lapse(row: JobRow, kind: LapseKind, now: EpochMs): Promise<Moved> {
    const { ender, gate, random, telemetry, log } = this.#parts;
    const terms = { now, fraction: random.fraction(), queueIsOpen: gate.isOpen(row) };
    const decision = decideLapse(row, kind, terms);
    const outcome = await ender.end(row, decision);
    if (outcome.kind === 'lost') {
      const unchanged = outcome.row?.attempt === row.attempt && outcome.row.leaseUntil === row.leaseUntil;
      // Cassandra's clock says the lease stands; asking it again at once would only repeat the answer.
      return unchanged ? { settled: this.#again() } : { settled: null, row: outcome.row };
    }
    if (outcome.kind !== 'applied') return { settled: this.#again() };
    telemetry.count('punctual_reaper_repairs_total', { kind: 'lapsed' });
    telemetry.count('punctual_lease_expiries_total', { queue: row.queue });
    log.info('an attempt lapsed', {
      job_id: row.jobId,
      attempt: row.attempt,
      kind,
      next: decision.operation.next.status,
    });
    return isTerminal(decision.operation.next.status)
      ? { settled: null, row: rowAfter(row, decision.operation) }
      : { settled: 'settled' };
  }

  async #publish(row: JobRow): Promise<void> {
    const { jobId, attempt, runAt, queue, priority } = row;
    await this.#parts.publisher.publish({ jobId, attempt: attempt + 1, runAt, queue, priority });
  }

  #again(): Settled {
    return { again: this.#parts.clock.now() + LAPSE_RETRY_MS };
  }
}

/** What the rows found together share. */
interface Batch {
  readonly finished: Map<Found, FinishedJob>;
  readonly ages: OldestMessages;
  readonly held: HeldLookup;
  /** Once for all of them. */
  readonly prepareRemoval: () => Promise<void>;
}

type Moved = { readonly settled: Settled } | { readonly settled: null; readonly row: JobRow | null };

/** A deadline row does not tell of which due row: mostly it is the one of the job's own time. */
function passedOver({ table, at }: Found, job: JobRow): PassedOver {
  return { job, runAt: table === 'due' ? Math.max(at, job.runAt) : job.runAt };
}

function rowAfter(row: JobRow, { next, end }: EndAttempt): JobRow {
  return { ...row, ...next, ends: new Map(row.ends).set(row.attempt, end) };
}

/** An attempt that ended a job has a deadline row that writes its history again; a cancelled job may have only its due row. */
function owesHistory(found: Found, row: JobEnd): boolean {
  return found.table === 'deadlines' || row.status === JobStatus.cancelled;
}

function collectFinished(found: Found, row: JobEnd, finished: Map<Found, FinishedJob>): void {
  const job = finishedJobOf(row);
  if (job !== null) finished.set(found, job);
}

/** Asks the ready stream once per subject and batch how old its oldest message is. */
class OldestMessages {
  readonly #queue: ReadyQueue;
  readonly #asked = new Map<string, Promise<EpochMs | null | 'away'>>();

  constructor(queue: ReadyQueue) {
    this.#queue = queue;
  }

  /**
   * The stream hands out a subject's messages in order, so a job's message is gone when the subject is empty or its oldest
   * message is younger than the job's own; after the longest wait it is published again in any case. Null: the stream is away.
   */
  async messageGone(row: JobRow, publishedAt: EpochMs, now: EpochMs): Promise<boolean | null> {
    if (now - publishedAt >= ENQUEUED_LOOK_MAX_MS) return true;
    const oldest = await this.#oldest(row.queue, row.priority);
    if (oldest === 'away') return null;
    return oldest === null || oldest > publishedAt + PUBLISHED_SLACK_MS;
  }

  #oldest(queue: string, priority: Priority): Promise<EpochMs | null | 'away'> {
    const subject = subjectKey({ queue, priority });
    const known = this.#asked.get(subject);
    if (known !== undefined) return known;
    const asked = this.#queue.oldestMessageAt(queue, priority).catch((error: unknown) => {
      if (error instanceof BusError) return 'away' as const;
      throw error;
    });
    this.#asked.set(subject, asked);
    return asked;
  }
}

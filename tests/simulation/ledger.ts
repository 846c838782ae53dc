// What the world was told: the promises that the answers of the api make, each held against what happens later.

import type { CreateJob } from '../../services/api/use-cases/types.ts';
import { hasEnded } from '../../services/core/domain/bulk.ts';
import type { JobRow } from '../../services/core/domain/job.ts';
import { isTerminal, JobStatus, Outcome } from '../../services/core/domain/job-status.ts';
import { SECOND_MS } from '../../services/core/domain/limits.ts';
import type { EpochMs } from '../../services/core/domain/time.ts';
import type { MemoryStores } from '../support/memory-store.ts';
import type { TimerInvariant } from './timer-invariant.ts';
import type { Report } from './violation.ts';

/** The clocks of the servers that set and judge a lease. */
const SERVERS_APART_MS = SECOND_MS;

export class Ledger {
  /** Jobs that were answered with 201 or 200. */
  readonly accepted = new Set<string>();
  /** Bulk operations that were answered as started. */
  readonly #operations = new Set<string>();
  /** Attempts answered as claimed. */
  claims = 0;
  completions = 0;
  readonly #stores: MemoryStores;
  readonly #timers: TimerInvariant;
  readonly #report: Report;
  readonly #now: () => EpochMs;
  /** By job and attempt: when the lease of an answered claim or heartbeat may end at the earliest. */
  readonly #leases = new Map<string, EpochMs>();
  readonly #jobOfKey = new Map<string, string>();
  readonly #claimOf = new Map<string, string>();
  readonly #cancelled = new Set<string>();
  /** The attempt that was running when a request to cancel was answered. */
  readonly #cancelRequested = new Map<string, number>();
  readonly #completed = new Map<string, number>();
  /** Jobs by the one call that made them, and which of them its caller was told. */
  readonly #jobsOfCall = new Map<string, Set<string>>();
  readonly #toldOfCall = new Map<string, string>();
  #calls = 0;
  /** Replays that were asked for and not answered: nobody was promised that the job runs again. */
  readonly #replaying = new Map<string, number>();

  constructor(parts: { stores: MemoryStores; timers: TimerInvariant; now: () => EpochMs; report: Report }) {
    this.#now = parts.now;
    this.#stores = parts.stores;
    this.#timers = parts.timers;
    this.#report = parts.report;
  }

  /** The request of one call, marked so that all jobs that come of it are known. */
  marked(request: CreateJob): CreateJob {
    this.#calls += 1;
    const payload = `{"call":${this.#calls}}`;
    return { ...request, payload, payloadBytes: payload.length };
  }

  isOfOneCall(jobId: string): boolean {
    return this.#jobsOfCall.has(this.#stores.rows.get(jobId)?.payload ?? '');
  }

  /** A job's row was written. */
  born({ jobId, payload }: JobRow): void {
    if (payload === null || !payload.startsWith('{"call":')) return;
    this.#jobsOfCall.set(payload, (this.#jobsOfCall.get(payload) ?? new Set()).add(jobId));
    this.#checkCall(payload);
  }

  /** @param key the idempotency key, with the item's place in a batch; null for none. */
  created(job: JobRow, key: string | null): void {
    const { jobId } = job;
    if (!this.#stores.rows.has(jobId)) this.#broken('an accepted job is missing', jobId, 'answered and not stored');
    this.accepted.add(jobId);
    // Told of again under its key while a replay of it is under way: that one is still to be answered.
    if (!this.#replaying.has(jobId)) this.#timers.watch(jobId);
    this.#timers.checkAccepted(jobId);
    if (key === null) {
      const call = job.payload ?? '';
      this.#toldOfCall.set(call, jobId);
      this.#checkCall(call);
      return;
    }
    const known = this.#jobOfKey.get(key) ?? jobId;
    this.#jobOfKey.set(key, known);
    if (known !== jobId) this.#broken('two jobs of one key', jobId, `key ${key} stood for ${known} before`);
  }

  /** An occurrence whose schedule was accepted and has passed its slot. */
  occurred({ jobId }: JobRow): void {
    this.accepted.add(jobId);
    this.#timers.watch(jobId);
  }

  operationStarted(operationId: string): void {
    this.#operations.add(operationId);
    this.#timers.watch(operationId);
  }

  /** Those that have not ended. */
  openOperations(): readonly string[] {
    return [...this.#operations].filter((operationId) => {
      const operation = this.#stores.operationRows.get(operationId)?.row;
      if (operation === undefined) this.#broken('an accepted operation is missing', operationId, 'no row any more');
      return operation !== undefined && !hasEnded(operation);
    });
  }

  notFound(jobId: string): void {
    if (this.accepted.has(jobId)) this.#broken('an accepted job is missing', jobId, 'answered 404');
  }

  claimed(jobId: string, attempt: number, claimId: string): void {
    this.claims += 1;
    const holder = this.#claimOf.get(`${jobId} ${attempt}`);
    this.#claimOf.set(`${jobId} ${attempt}`, claimId);
    if (holder !== undefined && holder !== claimId) {
      this.#broken('two claims of one attempt', jobId, `attempt ${attempt} was given to ${holder} and to ${claimId}`);
    }
    if (this.#cancelled.has(jobId)) this.#broken('a cancelled job starts', jobId, `attempt ${attempt}`);
    const asked = this.#cancelRequested.get(jobId);
    if (asked !== undefined && attempt > asked) {
      this.#broken('a cancelled job starts', jobId, `attempt ${attempt}, asked to stop at ${asked}`);
    }
    const row = this.#stores.rows.get(jobId);
    if (row?.starts.get(attempt)?.claimId !== claimId) {
      this.#broken('an answered claim is not stored', jobId, `attempt ${attempt} of ${claimId}`);
      return;
    }
    this.#timers.checkClaim(row, row.starts.get(attempt)?.startedAt ?? this.#now());
    // A claim repeated finds what is left of the lease that the first one got.
    this.#promiseLease(jobId, attempt, row.leaseUntil ?? 0);
  }

  /** @param askedAt the true time at which the api began to serve the call. */
  heartbeat(jobId: string, attempt: number, askedAt: EpochMs): void {
    const row = this.#stores.rows.get(jobId);
    // No lease outlives the time limit, which the answer tells as well.
    const until = Math.min(askedAt + (row?.leaseS ?? 0) * SECOND_MS, row?.deadlineAt ?? Infinity);
    this.#promiseLease(jobId, attempt, until);
  }

  /** A row of a job has changed. */
  changed(before: JobRow, after: JobRow): void {
    const end = before.ends.has(before.attempt) ? undefined : after.ends.get(before.attempt);
    if (end?.outcome !== Outcome.leaseExpired) return;
    const early = (this.#leases.get(`${before.jobId} ${before.attempt}`) ?? 0) - this.#now();
    if (early <= SERVERS_APART_MS) return;
    this.#broken('a lease ends early', before.jobId, `attempt ${before.attempt}, ${Math.round(early)} ms early`);
  }

  /** A report that was accepted. */
  ended(jobId: string, attempt: number, outcome: Outcome, replayed: boolean): void {
    const row = this.#stores.rows.get(jobId);
    if (row?.ends.get(attempt)?.outcome !== outcome) {
      this.#broken('an accepted report is not stored', jobId, `attempt ${attempt} as ${outcome}`);
    }
    if (outcome !== Outcome.succeeded || replayed) return;
    this.completions += 1;
    // One report that came twice may be answered twice.
    const completed = this.#completed.get(jobId) ?? attempt;
    this.#completed.set(jobId, attempt);
    if (completed !== attempt) this.#broken('two accepted completions', jobId, `attempts ${completed} and ${attempt}`);
  }

  cancelled(jobId: string): void {
    this.#cancelled.add(jobId);
  }

  cancelRequested(jobId: string, attempt: number): void {
    if (!this.#cancelRequested.has(jobId)) this.#cancelRequested.set(jobId, attempt);
  }

  replayAsked(jobId: string): void {
    this.#replaying.set(jobId, (this.#replaying.get(jobId) ?? 0) + 1);
    this.#timers.unwatch(jobId);
  }

  replayed(jobId: string): void {
    this.#replaying.delete(jobId);
    this.#timers.watch(jobId);
  }

  /** Refused for good: what became of the job was no work of this replay. */
  replayRefused(jobId: string): void {
    const others = (this.#replaying.get(jobId) ?? 1) - 1;
    if (others > 0) {
      this.#replaying.set(jobId, others);
      return;
    }
    this.#replaying.delete(jobId);
    this.#timers.watch(jobId);
  }

  /** What is still promised and not yet done, of jobs made before a time. */
  open(madeBefore: EpochMs): readonly JobRow[] {
    return [...this.accepted].flatMap((jobId) => {
      const row = this.#stores.rows.get(jobId);
      if (row === undefined) this.#broken('an accepted job is missing', jobId, 'no row any more');
      if (row === undefined || row.createdAt >= madeBefore) return [];
      return isTerminal(row.status) || this.#replaying.has(jobId) ? [] : [row];
    });
  }

  /** Accepted jobs that are over and whose end the audit tables do not tell. */
  unrecorded(madeBefore: EpochMs): readonly JobRow[] {
    const { rows, finished, letters } = this.#stores;
    return [...this.accepted].flatMap((jobId) => {
      const row = rows.get(jobId);
      if (row === undefined || !isTerminal(row.status) || row.createdAt >= madeBefore) return [];
      const entry = finished.get(`${row.queue} ${row.finishedAt ?? 0} ${jobId}`);
      const letter = letters.get(`${row.queue} ${row.finishedAt ?? 0} ${jobId}`);
      const isRecorded = entry?.status === row.status && (row.status !== JobStatus.dead || letter !== undefined);
      return isRecorded ? [] : [row];
    });
  }

  /** Who was told of one job does not ask again: there must be no other. */
  #checkCall(call: string): void {
    const told = this.#toldOfCall.get(call);
    const other = [...(this.#jobsOfCall.get(call) ?? [])].find((jobId) => jobId !== told);
    if (told !== undefined && other !== undefined)
      this.#broken('two jobs of one create', other, `${told} was answered`);
  }

  #promiseLease(jobId: string, attempt: number, until: EpochMs): void {
    const key = `${jobId} ${attempt}`;
    this.#leases.set(key, Math.max(until, this.#leases.get(key) ?? 0));
  }

  #broken(rule: string, jobId: string, detail: string): void {
    this.#report({ rule, detail: `${jobId}: ${detail}`, subject: jobId });
  }
}
